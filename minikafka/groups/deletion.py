"""Removal of groups and offsets: DeleteGroups, deleted topics, and the retention sweep.

Retention (KIP-211): offsets of a consumer group expire ``offsets.retention.minutes`` after its last member left. Two
kinds expire so long after their commit: offsets of topics that a stable group no longer subscribes to, and those of
groups that only store offsets. An offset committed with a retention of its own expires so long after its commit. An
empty group without offsets is removed.

Deleted topics: their offsets are removed when the metadata says that they are deleted; when a shard was loaded, since
the deletion may have come while it had no leader; and with every retention sweep, since the append of a tombstone may
have failed.

An offset with a commit under way, or in an open transaction, stays: a tombstone behind the commit would remove the new
offset. Only if that, too, is of a deleted topic, the tombstone is written. A group with open transactions stays, too.
DeleteGroups and OffsetDelete take what is pending with them: of their transactions nothing becomes visible there (row
T45).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from minikafka.coordination.effects import Token
from minikafka.errors import ErrorCode
from minikafka.groups.answers import group_write_error
from minikafka.groups.commits import tombstones
from minikafka.groups.group import Group, GroupState
from minikafka.groups.offsets import CommittedOffset
from minikafka.groups.records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupRecord,
    OffsetCommitRecord,
    OffsetCommitValue,
)
from minikafka.groups.shard import Shard
from minikafka.groups.subscriptions import subscribed_topics
from minikafka.groups.timers import RetentionTimer
from minikafka.groups.writes import PendingWrite
from minikafka.model import NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition
from minikafka.wire.messages.delete_groups import DeletableGroupResult

SWEEP_WEIGHT: Final = 100
"""Of a step. The shards of a node are told together of a deleted topic: fifty steps in a turn took 90 ms."""


def delete_group(shard: Shard, group_id: str, token: Token) -> None:
    """Remove an empty group with its offsets."""
    group = shard.groups.get(group_id)
    if group is None:
        _answer_deletion(shard, group_id, token, ErrorCode.GROUP_ID_NOT_FOUND)
    elif not group.is_empty:
        _answer_deletion(shard, group_id, token, ErrorCode.NON_EMPTY_GROUP)
    else:
        records: list[GroupRecord] = [*tombstones(group, _all_partitions(group)), *_last_records(group)]
        shard.write(group, records, partial(_answer_deletion, shard, group_id, token))


def _all_partitions(group: Group) -> Iterable[TopicPartition]:
    """Those that have an offset of the group, or may get one."""
    return dict.fromkeys([*group.offsets, *group.pending.partitions, *group.offsets_in_flight])


def _last_records(group: Group) -> Sequence[GroupRecord]:
    """The tombstones of the group itself. Rows of a consumer group go at once, as always."""
    if group.consumer is None or not group.is_consumer:
        return [GroupMetadataRecord(GroupMetadataKey(group=group.group_id), None)]
    records = group.consumer.tombstones()
    for record in records:
        group.consumer.apply(record)
    return records


def _answer_deletion(shard: Shard, group_id: str, token: Token, error: ErrorCode) -> None:
    shard.respond(token, DeletableGroupResult(group_id=group_id, error_code=group_write_error(error)))


def look_for_deleted_topics(shard: Shard, group_ids: Iterable[str] | None = None) -> None:
    """Begin a sweep of these groups, or all, for offsets of deleted topics, and of topics about to be deleted."""
    shard.forget_topic_ids()
    _queue(shard, shard.groups if group_ids is None else group_ids, expires=False)
    shard.set_timer(RetentionTimer(), shard.now_ms, SWEEP_WEIGHT)


def sweep(shard: Shard) -> None:
    """Remove expired offsets and groups, in as many steps as needed; then set the timer for the next sweep."""
    unswept, settings = shard.unswept, shard.settings
    if shard.now_ms >= shard.next_expiry_ms:
        shard.next_expiry_ms = shard.now_ms + settings.offsets_retention_check_interval_ms
        _queue(shard, shard.groups, expires=True)
    in_flight = shard.writes_by_group()
    groups_left, offsets_left = settings.groups_per_step, settings.offsets_per_sweep_step
    while unswept and groups_left > 0 and offsets_left > 0:
        group_id, expires = unswept.popitem(last=False)
        group = shard.groups.get(group_id)
        if group is not None:
            offsets_left -= len(group.offsets) + len(group.offsets_in_flight) + len(group.members)
            _sweep_group(shard, group, in_flight.get(group_id, ()), expires=expires)
        groups_left -= 1
    next_ms = shard.now_ms + settings.sweep_pause_ms if unswept else shard.next_expiry_ms
    shard.set_timer(RetentionTimer(), next_ms, SWEEP_WEIGHT)


def _queue(shard: Shard, group_ids: Iterable[str], *, expires: bool) -> None:
    """Queue groups for the sweep. Queued ones keep their place, so every sweep ends."""
    for group_id in group_ids:
        shard.unswept[group_id] = expires or shard.unswept.get(group_id, False)


def _sweep_group(shard: Shard, group: Group, in_flight: Iterable[PendingWrite], *, expires: bool) -> None:
    doomed = _of_deleted_topics(shard, group, in_flight)
    if expires:
        unchanged = (at for at in _expired_offsets(shard, group) if not group.is_unstable(at))
        doomed |= dict.fromkeys(unchanged)
    records: list[GroupRecord] = [*tombstones(group, doomed)]
    if expires and group.offsets.keys() <= doomed.keys() and _is_over(group):
        records += _last_records(group)
    _write_in_parts(shard, group, records)


def _of_deleted_topics(shard: Shard, group: Group, in_flight: Iterable[PendingWrite]) -> dict[TopicPartition, None]:
    """Partitions of which nothing is, or may become, the committed offset but offsets of deleted topics."""
    return {
        at: None
        for at, values in _candidates(group, in_flight).items()
        if values and all(shard.is_of_deleted_topic(at.topic, value) for value in values)
    }


def _candidates(group: Group, in_flight: Iterable[PendingWrite]) -> dict[TopicPartition, list[OffsetCommitValue]]:
    """By partition, the committed offset and those that may take its place. A tombstone is not written twice."""
    found = {at: [offset.value] for at, offset in group.offsets.items()}
    for at in group.pending.partitions:
        found.setdefault(at, []).extend(offset.value for offset in group.pending.candidates(at))
    for write in in_flight:
        is_transactional = write.producer_id != NO_PRODUCER_ID
        for record in write.records:
            if isinstance(record, OffsetCommitRecord):
                before = found.get(record.partition, []) if is_transactional else []
                found[record.partition] = before if record.value is None else [*before, record.value]
    return found


def _is_over(group: Group) -> bool:
    """True for a group of which only the metadata record is left."""
    return (
        group.is_empty
        and (group.persisted is not None or group.is_consumer)
        and not group.pending
        and not group.pending_members
        and not group.writes_in_flight
    )


def _write_in_parts(shard: Shard, group: Group, records: Sequence[GroupRecord]) -> None:
    """No request waits for these writes. The next sweep repeats failed ones."""
    size = shard.settings.tombstones_per_write
    for start in range(0, len(records), size):
        shard.write(group, records[start : start + size], lambda error: None)


def _expired_offsets(shard: Shard, group: Group) -> list[TopicPartition]:
    if group.is_empty:
        in_use: frozenset[str] | None = frozenset()
    else:
        is_known = group.is_consumer or group.is_in(GroupState.STABLE)
        in_use = subscribed_topics(group) if is_known else None
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
