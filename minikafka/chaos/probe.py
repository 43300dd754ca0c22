"""A metadata request over a bare socket: live brokers, controller, leaders and ISRs.

It takes milliseconds and no client: so it can be repeated often while nodes start.
"""

from __future__ import annotations

import socket
from typing import Final, NamedTuple

from minikafka.model import Endpoint
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode_exactly, encode
from minikafka.wire.errors import WireError
from minikafka.wire.headers import decode_response_header, encode_request
from minikafka.wire.messages.metadata import MetadataRequest, MetadataResponse

_VERSION: Final = 9
_FRAME_SIZE_MAX: Final = 64 << 20


class PartitionView(NamedTuple):
    """One partition in a broker's answer."""

    topic: str
    partition: int
    leader_id: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]

    @property
    def under_replicated(self) -> bool:
        """True when a replica is missing from the in-sync replicas."""
        return len(self.in_sync_replicas) < len(self.replicas)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} (replicas {list(self.replicas)}, in sync {list(self.in_sync_replicas)})"


class ClusterView(NamedTuple):
    """The cluster in one broker's answer."""

    cluster_id: str
    controller_id: int
    broker_ids: frozenset[int]
    partitions: tuple[PartitionView, ...]

    @property
    def leaderless(self) -> tuple[PartitionView, ...]:
        """Partitions without a leader: no client can write or read them."""
        return tuple(partition for partition in self.partitions if partition.leader_id not in self.broker_ids)

    @property
    def fully_replicated(self) -> bool:
        """True when every partition has a leader and all its replicas in sync."""
        return not self.leaderless and not any(partition.under_replicated for partition in self.partitions)

    @property
    def has_controller(self) -> bool:
        """True when there is a controller and it is a live broker."""
        return self.controller_id in self.broker_ids

    def __str__(self) -> str:
        controller = f"controller {self.controller_id}" if self.has_controller else "no controller"
        missing = ", ".join(str(p) for p in self.partitions if p.under_replicated) or "none"
        return f"{controller}; live brokers {sorted(self.broker_ids)}; under-replicated partitions: {missing}"


def probe(endpoint: Endpoint, timeout_s: float = 1.0) -> ClusterView | None:
    """The view of the broker at `endpoint`; None without a valid answer in time."""
    try:
        with socket.create_connection(endpoint, timeout=timeout_s) as connection:
            connection.sendall(_request())
            return _view(_receive(connection))
    except (OSError, EOFError, WireError):
        return None


def _request() -> bytes:
    body = encode(MetadataRequest(topics=None, allow_auto_topic_creation=False), _VERSION)
    return encode_request(ApiKey.METADATA, _VERSION, 1, "minikafka-probe", body)


def _receive(connection: socket.socket) -> bytes:
    size = int.from_bytes(_receive_exactly(connection, 4), signed=True)
    if not 0 <= size <= _FRAME_SIZE_MAX:
        raise WireError(f"a response of {size} bytes")
    return _receive_exactly(connection, size)


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(min(size - len(received), 1 << 16))
        if not chunk:
            raise EOFError
        received += chunk
    return bytes(received)


def _view(frame: bytes) -> ClusterView:
    _, position = decode_response_header(frame, ApiKey.METADATA, _VERSION)
    response = decode_exactly(MetadataResponse, _VERSION, frame, position)
    return ClusterView(
        response.cluster_id or "",
        response.controller_id,
        frozenset(broker.node_id for broker in response.brokers),
        tuple(
            PartitionView(
                topic.name or "",
                partition.partition_index,
                partition.leader_id,
                tuple(partition.replica_nodes),
                tuple(partition.isr_nodes),
            )
            for topic in response.topics
            for partition in topic.partitions
        ),
    )
