"""Who begins with a partition of a group finds its offset there, whatever clients did to commit it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from minikafka.chaos.rounds.commits import LATE_MS, Commits

LATER_MS = 2 * LATE_MS


class Group:
    """Records of ``t-0`` are handed out one after another, a second each."""

    def __init__(self) -> None:
        self.commits = Commits()
        self.now_ms = 0

    def handed(self, member: str, *offsets: int) -> None:
        for offset in offsets:
            self.now_ms += 1_000
            self.commits.handed(member, "t-0", offset, self.now_ms)

    def told(self, member: str, offset: int, *, is_done: bool = True) -> None:
        self.commits.told(member, [("t-0", offset)], self.now_ms, is_done=is_done)

    def begins(self, member: str, offset: int) -> None:
        self.now_ms += 1_000
        self.commits.assigned(member, ["t-0"], self.now_ms)
        self.handed(member, offset)


def _go_on(group: Group) -> None:
    group.begins("two", 10)


def _the_last_commit_had_no_answer(group: Group) -> None:
    group.handed("one", 10, 11)
    group.told("one", 12, is_done=False)
    group.begins("two", 12)


def _the_last_commit_failed(group: Group) -> None:
    group.handed("one", 10, 11)
    group.told("one", 12, is_done=False)
    group.begins("two", 10)


def _a_commit_was_repeated_after_a_later_one(group: Group) -> None:
    """It had no answer when the later one was asked for."""
    group.handed("one", 10, 11)
    group.told("one", 12)
    group.told("one", 11)
    group.begins("two", 11)


def _one_that_failed_was_carried_out_late(group: Group) -> None:
    group.told("one", 5, is_done=False)
    group.handed("one", 10, 11)
    group.told("one", 12)
    group.begins("two", 5)


def _nobody_knew_of_a_commit_yet(group: Group) -> None:
    group.commits.assigned("two", ["t-0"], group.now_ms)
    group.handed("two", 3)


def _the_answer_comes_after_the_next_one_began(group: Group) -> None:
    group.handed("one", 10, 11)
    group.commits.assigned("two", ["t-0"], group.now_ms)
    group.told("one", 12)
    group.handed("two", 10)


def _a_new_assignment_of_another_partition(group: Group) -> None:
    group.commits.assigned("two", ["t-1"], group.now_ms)
    group.commits.handed("two", "t-1", 0, group.now_ms)


def _the_member_reads_on(group: Group) -> None:
    group.handed("one", 0)


@pytest.mark.parametrize(
    "story",
    [
        _go_on,
        _the_last_commit_had_no_answer,
        _the_last_commit_failed,
        _a_commit_was_repeated_after_a_later_one,
        _one_that_failed_was_carried_out_late,
        _nobody_knew_of_a_commit_yet,
        _the_answer_comes_after_the_next_one_began,
        _a_new_assignment_of_another_partition,
        _the_member_reads_on,
    ],
)
def test_what_clients_may_do(story: Callable[[Group], None]) -> None:
    group = Group()
    group.begins("one", 0)
    group.handed("one", *range(1, 10))
    group.told("one", 10)
    story(group)
    assert list(group.commits.moved_back()) == []


@pytest.mark.parametrize("offset", [0, 1, 5, 9])
def test_an_offset_that_moved_back_is_found(offset: int) -> None:
    """A round passed in which the group's offsets were those of half a minute ago: all was handed out, some again."""
    group = Group()
    group.begins("one", 0)
    group.told("one", 1)
    group.handed("one", 1, 2, 3, 4)
    group.told("one", 5)
    group.now_ms += LATER_MS
    group.handed("one", *range(5, 10))
    group.told("one", 10)
    group.begins("two", offset)
    assert list(group.commits.moved_back()) == [f"two was handed t-0 from {offset} on, and 10 was committed"]
    assert group.commits.count == 3


def test_a_failure_of_long_ago_excuses_nothing() -> None:
    group = Group()
    group.begins("one", 0)
    group.handed("one", 1, 2)
    group.told("one", 3, is_done=False)
    group.now_ms += LATER_MS
    group.handed("one", 3, 4)
    group.told("one", 5)
    group.begins("two", 3)
    assert list(group.commits.moved_back()) == ["two was handed t-0 from 3 on, and 5 was committed"]
