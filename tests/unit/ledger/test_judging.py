"""Whole histories, of several partitions and with transactions: honest ones are kept, one wrong thing is found."""

from __future__ import annotations

import random

import ledger_transactions_planted as transactional
import pytest
from ledger_planted import Story
from ledger_random import MUTATIONS, Mutation, Tale, honest
from ledger_transactions_random import honest as honest_transactions

from minikafka.ledger.events import Event
from minikafka.ledger.judging import judge, meaning
from minikafka.ledger.rules import RULES
from minikafka.ledger.transaction_checker import OF_ORDER
from minikafka.ledger.transaction_rules import TRANSACTION_RULES

PARTITIONS = 4


def together(tales: list[Tale], rng: random.Random) -> list[Event]:
    """Tales of partitions as one history: each in its order, all at once."""
    waiting = [[*reversed(tale.events(f"t-{number}"))] for number, tale in enumerate(tales)]
    events: list[Event] = []
    while rest := [each for each in waiting if each]:
        events.append(rng.choice(rest).pop()._replace(number=len(events), time_ms=len(events)))
    return _renamed(events)


def _renamed(events: list[Event]) -> list[Event]:
    """The ids of a tale are its own only."""
    return [
        event._replace(
            value=[
                [item[0], f"{item[0]}/{item[1]}", *item[2:]] if event.function in ("send", "poll") else item
                for item in event.value
            ]
        )
        for event in events
    ]


def test_honest_histories_of_several_partitions_are_kept() -> None:
    for seed in range(30):
        rng = random.Random(seed)
        events = together([honest(rng) for _ in range(PARTITIONS)], rng)
        verdict = judge(events)
        assert verdict.outcome in ("kept", "nothing proved"), (seed, verdict.records.examples, verdict.not_judged)
        assert not verdict.records.broken
        assert verdict.transactions is None
        assert "poll-skip" not in verdict.rules_not_judged


@pytest.mark.parametrize("mutate", MUTATIONS, ids=[mutate.__name__ for mutate in MUTATIONS])
def test_one_wrong_thing_in_one_of_several_partitions_is_found_and_placed(mutate: Mutation) -> None:
    tried = 0
    for seed in range(100):
        rng = random.Random(f"{mutate.__name__} {seed}")
        tales = [honest(rng) for _ in range(PARTITIONS)]
        wrong = rng.randrange(PARTITIONS)
        expected = mutate(tales[wrong], rng)
        if expected is None:
            continue
        verdict = judge(together(tales, rng))
        assert not verdict.ok
        assert expected & (verdict.records.broken.keys() | {verdict.outcome}), (seed, expected, verdict.records.broken)
        examples = [example for told in verdict.records.examples.values() for example in told]
        assert {example.partition(":")[0] for example in examples} | {*verdict.records.not_judged} == {f"t-{wrong}"}
        tried += 1
        if tried == 5:
            return
    pytest.fail("few histories offer it a place")


def test_honest_transactions_break_no_rule_of_records() -> None:
    outcomes = set()
    for seed in range(60):
        verdict = judge(honest_transactions(random.Random(seed)).events())
        assert verdict.outcome in ("kept", "nothing proved"), (seed, verdict.records.examples, verdict.not_judged)
        outcomes.add(verdict.outcome)
    assert "kept" in outcomes


@pytest.mark.parametrize("planted", transactional.PLANTED, ids=[planted.name for planted in transactional.PLANTED])
def test_a_planted_violation_of_transactions_is_caught(planted: transactional.Planted) -> None:
    verdict = judge(planted.events())
    assert not verdict.ok
    assert verdict.transactions is not None
    if planted.rule in TRANSACTION_RULES:
        assert verdict.transactions.broken == {planted.rule: 1}
        assert verdict.outcome == "broken"


@pytest.mark.parametrize("planted", transactional.HARMLESS, ids=[planted.name for planted in transactional.HARMLESS])
def test_what_is_no_anomaly_of_transactions_is_kept(planted: transactional.Planted) -> None:
    verdict = judge(planted.events())
    assert verdict.ok, (verdict.records.examples, verdict.not_judged)


def test_who_sees_all_may_be_handed_what_is_aborted() -> None:
    story = Story()
    story.add("p", "invoke", "begin", ["A"])
    story.send("a", "b")
    story.add("p", "fail", "commit", ["A"])
    story.add("p", "fail", "send", [["t-0", "a"], ["t-0", "b"]])
    story.send("c", process="q")
    story.acknowledge(c=3)
    story.read_to_the_end(("a", 0), ("b", 1), ("c", 3))
    assert not judge(story.events).records.broken
    assert judge(story.events).records.unknown == 0, "what was aborted is known"
    for event in list(story.events):
        if event.process == "reader":
            story.add("strict", "ok", f"{event.function}_committed", event.value)
    verdict = judge(story.events)
    assert verdict.transactions is not None
    assert verdict.transactions.broken == {"aborted-read": 1}


def test_what_cannot_be_judged_is_told_by_rule() -> None:
    story = Story()
    story.add("p", "invoke", "begin", ["A"])
    one, several = judge(story.events), judge(story.events, has_order=False)
    assert "hanging-transaction: the history has no event stable_end" in one.not_judged
    assert "not-copied: the history has no event copy or position" in one.not_judged
    assert one.rules_not_judged | set(OF_ORDER) == several.rules_not_judged
    assert "precommitted-read: the events of several files have no order" in several.not_judged
    assert not one.ok


def test_every_rule_has_a_meaning() -> None:
    story = Story()
    story.add("p", "invoke", "begin", ["A"])
    verdict = judge(story.events)
    for judgement, rules in ((verdict.records, RULES), (verdict.transactions, TRANSACTION_RULES)):
        assert judgement is not None
        assert judgement.violations.keys() == rules.keys()
        assert all(len(meaning(rule, judgement)) > 10 for rule in rules)


# -- what read_committed consumers were handed -------------------------------------------------------------------------


def _seen_by_both(*committed: tuple[str, int]) -> Story:
    """A is committed, with a and b. Who sees all finds them at 0 and 1, a read_committed consumer as said."""
    story = Story()
    story.add("p", "invoke", "begin", ["A"])
    story.send("a", "b")
    story.add("p", "invoke", "commit", ["A"])
    story.acknowledge(a=-1, b=-1)
    story.add("p", "ok", "commit", ["A"])
    story.read_to_the_end(("a", 0), ("b", 1))
    _read_committed(story, *committed)
    return story


def _read_committed(story: Story, *records: tuple[str, int]) -> None:
    story.add("strict", "ok", "assign_committed", [["t-0", 0]])
    story.add("strict", "ok", "poll_committed", [["t-0", *record] for record in records])
    story.add("strict", "ok", "drained_committed", ["t-0"])


@pytest.mark.parametrize(
    ("committed", "rules"),
    [
        ((("a", 0), ("b", 1)), set()),
        ((("a", 0), ("b", 1), ("a#damaged", 2)), {"phantom", "dirty-read"}),
        ((("a", 0), ("b", 7)), {"duplicate"}),
        ((("b", 0), ("a", 1)), {"duplicate", "inconsistent-offsets"}),
    ],
    ids=["the same", "damaged", "elsewhere", "reordered"],
)
def test_what_read_committed_consumers_find_is_held_against_what_all_is(
    committed: tuple[tuple[str, int], ...], rules: set[str]
) -> None:
    assert judge(_seen_by_both(*committed).events).records.broken.keys() == rules


def test_an_end_that_moves_back_shows_where_only_read_committed_consumers_read_to_the_end() -> None:
    story = Story()
    story.add("p", "invoke", "begin", ["A"])
    story.send("a")
    _read_committed(story)
    for end in (2, 1):
        story.add("clerk", "ok", "end_offset", [["t-0", end]])
    verdict = judge(story.events)
    assert verdict.records.broken == {"nonmonotonic-end-offset": 1}


def test_without_transactions_read_committed_consumers_are_as_others() -> None:
    story = Story()
    story.send("a", "b", "c")
    story.acknowledge(a=0, b=1, c=2)
    _read_committed(story, ("a", 0), ("b", 1), ("c", 2))
    assert judge(story.events).ok
    _read_committed(story, ("a", 0), ("c", 2), ("d", 3))
    assert judge(story.events).records.broken.keys() == {"lost-write", "poll-skip", "phantom", "dirty-read"}


def test_events_that_nobody_can_judge_are_named() -> None:
    story = Story()
    story.send("a")
    story.acknowledge(a=0)
    story.read_to_the_end(("a", 0))
    story.add("c", "ok", "polled", [["t-0", "b", 1]])
    story.add("c", "ok", "stable_end", [["t-0", 0, 1]])
    verdict = judge(story.events)
    assert verdict.not_judged[:2] == (
        "events stable_end: the history has no transaction, as none was begun",
        "events polled: no such function is known",
    )


def test_who_was_not_assigned_may_have_skipped_records_and_is_named() -> None:
    """It was passed over in silence, with a green 0 for `poll-skip`."""
    story = Story()
    story.send("a", "b", "c")
    story.acknowledge(a=0, b=1, c=2)
    for consumer in ("app-1", "app-2"):
        story.read(("a", 0), ("c", 2), process=consumer)
    story.read_to_the_end(("a", 0), ("b", 1), ("c", 2))
    sentence = "poll-skip by app-1 and 1 more: the history has no assign before what was handed out"
    assert sentence in judge(story.events).not_judged
    story.assign(process="app-1")
    story.read(("b", 1), ("c", 2), process="app-1")
    assert sentence in judge(story.events).not_judged, "it was assigned later only"
    _read_committed(story, ("a", 0), ("b", 1), ("c", 2))
    story.add("app-3", "ok", "poll_committed", [["t-0", "a", 0], ["t-0", "c", 2]])
    assert sentence.replace("1 more", "2 more") in judge(story.events).not_judged
    story.add("p", "invoke", "begin", ["A"])
    assert sentence.replace("1 more", "2 more") in judge(story.events).not_judged


def test_events_of_a_type_that_tells_nothing_are_named() -> None:
    """Copies that were written down as `ok` were judged by nobody, and the verdict said that they are there once."""
    events = [event for event in _copied().events if event.function != "copy"]
    assert judge(events).rules_not_judged >= {"copied-twice", "not-copied", "copied-ahead"}
    events = [event._replace(type="ok") if event.function == "copy" else event for event in _copied().events]
    verdict = judge(events)
    assert "events copy of type ok: only those of type invoke tell something" in verdict.not_judged
    assert "copied-twice: the history has no event copy" in verdict.not_judged
    assert verdict.rules_not_judged >= {"copied-twice", "not-copied", "copied-ahead"}


def _copied() -> Story:
    story = _seen_by_both(("a", 0), ("b", 1))
    story.add("p", "invoke", "copy", [["a", "group", "in-0", 0], ["b", "group", "in-0", 0]])
    story.add("clerk", "ok", "position", [["group", "in-0", 1]])
    assert judge(story.events).transactions.broken == {"copied-twice": 1}  # type: ignore[union-attr]
    return story


def test_what_was_deleted_on_purpose_is_counted_in_the_sentence() -> None:
    story = Story()
    story.send("a", "b")
    story.acknowledge(a=0, b=1)
    story.log_start(1)
    story.read_to_the_end(("b", 1))
    verdict = judge(story.events)
    assert verdict.records.sentence.endswith("none lost, duplicated or reordered; 1 of them deleted on purpose")
