"""What two logs have in common, told from leader epochs (rows E2-E6; KIP-101, KIP-279, KIP-320, KIP-595).

A leader epoch has one leader, which alone gives out offsets in it; so two logs agree on every record of an epoch that
both hold, and agree up to the point where one of them stops having records of the same epoch. The rules here find that
point. They see a log only through :class:`ReplicaLog`, so leader, follower and test model share them.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_EPOCH, NO_OFFSET, OffsetAndEpoch, TopicPartition


class EpochLog(Protocol):
    """What a log can say about its ends and epochs. Nothing here changes it."""

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
        """Row E2: the largest epoch <= ``epoch`` in this log and where it ends; (-1, -1) when undefined."""


class ReplicaLog(EpochLog, Protocol):
    """A follower's log, with the high watermark this replica knows."""

    @property
    def high_watermark(self) -> int:
        """min(own log end, the last high watermark the leader told)."""


class Truncation(NamedTuple):
    """Where a follower cuts its log, and whether that settles it."""

    offset: int
    is_complete: bool  # False: cut, then ask again with the epoch that is then the latest (row E5)


def truncation_offset(asked_epoch: int, answer: OffsetAndEpoch, log: ReplicaLog) -> Truncation:
    """Where ``log`` leaves the leader's, given its answer to "where does ``asked_epoch`` end?" (row E5).

    An undefined answer means that every epoch the leader has is older than ``asked_epoch``, so it has none of our
    records of that epoch: cut them and ask for the epoch before. Only where that would remove records below our high
    watermark (the leader was elected uncleanly, or lost its cache) is the high watermark itself the last resort.
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
    """Leader side: where a fetcher that ends with ``last_fetched_epoch`` at ``fetch_offset`` left this log (KIP-595).

    None when its log is a prefix of this one, or when it does not say (-1). Raises KafkaError(OFFSET_OUT_OF_RANGE)
    below the log start, and when its epoch is unknown here, which no lookup in this log can settle.
    """
    if last_fetched_epoch == NO_EPOCH:
        return None
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
    """Fence a caller by the epoch it names (rows E3, E6); -1 means it names none.

    Raises KafkaError(FENCED_LEADER_EPOCH) for one behind this replica and KafkaError(UNKNOWN_LEADER_EPOCH) for one
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
