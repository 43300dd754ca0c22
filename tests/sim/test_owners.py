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
    owners.take("a", [AT])
    for _ in range(asked):
        owners.want_commit("a", AT, 5)
    for _ in range(refused):
        owners.on_refused_commit("a", AT, 5)
    owners.lose("a")
    owners.take("b", [AT])
    return owners


def test_a_refusal_leaves_an_earlier_request_in_doubt() -> None:
    took_after_commits(asked=2, refused=1).on_fetch("b", AT, 5)
    took_after_commits(asked=2, refused=1).on_fetch("b", AT, None)


def test_what_was_refused_each_time_is_not_found() -> None:
    with pytest.raises(InvariantViolatedError, match="finds offset 5; None was committed"):
        took_after_commits(asked=2, refused=2).on_fetch("b", AT, 5)
