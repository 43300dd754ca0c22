"""Planted bugs: each breaks the coordinator in one place, in a way that is easy to get wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from groups_schedules import run, trace_of
from planted.registry import Suite

import minikafka.groups.commits as commits
import minikafka.groups.deletion as deletion
import minikafka.groups.joining as joining
import minikafka.groups.loading as loading
import minikafka.groups.membership as membership
import minikafka.groups.rebalance as rebalance
import minikafka.groups.syncing as syncing
from minikafka.errors import ErrorCode
from minikafka.groups.group import Group, GroupState
from minikafka.groups.shard import Shard
from minikafka.groups.timers import RetentionTimer

SUITE = Suite("groups", "the group coordinator", run, 2_000, trace=trace_of)


@SUITE.replaces(commits, "_refusal")
def stale_generation_may_commit(shard: Shard, request: Any, version: int) -> ErrorCode:
    """The member is checked, its generation is not."""
    group = shard.groups.get(request.group_id)
    return membership.member_error(group, request.member_id, request.group_instance_id)


_sound_heartbeat = membership.heartbeat
_sound_on_member_timer = membership.on_member_timer
_sound_prepare = rebalance.prepare_rebalance


@SUITE.replaces(membership, "heartbeat")
def stale_generation_may_heartbeat(shard: Shard, request: Any, token: Any) -> None:
    """The generation of the group is taken for that of the member."""
    group = shard.groups.get(request.group_id)
    if group is not None:
        request.generation_id = group.generation_id
    _sound_heartbeat(shard, request, token)


_sound_park = syncing._park


@SUITE.replaces(syncing, "_park", listed="two owners of one group member")
def second_assignment_counts(shard: Shard, group: Group, *rest: Any) -> None:
    """The leader's repeated SyncGroup writes another assignment."""
    group.assignment_in_flight = False
    _sound_park(shard, group, *rest)


@SUITE.replaces(syncing, "_park")
def assignment_before_commit(shard: Shard, group: Group, member: Any, request: Any, token: Any) -> None:
    """The assignment is given out when it is written, not when it is committed."""
    group.awaiting_sync[member.member_id] = token
    if group.leader_id == member.member_id:
        given = {one.member_id: one.assignment for one in request.assignments}
        shard.write(group, [rebalance.metadata_record(shard, group, given)], lambda error: None)
        for one in group.members.values():
            one.assignment = given.get(one.member_id, b"")
        group.transition_to(GroupState.STABLE)
        parked, group.awaiting_sync = group.awaiting_sync, {}
        for member_id, waiting in parked.items():
            syncing._answer(shard, group, group.members[member_id], waiting)


@SUITE.replaces(syncing, "_assignment_written")
def assignment_of_another_generation(shard: Shard, group: Group, generation_id: int, error: ErrorCode) -> None:
    """A record that was committed late is applied to the generation of now."""
    if error is ErrorCode.NONE and group.is_in(GroupState.COMPLETING_REBALANCE) and group.persisted is not None:
        for persisted in group.persisted.members:
            if persisted.member_id in group.members:
                group.members[persisted.member_id].assignment = persisted.assignment
        group.transition_to(GroupState.STABLE)
        parked, group.awaiting_sync = group.awaiting_sync, {}
        for member_id, token in parked.items():
            syncing._answer(shard, group, group.members[member_id], token)
    elif group.is_in(GroupState.COMPLETING_REBALANCE):
        rebalance.prepare_rebalance(shard, group)


_sound_commit_write = Shard.write


@SUITE.replaces(Shard, "write")
def offset_acknowledged_before_commit(shard: Shard, group: Group, records: Any, done: Any) -> None:
    """The committer is answered as soon as the record is written."""
    if getattr(done, "func", None) is commits._offsets_written:
        done(ErrorCode.NONE)
        done = lambda error: None  # noqa: E731
    _sound_commit_write(shard, group, records, done)


@SUITE.replaces(Shard, "time_out_write")
def late_write_forgotten(shard: Shard, write_id: int) -> None:
    """A write that takes long is taken for failed, although it is in the log."""
    write = shard.writes.get(write_id)
    if write is not None and write.done is not None:
        done, write.done, write.records = write.done, None, ()
        done(ErrorCode.REQUEST_TIMED_OUT)


@SUITE.replaces(rebalance, "answer_parked_join")
def join_without_answer(shard: Shard, group: Group, member_id: str, error: ErrorCode) -> None:
    """Who is taken out of the group is not told."""
    group.awaiting_join.pop(member_id, None)


_sound_elect = Group.elect_joined_leader


@SUITE.replaces(Group, "elect_joined_leader")
def absent_leader_kept(group: Group) -> bool:
    """A static leader that has not rejoined goes on leading."""
    return group.leader_id in group.members or _sound_elect(group)


_sound_restore = loading._restore


@SUITE.replaces(loading, "_restore")
def generation_not_restored(shard: Shard, group: Group, persisted: Any) -> None:
    """A new coordinator counts generations from the beginning."""
    _sound_restore(shard, group, persisted)
    group.generation_id = 1


@SUITE.replaces(Shard, "offsets_in_flight")
def commits_on_their_way_overlooked(shard: Shard) -> dict[Any, Any]:
    """Expiry and deletion look only at what is committed."""
    return {}


@SUITE.replaces(membership, "on_member_timer")
def session_timer_not_set_again(shard: Shard, group: Group, member_id: str) -> None:
    """A timer that fires before the deadline, which heartbeats have moved, is lost."""
    member = group.members.get(member_id)
    if member is None or shard.now_ms >= member.session_deadline_ms:
        _sound_on_member_timer(shard, group, member_id)


@SUITE.replaces(rebalance, "prepare_rebalance")
def phase_without_end(shard: Shard, group: Group) -> None:
    """A rebalance waits for a member that is gone as long as its session lasts, or for ever."""
    _sound_prepare(shard, group)
    if group.is_in(GroupState.PREPARING_REBALANCE) and group.initial_delay_left_ms is None:
        shard.end_phase(group)


@SUITE.replaces(joining, "metadata_record")
def new_id_not_persisted(shard: Shard, group: Group) -> Any:
    """The record of a static member's restart holds its assignment no more."""
    return rebalance.metadata_record(shard, group, {})


@SUITE.replaces(rebalance, "fail_parked_syncs")
def syncs_left_parked(shard: Shard, group: Group, error: ErrorCode) -> None:
    """A rebalance forgets those who wait for the assignment that will not come."""
    group.awaiting_sync.clear()


@SUITE.replaces(syncing, "_leader_first")
def leader_answered_last(group: Group, waiting: Iterable[str]) -> list[str]:
    """Who waits for the assignment is answered in the order of arrival."""
    return list(waiting)


@SUITE.replaces(membership, "_pending_shrank")
def generation_ends_with_an_unused_id(shard: Shard, group: Group) -> None:
    """A client that asked for an id and went away counts as a member that left."""
    membership._membership_shrank(shard, group)


@SUITE.replaces(loading, "look_for_deleted_topics")
def deletions_without_a_leader_missed(shard: Shard) -> None:
    """Only a shard that is led when a topic is deleted drops the topic's offsets."""
    shard.set_timer(RetentionTimer(), shard.next_expiry_ms)


@SUITE.replaces(Shard, "is_of_deleted_topic")
def topics_told_by_name_only(shard: Shard, topic: str, value: Any) -> bool:
    """A topic that was made again goes on from the offsets of the one before."""
    return shard.topic_id_of(topic) is None


_sound_of_deleted_topics = deletion._of_deleted_topics


@SUITE.replaces(deletion, "_of_deleted_topics")
def tombstone_behind_a_newer_commit(shard: Shard, group: Group, in_flight: Any) -> Any:
    """An offset of a deleted topic is removed although the next topic of its name has a commit on its way."""
    return _sound_of_deleted_topics(shard, group, {})
