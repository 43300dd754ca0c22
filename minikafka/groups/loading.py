"""Begin and end of a shard: groups are restored from the replayed records, and waiting requests are answered."""

from __future__ import annotations

from minikafka.errors import ErrorCode
from minikafka.groups.deletion import look_for_deleted_topics
from minikafka.groups.group import Group, GroupState, Member
from minikafka.groups.rebalance import fail_parked_joins, fail_parked_syncs, maybe_prepare_rebalance
from minikafka.groups.records import GroupMetadataValue, MemberMetadata
from minikafka.groups.shard import Shard
from minikafka.groups.timers import RetentionTimer, WriteTimer
from minikafka.model import NO_TIMESTAMP


def begin_restoring(shard: Shard) -> None:
    """The whole log is replayed: begin to restore its groups."""
    shard.unrestored.extend(shard.groups)
    shard.next_expiry_ms = shard.now_ms + shard.settings.offsets_retention_check_interval_ms


def restore_some(shard: Shard) -> None:
    """Restore some groups as last persisted; their members' sessions begin anew."""
    for _ in range(min(len(shard.unrestored), shard.settings.groups_per_step)):
        group = shard.groups.get(shard.unrestored.popleft())  # the end of a transaction may have removed it
        if group is not None and group.is_consumer:
            _restore_consumers(shard, group)
        elif group is not None and group.persisted is not None:
            _restore(shard, group, group.persisted)
            shard.weigh(group)
    if not shard.unrestored:
        look_for_deleted_topics(shard)


def _restore(shard: Shard, group: Group, persisted: GroupMetadataValue) -> None:
    group.generation_id = persisted.generation
    group.protocol_type = persisted.protocol_type or None
    if not persisted.members:
        if persisted.current_state_timestamp != NO_TIMESTAMP:
            group.empty_since_ms = shard.now_ms - max(0, shard.age_clock_ms() - persisted.current_state_timestamp)
        return
    group.protocol_name = persisted.protocol
    for metadata in persisted.members:
        member = _member(metadata, persisted.protocol)
        group.add(member)
        shard.extend_session(group, member, member.session_timeout_ms)
    if persisted.leader in group.members:
        group.leader_id = persisted.leader
    group.state = GroupState.STABLE
    # Nobody has led this generation: it was a consumer group, and the partitions of who left it are free.
    if persisted.leader is None or len(group.members) > shard.settings.max_size:
        maybe_prepare_rebalance(shard, group)


def _restore_consumers(shard: Shard, group: Group) -> None:
    """Sessions begin anew, and so does the time of members that must give partitions up."""
    assert group.consumer is not None
    shard.match_sessions(group)
    shard.match_revocations(group, group.consumer)


def _member(metadata: MemberMetadata, protocol: str | None) -> Member:
    return Member(
        member_id=metadata.member_id,
        group_instance_id=metadata.group_instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=metadata.rebalance_timeout,
        session_timeout_ms=metadata.session_timeout,
        protocols=((protocol or "", metadata.subscription),),
        assignment=metadata.assignment,
    )


def resign(shard: Shard) -> None:
    """Another broker leads the shard: waiting requests get NOT_COORDINATOR, every timer is cancelled.

    The new leader's log decides the fate of pending writes; here they count as failed.
    """
    for group in shard.groups.values():
        fail_parked_joins(shard, group, ErrorCode.NOT_COORDINATOR)
        fail_parked_syncs(shard, group, ErrorCode.NOT_COORDINATOR)
        for member_id in (*group.members, *sorted(group.pending_members)):
            shard.end_session(group, member_id)
        shard.end_phase(group)
        for member_id in () if group.consumer is None else list(group.consumer.sessions):
            shard.end_consumer_session(group, member_id)
        group.state = GroupState.DEAD  # the end of a write has no effect on it any more
        shard.memory.held_bytes -= group.held_bytes
        shard.offsets_memory.held_bytes -= group.held_offsets_bytes
        shard.offsets_memory.pending_bytes -= group.held_pending_bytes
    shard.groups.clear()
    shard.open_transactions.clear()
    for write_id, write in shard.writes.items():
        if write.done is not None:
            shard.cancel_timer(WriteTimer(write_id))
            write.finish(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    shard.forget_writes()
    shard.cancel_timer(RetentionTimer())
