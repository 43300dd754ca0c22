"""What the judge of committed offsets takes for possible."""

from __future__ import annotations

from uuid import UUID

import pytest
from sim_invariants import InvariantViolatedError
from sim_owners import Owners

AT = UUID(int=1), 0


def took_after_commits(asked: int, refused: int) -> Owners:
    """A member asked so often to commit offset 5, and was refused so often; another has the partition now."""
    owners = Owners(lambda: 1.0)
    owners.take("a", [AT], asked=1.0)
    for _ in range(asked):
        owners.want_commit("a", AT, 5)
    for _ in range(refused):
        owners.on_refused_commit("a", AT, 5)
    owners.lose("a")
    owners.take("b", [AT], asked=1.0)
    return owners


def test_a_refusal_leaves_an_earlier_request_in_doubt() -> None:
    took_after_commits(asked=2, refused=1).on_fetch("b", AT, 5)
    took_after_commits(asked=2, refused=1).on_fetch("b", AT, None)


def test_what_was_refused_each_time_is_not_found() -> None:
    with pytest.raises(InvariantViolatedError, match="finds offset 5; None was committed"):
        took_after_commits(asked=2, refused=2).on_fetch("b", AT, 5)


def took_after_grants(*offsets: int) -> Owners:
    """A member was granted commits of these, one after the other; another has the partition now."""
    owners = Owners(lambda: 1.0)
    owners.take("a", [AT], asked=1.0)
    for offset in offsets:
        owners.want_commit("a", AT, offset)
        owners.on_commit("a", AT, offset, sent=1.0)
    owners.lose("a")
    owners.take("b", [AT], asked=1.0)
    return owners


def test_an_offset_that_was_granted_is_found_and_no_earlier_one() -> None:
    """Any offset that a member was ever granted was taken for one of which nobody knows."""
    took_after_grants(5, 7).on_fetch("b", AT, 7)
    with pytest.raises(InvariantViolatedError, match="finds offset 5; 7 was committed"):
        took_after_grants(5, 7).on_fetch("b", AT, 5)


def test_who_hears_late_that_its_commit_was_granted_hears_nothing_new() -> None:
    owners = Owners(lambda: 1.0)
    owners.take("a", [AT], asked=1.0)
    owners.want_commit("a", AT, 5)
    owners.lose("a")
    owners.take("b", [AT], asked=1.0)
    owners.on_fetch("b", AT, 5)
    owners.want_commit("b", AT, 9)
    owners.on_commit("b", AT, 9, sent=1.0)
    owners.on_commit("a", AT, 5, sent=1.0)
    owners.lose("b")
    owners.take("c", [AT], asked=1.0)
    owners.on_fetch("c", AT, 9)


def owners_of_two(first_asked: float) -> Owners:
    """Member "b" asked at 14 s, and was given the partition; then "a" heard that it has it."""
    clock = iter([14.1, 15.0])
    owners = Owners(lambda: next(clock))
    owners.take("b", [AT], asked=14.0)
    owners.take("a", [AT], asked=first_asked)
    return owners


def test_who_stood_still_and_hears_late_is_not_the_last() -> None:
    owners_of_two(first_asked=10.0).on_good_heartbeat("b", sent=15.5)


def test_who_asked_last_and_was_given_it_is() -> None:
    with pytest.raises(InvariantViolatedError, match="which a was given"):
        owners_of_two(first_asked=14.9).on_good_heartbeat("b", sent=15.5)
