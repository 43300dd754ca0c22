"""Judges the transactions of a history: all or nothing, and nothing that is not committed. Pure, as ``checker`` is.

A transaction is committed when its producer was told so, or when a read_committed consumer was handed any of its
records. It is aborted when its producer was told so, or never asked for its commit: then nobody may commit it.
Otherwise nobody knows, and it may be wholly there or wholly not.

Read_committed consumers see each partition as if only committed transactions were there, so what ``checker`` says of
readers is true of them: each is judged by the records that it was handed, those that read to the end decide about
losses, and what was deleted on purpose is looked for by nobody.

The rules (``transaction_rules``), by the names of Jepsen's Kafka workload where it has the rule
-----------------------------------------------------------------------------------------------
* ``torn-transaction``    handed out in part: a reader to the end was not handed the rest
* ``lost-commit``         committed, or acknowledged outside of transactions, and a reader was handed nothing of it
* ``aborted-read``        handed to a read_committed consumer, and aborted, or never to be committed (G1a)
* ``precommitted-read``   handed to a read_committed consumer before its commit was asked for
* ``prefix-changed``      a read_committed consumer went over a record that another one was handed
* ``offset-changed``      two records at one offset, one at two, or an offset once more, for read_committed consumers
* ``copied-twice``        two copies of one record were handed out
* ``not-copied``          a group's offset is behind a record of which there is no copy
* ``copied-ahead``        there is a copy of a record that the group's offset is not behind
* ``hanging-transaction`` a last stable offset below the high watermark, when no transaction can be open any more
* ``zombie-write``        a producer wrote or committed after another had been told that it has the transactional id

``precommitted-read`` and ``zombie-write`` compare what different processes did, by the numbers of the events. They mean
nothing for a history of several files, whose order is nobody's. The others depend on no such order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from minikafka.ledger.events import Event
from minikafka.ledger.transaction_rules import TRANSACTION_RULES
from minikafka.ledger.transactions import TransactionHistory, gather_transactions
from minikafka.ledger.verdict import Judgement

EXAMPLES_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class TransactionVerdict(Judgement):
    """Transactions by their fates, records that read_committed consumers were handed, violations with some examples."""

    begun: int
    committed: int
    aborted: int
    read: int
    copied: int
    unjudged: int  # records that read_committed consumers must find, and no reader looked for
    violations: dict[str, int]  # every rule, with its count
    examples: dict[str, list[str]]

    @property
    def figures(self) -> Mapping[str, int]:
        """As every judgement has them, of transactions; ``read`` in records."""
        return {
            "sent": self.begun,
            "acknowledged": self.committed,
            "read": self.read,
            "unknown": self.begun - self.committed - self.aborted,
            "unjudged": self.unjudged,
        }

    @property
    def broken(self) -> Mapping[str, int]:
        """As every judgement has them."""
        return {rule: count for rule, count in self.violations.items() if count}

    @property
    def sentence(self) -> str:
        """The verdict in one line."""
        match self.outcome:
            case "broken":
                return (
                    f"transactions were broken: {', '.join(f'{rule} {count:,}' for rule, count in self.broken.items())}"
                )
            case "not judged":
                return f"not judged: no reader that read to the end looked for {self.unjudged:,} committed records"
            case "nothing proved":
                return "this proves nothing: no transaction was committed, or nothing was read"
        unknown = self.begun - self.committed - self.aborted
        fates = f"{self.committed:,} committed, {self.aborted:,} aborted, {unknown:,} of unknown fate"
        return f"{self.begun:,} transactions ({fates}): all or nothing, and {self.copied:,} records copied once each"


OF_ORDER: Final = ("precommitted-read", "zombie-write")
"""Rules that compare what different processes did."""


def check_transactions(events: Iterable[Event]) -> TransactionVerdict:
    """Judge the transactions of a whole history. Raises HistoryError for an invalid one."""
    return check_history(gather_transactions(events))


def check_history(history: TransactionHistory, *, has_order: bool = True) -> TransactionVerdict:
    """Judge the transactions of a history. ``has_order``: False for one of several files; rules that need an order find
    nothing then."""
    found = {
        name: list(rule(history)) if has_order or name not in OF_ORDER else []
        for name, rule in TRANSACTION_RULES.items()
    }
    fates = [each.is_committed for each in history.transactions.values() if each.records]
    copies = {history.copies[record] for record in history.copies if _is_handed(history, record)}
    return TransactionVerdict(
        begun=len(fates),
        committed=fates.count(True),
        aborted=fates.count(False),
        read=sum(len(view.offsets_of) for view in history.views.values()),
        copied=len(copies),
        unjudged=sum(view.unjudged() for view in history.views.values()),
        violations={name: len(sentences) for name, sentences in found.items()},
        examples={name: sentences[:EXAMPLES_MAX] for name, sentences in found.items() if sentences},
    )


def _is_handed(history: TransactionHistory, record: str) -> bool:
    return record in history.of_record and record in history.of_record[record].handed_at
