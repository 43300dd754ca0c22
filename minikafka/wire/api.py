"""The Kafka APIs: keys, the versions minikafka supports, and the message classes (imported when first asked for).

What a broker advertises is the part of ``SUPPORTED`` for which it has handlers; ranges follow what current clients
ask for and the baseline of KIP-896.
"""

from __future__ import annotations

from enum import IntEnum
from importlib import import_module
from typing import Final

from minikafka.wire.schema import VERSION_MAX, Message, VersionRange


class ApiKey(IntEnum):
    """Kafka's API keys, those that minikafka has messages for."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_QUORUM = 55
    DESCRIBE_CLUSTER = 60
    UNREGISTER_BROKER = 64
    DESCRIBE_TOPIC_PARTITIONS = 75

    @property
    def camel_name(self) -> str:
        """Kafka's name of the API: ``OffsetForLeaderEpoch``."""
        return self.name.title().replace("_", "")


SUPPORTED: Final[dict[ApiKey, VersionRange]] = {
    ApiKey.PRODUCE: VersionRange(3, 11),
    ApiKey.FETCH: VersionRange(4, 18),
    ApiKey.LIST_OFFSETS: VersionRange(1, 8),
    ApiKey.METADATA: VersionRange(0, 13),
    ApiKey.OFFSET_COMMIT: VersionRange(2, 9),
    ApiKey.OFFSET_FETCH: VersionRange(1, 9),
    ApiKey.FIND_COORDINATOR: VersionRange(0, 4),
    ApiKey.JOIN_GROUP: VersionRange(0, 9),
    ApiKey.HEARTBEAT: VersionRange(0, 4),
    ApiKey.LEAVE_GROUP: VersionRange(0, 5),
    ApiKey.SYNC_GROUP: VersionRange(0, 5),
    ApiKey.DESCRIBE_GROUPS: VersionRange(0, 5),
    ApiKey.LIST_GROUPS: VersionRange(0, 5),
    ApiKey.SASL_HANDSHAKE: VersionRange(0, 1),
    ApiKey.API_VERSIONS: VersionRange(0, 4),
    ApiKey.CREATE_TOPICS: VersionRange(2, 7),
    ApiKey.DELETE_TOPICS: VersionRange(1, 6),
    ApiKey.DELETE_RECORDS: VersionRange(0, 2),
    ApiKey.INIT_PRODUCER_ID: VersionRange(0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: VersionRange(2, 4),
    ApiKey.DESCRIBE_CONFIGS: VersionRange(1, 4),
    ApiKey.ALTER_CONFIGS: VersionRange(0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: VersionRange(1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: VersionRange(1, 4),
    ApiKey.SASL_AUTHENTICATE: VersionRange(0, 2),
    ApiKey.CREATE_PARTITIONS: VersionRange(0, 3),
    ApiKey.DELETE_GROUPS: VersionRange(0, 2),
    ApiKey.ELECT_LEADERS: VersionRange(0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: VersionRange(0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: VersionRange(0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: VersionRange(0, 0),
    ApiKey.OFFSET_DELETE: VersionRange(0, 0),
    ApiKey.DESCRIBE_QUORUM: VersionRange(0, 2),
    ApiKey.DESCRIBE_CLUSTER: VersionRange(0, 2),
    ApiKey.UNREGISTER_BROKER: VersionRange(0, 0),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: VersionRange(0, 0),
}
"""The versions that minikafka's messages and handlers are made for."""

FIRST_FLEXIBLE: Final[dict[int, int]] = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 6,
    ApiKey.METADATA: 9,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 6,
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.JOIN_GROUP: 6,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 4,
    ApiKey.SYNC_GROUP: 4,
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.LIST_GROUPS: 3,
    ApiKey.SASL_HANDSHAKE: VERSION_MAX,
    ApiKey.API_VERSIONS: 3,
    ApiKey.CREATE_TOPICS: 5,
    ApiKey.DELETE_TOPICS: 4,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.INIT_PRODUCER_ID: 2,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.ALTER_CONFIGS: 2,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 2,
    ApiKey.DESCRIBE_LOG_DIRS: 2,
    ApiKey.SASL_AUTHENTICATE: 2,
    ApiKey.CREATE_PARTITIONS: 2,
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
    ApiKey.OFFSET_DELETE: VERSION_MAX,
    ApiKey.DESCRIBE_QUORUM: 0,
    ApiKey.DESCRIBE_CLUSTER: 0,
    ApiKey.UNREGISTER_BROKER: 0,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: 0,
}
"""The first version with compact lengths and tagged fields (KIP-482); VERSION_MAX when there is none."""


def advertised_versions(api_key: ApiKey) -> VersionRange:
    """What ApiVersions says of an API.

    Produce is offered from version 0 although versions 0 to 2 are refused: librdkafka before its fix of
    KAFKA-18659 stops compressing, silently, when version 0 is not offered.
    """
    versions = SUPPORTED[api_key]
    return VersionRange(0, versions.last) if api_key is ApiKey.PRODUCE else versions


def request_header_version(api_key: int, version: int) -> int:
    """1, or 2 for flexible versions (KIP-482). Raises KeyError for an unknown API."""
    return 2 if version >= FIRST_FLEXIBLE[api_key] else 1


def response_header_version(api_key: int, version: int) -> int:
    """0, or 1 for flexible versions; always 0 for ApiVersions, whose client cannot know what the broker speaks.

    Raises KeyError for an unknown API.
    """
    return 1 if version >= FIRST_FLEXIBLE[api_key] and api_key != ApiKey.API_VERSIONS else 0


def request_class(api_key: ApiKey) -> type[Message]:
    """The request's message class; imports its module when first asked for."""
    return _message_class(api_key, "Request")


def response_class(api_key: ApiKey) -> type[Message]:
    """The response's message class; imports its module when first asked for."""
    return _message_class(api_key, "Response")


def _message_class(api_key: ApiKey, kind: str) -> type[Message]:
    module = import_module(f"minikafka.wire.messages.{api_key.name.lower()}")
    cls: type[Message] = getattr(module, api_key.camel_name + kind)
    return cls
