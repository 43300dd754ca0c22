"""The checker accepts honest histories and catches every planted violation, each by its own rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.chaos.history import History
from minikafka.ledger.checker import RULES, Verdict, check
from minikafka.ledger.events import Event, EventType, HistoryError

Plant = Callable[["Story"], None]


class Story:
    """A history told in short: what producer p sends is acknowledged, and consumer c reads."""

    def __init__(self) -> None:
        self.time_ms = 0
        self.events: list[Event] = []

    def add(self, process: str, type: EventType, function: str, value: object) -> None:
        self.time_ms += 1
        self.events.append(Event(len(self.events), self.time_ms, process, type, function, value))

    def send(self, *records: str, partition: str = "t-0", process: str = "p") -> None:
        self.add(process, "invoke", "send", [[partition, record] for record in records])

    def acknowledge(self, partition: str = "t-0", **offsets: int) -> None:
        self.add("p", "ok", "send", [[partition, record, offset] for record, offset in offsets.items()])

    def read(self, *records: tuple[str, int], partition: str = "t-0", process: str = "c") -> None:
        self.add(process, "ok", "poll", [[partition, record, offset] for record, offset in records])

    def assign(self, partition: str = "t-0", process: str = "c") -> None:
        self.add(process, "ok", "assign", [partition])

    def drained(self, partition: str = "t-0") -> None:
        self.add("c", "ok", "drained", [partition])

    def verdict(self) -> Verdict:
        return check(self.events)


def broken(verdict: Verdict) -> dict[str, int]:
    return {rule: count for rule, count in verdict.violations.items() if count}


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


def test_a_cluster_that_takes_no_writes_is_not_ok() -> None:
    story = Story()
    story.send("a")
    verdict = story.verdict()
    assert not broken(verdict)
    assert not verdict.ok


def plant_lost(story: Story) -> None:
    story.acknowledge(a=0, b=1, c=2)
    story.read(("a", 0), ("c", 2))


def plant_unseen(story: Story) -> None:
    story.acknowledge(a=0, b=1, c=2)
    story.read(("a", 0), ("b", 1))
    story.drained()


def plant_duplicate(story: Story) -> None:
    story.acknowledge(a=0, b=1)
    story.read(("a", 0), ("b", 1), ("a", 2))


def plant_duplicate_of_what_was_acknowledged_elsewhere(story: Story) -> None:
    story.acknowledge(a=0, b=1)
    story.read(("b", 1), ("a", 2))


def plant_duplicate_that_was_acknowledged_twice(story: Story) -> None:
    story.acknowledge(a=0)
    story.acknowledge(a=1)


def plant_reordered(story: Story) -> None:
    story.acknowledge(a=0)
    story.read(("a", 0), ("c", 1), ("b", 2))


def plant_poll_went_back(story: Story) -> None:
    story.acknowledge(a=0, b=1)
    story.read(("a", 0), ("b", 1), ("a", 0))


def plant_poll_skipped(story: Story) -> None:
    story.assign()
    story.acknowledge(a=0, b=1, c=2)
    story.read(("a", 0), ("c", 2))
    story.read(("b", 1), process="another")


def plant_phantom(story: Story) -> None:
    story.acknowledge(a=0)
    story.read(("a", 0), ("nobody sent this", 1))


def plant_failed_read(story: Story) -> None:
    story.add("p", "fail", "send", [["t-0", "b"]])
    story.read(("a", 0), ("b", 1))


def plant_inconsistent_offset(story: Story) -> None:
    story.read(("a", 0), ("b", 1))
    story.read(("a", 0), ("c", 1), process="another")


def plant_another_record_than_was_acknowledged(story: Story) -> None:
    story.acknowledge(a=0)
    story.read(("b", 0))


def plant_offset_reused(story: Story) -> None:
    story.acknowledge(a=0, b=0)


def plant_end_offset_went_back(story: Story) -> None:
    story.add("c", "ok", "end_offset", [["t-0", 3]])
    story.add("c", "ok", "end_offset", [["t-0", 2]])


PLANTED: list[tuple[str, Plant]] = [
    ("lost", plant_lost),
    ("unseen", plant_unseen),
    ("duplicate", plant_duplicate),
    ("duplicate", plant_duplicate_of_what_was_acknowledged_elsewhere),
    ("duplicate", plant_duplicate_that_was_acknowledged_twice),
    ("reordered", plant_reordered),
    ("poll_went_back", plant_poll_went_back),
    ("poll_skipped", plant_poll_skipped),
    ("phantom", plant_phantom),
    ("failed_read", plant_failed_read),
    ("inconsistent_offset", plant_inconsistent_offset),
    ("inconsistent_offset", plant_another_record_than_was_acknowledged),
    ("offset_reused", plant_offset_reused),
    ("end_offset_went_back", plant_end_offset_went_back),
]


@pytest.mark.parametrize(("rule", "plant"), PLANTED, ids=[plant.__name__ for _, plant in PLANTED])
def test_a_planted_violation_is_caught_by_its_rule(rule: str, plant: Plant) -> None:
    story = Story()
    story.send("a", "b", "c")
    plant(story)
    verdict = story.verdict()
    assert verdict.violations[rule] == 1
    assert verdict.examples[rule][0].startswith("t-0: ")
    assert not verdict.ok


def test_every_rule_has_a_planted_violation() -> None:
    assert {rule for rule, _ in PLANTED} == set(RULES)


def test_a_new_assignment_may_read_again() -> None:
    story = Story()
    story.send("a", "b")
    story.acknowledge(a=0, b=1)
    for _ in range(2):
        story.assign()
        story.read(("a", 0), ("b", 1))
    assert story.verdict().ok


def test_offsets_without_records_may_be_passed_over() -> None:
    story = Story()
    story.assign()
    story.send("a", "b")
    story.acknowledge(a=0, b=7)
    story.read(("a", 0), ("b", 7))
    assert story.verdict().ok


def test_an_event_without_what_its_function_needs_is_refused_by_number() -> None:
    with pytest.raises(HistoryError, match=r"event 7 is no poll: \['t-0', 'a'\]"):
        check([Event(7, 0, "c", "ok", "poll", [["t-0", "a"]])])


def test_partitions_are_judged_apart() -> None:
    story = Story()
    story.send("a", partition="t-0")
    story.send("b", partition="t-1")
    story.acknowledge(partition="t-0", a=0)
    story.acknowledge(partition="t-1", b=0)
    story.read(("b", 0), partition="t-1")
    story.read(("a", 0), partition="t-0")
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
    verdict = story.verdict()
    assert verdict.violations["lost"] == 100
    assert len(verdict.examples["lost"]) == 10


def test_a_workload_that_sends_an_id_twice_is_a_mistake() -> None:
    history = History()
    for _ in range(2):
        history.append("p", "invoke", "send", [["t-0", "a"]])
    with pytest.raises(HistoryError, match="once"):
        check(history.events)


@given(st.integers(2, 60), st.data())
def test_losing_any_acknowledged_record_is_caught(count: int, data: st.DataObject) -> None:
    story = Story()
    records = [f"r{n}" for n in range(count)]
    story.send(*records)
    story.acknowledge(**{record: offset for offset, record in enumerate(records)})
    gone = data.draw(st.integers(0, count - 1))
    story.assign()
    story.read(*[(record, offset) for offset, record in enumerate(records) if offset != gone])
    story.drained()
    verdict = story.verdict()
    assert verdict.violations["lost"] + verdict.violations["unseen"] == 1


@given(st.permutations(range(6)))
def test_any_other_order_than_the_one_sent_is_caught(order: list[int]) -> None:
    story = Story()
    story.send(*(f"r{n}" for n in range(6)))
    story.acknowledge(**{f"r{n}": offset for offset, n in enumerate(order)})
    assert (story.verdict().violations["reordered"] > 0) == (order != sorted(order))
