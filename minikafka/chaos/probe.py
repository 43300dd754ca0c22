"""A metadata request over a bare socket: who is up, who is the controller, who leads, who is in sync.

It costs a few milliseconds and no client, so that it can be asked every few milliseconds while nodes start. As a
program it is the health check of a container: ``python -m minikafka.chaos.probe [HOST:PORT NODE_ID]`` exits with 0 when
the node there answers, counts itself among the live brokers and knows a controller. Without arguments the node is the
one that the environment's ``MINIKAFKA_`` settings describe.
"""

from __future__ import annotations

import os
import socket
import sys
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
    """One partition as a broker describes it."""

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
    """The cluster as one broker sees it."""

    cluster_id: str
    controller_id: int
    broker_ids: frozenset[int]
    partitions: tuple[PartitionView, ...]

    @property
    def leaderless(self) -> tuple[PartitionView, ...]:
        """Partitions that nobody can write or read now."""
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
    """The view of the broker at `endpoint`, or None when it does not answer properly in time."""
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


def main(arguments: list[str]) -> int:
    """The health check: 0 when the node is a live member of a cluster with a controller, else 1."""
    endpoint, node_id = _from_words(*arguments) if arguments else _from_environment()
    view = probe(endpoint)
    return 0 if view is not None and view.has_controller and node_id in view.broker_ids else 1


def _from_words(address: str, node_id: str) -> tuple[Endpoint, int]:
    host, _, port = address.rpartition(":")
    return Endpoint(host, int(port)), int(node_id)


def _from_environment() -> tuple[Endpoint, int]:
    from minikafka.config import BrokerConfig, environment_settings

    config = BrokerConfig(environment_settings(os.environ))
    return Endpoint("127.0.0.1", config.listeners["CLIENT"].port), config.node_id


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
