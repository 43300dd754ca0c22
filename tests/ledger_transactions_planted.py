"""Histories of transactions told in short. Each of PLANTED is wrong in one way that a checker must notice; each of
HARMLESS looks so, and is not.

Producer ``p`` has the id ``i``. Its transaction ``A`` has ``a`` in ``t-0`` and ``b`` in ``t-1``, both at offset 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from minikafka.ledger.events import Event, EventType


class Story:
    """What producers, read_committed consumers and a group do."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(self, process: str, type: EventType, function: str, *value: object) -> None:
        self.events.append(Event(len(self.events), len(self.events), process, type, function, list(value)))

    def take_over(self, process: str, transactional_id: str = "i") -> None:
        self.add(process, "invoke", "take_over", transactional_id)
        self.add(process, "ok", "take_over", transactional_id)

    def begin(self, transaction: str, process: str = "p") -> None:
        self.add(process, "invoke", "begin", transaction)

    def send(self, record: str, partition: str, offset: int | None, process: str = "p") -> None:
        """``offset``: of its acknowledgement; None: there is none."""
        self.add(process, "invoke", "send", [partition, record])
        if offset is not None:
            self.add(process, "ok", "send", [partition, record, offset])

    def commit(self, transaction: str = "A", told: EventType | None = "ok", process: str = "p") -> None:
        self.add(process, "invoke", "commit", transaction)
        if told is not None:
            self.add(process, told, "commit", transaction)

    def read(self, *records: tuple[str, int], partition: str = "t-0", by: str = "c") -> None:
        self.add(by, "ok", "poll_committed", *([partition, *record] for record in records))

    def read_to_the_end(
        self, *records: tuple[str, int], partition: str = "t-0", by: str = "reader", start: int = 0
    ) -> None:
        self.add(by, "ok", "assign_committed", [partition, start])
        self.read(*records, partition=partition, by=by)
        self.add(by, "ok", "drained_committed", partition)

    def copy(self, record: str, offset: int, group: str = "g") -> None:
        """Of what is in t-0 at that offset."""
        self.add("p", "invoke", "copy", [record, group, "t-0", offset])

    def position(self, offset: int) -> None:
        self.add("clerk", "ok", "position", ["g", "t-0", offset])


class Planted(NamedTuple):
    """``rule`` is what the history breaks, or its outcome if it breaks none."""

    rule: str
    plant: Callable[[Story], None]

    def events(self) -> list[Event]:
        """The whole history."""
        story = Story()
        story.take_over("p")
        story.begin("A")
        story.send("a", "t-0", 0)
        story.send("b", "t-1", 0)
        self.plant(story)
        return story.events

    @property
    def name(self) -> str:
        """As tests are named after it."""
        return self.plant.__name__


PLANTED: list[Planted] = []
HARMLESS: list[Planted] = []


def plants(rule: str) -> Callable[[Callable[[Story], None]], Callable[[Story], None]]:
    def register(plant: Callable[[Story], None]) -> Callable[[Story], None]:
        (HARMLESS if rule == "kept" else PLANTED).append(Planted(rule, plant))
        return plant

    return register


# -- all or nothing ----------------------------------------------------------------------------------------------------


@plants("torn-transaction")
def half_of_a_committed_one_is_there(story: Story) -> None:
    story.commit()
    story.read_to_the_end(("a", 0))
    story.read_to_the_end(partition="t-1")


@plants("torn-transaction")
def half_of_one_whose_fate_is_unknown_is_there(story: Story) -> None:
    story.commit(told="info")
    story.read_to_the_end(("a", 0))
    story.read_to_the_end(partition="t-1")


@plants("torn-transaction")
def one_reader_has_all_of_it_and_another_half(story: Story) -> None:
    story.commit(told=None)
    story.read_to_the_end(("a", 0), by="one")
    story.read_to_the_end(("b", 0), partition="t-1", by="one")
    story.read_to_the_end(by="other")


@plants("lost-commit")
def a_committed_one_is_nowhere(story: Story) -> None:
    story.commit()
    story.read_to_the_end()
    story.read_to_the_end(partition="t-1")


@plants("lost-commit")
def what_is_in_no_transaction_is_missing(story: Story) -> None:
    story.commit()
    story.send("plain", "t-0", 2, process="other")
    story.read_to_the_end(("a", 0))
    story.read_to_the_end(("b", 0), partition="t-1")


@plants("kept")
def what_is_in_no_transaction_was_sent_twice(story: Story) -> None:
    story.commit()
    story.send("plain", "t-0", 3, process="other")
    story.read_to_the_end(("a", 0), ("plain", 2), ("plain", 3))
    story.read_to_the_end(("b", 0), partition="t-1")
    story.add("reader", "ok", "resent", ["t-0", "plain"])


# -- what is not committed ---------------------------------------------------------------------------------------------


@plants("aborted-read")
def read_and_aborted(story: Story) -> None:
    story.commit(told="fail")
    story.read(("a", 0))


@plants("aborted-read")
def read_and_never_to_be_committed(story: Story) -> None:
    story.read(("a", 0))


@plants("precommitted-read")
def read_before_its_commit_was_asked_for(story: Story) -> None:
    story.read(("a", 0))
    story.commit()
    story.read_to_the_end(("a", 0))
    story.read_to_the_end(("b", 0), partition="t-1")


@plants("hanging-transaction")
def open_when_its_time_is_over(story: Story) -> None:
    story.add("observer", "ok", "stable_end", ["t-0", 0, 1], ["t-1", 1, 1])


# -- one prefix --------------------------------------------------------------------------------------------------------


@plants("prefix-changed")
def went_over_what_another_was_handed(story: Story) -> None:
    story.send("c", "t-0", 1)
    story.send("d", "t-0", 2)
    story.commit()
    story.add("c", "ok", "assign_committed", "t-0")
    story.read(("a", 0), ("d", 2))
    story.read_to_the_end(("a", 0), ("c", 1), ("d", 2))
    story.read_to_the_end(("b", 0), partition="t-1")


@plants("prefix-changed")
def went_over_what_lies_where_it_starts(story: Story) -> None:
    story.send("c", "t-0", 1)
    story.commit()
    story.add("c", "ok", "assign_committed", ["t-0", 0])
    story.read(("c", 1))
    story.read_to_the_end(("a", 0), ("c", 1))
    story.read_to_the_end(("b", 0), partition="t-1")


@plants("offset-changed")
def two_records_at_one_offset(story: Story) -> None:
    story.send("c", "t-0", None)
    story.commit()
    story.read(("a", 0))
    story.read(("c", 0), by="another")


@plants("offset-changed")
def one_record_at_two_offsets(story: Story) -> None:
    story.commit()
    story.read_to_the_end(("a", 0), ("a", 1))
    story.read_to_the_end(("b", 0), partition="t-1")


@plants("offset-changed")
def handed_what_lies_before_its_start(story: Story) -> None:
    story.commit()
    story.add("c", "ok", "assign_committed", ["t-0", 1])
    story.read(("a", 0))
    story.read_to_the_end(("a", 0))
    story.read_to_the_end(("b", 0), partition="t-1")


# -- copies ------------------------------------------------------------------------------------------------------------


def _copy(story: Story, *records: str, position: int, told: EventType | None = "ok") -> None:
    """A is committed; copies of a are written to t-1 in one transaction each."""
    story.commit()
    for at, record in enumerate(records, 1):
        story.begin(record.upper())
        story.copy(record, 0)
        story.send(record, "t-1", at)
        story.commit(record.upper(), told=told)
    story.position(position)
    story.read_to_the_end(("a", 0))


@plants("copied-twice")
def there_are_two_copies(story: Story) -> None:
    _copy(story, "x", "y", position=1)
    story.read_to_the_end(("b", 0), ("x", 1), ("y", 2), partition="t-1")


@plants("not-copied")
def the_offset_moved_without_a_copy(story: Story) -> None:
    _copy(story, "x", position=1, told="fail")
    story.read_to_the_end(("b", 0), partition="t-1")


@plants("not-copied")
def only_an_aborted_copy_is_where_nobody_looked(story: Story) -> None:
    story.commit()
    story.begin("X")
    story.copy("x", 0)
    story.send("x", "t-2", None)
    story.commit("X", told="fail")
    story.position(1)
    story.read_to_the_end(("a", 0))
    story.read_to_the_end(("b", 0), partition="t-1")


@plants("copied-ahead")
def the_copy_came_without_its_offset(story: Story) -> None:
    _copy(story, "x", position=0)
    story.read_to_the_end(("b", 0), ("x", 1), partition="t-1")


@plants("copied-ahead")
def the_group_has_committed_nothing(story: Story) -> None:
    story.commit()
    story.begin("X")
    story.copy("x", 0)
    story.send("x", "t-1", 1)
    story.commit("X")
    story.add("clerk", "ok", "position")
    story.read_to_the_end(("a", 0))
    story.read_to_the_end(("b", 0), ("x", 1), partition="t-1")


# -- zombies -----------------------------------------------------------------------------------------------------------


@plants("zombie-write")
def a_fenced_one_commits(story: Story) -> None:
    story.take_over("q")
    story.commit()
    story.read_to_the_end(("a", 0))
    story.read_to_the_end(("b", 0), partition="t-1")


@plants("zombie-write")
def a_fenced_one_writes(story: Story) -> None:
    story.take_over("q")
    story.send("late", "t-0", 2)


@plants("zombie-write")
def what_a_fenced_one_wrote_is_seen(story: Story) -> None:
    story.take_over("q")
    story.send("late", "t-0", None)
    story.add("c", "ok", "poll", ["t-0", "late", 2])


# -- nothing is wrong, and nothing is proved ---------------------------------------------------------------------------


@plants("not judged")
def nobody_looked_for_half_of_it(story: Story) -> None:
    story.commit()
    story.read_to_the_end(("a", 0))


@plants("nothing proved")
def nothing_was_committed(story: Story) -> None:
    story.read_to_the_end()


# -- what is no anomaly ------------------------------------------------------------------------------------------------


def _both(story: Story) -> None:
    story.read_to_the_end(("a", 0))
    story.read_to_the_end(("b", 0), partition="t-1")


@plants("kept")
def committed_and_there(story: Story) -> None:
    story.commit()
    story.add("observer", "ok", "stable_end", ["t-0", 2, 2])
    _both(story)


@plants("kept")
def of_unknown_fate_and_there(story: Story) -> None:
    story.commit(told=None)
    _both(story)


@plants("kept")
def of_unknown_fate_and_not_there(story: Story) -> None:
    story.commit()
    story.begin("B")
    story.send("c", "t-0", 2)
    story.send("d", "t-1", None)
    story.commit("B", told="info")
    _both(story)


@plants("kept")
def aborted_and_seen_by_those_who_want_to(story: Story) -> None:
    story.commit()
    story.begin("B")
    story.send("c", "t-0", 2)
    story.add("c", "ok", "poll", ["t-0", "a", 0], ["t-0", "c", 2])
    _both(story)


@plants("kept")
def whoever_comes_later_aborts_the_one_before(story: Story) -> None:
    story.commit()
    story.begin("B")
    story.send("c", "t-0", 2)
    story.take_over("q")
    story.send("d", "t-0", None)
    story.commit("B", told="info")
    _both(story)


@plants("kept")
def two_that_begin_at_once_may_fence_each_other(story: Story) -> None:
    story.add("q", "invoke", "take_over", "j")
    story.take_over("r", "j")
    story.add("q", "ok", "take_over", "j")
    story.begin("R", "r")
    story.send("c", "t-0", 2, process="r")
    story.commit("R", process="r")
    story.commit()
    story.read_to_the_end(("a", 0), ("c", 2))
    story.read_to_the_end(("b", 0), partition="t-1")


@plants("kept")
def asked_for_and_read_before_the_answer(story: Story) -> None:
    story.add("p", "invoke", "commit", "A")
    _both(story)
    story.add("p", "ok", "commit", "A")


@plants("kept")
def asked_for_again_without_an_answer(story: Story) -> None:
    story.add("p", "invoke", "commit", "A")
    story.read(("a", 0))
    story.commit()
    _both(story)


@plants("kept")
def copied_once_at_the_second_attempt(story: Story) -> None:
    story.commit()
    for record, told in (("x", "fail"), ("y", "ok")):
        story.begin(record.upper())
        story.copy(record, 0)
        story.send(record, "t-1", None)
        story.commit(record.upper(), told=told)  # type: ignore[arg-type]
    story.position(1)
    story.read_to_the_end(("a", 0))
    story.read_to_the_end(("b", 0), ("y", 3), partition="t-1")


@plants("kept")
def copies_that_were_deleted_are_not_looked_for(story: Story) -> None:
    _copy(story, "x", position=1)
    story.add("admin", "ok", "log_start", ["t-1", 2])
    story.read_to_the_end(partition="t-1")


@plants("kept")
def a_new_assignment_reads_again(story: Story) -> None:
    story.commit()
    for _ in range(2):
        _both(story)
