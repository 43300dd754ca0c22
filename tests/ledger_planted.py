"""Histories told in short, for the checker in memory and for the one on Spark. Each of PLANTED is wrong in one way that
a checker must notice; each of HARMLESS looks so, and is not.

``t-0`` is the partition; ``p`` sends a, b and c before anything else; ``c`` and others read."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from minikafka.ledger.checker import Verdict, check
from minikafka.ledger.events import Event, EventType


class Story:
    """What producer p sends is acknowledged, and consumer c reads."""

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

    def send_without_acks(self, *records: str) -> None:
        """acks=0: nobody answers, so nobody knows what came of them."""
        self.add("p", "info", "send", [["t-0", record] for record in records])

    def assign(self, partition: str = "t-0", process: str = "c", start: int | None = None) -> None:
        self.add(process, "ok", "assign", [partition if start is None else [partition, start]])

    def read(self, *records: tuple[str, int], partition: str = "t-0", process: str = "c") -> None:
        self.add(process, "ok", "poll", [[partition, record, offset] for record, offset in records])

    def drained(self, partition: str = "t-0", process: str = "c") -> None:
        self.add(process, "ok", "drained", [partition])

    def read_to_the_end(self, *records: tuple[str, int], process: str = "reader", start: int | None = None) -> None:
        """Assigned, handed these, drained."""
        self.assign(process=process, start=start)
        self.read(*records, process=process)
        self.drained(process=process)

    def log_start(self, offset: int) -> None:
        self.add("admin", "ok", "log_start", [["t-0", offset]])

    def verdict(self) -> Verdict:
        return check(self.events)


class Planted(NamedTuple):
    """``rule`` is what the history breaks, or the outcome of one that breaks none: "kept" of a harmless one."""

    rule: str
    plant: Callable[[Story], None]

    def events(self) -> list[Event]:
        """The whole history."""
        story = Story()
        story.send("a", "b", "c")
        self.plant(story)
        return story.events

    @property
    def name(self) -> str:
        """For the names of tests."""
        return self.plant.__name__


PLANTED: list[Planted] = []
HARMLESS: list[Planted] = []


def plants(rule: str) -> Callable[[Callable[[Story], None]], Callable[[Story], None]]:
    def register(plant: Callable[[Story], None]) -> Callable[[Story], None]:
        PLANTED.append(Planted(rule, plant))
        return plant

    return register


def harmless(plant: Callable[[Story], None]) -> Callable[[Story], None]:
    HARMLESS.append(Planted("kept", plant))
    return plant


# -- no anomaly --------------------------------------------------------------------------------------------------------


@harmless
def sent_without_acks_some_of_it_is_there(story: Story) -> None:
    story.acknowledge(a=0)
    story.send_without_acks("b", "c")
    story.read_to_the_end(("a", 0), ("c", 1))


@harmless
def sent_without_acks_nothing_of_it_is_there(story: Story) -> None:
    story.acknowledge(a=0)
    story.send_without_acks("b", "c")
    story.read_to_the_end(("a", 0))


@harmless
def acknowledged_without_a_place(story: Story) -> None:
    story.acknowledge(a=-1, b=-1, c=5)
    story.acknowledge(a=-1)
    story.read_to_the_end(("a", 3), ("b", 4), ("c", 5))


@harmless
def sent_twice_by_its_producer_and_there_twice(story: Story) -> None:
    story.acknowledge(a=0, b=2, c=3)
    story.read_to_the_end(("a", 0), ("b", 1), ("b", 2), ("c", 3))
    story.add("reader", "ok", "resent", [["t-0", "b"]])


# -- lost, though somebody saw it once ---------------------------------------------------------------------------------


@plants("lost-write")
def passed_over_by_the_reader(story: Story) -> None:
    story.acknowledge(a=0, b=1, c=2)
    story.read_to_the_end(("a", 0), ("c", 2))


@plants("lost-write")
def polled_once_and_gone_from_the_head(story: Story) -> None:
    story.acknowledge(a=0, b=1, c=2)
    story.read(("a", 0))
    story.read_to_the_end(("b", 1), ("c", 2))


@plants("lost-write")
def read_by_one_of_two_readers(story: Story) -> None:
    story.acknowledge(a=0, b=1, c=2)
    story.read_to_the_end(("a", 0), ("b", 1), ("c", 2), process="one")
    story.read_to_the_end(("a", 0), ("c", 2), process="two")


@plants("lost-write")
def handed_to_the_reader_only_in_an_earlier_assignment(story: Story) -> None:
    story.acknowledge(a=0, b=1, c=2)
    story.assign()
    story.read(("a", 0), ("b", 1), ("c", 2))
    story.assign()
    story.read(("a", 0), ("c", 2))
    story.drained()


@plants("lost-write")
def acknowledged_without_a_place_and_nowhere(story: Story) -> None:
    story.acknowledge(a=0, b=-1, c=1)
    story.read_to_the_end(("a", 0), ("c", 1))


@plants("lost-write")
def gone_above_what_retention_deleted(story: Story) -> None:
    story.acknowledge(a=0, b=1, c=2)
    story.log_start(1)
    story.read_to_the_end(("c", 2))


@plants("unseen")
def above_what_was_read_to_the_end(story: Story) -> None:
    story.acknowledge(a=0, b=1, c=2)
    story.read_to_the_end(("a", 0), ("b", 1))


@plants("unseen")
def polled_once_and_gone_from_the_tail(story: Story) -> None:
    story.acknowledge(a=0, b=1, c=2)
    story.read(("a", 0), ("b", 1), ("c", 2))
    story.read_to_the_end(("a", 0), ("b", 1))


@plants("unseen")
def polled_once_and_everything_is_gone(story: Story) -> None:
    story.acknowledge(a=0)
    story.read(("a", 0))
    story.assign("t-0", "reader")
    story.drained(process="reader")


@plants("unseen")
def gone_behind_where_the_reader_began(story: Story) -> None:
    story.acknowledge(a=0, b=1, c=2)
    story.read_to_the_end(("a", 0), ("b", 1), ("c", 2), process="one")
    story.read_to_the_end(("b", 1), process="two", start=1)


@plants("dirty-read")
def of_unknown_outcome_seen_once_and_gone(story: Story) -> None:
    story.acknowledge(a=0)
    story.read(("a", 0), ("b", 1))
    story.read_to_the_end(("a", 0))


@plants("dirty-read")
def sent_without_acks_seen_once_and_gone(story: Story) -> None:
    story.acknowledge(a=0)
    story.send_without_acks("b", "c")
    story.read(("a", 0), ("b", 1))
    story.read_to_the_end(("a", 0))


@plants("dirty-read")
def of_unknown_outcome_and_seen_by_one_of_two_readers(story: Story) -> None:
    story.acknowledge(a=0, c=2)
    story.read_to_the_end(("a", 0), ("b", 1), ("c", 2), process="one")
    story.read_to_the_end(("a", 0), ("c", 2), process="two")


# -- nobody looked -----------------------------------------------------------------------------------------------------


@plants("not judged")
def everything_was_polled_but_nothing_to_the_end(story: Story) -> None:
    story.acknowledge(a=0, b=1, c=2)
    story.assign()
    story.read(("a", 0), ("b", 1), ("c", 2))


@plants("not judged")
def the_reader_began_behind_the_beginning(story: Story) -> None:
    story.acknowledge(a=0, b=1, c=2)
    story.read_to_the_end(("b", 1), ("c", 2), start=1)


@plants("not judged")
def only_another_partition_was_read_to_the_end(story: Story) -> None:
    story.send("d", partition="t-1")
    story.acknowledge(a=0)
    story.acknowledge(partition="t-1", d=0)
    story.assign("t-1")
    story.read(("d", 0), partition="t-1")
    story.drained("t-1")


@plants("not judged")
def without_a_place_where_the_log_begins_later(story: Story) -> None:
    story.acknowledge(a=-1, b=1, c=2)
    story.log_start(1)
    story.read_to_the_end(("b", 1), ("c", 2))


@plants("nothing proved")
def nothing_was_acknowledged(story: Story) -> None:
    story.read_to_the_end(("a", 0))


@plants("nothing proved")
def everything_was_sent_without_acks(story: Story) -> None:
    story.send_without_acks("a", "b", "c")
    story.read_to_the_end(("a", 0), ("b", 1), ("c", 2))


@plants("nothing proved")
def nothing_is_left_after_retention(story: Story) -> None:
    story.acknowledge(a=0)
    story.log_start(1)
    story.assign()
    story.drained()


# -- at the wrong place ------------------------------------------------------------------------------------------------


@plants("duplicate")
def read_at_two_offsets(story: Story) -> None:
    story.acknowledge(a=0, b=1)
    story.read(("a", 0), ("b", 1), ("a", 2))


@plants("duplicate")
def read_elsewhere_than_acknowledged(story: Story) -> None:
    story.acknowledge(a=0, b=1)
    story.read(("b", 1), ("a", 2))


@plants("duplicate")
def acknowledged_at_two_offsets(story: Story) -> None:
    story.acknowledge(a=0)
    story.acknowledge(a=1)


@plants("duplicate")
def acknowledged_without_a_place_and_read_at_two(story: Story) -> None:
    story.acknowledge(a=-1)
    story.read(("a", 0), ("a", 1))


@plants("duplicate")
def sent_without_acks_and_read_at_two(story: Story) -> None:
    story.send_without_acks("b", "c")
    story.read(("b", 0), ("b", 1))


@plants("duplicate")
def there_twice_though_another_was_sent_twice(story: Story) -> None:
    story.acknowledge(a=0, b=1)
    story.read_to_the_end(("a", 0), ("b", 1), ("a", 2))
    story.add("reader", "ok", "resent", [["t-0", "b"]])


@plants("nonmonotonic-send")
def sent_before_but_stored_behind(story: Story) -> None:
    story.acknowledge(a=0)
    story.read(("a", 0), ("c", 1), ("b", 2))


@plants("inconsistent-offsets")
def two_readers_find_two_records_at_an_offset(story: Story) -> None:
    story.read(("a", 0), ("b", 1))
    story.read(("a", 0), ("c", 1), process="another")


@plants("inconsistent-offsets")
def another_record_than_was_acknowledged(story: Story) -> None:
    story.acknowledge(a=0)
    story.read(("b", 0))


@plants("inconsistent-offsets")
def a_dirty_read_whose_offset_went_to_another(story: Story) -> None:
    story.read(("b", 1))
    story.acknowledge(a=0, c=1)
    story.read_to_the_end(("a", 0), ("c", 1))


@plants("reused-offset")
def two_records_acknowledged_at_an_offset(story: Story) -> None:
    story.acknowledge(a=0, b=0)


@plants("phantom")
def read_and_never_sent(story: Story) -> None:
    story.acknowledge(a=0)
    story.read(("a", 0), ("nobody sent this", 1))


@plants("phantom")
def sent_to_another_partition(story: Story) -> None:
    story.send("d", partition="t-1")
    story.acknowledge(a=0)
    story.read(("a", 0), ("d", 1))


@plants("phantom")
def acknowledged_and_never_sent(story: Story) -> None:
    story.acknowledge(a=0, x=1)
    story.read(("a", 0))


@plants("aborted-read")
def refused_and_there(story: Story) -> None:
    story.add("p", "fail", "send", [["t-0", "b"]])
    story.read(("a", 0), ("b", 1))


# -- one after another -------------------------------------------------------------------------------------------------


@plants("nonmonotonic-poll")
def handed_the_same_again(story: Story) -> None:
    story.acknowledge(a=0, b=1)
    story.read(("a", 0), ("b", 1), ("a", 0))


@plants("nonmonotonic-poll")
def handed_what_lies_before_its_start(story: Story) -> None:
    story.acknowledge(a=0, b=1)
    story.assign(start=1)
    story.read(("a", 0))


@plants("poll-skip")
def went_over_what_another_was_handed(story: Story) -> None:
    story.assign()
    story.acknowledge(a=0, b=1, c=2)
    story.read(("a", 0), ("c", 2))
    story.read(("b", 1), process="another")


@plants("poll-skip")
def went_over_what_lies_where_it_starts(story: Story) -> None:
    story.acknowledge(a=0, b=1, c=2)
    story.assign(start=1)
    story.read(("c", 2))


@plants("poll-skip")
def went_over_what_retention_left(story: Story) -> None:
    story.assign()
    story.send("d")
    story.acknowledge(a=0, b=1, c=2, d=3)
    story.log_start(2)
    story.read(("a", 0), ("d", 3))


@plants("nonmonotonic-end-offset")
def the_end_moved_back(story: Story) -> None:
    story.add("c", "ok", "end_offset", [["t-0", 3]])
    story.add("c", "ok", "end_offset", [["t-0", 2]])
