"""The group against a naive twin, and its state machine."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import minikafka.groups.group as group_module
from minikafka.groups.group import TRANSITIONS, Group, GroupState, Member, Protocols

NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=4)  # a hostile member may name one twice


def member(member_id: str, protocols: Protocols, instance: str | None = None) -> Member:
    return Member(
        member_id=member_id,
        group_instance_id=instance,
        client_id="c",
        client_host="h",
        rebalance_timeout_ms=1_000,
        session_timeout_ms=1_000,
        protocols=protocols,
    )


def named(names: list[str]) -> Protocols:
    return tuple((name, name.encode()) for name in names)


def naive_candidates(members: list[Member]) -> set[str]:
    """The protocols that every member supports."""
    return set.intersection(*(set(each.protocol_names) for each in members))


def naive_votes(members: list[Member]) -> Counter[str]:
    candidates = naive_candidates(members)
    return Counter(next(name for name, _ in each.protocols if name in candidates) for each in members)


@given(steps=st.lists(st.tuples(st.sampled_from(["add", "remove", "update", "restart"]), NAMES), max_size=20))
def test_protocols_are_counted_as_a_naive_twin_counts_them(steps: list[tuple[str, list[str]]]) -> None:
    group = Group("g")
    group.state = GroupState.PREPARING_REBALANCE
    group.protocol_type = "consumer"
    for number, (act, names) in enumerate(steps):
        first = next(iter(group.members.values()), None)
        if act == "add":
            if group.members and not group.supports("consumer", names):
                assert naive_candidates(list(group.members.values())).isdisjoint(names)
                continue
            group.add(member(f"m{number}", named(names), f"i{number}" if number % 2 else None))
        elif first is not None and act == "remove":
            group.remove(first.member_id)
        elif first is not None and group.supports("consumer", names):
            if act == "restart" and first.is_static:
                group.replace_static_member(first.member_id, f"m{number}")
            group.update(first, named(names), f"client {number}")
        group.check()
        if group.members:
            votes = naive_votes(list(group.members.values()))
            assert votes[group.select_protocol()] == max(votes.values())


def test_the_first_choice_of_most_wins() -> None:
    group = Group("g")
    for number, names in enumerate(["ab", "ba", "bac"]):
        group.add(member(str(number), named(list(names))))
    assert group.select_protocol() == "b"


def test_a_tie_goes_to_who_came_first() -> None:
    group = Group("g")
    group.add(member("1", named(["a", "b"])))
    group.add(member("2", named(["b", "a"])))
    assert group.select_protocol() == "a"


def test_the_most_patient_member_sets_the_rebalance_timeout() -> None:
    group = Group("g")
    assert group.rebalance_timeout_ms == 0
    for number, timeout in enumerate([3_000, 9_000, 5_000]):
        one = member(str(number), named(["a"]))
        one.rebalance_timeout_ms = timeout
        group.add(one)
    assert group.rebalance_timeout_ms == 9_000


def test_the_restarted_leader_leads_on() -> None:
    group = Group("g")
    group.add(member("old", named(["a"]), "i"))
    group.pending_sync.add("old")
    group.replace_static_member("old", "new")
    assert (group.leader_id, group.static_members, group.pending_sync) == ("new", {"i": "new"}, {"new"})


@pytest.mark.parametrize("state", GroupState)
@pytest.mark.parametrize("target", GroupState)
def test_only_the_transitions_of_the_table(state: GroupState, target: GroupState) -> None:
    group = Group("g", state=state)
    if target in TRANSITIONS[state]:
        group.transition_to(target)
        assert group.state is target
    else:
        with pytest.raises(AssertionError):
            group.transition_to(target)


def test_the_docstring_draws_the_table() -> None:
    drawn = re.findall(r"^ +(\w+) +--.*--> +(\w+)$", group_module.__doc__ or "", re.MULTILINE)
    assert {(GroupState(one), GroupState(two)) for one, two in drawn} == {
        (state, target) for state, targets in TRANSITIONS.items() for target in targets
    }
