"""Judges a whole history by both checkers: ``checker`` for records, ``transaction_checker`` where it has transactions.

Where a history has transactions, ``poll`` is of consumers that also see what is aborted, as read_committed ones have
events of their own. So the refusal of a record in an aborted transaction means nothing to them. The rules of records
judge what those consumers were handed, and at which offsets read_committed ones were handed what. Where none of them
read to the end, the same rules judge the partitions as read_committed consumers must find them. Without transactions
read_committed consumers are as all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final

from minikafka.ledger.checker import Verdict, check_partitions
from minikafka.ledger.events import COMMITTED, OF_RECORDS, OF_TRANSACTIONS, Event, EventType
from minikafka.ledger.partition import PartitionHistory, without_isolation
from minikafka.ledger.rules import RULES
from minikafka.ledger.sentences import skips_not_judged
from minikafka.ledger.transaction_checker import OF_ORDER, TransactionVerdict, check_history
from minikafka.ledger.transaction_rules import TRANSACTION_RULES
from minikafka.ledger.transactions import TransactionHistory, gather_transactions
from minikafka.ledger.verdict import Judgement, Outcome

NEEDS: Final[Mapping[str, frozenset[str]]] = {
    "nonmonotonic-end-offset": frozenset({"end_offset"}),
    "copied-twice": frozenset({"copy"}),
    "not-copied": frozenset({"copy", "position"}),
    "copied-ahead": frozenset({"copy", "position"}),
    "hanging-transaction": frozenset({"stable_end"}),
    "zombie-write": frozenset({"take_over"}),
}
"""Rules that look at events which not every history has."""

_TYPES: Final[Mapping[str, Sequence[EventType]]] = {
    **OF_RECORDS,
    **OF_TRANSACTIONS,
    **{function: OF_RECORDS[same] for function, same in COMMITTED.items()},
}
_BY_SEVERITY: Final[tuple[Outcome, ...]] = ("broken", "not judged", "nothing proved", "kept")


@dataclass(frozen=True, slots=True)
class HistoryVerdict:
    """The judgements of one history: of its records, and of its transactions where it has any."""

    events: int
    records: Verdict
    transactions: TransactionVerdict | None
    not_judged: tuple[str, ...]  # what nobody could judge, in sentences
    rules_not_judged: frozenset[str]

    @property
    def judgements(self) -> dict[str, Verdict | TransactionVerdict]:
        """Those that there are, by what is counted."""
        found: dict[str, Verdict | TransactionVerdict] = {"records": self.records}
        return found if self.transactions is None else found | {"transactions": self.transactions}

    @property
    def outcome(self) -> Outcome:
        """The worse of both."""
        outcomes = {judgement.outcome for judgement in self.judgements.values()}
        return next(outcome for outcome in _BY_SEVERITY if outcome in outcomes)

    @property
    def ok(self) -> bool:
        """True when every promise was kept and judged."""
        return self.outcome == "kept"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        judged = {
            name: {
                "outcome": judgement.outcome,
                "sentence": judgement.sentence,
                **judgement.figures,
                "violations": judgement.violations,
                "examples": judgement.examples,
            }
            for name, judgement in self.judgements.items()
        }
        return {"ok": self.ok, "outcome": self.outcome, "events": self.events, **judged, "not_judged": self.not_judged}


def meaning(rule: str, judgement: Judgement) -> str:
    """What a violation of a rule is, in a line."""
    rules: Mapping[str, Any] = TRANSACTION_RULES if isinstance(judgement, TransactionVerdict) else RULES
    line = " ".join((rules[rule].__doc__ or "").split())
    return line[:1].lower() + line[1:].removesuffix(".")


def judge(events: Sequence[Event], *, has_order: bool = True) -> HistoryVerdict:
    """The verdict on a whole history. Raises HistoryError for an invalid one.

    ``has_order``: False for a history of several files, in which nobody knows what came first.
    """
    kinds = {(event.function, event.type) for event in events}
    functions = {function for function, type in kinds if type in _TYPES.get(function, (type,))}
    transactions, remarks = None, list[str]()
    if "begin" in functions:
        history = gather_transactions(events)
        transactions = check_history(history, has_order=has_order)
        is_seen = any(partition.readers for partition in history.seen.values())
        partitions = history.seen if is_seen else history.views
        handed = [*history.seen.values(), *history.views.values()]
        records = check_partitions(partitions)
        # Consumers that see all may be handed what was aborted, so its refusal is not in these partitions.
        records = replace(records, unknown=records.unknown - _refused(history, partitions))
        if "poll" in functions and not is_seen:
            remarks.append("what consumers that are not read_committed were handed: none of them read to the end")
    else:
        partitions = without_isolation(events)
        records, handed = check_partitions(partitions), [*partitions.values()]
        if idle := sorted(functions & OF_TRANSACTIONS.keys()):
            remarks.append(f"events {', '.join(idle)}: the history has no transaction, as none was begun")
    if unknown := sorted(functions - _TYPES.keys()):
        remarks.append(f"events {', '.join(unknown)}: no such function is known")
    for function, type in sorted(kinds):
        if type not in (told := _TYPES.get(function, (type,))):
            remarks.append(f"events {function} of type {type}: only those of type {' or '.join(told)} tell something")
    reasons = _reasons([*RULES, *(TRANSACTION_RULES if transactions else ())], functions, has_order=has_order)
    if moved := unassigned(handed):
        remarks.append(skips_not_judged(moved))
    remarks += [*_unjudged(records, transactions), *(f"{rule}: {reason}" for rule, reason in reasons.items())]
    return HistoryVerdict(len(events), records, transactions, tuple(remarks), frozenset(reasons))


def _refused(history: TransactionHistory, partitions: Mapping[str, PartitionHistory]) -> int:
    """Number of records of aborted transactions that were not acknowledged: what became of them is known."""
    return sum(
        record not in partitions[partition].acknowledged
        for transaction in history.transactions.values()
        if transaction.is_committed is False
        for record, partition in transaction.records.items()
    )


def unassigned(handed: Iterable[PartitionHistory]) -> list[str]:
    """Who did not read to the end, and was handed records from nobody knows where on: it may have been moved."""
    found = ((consumer, run) for history in handed for consumer, run in history.all_runs())
    return sorted({consumer for consumer, run in found if run.offsets and not (run.is_assigned or run.is_drained)})


def _unjudged(records: Verdict, transactions: TransactionVerdict | None) -> Iterator[str]:
    """Records that nobody looked for."""
    for partition, count in records.not_judged.items():
        yield f"{partition}: no reader that read to the end looked for {count:,} acknowledged records"
    if transactions is not None and transactions.unjudged:
        yield f"no read_committed reader that read to the end looked for {transactions.unjudged:,} records"


def _reasons(rules: Sequence[str], functions: Set[str], *, has_order: bool) -> dict[str, str]:
    """The rules that cannot be judged, and why."""
    reasons = {}
    for rule in rules:
        absent = NEEDS.get(rule, frozenset()) - functions
        if absent:
            reasons[rule] = f"the history has no event {' or '.join(sorted(absent))}"
        elif rule in OF_ORDER and not has_order:
            reasons[rule] = "the events of several files have no order"
    return reasons
