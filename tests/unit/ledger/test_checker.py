"""The checker accepts honest histories and catches every planted violation, each by its own rule."""

from __future__ import annotations

import pytest
from ledger_planted import HARMLESS, PLANTED, Planted, Story

from minikafka.chaos.history import History
from minikafka.ledger.checker import check
from minikafka.ledger.events import Event, HistoryError
from minikafka.ledger.rules import RULES


def test_an_honest_history_breaks_no_rule() -> None:
    story = Story()
    story.send("a", "b", "c")
    story.acknowledge(a=0, b=1)
    story.assign()
    story.read(("a", 0), ("b", 1))
    story.read(("c", 2))  # its outcome was unknown; that it is there is fine
    story.drained()
    verdict = story.verdict()
    assert verdict.ok
    assert (verdict.sent, verdict.acknowledged, verdict.read, verdict.unknown) == (3, 2, 3, 1)
    assert verdict.sentence == "2 acknowledged records (1 of unknown fate): none lost, duplicated or reordered"


def test_what_a_producer_sent_twice_is_told() -> None:
    story = Story()
    story.send("a", "b")
    story.acknowledge(a=1, b=2)
    story.read_to_the_end(("a", 0), ("a", 1), ("b", 2))
    assert story.verdict().outcome == "broken"
    story.add("reader", "ok", "resent", [["t-0", "a"], ["t-0", "b"]])
    verdict = story.verdict()
    assert (verdict.ok, verdict.resent) == (True, 1)
    assert verdict.sentence.endswith(
        "none lost, duplicated or reordered; 1 there more than once, as their producer sent them"
    )


def test_a_cluster_that_takes_no_writes_is_not_ok() -> None:
    story = Story()
    story.send("a")
    verdict = story.verdict()
    assert not verdict.broken
    assert not verdict.ok
    assert verdict.outcome == "nothing proved"


@pytest.mark.parametrize("planted", PLANTED, ids=[planted.name for planted in PLANTED])
def test_a_planted_violation_is_caught_by_its_rule(planted: Planted) -> None:
    verdict = check(planted.events())
    assert not verdict.ok
    if planted.rule in RULES:
        assert verdict.violations[planted.rule] == 1
        assert verdict.examples[planted.rule][0].startswith("t-0: ")
        assert verdict.outcome == "broken"
    else:
        assert not verdict.broken
        assert verdict.outcome == planted.rule


@pytest.mark.parametrize("planted", HARMLESS, ids=[planted.name for planted in HARMLESS])
def test_what_is_no_anomaly_is_kept(planted: Planted) -> None:
    """With acks=0 nothing is promised; an acknowledgement at offset -1 names no place (row 19 of issue 11)."""
    verdict = check(planted.events())
    assert verdict.ok
    assert verdict.outcome == "kept"
    without_acks = sum(len(event.value) for event in planted.events() if event.type == "info")
    assert (verdict.acknowledged, verdict.unknown) == (3 - without_acks, without_acks)


def test_every_rule_has_a_planted_violation() -> None:
    assert {planted.rule for planted in PLANTED} == RULES.keys() | {"not judged", "nothing proved"}


def test_what_no_reader_looked_for_is_counted_by_partition() -> None:
    story = Story()
    for partition in ("t-0", "t-1", "t-2"):
        story.send(f"a{partition}", f"b{partition}", partition=partition)
        story.acknowledge(partition, **{f"a{partition}": 0, f"b{partition}": 1})
    story.assign("t-1")
    story.read(("at-1", 0), ("bt-1", 1), partition="t-1")
    story.drained("t-1")
    story.assign("t-2", start=1)
    story.read(("bt-2", 1), partition="t-2")
    story.drained("t-2")
    verdict = story.verdict()
    assert verdict.not_judged == {"t-0": 2, "t-2": 1}
    assert verdict.sentence == "not judged: no reader that read to the end looked for 3 of 6 acknowledged records"


def test_a_record_that_two_readers_miss_is_lost_once() -> None:
    story = Story()
    story.send("a", "b")
    story.acknowledge(a=0, b=1)
    story.read_to_the_end(process="one")
    story.read_to_the_end(("b", 1), process="two")
    verdict = story.verdict()
    assert verdict.broken == {"lost-write": 1, "unseen": 1}
    assert verdict.examples == {
        "lost-write": ["t-0: a was acknowledged at 0, and two, which read up to 1, was not handed it"],
        "unseen": ["t-0: b was acknowledged at 1, and one read to the end, which was at -1"],
    }


def test_two_readers_may_share_the_judgement_of_a_partition() -> None:
    story = Story()
    story.send("a", "b")
    story.acknowledge(a=0, b=1)
    story.read_to_the_end(("a", 0), ("b", 1), process="from the beginning")
    story.read_to_the_end(("b", 1), process="from later on", start=1)
    assert story.verdict().ok


def test_what_retention_deleted_may_be_missing_and_passed_over() -> None:
    story = Story()
    story.send("a", "b", "c", "d")
    story.acknowledge(a=0, b=1, c=2)
    story.assign()
    story.read(("a", 0))
    story.log_start(2)
    story.read(("c", 2), ("d", 3))
    story.drained()
    story.read_to_the_end(("c", 2), ("d", 3))
    assert story.verdict().ok


def test_a_new_assignment_may_read_again() -> None:
    story = Story()
    story.send("a", "b")
    story.acknowledge(a=0, b=1)
    for _ in range(2):
        story.assign()
        story.read(("a", 0), ("b", 1))
    story.drained()
    assert story.verdict().ok


def test_offsets_without_records_may_be_passed_over() -> None:
    story = Story()
    story.assign()
    story.send("a", "b")
    story.acknowledge(a=0, b=7)
    story.read(("a", 0), ("b", 7))
    story.drained()
    assert story.verdict().ok


@pytest.mark.parametrize(
    ("function", "value"),
    [
        ("poll", [["t-0", "a"]]),
        ("poll", [["t-0", "a", "0"]]),
        ("poll", [["t-0", "a", True]]),
        ("poll", [["t-0", 7, 0]]),
        ("poll", {"t-0": 0}),
        ("poll", None),
        ("poll", [[]]),
        ("poll", [["t-0", "a", -1]]),
        ("send", [["t-0", "a", None]]),
        ("send", [["t-0", "a", 0, 0]]),
        ("assign", [["t-0", "a"]]),
        ("assign", [0]),
        ("assign", [["t-0", -1001]]),  # librdkafka's, before it knows
        ("drained", "t-0"),
        ("drained", [["t-0", 0]]),
        ("end_offset", ["t-0"]),
        ("log_start", [["t-0", 1.5]]),
    ],
)
def test_an_event_without_what_its_function_needs_is_refused_by_number(function: str, value: object) -> None:
    with pytest.raises(HistoryError, match=f"event 7: no {function}: "):
        check([Event(7, 0, "c", "ok", function, value)])


def test_an_assignment_may_leave_its_start_out() -> None:
    for start in ("t-0", ["t-0"], ["t-0", None], ["t-0", 0]):
        story = Story()
        story.send("a")
        story.acknowledge(a=0)
        story.add("c", "ok", "assign", [start])
        story.read(("a", 0))
        story.drained()
        assert story.verdict().ok


def test_partitions_are_judged_apart() -> None:
    story = Story()
    story.send("a", partition="t-0")
    story.send("b", partition="t-1")
    story.acknowledge(partition="t-0", a=0)
    story.acknowledge(partition="t-1", b=0)
    story.read(("b", 0), partition="t-1")
    story.read(("a", 0), partition="t-0")
    story.drained("t-0")
    story.drained("t-1")
    assert story.verdict().ok


def test_the_longest_gap_is_between_two_acknowledgements_of_a_partition() -> None:
    story = Story()
    story.send("a", "b", "c")
    story.acknowledge(a=0)
    story.time_ms += 1500
    story.acknowledge(b=1)
    story.acknowledge(c=2)
    verdict = story.verdict()
    assert verdict.longest_gap_ms() == {"t-0": 1501}
    assert verdict.longest_gap_ms(since_ms=1000, until_ms=1100) == {"t-0": 1501}
    assert verdict.longest_gap_ms(since_ms=1503) == {"t-0": 1}


def test_examples_are_bounded() -> None:
    story = Story()
    story.send(*(f"r{n}" for n in range(100)), "last")
    story.acknowledge(**{f"r{n}": n for n in range(100)})
    story.read(("last", 100))
    story.drained()
    verdict = story.verdict()
    assert verdict.violations["lost-write"] == 100
    assert len(verdict.examples["lost-write"]) == 10


def test_a_workload_that_sends_an_id_twice_is_a_mistake() -> None:
    history = History()
    for _ in range(2):
        history.append("p", "invoke", "send", [["t-0", "a"]])
    with pytest.raises(HistoryError, match="once"):
        check(history.events)
