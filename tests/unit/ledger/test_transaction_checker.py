"""The checker of transactions accepts what is no anomaly and catches every planted violation, each by its own rule."""

from __future__ import annotations

import random
from collections.abc import ItemsView, ValuesView

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_transactions_planted import HARMLESS, PLANTED, Planted
from ledger_transactions_random import MUTATIONS, Mutation, honest

from minikafka.ledger.events import Event, HistoryError
from minikafka.ledger.transaction_checker import check_transactions
from minikafka.ledger.transaction_rules import TRANSACTION_RULES
from minikafka.ledger.transactions import Session, TransactionHistory


@pytest.mark.parametrize("planted", PLANTED, ids=[planted.name for planted in PLANTED])
def test_a_planted_violation_is_caught_by_its_rule(planted: Planted) -> None:
    verdict = check_transactions(planted.events())
    assert not verdict.ok
    if planted.rule in TRANSACTION_RULES:
        assert verdict.broken == {planted.rule: 1}, verdict.examples
        assert verdict.sentence == f"transactions were broken: {planted.rule} 1"
    else:
        assert verdict.outcome == planted.rule, verdict.examples


@pytest.mark.parametrize("planted", HARMLESS, ids=[planted.name for planted in HARMLESS])
def test_what_is_no_anomaly_is_kept(planted: Planted) -> None:
    verdict = check_transactions(planted.events())
    assert verdict.ok, verdict.examples
    assert "all or nothing" in verdict.sentence


def test_every_rule_has_a_planted_violation() -> None:
    assert {planted.rule for planted in PLANTED} == TRANSACTION_RULES.keys() | {"not judged", "nothing proved"}


@given(st.integers(0, 2**32))
def test_an_honest_history_is_never_flagged(seed: int) -> None:
    tale = honest(random.Random(seed))
    verdict = check_transactions(tale.events())
    assert verdict.outcome in ("kept", "nothing proved"), verdict.examples
    assert (verdict.begun, verdict.copied) == (tale.begun, tale.copied)
    assert verdict.committed <= tale.committed  # nobody tells of some


@pytest.mark.parametrize("mutate", MUTATIONS, ids=[mutate.__name__ for mutate in MUTATIONS])
def test_one_wrong_thing_is_always_caught(mutate: Mutation) -> None:
    tried = 0
    for seed in range(100):
        rng = random.Random(f"{mutate.__name__} {seed}")
        tale = honest(rng)
        expected = mutate(tale, rng)
        if expected is None:
            continue
        tried += 1
        verdict = check_transactions(tale.events())
        assert expected & verdict.broken.keys(), f"seed {seed}: {expected}, but {verdict.broken}"
    assert tried >= 15, "few histories offer it a place"


def test_mutations_break_every_rule() -> None:
    found = set[str]()
    for mutate in MUTATIONS:
        for seed in range(15):
            rng = random.Random(f"{mutate.__name__} {seed}")
            tale = honest(rng)
            if mutate(tale, rng):
                found |= check_transactions(tale.events()).broken.keys()
    assert found == TRANSACTION_RULES.keys()


@pytest.mark.parametrize(
    ("function", "type", "value"),
    [
        ("begin", "invoke", [["A", 1]]),
        ("begin", "invoke", "A"),
        ("commit", "ok", ["never begun"]),
        ("take_over", "invoke", [1]),
        ("copy", "invoke", [["x", "g", "t-0"]]),
        ("copy", "invoke", [["x", "g", "t-0", "1"]]),
        ("position", "ok", [["g", "t-0", True]]),
        ("stable_end", "ok", [["t-0", 1]]),
        ("poll_committed", "ok", [["t-0", "a"]]),
    ],
)
def test_an_event_without_what_its_function_needs_is_refused_by_number(function: str, type: str, value: object) -> None:
    with pytest.raises(HistoryError, match=f"event 7: no {function}: "):
        check_transactions([Event(7, 0, "p", type, function, value)])  # type: ignore[arg-type]


def test_one_begins_once_and_asks_before_it_is_told() -> None:
    with pytest.raises(HistoryError, match="begun before"):
        check_transactions([Event(at, 0, "p", "invoke", "begin", ["A"]) for at in (0, 1)])
    with pytest.raises(HistoryError, match="told once"):
        check_transactions(
            [
                Event(0, 0, "p", "invoke", "begin", ["A"]),
                Event(1, 0, "p", "fail", "commit", ["A"]),
                Event(2, 0, "p", "ok", "commit", ["A"]),
            ]
        )
    with pytest.raises(HistoryError, match="a was sent before"):
        check_transactions(
            [
                Event(0, 0, "q", "invoke", "send", [["t-1", "a"]]),
                Event(1, 0, "p", "invoke", "begin", ["A"]),
                Event(2, 0, "p", "invoke", "send", [["t-0", "a"]]),
            ]
        )
    with pytest.raises(HistoryError, match="has not asked"):
        check_transactions([Event(0, 0, "p", "ok", "take_over", ["i"])])
    with pytest.raises(HistoryError, match="p took over before"):  # its first session would be forgotten
        check_transactions(
            [Event(at, 0, "p", type, "take_over", ["i"]) for at, type in enumerate(("invoke", "ok") * 2)]
        )


class _Counted(dict[str, Session]):
    """Sessions that know how often somebody went through them."""

    def __init__(self) -> None:
        super().__init__()
        self.times = 0

    def items(self) -> ItemsView[str, Session]:
        self.times += 1
        return super().items()

    def values(self) -> ValuesView[Session]:
        self.times += 1
        return super().values()


def test_a_producer_is_fenced_by_who_asks_later_and_all_are_looked_through_once() -> None:
    """Each was compared with all others, which took minutes where each transaction has a producer of its own."""
    for seed in range(200):
        rng, history = random.Random(seed), TransactionHistory(sessions=_Counted())
        for number in range(rng.randrange(9)):
            asked_at = rng.randrange(40)
            history.sessions[f"p{number}"] = Session(rng.choice("xy"), asked_at, asked_at + rng.randrange(1, 15))
        expected = {
            name: min(later)
            for name, mine in dict(history.sessions).items()
            if (later := [each.told_at for each in history.sessions.values() if _is_later(each, mine)])
        }
        assert isinstance(history.sessions, _Counted)
        history.sessions.times = 0
        assert history.fenced_at() == expected
        assert history.sessions.times == 1


def _is_later(one: Session, mine: Session) -> bool:
    return one.transactional_id == mine.transactional_id and one.asked_at > mine.told_at
