"""What a checker of transactions gets wrong easily, planted: the schedules are histories of chance, honest and not."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from pytest import MonkeyPatch  # noqa: PT013

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ledger_transactions_random import MUTATIONS, honest
from planted.registry import Suite

from minikafka.ledger import transaction_rules, transactions
from minikafka.ledger.transaction_checker import check_transactions
from minikafka.ledger.transaction_rules import TRANSACTION_RULES
from minikafka.ledger.transactions import Transaction, TransactionHistory


def run(seed: int) -> None:
    """An honest history is not flagged, and counted rightly; the same with one wrong thing is, by its rule."""
    rng = random.Random(seed)
    tale = honest(rng)
    verdict = check_transactions(tale.events())
    assert verdict.outcome in ("kept", "nothing proved"), f"an honest history: {verdict.sentence}"
    assert verdict.copied == tale.copied
    mutate = rng.choice(MUTATIONS)
    if expected := mutate(tale, rng):
        broken = check_transactions(tale.events()).broken
        assert expected & broken.keys(), f"nobody noticed that {mutate.__name__}"


LEDGER = Suite("ledger of transactions", "the checker of transactions", run, bound=400)


@LEDGER.replaces(Transaction, "is_committed")
def only_the_producers_word_counts(transaction: Transaction) -> bool | None:
    """What is visible of a transaction of unknown fate does not commit the rest of it."""
    return True if transaction.told == "ok" else None


@LEDGER.replaces(Transaction, "is_committed")
def without_an_answer_nobody_knows(transaction: Transaction) -> bool | None:
    """A transaction whose commit was never asked for may be committed."""
    known = transaction.told in ("ok", "fail")
    return transaction.told == "ok" if known else bool(transaction.handed_at) or None


@LEDGER.replaces(Transaction, "is_committed")
def unanswered_is_aborted(transaction: Transaction) -> bool | None:
    """A commit without an answer did not happen."""
    return transaction.told == "ok"


@LEDGER.replaces(TransactionHistory, "fenced_at")
def whoever_was_told_last_is_the_one(history: TransactionHistory) -> dict[str, int]:
    """A producer is fenced by the first that has its id, also by those before it."""
    sessions = history.sessions.items()
    others = {
        name: [each.told_at for other, each in sessions if name != other and each.transactional_id == session[0]]
        for name, session in sessions
    }
    return {name: min(told_at) for name, told_at in others.items() if told_at}


@LEDGER.plants()
def all_consumers_are_read_committed(patch: MonkeyPatch) -> None:
    """A view has no log of its own: what is promised to everybody is what is acknowledged."""

    patch.setattr(transactions, "_views", lambda history, _handed: history.seen)


@LEDGER.plants()
def attempts_count_as_copies(patch: MonkeyPatch) -> None:
    """A copy in an aborted transaction is a copy."""

    def copies(history: TransactionHistory) -> dict[object, list[str]]:
        found: dict[object, list[str]] = {}
        for record, copied in history.copies.items():
            found.setdefault(copied, []).append(record)
        return found

    patch.setattr(transaction_rules, "_copies", copies)


@LEDGER.plants()
def a_torn_one_is_not_looked_for(patch: MonkeyPatch) -> None:
    """Something of it was seen, so it is there."""
    patch.setitem(TRANSACTION_RULES, "torn-transaction", lambda _history: iter(()))
