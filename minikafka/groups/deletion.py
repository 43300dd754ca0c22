"""Removal of groups and offsets: DeleteGroups, deleted topics, and the retention sweep.

Retention (KIP-211): offsets of a consumer group expire ``offsets.retention.minutes`` after its last member left. Two
kinds expire so long after their commit: offsets of topics that a stable group no longer subscribes to, and those of
groups that only store offsets. An offset committed with a retention of its own expires so long after its commit. An
empty group without offsets is removed.

Deleted topics: their offsets are removed when the metadata says that they are deleted; when a shard was loaded, since
the deletion may have come while it had no leader; and with every retention sweep, since the append of a tombstone may
have failed.

An offset with a pending commit stays: a tombstone behind the commit would remove the new offset. Only if the pending
commit, too, is of a deleted topic, the tombstone is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from minikafka.coordination.effects import Token
from minikafka.errors import ErrorCode
from minikafka.groups.answers import group_write_error
from minikafka.groups.commits import tombstones
from minikafka.groups.group import CommittedOffset, Group, GroupState
from minikafka.groups.records import GroupMetadataKey, GroupMetadataRecord, GroupRecord, OffsetCommitValue
from minikafka.groups.shard import Shard
from minikafka.groups.subscriptions import subscribed_topics
from minikafka.groups.timers import RetentionTimer
from minikafka.model import NO_TIMESTAMP, TopicPartition
from minikafka.wire.messages.delete_groups import DeletableGroupResult

SWEEP_WEIGHT: Final = 100
"""Of a step. The shards of a node are told together of a deleted topic: fifty steps in a turn took 90 ms."""


def delete_group(shard: Shard, group_id: str, token: Token) -> None:
    """Remove an empty group with its offsets."""
    group = shard.groups.get(group_id)
    if group is None:
        _answer_deletion(shard, group_id, token, ErrorCode.GROUP_ID_NOT_FOUND)
    elif not group.is_in(GroupState.EMPTY):
        _answer_deletion(shard, group_id, token, ErrorCode.NON_EMPTY_GROUP)
    else:
        doomed = dict.fromkeys(group.offsets)
        doomed |= dict.fromkeys(at for name, at in shard.offsets_in_flight() if name == group_id)
        records: list[GroupRecord] = [*tombstones(group, doomed), _tombstone(group)]
        shard.write(group, records, partial(_answer_deletion, shard, group_id, token))


def _tombstone(group: Group) -> GroupMetadataRecord:
    return GroupMetadataRecord(GroupMetadataKey(group=group.group_id), None)


def _answer_deletion(shard: Shard, group_id: str, token: Token, error: ErrorCode) -> None:
    shard.respond(token, DeletableGroupResult(group_id=group_id, error_code=group_write_error(error)))


InFlight = Mapping[tuple[str, TopicPartition], OffsetCommitValue | None]


def look_for_deleted_topics(shard: Shard) -> None:
    """Begin a sweep that removes the offsets of deleted topics, and of topics about to be deleted."""
    _queue(shard, expires=False)
    shard.set_timer(RetentionTimer(), shard.now_ms, SWEEP_WEIGHT)


def sweep(shard: Shard) -> None:
    """Remove expired offsets and groups, in as many steps as needed; then set the timer for the next sweep."""
    unswept, settings = shard.unswept, shard.settings
    if shard.now_ms >= shard.next_expiry_ms:
        shard.next_expiry_ms = shard.now_ms + settings.offsets_retention_check_interval_ms
        _queue(shard, expires=True)
    in_flight = shard.offsets_in_flight()
    groups_left, offsets_left = settings.groups_per_step, settings.offsets_per_sweep_step
    while unswept and groups_left > 0 and offsets_left > 0:
        group_id, expires = unswept.popitem(last=False)
        group = shard.groups.get(group_id)
        if group is not None:
            offsets_left -= len(group.offsets)
            _sweep_group(shard, group, in_flight, expires=expires)
        groups_left -= 1
    next_ms = shard.now_ms + settings.sweep_pause_ms if unswept else shard.next_expiry_ms
    shard.set_timer(RetentionTimer(), next_ms, SWEEP_WEIGHT)


def _queue(shard: Shard, *, expires: bool) -> None:
    """Queue every group for the sweep. Queued ones keep their place, so every sweep ends."""
    for group_id in shard.groups:
        shard.unswept[group_id] = expires or shard.unswept.get(group_id, False)


def _sweep_group(shard: Shard, group: Group, in_flight: InFlight, *, expires: bool) -> None:
    doomed = _of_deleted_topics(shard, group, in_flight)
    if expires:
        unchanged = (at for at in _expired_offsets(shard, group) if (group.group_id, at) not in in_flight)
        doomed |= dict.fromkeys(unchanged)
    records: list[GroupRecord] = [*tombstones(group, doomed)]
    if expires and group.offsets.keys() <= doomed.keys() and _is_over(group):
        records.append(_tombstone(group))
    _write_in_parts(shard, group, records)


def _of_deleted_topics(shard: Shard, group: Group, in_flight: InFlight) -> dict[TopicPartition, None]:
    """The last commit of each partition counts, also a pending one. A pending tombstone is not written twice."""
    last: dict[TopicPartition, OffsetCommitValue | None] = {at: offset.value for at, offset in group.offsets.items()}
    if group.writes_in_flight:
        last |= {at: value for (name, at), value in in_flight.items() if name == group.group_id}
    return {at: None for at, value in last.items() if value is not None and shard.is_of_deleted_topic(at.topic, value)}


def _is_over(group: Group) -> bool:
    """True for a group of which only the metadata record is left."""
    return (
        group.is_in(GroupState.EMPTY)
        and group.persisted is not None
        and not group.pending_members
        and not group.writes_in_flight
    )


def _write_in_parts(shard: Shard, group: Group, records: Sequence[GroupRecord]) -> None:
    """No request waits for these writes. The next sweep repeats failed ones."""
    size = shard.settings.tombstones_per_write
    for start in range(0, len(records), size):
        shard.write(group, records[start : start + size], lambda error: None)


def _expired_offsets(shard: Shard, group: Group) -> list[TopicPartition]:
    if group.is_in(GroupState.EMPTY):
        in_use: frozenset[str] | None = frozenset()
    else:
        in_use = subscribed_topics(group) if group.is_in(GroupState.STABLE) else None
    if in_use is None:
        return []
    return [
        at for at, committed in group.offsets.items() if at.topic not in in_use and _is_expired(shard, group, committed)
    ]


def _is_expired(shard: Shard, group: Group, committed: CommittedOffset) -> bool:
    value = committed.value
    if value.expire_timestamp != NO_TIMESTAMP:
        return shard.now_ms - committed.committed_at_ms >= value.expire_timestamp - value.commit_timestamp
    unused_since_ms = committed.committed_at_ms
    if group.is_in(GroupState.EMPTY) and group.empty_since_ms is not None:
        unused_since_ms = max(unused_since_ms, group.empty_since_ms)
    return shard.now_ms - unused_since_ms >= shard.settings.offsets_retention_ms
