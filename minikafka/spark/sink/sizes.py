"""The largest batch of a topic, so that brokers refuse none because of ``max.message.bytes``.

Brokers count the size after compression; rows are cut into batches by the size before. So a batch of several rows
always fits. A single row that is too large fails, and the error names the setting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from minikafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from minikafka.spark.cluster import Cluster
    from minikafka.spark.columns.encode import EncodedBatch


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of batches for one topic, in bytes."""

    topic: str
    wanted: int  # of a batch of many rows
    topic_max: int | None  # None: its brokers do not tell
    request_max: int

    @classmethod
    def of(cls, cluster: Cluster, topic: str, wanted: int) -> Self:
        """Ask the cluster for the topic's limit."""
        topic_max = cluster.max_message_bytes(topic)
        return cls(
            topic,
            wanted if topic_max is None else min(wanted, topic_max),
            topic_max,
            cluster.settings.max_request_bytes,
        )

    def check(self, batch: EncodedBatch) -> None:
        """Raise KafkaError(MESSAGE_TOO_LARGE) for a batch that would be refused."""
        size = len(batch.data)
        if self.topic_max is not None and size > self.topic_max:
            in_the_way = f"the topic's max.message.bytes, {self.topic_max}"
        elif size > self.request_max:
            in_the_way = f"the option 'kafka.max.request.size', {self.request_max}"
        else:
            return
        message = (
            f"a row for {self.topic} takes {size} bytes, more than {in_the_way}; make the row smaller or that larger"
        )
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, message)
