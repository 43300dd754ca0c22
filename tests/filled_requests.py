"""A request of any API and version, with something likely in each field."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from live_wire import batch

from minikafka.wire.schema import MessageType, VersionRange

LIKELY: Final[dict[str, Any]] = {
    "replica_id": -1,
    "acks": 1,
    "timeout_ms": 1000,
    "resource_type": 2,
    "endpoint_type": 1,
    "allow_auto_topic_creation": True,
    "include_topic_authorized_operations": True,
    "include_cluster_authorized_operations": True,
    "include_authorized_operations": True,
    "partition_max_bytes": 1 << 20,
    "num_partitions": 1,
    "replication_factor": 1,
    "producer_id": 1,
    "count": 5,
    "current_leader_epoch": -1,
    "log_start_offset": -1,
    "response_partition_limit": 100,
}


def filled(cls: MessageType, version: int, name: str, topic_id: UUID, *, all_of_them: bool = False) -> Any:
    """A request about that name, or, where it can ask for everything, for that."""
    values: dict[str, Any] = {}
    for field_name, field in cls.SCHEMA.items():
        if not VersionRange.parse(field.versions).has(version):
            continue
        if all_of_them and field.array and field.nullable and VersionRange.parse(field.nullable).has(version):
            values[field_name] = None
        elif isinstance(field.type, MessageType):
            element = filled(field.type, version, name, topic_id, all_of_them=all_of_them)
            values[field_name] = [element] if field.array else element
        elif field.array:
            values[field_name] = [] if all_of_them else [{"string": name, "uuid": topic_id}.get(field.type, 0)]
        elif field.type == "string":
            values[field_name] = name
        elif field.type == "uuid":
            values[field_name] = topic_id
        elif field.type == "records":
            values[field_name] = bytes(batch(b"forged"))
        elif field_name in LIKELY:
            values[field_name] = LIKELY[field_name]
    return cls(**values)
