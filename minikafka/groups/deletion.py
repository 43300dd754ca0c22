"""How groups and offsets come to an end: DeleteGroups, deleted topics, and the retention sweep.

Retention (KIP-211): the offsets of a group of the ``consumer`` kind live as long as it has members, and
``offsets.retention.minutes`` from when it became empty; those of topics that a stable group no longer subscribes to,
and those of groups that only store offsets, from their commit. An offset that was committed with its own retention
lives that long from its commit. A group that is empty and has no offsets left is removed.

An offset whose next commit is on its way is never expired: a tombstone written behind the commit would remove it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from minikafka.errors import ErrorCode
from minikafka.groups.answers import group_write_error
from minikafka.groups.commits import tombstones
from minikafka.groups.effects import RetentionTimer, Token
from minikafka.groups.group import CommittedOffset, Group, GroupState
from minikafka.groups.records import GroupMetadataKey, GroupMetadataRecord, GroupRecord
from minikafka.groups.shard import Shard
from minikafka.groups.subscriptions import subscribed_topics
from minikafka.model import NO_TIMESTAMP, TopicPartition
from minikafka.wire.messages.delete_groups import DeletableGroupResult


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


def forget_topics(shard: Shard, topics: Collection[str]) -> None:
    """These topics were deleted: remove what any group committed for them, or is about to."""
    in_flight = list(shard.offsets_in_flight())
    for group in list(shard.groups.values()):
        doomed = dict.fromkeys(at for at in group.offsets if at.topic in topics)
        doomed |= dict.fromkeys(at for name, at in in_flight if name == group.group_id and at.topic in topics)
        _write_in_parts(shard, group, tombstones(group, doomed))


def sweep(shard: Shard) -> None:
    """Expire offsets and remove groups that are over, in as many steps as it takes; then wait for the next time."""
    unswept, settings = shard.unswept, shard.settings
    if not unswept:
        unswept.extend(shard.groups)
    being_committed = set(shard.offsets_in_flight())
    for _ in range(min(len(unswept), settings.groups_per_sweep_step)):
        group = shard.groups.get(unswept.popleft())
        if group is not None:
            _sweep_group(shard, group, being_committed)
    delay_ms = settings.sweep_pause_ms if unswept else settings.offsets_retention_check_interval_ms
    shard.set_timer(RetentionTimer(), shard.now_ms + delay_ms)


def _sweep_group(shard: Shard, group: Group, being_committed: Collection[tuple[str, TopicPartition]]) -> None:
    expired = [at for at in _expired_offsets(shard, group) if (group.group_id, at) not in being_committed]
    records: list[GroupRecord] = [*tombstones(group, expired)]
    if len(expired) == len(group.offsets) and _is_over(group):
        records.append(_tombstone(group))
    _write_in_parts(shard, group, records)


def _is_over(group: Group) -> bool:
    """True for a group that is known only from its metadata record, once its offsets are gone."""
    return (
        group.is_in(GroupState.EMPTY)
        and group.persisted is not None
        and not group.pending_members
        and not group.writes_in_flight
    )


def _write_in_parts(shard: Shard, group: Group, records: Sequence[GroupRecord]) -> None:
    """Nobody waits for these; what fails is left to the next sweep."""
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
