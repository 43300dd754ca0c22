"""Finds streams that stand where their log does not lead any more: truncated by an unclean election, or another topic.

A log is the same up to an offset when the leader epoch that goes with the offset ended there or later (KIP-320). As
long as a log's newest epoch is that of the offset and its end lies beyond, no question is needed; so leaders are asked
once for each change of leadership.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.model import NO_EPOCH, NO_OFFSET, OffsetAndEpoch, TopicPartition
from minikafka.spark.options import EARLIEST
from minikafka.spark.source.losses import report_loss
from minikafka.spark.source.offsets import Offsets

if TYPE_CHECKING:
    from minikafka.spark.cluster import Cluster


class Truncations:
    """``fail`` raises what is found; otherwise it is told where to go on."""

    def __init__(self, *, fail: bool) -> None:
        self._fail = fail
        self._good: dict[TopicPartition, tuple[OffsetAndEpoch, int]] = {}  # offset, and the epoch in which it was good

    def moved(self, cluster: Cluster, known: Offsets, logs: Offsets) -> dict[TopicPartition, OffsetAndEpoch]:
        """Where to go on in those of ``known`` whose logs, which end at ``logs``, are not the same any more.

        That is where the logs parted; without an epoch, the end of the log; in a log with nothing in common (a topic
        that was deleted and created again) its beginning.
        """
        suspects = {tp: stood for tp, stood in known.items() if self._is_suspect(tp, stood, logs[tp])}
        parted = cluster.truncated(suspects)
        moved: dict[TopicPartition, OffsetAndEpoch] = {}
        for tp, stood in suspects.items():
            agreed = parted.get(tp)
            if agreed is None and stood.epoch != NO_EPOCH:
                # The log has it all. If its end seems to lie before, a new leader has yet to hear of its followers.
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
