"""Finds positions that are no longer in their log: it was truncated by an unclean election, or is another topic's.

A log is unchanged up to an offset if the offset's leader epoch ended there or later (KIP-320). While the log's newest
epoch is that of the offset, and its end is beyond, no question is needed. So leaders are asked once per change of
leadership.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.model import EARLIEST, NO_EPOCH, NO_OFFSET, OffsetAndEpoch, TopicPartition
from minikafka.spark.source.losses import report_loss
from minikafka.spark.source.offsets import Offsets

if TYPE_CHECKING:
    from minikafka.spark.cluster import Cluster


class Truncations:
    """``fail`` raises an error for each one; otherwise the stream goes on at a new offset."""

    def __init__(self, *, fail: bool) -> None:
        self._fail = fail
        self._good: dict[TopicPartition, tuple[OffsetAndEpoch, int]] = {}  # offset, and the epoch in which it was valid

    def moved(self, cluster: Cluster, known: Offsets, logs: Offsets) -> dict[TopicPartition, OffsetAndEpoch]:
        """New positions for those of ``known`` whose logs, with ends ``logs``, have changed.

        It is the point of divergence; without an epoch, the end of the log; without a common part (a topic that was
        deleted and created again), the beginning.
        """
        suspects = {tp: stood for tp, stood in known.items() if self._is_suspect(tp, stood, logs[tp])}
        parted = cluster.truncated(suspects)
        moved: dict[TopicPartition, OffsetAndEpoch] = {}
        for tp, stood in suspects.items():
            agreed = parted.get(tp)
            if agreed is None and stood.epoch != NO_EPOCH:
                # The log is whole. If its end seems to be before, the new leader has not heard of its followers yet.
                self._good[tp] = (stood, logs[tp].epoch)
                continue
            self._report(tp, stood, logs[tp], agreed)
            moved[tp] = logs[tp] if agreed is None else agreed
        others = [tp for tp, begin in moved.items() if begin.offset == NO_OFFSET]
        return moved | (cluster.offsets(others, EARLIEST) if others else {})

    def _is_suspect(self, tp: TopicPartition, stood: OffsetAndEpoch, end: OffsetAndEpoch) -> bool:
        if stood.epoch == NO_EPOCH:
            return stood.offset > end.offset
        is_same = stood.epoch == end.epoch and stood.offset <= end.offset
        return not is_same and self._good.get(tp) != (stood, end.epoch)

    def _report(
        self, tp: TopicPartition, stood: OffsetAndEpoch, end: OffsetAndEpoch, agreed: OffsetAndEpoch | None
    ) -> None:
        if agreed is None or agreed.offset == end.offset:
            how = f"its log ends at {end.offset}: it was truncated, or the topic was deleted and created again"
        elif agreed.offset == NO_OFFSET:
            how = "its log has nothing in common with what was read: the topic was deleted and created again"
        else:
            how = f"its log is the same only up to {agreed.offset}, the rest was truncated"
        report_loss(f"{tp} was read up to offset {stood.offset} (epoch {stood.epoch}), but {how}", fail=self._fail)
