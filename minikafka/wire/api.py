"""The Kafka APIs, a row each, and the message classes (imported when first asked for).

Ranges follow what current clients ask for and the baseline of KIP-896. The handler of an API is in the module of
``minikafka.broker.handlers`` that has its name; what the CONTROLLER listener serves, ``minikafka.metadata.controller``
carries out.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property
from importlib import import_module
from typing import Final, Self

from minikafka.wire.schema import VERSION_MAX, Message, VersionRange

NEVER: Final = VERSION_MAX
"""As first flexible version: there is none."""


CLIENTS: Final = frozenset({"CLIENT"})
NODES: Final = frozenset({"REPLICATION"})
ALL: Final = CLIENTS | NODES
BROKERS: Final = frozenset({"CONTROLLER"})
"""What a broker asks of the active controller on its own behalf (as ``broker_id``)."""
FORWARDED: Final = CLIENTS | BROKERS
"""Whichever node is asked passes it on to the active controller."""


class ApiKey(IntEnum):
    """A row: key, versions that messages and handlers are made for, first flexible version, listeners that serve it.

    A flexible version has compact lengths and tagged fields (KIP-482).
    """

    versions: VersionRange
    first_flexible: int
    listeners: frozenset[str]

    def __new__(
        cls, key: int, versions: str = "", first_flexible: int = NEVER, listeners: frozenset[str] = ALL
    ) -> Self:
        self = int.__new__(cls, key)
        self._value_ = key
        self.versions = VersionRange.parse(versions)
        self.first_flexible = first_flexible
        self.listeners = listeners
        return self

    PRODUCE = 0, "3-13", 9, CLIENTS
    FETCH = 1, "4-18", 12, ALL
    LIST_OFFSETS = 2, "1-11", 6, ALL
    METADATA = 3, "0-13", 9, CLIENTS
    OFFSET_COMMIT = 8, "2-10", 8, CLIENTS
    OFFSET_FETCH = 9, "1-10", 6, CLIENTS
    FIND_COORDINATOR = 10, "0-6", 3, CLIENTS
    JOIN_GROUP = 11, "0-9", 6, CLIENTS
    HEARTBEAT = 12, "0-4", 4, CLIENTS
    LEAVE_GROUP = 13, "0-5", 4, CLIENTS
    SYNC_GROUP = 14, "0-5", 4, CLIENTS
    DESCRIBE_GROUPS = 15, "0-6", 5, CLIENTS
    LIST_GROUPS = 16, "0-5", 3, CLIENTS
    SASL_HANDSHAKE = 17, "0-1", NEVER, ALL
    API_VERSIONS = 18, "0-5", 3, ALL
    CREATE_TOPICS = 19, "2-7", 5, FORWARDED
    DELETE_TOPICS = 20, "1-6", 4, FORWARDED
    DELETE_RECORDS = 21, "0-2", 2, CLIENTS
    INIT_PRODUCER_ID = 22, "0-5", 2, CLIENTS
    OFFSET_FOR_LEADER_EPOCH = 23, "2-4", 4, ALL
    ADD_PARTITIONS_TO_TXN = 24, "0-5", 3, ALL
    ADD_OFFSETS_TO_TXN = 25, "0-4", 3, CLIENTS
    END_TXN = 26, "0-5", 3, CLIENTS
    WRITE_TXN_MARKERS = 27, "1-2", 1, ALL
    TXN_OFFSET_COMMIT = 28, "0-6", 3, CLIENTS
    DESCRIBE_ACLS = 29, "1-3", 2, CLIENTS
    CREATE_ACLS = 30, "1-3", 2, FORWARDED
    DELETE_ACLS = 31, "1-3", 2, FORWARDED
    DESCRIBE_CONFIGS = 32, "1-4", 4, CLIENTS
    ALTER_CONFIGS = 33, "0-2", 2, FORWARDED
    ALTER_REPLICA_LOG_DIRS = 34, "1-2", 2, CLIENTS
    DESCRIBE_LOG_DIRS = 35, "1-5", 2, CLIENTS
    SASL_AUTHENTICATE = 36, "0-2", 2, ALL
    CREATE_PARTITIONS = 37, "0-3", 2, FORWARDED
    CREATE_DELEGATION_TOKEN = 38, "1-3", 2, CLIENTS
    RENEW_DELEGATION_TOKEN = 39, "1-2", 2, CLIENTS
    EXPIRE_DELEGATION_TOKEN = 40, "1-2", 2, CLIENTS
    DESCRIBE_DELEGATION_TOKEN = 41, "1-3", 2, CLIENTS
    DELETE_GROUPS = 42, "0-2", 2, CLIENTS
    ELECT_LEADERS = 43, "0-2", 2, FORWARDED
    INCREMENTAL_ALTER_CONFIGS = 44, "0-1", 1, FORWARDED
    ALTER_PARTITION_REASSIGNMENTS = 45, "0-1", 0, FORWARDED
    LIST_PARTITION_REASSIGNMENTS = 46, "0", 0, CLIENTS
    OFFSET_DELETE = 47, "0", NEVER, CLIENTS
    DESCRIBE_CLIENT_QUOTAS = 48, "0-1", 1, CLIENTS
    ALTER_CLIENT_QUOTAS = 49, "0-1", 1, FORWARDED
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, "0", 0, CLIENTS
    ALTER_USER_SCRAM_CREDENTIALS = 51, "0", 0, FORWARDED
    DESCRIBE_QUORUM = 55, "0-2", 0, CLIENTS
    ALTER_PARTITION = 56, "3", 0, BROKERS
    UPDATE_FEATURES = 57, "0-2", 0, FORWARDED
    DESCRIBE_CLUSTER = 60, "0-2", 0, CLIENTS
    DESCRIBE_PRODUCERS = 61, "0", 0, CLIENTS
    BROKER_REGISTRATION = 62, "4", 0, BROKERS
    BROKER_HEARTBEAT = 63, "1", 0, BROKERS
    UNREGISTER_BROKER = 64, "0", 0, FORWARDED
    DESCRIBE_TRANSACTIONS = 65, "0", 0, CLIENTS
    LIST_TRANSACTIONS = 66, "0-2", 0, CLIENTS
    ALLOCATE_PRODUCER_IDS = 67, "0", 0, BROKERS
    CONSUMER_GROUP_HEARTBEAT = 68, "0-1", 0, CLIENTS
    CONSUMER_GROUP_DESCRIBE = 69, "0-1", 0, CLIENTS
    ASSIGN_REPLICAS_TO_DIRS = 73, "0", 0, BROKERS
    LIST_CONFIG_RESOURCES = 74, "0-1", 0, CLIENTS
    DESCRIBE_TOPIC_PARTITIONS = 75, "0", 0, CLIENTS

    @property
    def camel_name(self) -> str:
        """Kafka's name of the API: ``OffsetForLeaderEpoch``."""
        return self.name.title().replace("_", "")

    @property
    def announced_versions(self) -> VersionRange:
        """What ApiVersions says.

        Produce is offered from version 0 although versions 0 to 2 are refused: librdkafka before its fix of
        KAFKA-18659 stops compressing, silently, when version 0 is not offered.
        """
        return VersionRange(0, self.versions.last) if self is ApiKey.PRODUCE else self.versions

    @cached_property
    def request_class(self) -> type[Message]:
        """Imports its module when first asked for."""
        return self._message_class("Request")

    @cached_property
    def response_class(self) -> type[Message]:
        """Imports its module when first asked for."""
        return self._message_class("Response")

    def _message_class(self, kind: str) -> type[Message]:
        module = import_module(f"minikafka.wire.messages.{self.name.lower()}")
        cls: type[Message] = getattr(module, self.camel_name + kind)
        return cls


FIRST_FLEXIBLE: Final[dict[int, int]] = {int(key): key.first_flexible for key in ApiKey}
FIRST_TAGGED: Final = FIRST_FLEXIBLE | {int(ApiKey.API_VERSIONS): NEVER}
"""Response headers have tagged fields from there on; never those of ApiVersions, whose client cannot know what the
broker speaks."""
