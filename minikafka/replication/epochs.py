"""The common part of two logs, found by leader epochs (rows E2-E6; KIP-101, KIP-279, KIP-320, KIP-595).

A leader epoch has one leader, and only that leader assigns offsets in it. So two logs agree on every record of an epoch
that both hold, up to the end of the shorter one. The rules here find that point. They see a log only through
:class:`ReplicaLog`, so leader, follower and test model share them.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_EPOCH, NO_OFFSET, OffsetAndEpoch, TopicPartition


class EpochLog(Protocol):
    """Read-only view of a log: its start, its end and its epochs."""

    @property
    def log_start_offset(self) -> int:
        """Offset of the first record that exists."""

    @property
    def log_end_offset(self) -> int:
        """Offset of the next record."""

    @property
    def latest_epoch(self) -> int:
        """The newest epoch in the cache; -1 when it is empty."""

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Row E2: the largest epoch <= ``epoch`` in this log and its end; (-1, -1) when undefined."""


class ReplicaLog(EpochLog, Protocol):
    """A follower's log, with the high watermark this replica knows."""

    @property
    def high_watermark(self) -> int:
        """min(own log end, last high watermark from the leader)."""


class Truncation(NamedTuple):
    """The offset at which a follower cuts its log, and whether the logs agree after that."""

    offset: int
    is_complete: bool  # False: cut, then ask again with the new latest epoch (row E5)


def truncation_offset(asked_epoch: int, answer: OffsetAndEpoch, log: ReplicaLog) -> Truncation:
    """Where to cut ``log``, given the leader's answer to "where does ``asked_epoch`` end?" (row E5).

    An undefined answer: all epochs of the leader are older than ``asked_epoch``, so it has no records of that epoch.
    Cut them and ask for the epoch before. If that would remove records below the own high watermark (the leader was
    elected uncleanly, or lost its cache), cut at the high watermark instead.
    """
    log_end_offset = log.log_end_offset
    if answer.epoch == NO_EPOCH or answer.offset == NO_OFFSET:
        before = log.end_offset_for_epoch(asked_epoch - 1)
        high_watermark = min(log.high_watermark, log_end_offset)
        if before.offset <= max(high_watermark, log.log_start_offset):
            return Truncation(high_watermark, True)
        return Truncation(min(before.offset, log_end_offset), False)
    ours = log.end_offset_for_epoch(answer.epoch)
    if ours.epoch == NO_EPOCH:
        return Truncation(min(answer.offset, log_end_offset), True)
    if ours.epoch != answer.epoch:
        return Truncation(min(ours.offset, log_end_offset), False)
    return Truncation(min(ours.offset, answer.offset, log_end_offset), True)


def diverging_epoch(log: EpochLog, fetch_offset: int, last_fetched_epoch: int) -> OffsetAndEpoch | None:
    """Leader side: end of the common part with a fetcher's log, which ends in ``last_fetched_epoch`` (KIP-595).

    None when that log is a prefix of this one, or when the fetcher named no epoch (-1 or less). Raises
    KafkaError(OFFSET_OUT_OF_RANGE) below the log start, and for an epoch later than all of this log.
    """
    if last_fetched_epoch <= NO_EPOCH:
        return None
    if last_fetched_epoch == log.latest_epoch and log.log_start_offset <= fetch_offset <= log.log_end_offset:
        return None  # a follower that keeps up asks this several times for each record
    end = log.end_offset_for_epoch(last_fetched_epoch)
    if end.epoch == NO_EPOCH or end.offset == NO_OFFSET:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"epoch {last_fetched_epoch} is newer than any in this log (latest {log.latest_epoch})",
        )
    if fetch_offset < log.log_start_offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {fetch_offset} is below the log start {log.log_start_offset}"
        )
    if end.epoch < last_fetched_epoch or end.offset < fetch_offset:
        return end
    return None


def check_leader_epoch(topic_partition: TopicPartition, leader_epoch: int, current_leader_epoch: int) -> None:
    """Check the leader epoch in a request (rows E3, E6); -1: the request has none.

    Raises KafkaError(FENCED_LEADER_EPOCH) for an epoch behind this replica's, KafkaError(UNKNOWN_LEADER_EPOCH) for one
    ahead of it.
    """
    if current_leader_epoch in (NO_EPOCH, leader_epoch):
        return
    if current_leader_epoch < leader_epoch:
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"{topic_partition} is in leader epoch {leader_epoch}, the request in {current_leader_epoch}",
        )
    raise KafkaError(
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        f"{topic_partition} knows leader epoch {leader_epoch} here, the request {current_leader_epoch}",
    )
