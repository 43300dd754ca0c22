"""How large a batch of a topic may be: none is made that its brokers would refuse as a whole because of one setting.

What counts for brokers is the size after compression, and for cutting rows into batches the size before: a batch of
several rows always fits. A row that is too large by itself fails, in words that say which setting is in its way.
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
    """Of batches for one topic, in bytes."""

    topic: str
    wanted: int  # of a batch of many rows
    topic_max: int | None  # None: its brokers do not say
    request_max: int

    @classmethod
    def of(cls, cluster: Cluster, topic: str, wanted: int) -> Self:
        """Ask what the topic takes."""
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
