"""Value types shared by every layer: how a partition, an offset, a node and a place to connect to are named.

Nothing here has behaviour beyond being compared, hashed and printed.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
NO_NODE: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
LATEST: Final = -1  # asked for in place of a time: the end of a log
EARLIEST: Final = -2  # and its start
ZERO_TOPIC_ID: Final = UUID(int=0)
UNASSIGNED_DIRECTORY: Final = UUID(int=0)  # the replica's log directory is not known to the cluster (KIP-858)
LOST_DIRECTORY: Final = UUID(int=1)  # Kafka's id for a directory that is gone: a replica said to be there is offline

ANONYMOUS: Final = "ANONYMOUS"
"""The user of a connection that nobody authenticated."""

CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
CLUSTER_METADATA_TOPIC_ID: Final = UUID(int=1)  # the id Apache Kafka reserves for it
CONSUMER_OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
TOPIC_NAME_LENGTH_MAX: Final = 249
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC})


class TopicPartition(NamedTuple):
    """A partition of a topic; printed ``topic-partition`` as Kafka prints it and names its directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


METADATA_PARTITION: Final = TopicPartition(CLUSTER_METADATA_TOPIC, 0)
"""The metadata log."""


class OffsetAndEpoch(NamedTuple):
    """An offset and the leader epoch it belongs to (-1, -1 when undefined)."""

    offset: int
    epoch: int


class ProducerIdentity(NamedTuple):
    """What an idempotent or transactional producer writes into its batches and requests."""

    producer_id: int
    epoch: int


UNDEFINED_OFFSET_AND_EPOCH: Final = OffsetAndEpoch(NO_OFFSET, NO_EPOCH)


class Endpoint(NamedTuple):
    """Where a listener is reached."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Isolation(IntEnum):
    """What a consumer may see (KIP-98): everything below the high watermark, or below the last stable offset."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class TimestampType(IntEnum):
    """Who stamped a record: its producer, or the broker on append."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Compression(IntEnum):
    """The codec in a record batch's attributes (bits 0-2)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4
