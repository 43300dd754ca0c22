"""The next step of a member towards its target assignment."""

from __future__ import annotations

from uuid import UUID

import pytest

from minikafka.groups.consumer.reconciliation import Target, ToldOwned, reconcile
from minikafka.groups.consumer.records import CurrentAssignment, MemberState

T = UUID(int=1)
STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)


def has(state: MemberState, epoch: int, *assigned: int, pending: tuple[int, ...] = ()) -> CurrentAssignment:
    """In that epoch since always."""
    return CurrentAssignment(
        member_epoch=epoch,
        previous_member_epoch=epoch - 1,
        state=state,
        assigned={T: dict.fromkeys(assigned, epoch)} if assigned else {},
        pending_revocation={T: dict.fromkeys(pending, epoch)} if pending else {},
    )


def says(*partitions: int) -> ToldOwned:
    """What the member has, by its own word."""
    return {T: frozenset(partitions)}


def owned_by_me(topic_id: UUID, partition: int) -> str | None:
    """Every partition."""
    return "me"


def exists(topic_id: UUID) -> bool:
    """Every topic."""
    return True


@pytest.mark.parametrize(
    ("before", "told", "others", "expected"),
    [
        # target: 1 and 2, in epoch 5
        (has(STABLE, 5, 1), None, (), (STABLE, 5, (1,), ())),  # it is in that epoch: nothing to do
        (has(STABLE, 4), None, (), (STABLE, 5, (1, 2), ())),
        (has(STABLE, 4, 1), None, (2,), (UNRELEASED, 5, (1,), ())),
        (has(STABLE, 4, 0, 1), None, (), (UNREVOKED, 4, (1,), (0,))),
        (has(STABLE, 4, 0, 1), says(0, 1), (), (UNREVOKED, 4, (1,), (0,))),
        (has(STABLE, 4, 0, 1), says(1), (), (UNREVOKED, 4, (1,), (0,))),  # it may be about to take partition 0 up
        (has(UNREVOKED, 4, 1, pending=(0,)), None, (), (UNREVOKED, 4, (1,), (0,))),
        (has(UNREVOKED, 4, 1, pending=(0,)), says(0, 1), (), (UNREVOKED, 4, (1,), (0,))),
        (has(UNREVOKED, 4, 1, pending=(0,)), says(1), (2,), (UNRELEASED, 5, (1,), ())),
        (has(UNREVOKED, 4, 1, 3, pending=(0,)), says(1, 3), (), (UNREVOKED, 4, (1,), (3,))),  # a newer target
        (has(UNREVOKED, 4, 1, pending=(2,)), says(1), (), (STABLE, 5, (1, 2), ())),  # its own again
        (has(UNRELEASED, 5, 1), None, (2,), (UNRELEASED, 5, (1,), ())),
        (has(UNRELEASED, 5, 1), None, (), (STABLE, 5, (1, 2), ())),
        (has(UNRELEASED, 4, 1, 7), says(1, 7), (), (UNREVOKED, 4, (1,), (7,))),
        (has(MemberState.UNKNOWN, 4), says(), (), (STABLE, 5, (1, 2), ())),
    ],
)
@pytest.mark.spec("G2", "G3")
def test_steps(
    before: CurrentAssignment,
    told: ToldOwned,
    others: tuple[int, ...],
    expected: tuple[MemberState, int, tuple[int, ...], tuple[int, ...]],
) -> None:
    def owner_of(topic_id: UUID, partition: int) -> str | None:
        if partition in others:
            return "other"
        mine = {**before.assigned.get(T, {}), **before.pending_revocation.get(T, {})}
        return "me" if partition in mine else None

    after = reconcile("me", before, Target(5, {T: frozenset({1, 2})}), told, owner_of, exists, is_certain=False)
    assigned, pending = after.assigned.get(T, {}), after.pending_revocation.get(T, {})
    assert (after.state, after.member_epoch, tuple(sorted(assigned)), tuple(sorted(pending))) == expected
    assert all(epoch == 5 for index, epoch in assigned.items() if index not in before.assigned.get(T, {}))
    assert all(epoch == before.member_epoch for index, epoch in assigned.items() if index in before.assigned.get(T, {}))
    if after.member_epoch != before.member_epoch:
        assert after.previous_member_epoch == before.member_epoch
    else:
        assert after.previous_member_epoch == before.previous_member_epoch


def test_all_partitions_of_a_topic_are_given_up() -> None:
    after = reconcile("me", has(STABLE, 4, 0, 1), Target(5, {}), None, owned_by_me, exists, is_certain=False)
    assert after.state is UNREVOKED
    assert after.assigned == {}
    assert after.pending_revocation == {T: {0: 4, 1: 4}}


@pytest.mark.parametrize("before", [has(STABLE, 4, 0, 1), has(UNREVOKED, 4, 0, pending=(1,))])
@pytest.mark.parametrize("told", [None, says(0, 1), {}])
def test_nobody_waits_for_partitions_of_a_deleted_topic(before: CurrentAssignment, told: ToldOwned) -> None:
    other = UUID(int=2)
    target = Target(5, {other: frozenset({3})})
    after = reconcile("me", before, target, told, owned_by_me, lambda topic_id: topic_id != T, is_certain=False)
    assert (after.state, after.member_epoch) == (STABLE, 5)
    assert (after.assigned, after.pending_revocation) == ({other: {3: 5}}, {})


def test_what_exists_is_waited_for_beside_a_deleted_topic() -> None:
    other = UUID(int=2)
    before = has(STABLE, 4, 0, 1)
    before.assigned[other] = {3: 4}
    after = reconcile("me", before, Target(5, {}), None, owned_by_me, lambda topic_id: topic_id != T, is_certain=False)
    assert (after.state, after.assigned) == (UNREVOKED, {})
    asked = reconcile(
        "me", after, Target(5, {}), {T: frozenset({0})}, owned_by_me, lambda topic_id: topic_id != T, is_certain=False
    )
    assert (asked.state, asked.member_epoch, asked.pending_revocation) == (STABLE, 5, {})


def test_who_joins_has_nothing_to_give_up() -> None:
    before = has(UNREVOKED, 4, 0, 1, pending=(3,))
    after = reconcile("me", before, Target(5, {T: frozenset({1})}), {}, owned_by_me, exists, is_certain=True)
    assert (after.state, after.assigned, after.pending_revocation) == (STABLE, {T: {1: 4}}, {})
