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
import minikafka.groups.transactional_offsets as transactional_offsets
from minikafka.coordination.phase import Phase
from minikafka.errors import ErrorCode
from minikafka.groups.coordinator import GroupCoordinator
from minikafka.groups.group import Group, GroupState
from minikafka.groups.offsets import PendingOffsets, size_in_bytes
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
def offset_acknowledged_before_commit(shard: Shard, group: Group, records: Any, done: Any, *producer: Any) -> None:
    """The committer is answered as soon as the record is written."""
    if getattr(done, "func", None) is commits.offsets_written:
        done(ErrorCode.NONE)
        done = lambda error: None  # noqa: E731
    _sound_commit_write(shard, group, records, done, *producer)


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


@SUITE.replaces(deletion, "_all_partitions")
def commits_on_their_way_overlooked(group: Group) -> dict[Any, None]:
    """The deletion of a group looks only at what is committed."""
    return dict.fromkeys([*group.offsets, *group.pending.partitions])


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
def new_id_not_persisted(shard: Shard, group: Group, _assignments: Any = None) -> Any:
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
def deletions_without_a_leader_missed(shard: Shard, _group_ids: Any = None) -> None:
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
    return _sound_of_deleted_topics(shard, group, ())


_sound_txn_refusal = transactional_offsets._refusal
_sound_end = PendingOffsets.end
_sound_end_transaction = transactional_offsets.end_transaction
_sound_replay = GroupCoordinator.replay
_sound_replay_offset = Shard._replay_offset
_sound_on_marker = GroupCoordinator.on_marker
_sound_candidates = deletion._candidates


@SUITE.replaces(transactional_offsets, "_refusal")
def stale_generation_may_commit_in_a_transaction(shard: Shard, request: Any, version: int) -> ErrorCode:
    """A producer is let pass for what its consumer once was."""
    error = _sound_txn_refusal(shard, request, version)
    return ErrorCode.NONE if error is ErrorCode.ILLEGAL_GENERATION else error


@SUITE.replaces(Shard, "_replay_offset")
def transactions_visible_at_once(shard: Shard, group: Group, record: Any, wall_now_ms: Any, producer_id: int) -> None:
    """Records of a transaction are taken for ordinary ones."""
    _sound_replay_offset(shard, group, record, wall_now_ms, -1)


@SUITE.replaces(PendingOffsets, "end")
def aborts_commit(pending: PendingOffsets, producer_id: int, *, commits: bool) -> Any:
    """Any marker makes the offsets visible."""
    return _sound_end(pending, producer_id, commits=True)


_sound_remove = PendingOffsets.remove


@SUITE.replaces(PendingOffsets, "_is_valid")
def last_marker_counts(pending: PendingOffsets, partition: Any, placed: Any) -> bool:
    """A transaction that ends late puts its offset over one whose record came later."""
    return True


@SUITE.replaces(PendingOffsets, "remove")
def tombstone_leaves_what_is_pending(pending: PendingOffsets, partition: Any) -> list[int]:
    """An offset that was deleted comes back with the end of its transaction."""
    return []


@SUITE.replaces(transactional_offsets, "end_transaction")
def one_group_of_a_transaction_ends(shard: Shard, producer_id: int, *, commits: bool) -> Any:
    """The marker is applied to the first group only that the producer committed for."""
    transaction = shard.open_transactions.get(producer_id)
    if transaction is not None:
        transaction.groups = dict.fromkeys(list(transaction.groups)[:1])
    return _sound_end_transaction(shard, producer_id, commits=commits)


@SUITE.replaces(GroupCoordinator, "replay")
def loading_forgets_transactions(
    coordinator: GroupCoordinator, key: Any, value: Any, now_ms: int, producer_id: int = -1
) -> bool:
    """The next coordinator skips records of transactions."""
    return True if producer_id >= 0 else _sound_replay(coordinator, key, value, now_ms)


@SUITE.replaces(GroupCoordinator, "on_marker")
def loading_skips_markers(coordinator: GroupCoordinator, producer_id: int, now_ms: int, *, commits: bool) -> Any:
    """The next coordinator holds transactions for open that have ended."""
    return (
        []
        if coordinator.phase is Phase.LOADING
        else _sound_on_marker(coordinator, producer_id, now_ms, commits=commits)
    )


@SUITE.replaces(Group, "is_unstable")
def stable_fetch_overlooks_writes(group: Group, partition: Any) -> bool:
    """A commit that has not arrived in the log of all replicas yet does not make who asks wait."""
    return partition in group.pending


@SUITE.replaces(Group, "is_unstable")
def stable_fetch_overlooks_transactions(group: Group, partition: Any) -> bool:
    """A committed record of an open transaction does not make who asks wait."""
    return partition in group.offsets_in_flight


@SUITE.replaces(Group, "is_forgettable")
def group_forgotten_in_a_transaction(group: Group) -> bool:
    """A group that has nothing but pending offsets is dropped, and they with it."""
    return (
        group.state is GroupState.EMPTY
        and not group.offsets
        and group.persisted is None
        and not group.pending_members
        and not group.writes_in_flight
    )


@SUITE.replaces(deletion, "_sweep_group")
def expiry_overlooks_transactions(shard: Shard, group: Group, in_flight: Any, *, expires: bool) -> None:
    """The tombstone of an expired offset takes with it what a transaction is about to put there."""
    doomed = deletion._of_deleted_topics(shard, group, in_flight)
    if expires:
        doomed |= dict.fromkeys(deletion._expired_offsets(shard, group))
    deletion._write_in_parts(shard, group, deletion.tombstones(group, doomed))


@SUITE.replaces(deletion, "_candidates")
def deletion_overlooks_transactions(group: Group, in_flight: Any) -> Any:
    """An offset of a deleted topic is removed although a transaction has one of the next topic of its name."""
    found = _sound_candidates(group, in_flight)
    return {at: [group.offsets[at].value] if at in group.offsets else values for at, values in found.items()}


@SUITE.replaces(Group, "set_offset")
def a_replaced_offset_keeps_its_memory(group: Group, at: Any, offset: Any) -> None:
    """A node that takes commits for long enough refuses all that are new."""
    group.committed_bytes += size_in_bytes(at, offset.value)
    group.offsets[at] = offset


@SUITE.replaces(PendingOffsets, "end")
def an_ended_offset_keeps_its_memory(pending: PendingOffsets, producer_id: int, *, commits: bool) -> Any:
    """The same of offsets whose transactions are over."""
    held_bytes = pending.held_bytes
    committed = _sound_end(pending, producer_id, commits=commits)
    pending.held_bytes = held_bytes
    return committed


@SUITE.replaces(PendingOffsets, "remove")
def a_transaction_remembers_deleted_groups(pending: PendingOffsets, partition: Any) -> list[int]:
    """One that goes through groups and deletes them keeps their names, which nothing counts."""
    _sound_remove(pending, partition)
    return []
