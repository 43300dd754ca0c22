"""The ends of the logs of a stream, with a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import LATEST, TopicPartition
from minikafka.spark.options import TopicChoice
from minikafka.spark.source.bounds import chosen_partitions, ids_of, remaining_partitions
from minikafka.spark.source.offsets import StreamOffset

if TYPE_CHECKING:
    from minikafka.spark.cluster import Cluster


class EndsOfLogs:
    """Partitions, ids of their topics and end offsets; each cached for an interval.

    Ids are asked before ends: a topic that is created again in between is noticed when it is read.
    """

    def __init__(self, choice: TopicChoice, poll_interval_ms: int, metadata_interval_ms: int) -> None:
        self._choice = choice
        self._poll_interval_ms = poll_interval_ms
        self._metadata_interval_ms = metadata_interval_ms
        self._partitions: list[TopicPartition] | None = None
        self._topic_ids: dict[str, str] = {}
        self._partitions_until_ms = 0
        self._ends_until_ms = 0
        self.last: StreamOffset | None = None

    def now(self, cluster: Cluster, now_ms: int, *, is_new: bool = False) -> StreamOffset:
        """The end of each partition, in order; ``is_new`` ignores the cache."""
        if self.last is None or is_new or now_ms >= self._ends_until_ms:
            self.last = self._ends(cluster, now_ms, is_new)
            self._ends_until_ms = now_ms + self._poll_interval_ms
        return self.last

    def _ends(self, cluster: Cluster, now_ms: int, is_new: bool) -> StreamOffset:
        has_begun = self._partitions is not None
        try:
            ends = cluster.offsets(self._partitions_now(cluster, now_ms, is_new), LATEST)
        except KafkaError as error:
            if not has_begun or error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            ends = cluster.offsets(self._partitions_now(cluster, now_ms, True), LATEST)  # one was deleted meanwhile
        return StreamOffset(ends, topic_ids=self._topic_ids)

    def _partitions_now(self, cluster: Cluster, now_ms: int, is_new: bool) -> list[TopicPartition]:
        if self._partitions is None:  # when the stream begins, every named topic must exist
            self._partitions = chosen_partitions(cluster, self._choice)
        elif is_new or now_ms >= self._partitions_until_ms:
            self._partitions = remaining_partitions(cluster, self._choice)
        else:
            return self._partitions
        self._topic_ids = ids_of(cluster, self._partitions)
        self._partitions_until_ms = now_ms + self._metadata_interval_ms
        return self._partitions
