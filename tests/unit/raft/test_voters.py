"""VoterSet and majorities."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.model import Endpoint
from minikafka.raft import VoterSet
from minikafka.raft.voters import majority_of, majority_value


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7))
def test_majority_value_is_what_some_majority_has_reached_and_no_more(values: list[int]) -> None:
    """The naive twin tries every majority."""
    size = majority_of(len(values))
    assert majority_value(values) == max(min(chosen) for chosen in combinations(values, size))


@given(st.integers(1, 20))
def test_two_majorities_share_a_member(count: int) -> None:
    assert 2 * majority_of(count) > count
    assert 2 * (majority_of(count) - 1) <= count


def test_the_others_and_the_majority_in_order_of_id() -> None:
    voters = VoterSet({3: Endpoint("c", 9094), 1: Endpoint("::1", 9092), 2: Endpoint("b.example", 9093)})
    assert voters.ids == (1, 2, 3)
    assert voters.endpoints[1] == Endpoint("::1", 9092)
    assert voters.others(2) == (1, 3)
    assert 3 in voters
    assert 4 not in voters
    assert len(voters) == 3
    assert voters.majority == 2
    assert str(VoterSet({2: Endpoint("b", 2), 1: Endpoint("a", 1)})) == "1@a:1,2@b:2"


def test_there_is_a_voter_and_none_is_negative() -> None:
    with pytest.raises(ValueError, match="at least one voter"):
        VoterSet({})
    with pytest.raises(ValueError, match="not negative"):
        VoterSet({-1: Endpoint("a", 1)})
