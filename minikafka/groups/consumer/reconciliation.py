"""A member on its way from what it has to its target assignment: the next step, as a pure function.

::

    STABLE                 --a newer target, without partitions to give up-----------------> STABLE | UNRELEASED
    STABLE                 --a newer target, with partitions to give up--------------------> UNREVOKED_PARTITIONS
    STABLE                 --it wants a topic no more, before a newer target is made-------> UNREVOKED_PARTITIONS
    UNREVOKED_PARTITIONS   --the member says that it has given them up---------------------> any, by the target of now
    UNREVOKED_PARTITIONS   --its rebalance timeout is over---------------------------------> (it is removed)
    UNRELEASED_PARTITIONS  --at each heartbeat: what others have given up is assigned------> STABLE when that is all

A member that has to give partitions up stays in its epoch until it has. Otherwise it goes to the epoch of the target at
once, and gets the partitions of its target that nobody has. So a partition has one owner, without a moment in which all
members stop (row G3).

Nobody waits for partitions of a deleted topic: no other member will get them. And a client may have nothing to say of
them. It was told a new topic, which was gone before the client had found it: so what it has is what it is to keep, and
nothing has changed for it. (Found with librdkafka: its group stood still for its rebalance timeout, five minutes.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from minikafka.groups.consumer.records import NO_PARTITIONS, CurrentAssignment, MemberState, Owned, Partitions

OwnerOf = Callable[[UUID, int], str | None]
Exists = Callable[[UUID], bool]
"""There is a topic of this id."""
ToldOwned = Mapping[UUID, frozenset[int]] | None
"""What a member says it has; None when it says nothing, since that has not changed."""


class Target(NamedTuple):
    """The target assignment of a member, and its epoch."""

    epoch: int
    partitions: Partitions


class _Difference(NamedTuple):
    """Between what a member has and its target."""

    kept: dict[UUID, dict[int, int]]
    to_revoke: dict[UUID, dict[int, int]]
    free: dict[UUID, list[int]]
    """Of the target, partitions that nobody has."""
    is_waiting: bool
    """Another member has a partition of the target."""


def reconcile(
    member_id: str,
    current: CurrentAssignment,
    target: Target,
    told: ToldOwned,
    owner_of: OwnerOf,
    exists: Exists,
    *,
    is_certain: bool,
) -> CurrentAssignment:
    """The next assignment of the member; equal to ``current`` when there is nothing to do.

    ``is_certain``: it joins, and has what it tells and nothing else, whatever it was assigned before.
    """
    has_other_topics = current.assigned.keys() != target.partitions.keys()
    match current.state:
        case MemberState.STABLE if current.member_epoch == target.epoch and not has_other_topics:
            return current
        case MemberState.UNREVOKED_PARTITIONS if _must_give_up(current.pending_revocation, told, exists):
            return current
    return _next(member_id, current, target, told if is_certain else None, owner_of, exists)


def _must_give_up(partitions: Owned, told: ToldOwned, exists: Exists) -> bool:
    """True when the member may still have some of them."""
    return any(
        exists(topic_id) and (told is None or not told.get(topic_id, frozenset()).isdisjoint(indexes))
        for topic_id, indexes in partitions.items()
    )


def _next(
    member_id: str, current: CurrentAssignment, target: Target, has: ToldOwned, owner_of: OwnerOf, exists: Exists
) -> CurrentAssignment:
    difference = _difference(member_id, current.assigned, target.partitions, owner_of)
    # Who says that it does not have them may be about to take them up: it must say so once it was told.
    if _must_give_up(difference.to_revoke, has, exists):
        return replace(
            current,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=difference.kept,
            pending_revocation=difference.to_revoke,
        )
    assigned = difference.kept
    for topic_id, indexes in difference.free.items():
        assigned.setdefault(topic_id, {}).update(dict.fromkeys(indexes, target.epoch))
    has_moved = target.epoch != current.member_epoch
    return CurrentAssignment(
        member_epoch=target.epoch,
        previous_member_epoch=current.member_epoch if has_moved else current.previous_member_epoch,
        state=MemberState.UNRELEASED_PARTITIONS if difference.is_waiting else MemberState.STABLE,
        assigned=assigned,
        pending_revocation=NO_PARTITIONS,
    )


def _difference(member_id: str, assigned: Owned, target: Partitions, owner_of: OwnerOf) -> _Difference:
    found = _Difference({}, {}, {}, False)
    is_waiting = False
    for topic_id in dict.fromkeys((*assigned, *target)):
        has, wanted = assigned.get(topic_id, {}), target.get(topic_id, frozenset())
        if kept := {index: epoch for index, epoch in has.items() if index in wanted}:
            found.kept[topic_id] = kept
        if len(kept) < len(has):
            found.to_revoke[topic_id] = {index: epoch for index, epoch in has.items() if index not in wanted}
        if len(kept) < len(wanted):
            missing = wanted.difference(has)
            free = [index for index in missing if owner_of(topic_id, index) in (None, member_id)]
            is_waiting |= len(free) < len(missing)
            if free:
                found.free[topic_id] = free
    return found._replace(is_waiting=is_waiting)
