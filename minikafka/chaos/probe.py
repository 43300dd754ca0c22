"""Requests over a bare socket: live brokers, leaders and ISRs of the metadata; the leader of the metadata quorum.

They take milliseconds and no client: so they can be repeated often while nodes start.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import CLUSTER_METADATA_TOPIC, Endpoint
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import M, decode_exactly, encode
from minikafka.wire.errors import WireError
from minikafka.wire.headers import decode_response_header, encode_request
from minikafka.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestPartitionData,
    RequestTopicData,
)
from minikafka.wire.messages.metadata import MetadataRequest, MetadataResponse
from minikafka.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from minikafka.wire.messages.sasl_handshake import SaslHandshakeRequest
from minikafka.wire.schema import Message

if TYPE_CHECKING:
    from minikafka.client.sasl import SaslClient

_VERSIONS: Final[dict[type[Message], tuple[ApiKey, int]]] = {
    MetadataRequest: (ApiKey.METADATA, 10),  # the first with ids of topics
    DescribeQuorumRequest: (ApiKey.DESCRIBE_QUORUM, 2),
    SaslHandshakeRequest: (ApiKey.SASL_HANDSHAKE, 1),
    SaslAuthenticateRequest: (ApiKey.SASL_AUTHENTICATE, 2),
}
_FRAME_SIZE_MAX: Final = 64 << 20
NOT_TOLD: Final = (
    "whoever asks may not describe the cluster; who does not log in is User:ANONYMOUS: see super.users of each node"
)


class PartitionView(NamedTuple):
    """One partition in a broker's answer."""

    topic: str
    partition: int
    leader_id: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    leader_epoch: int = -1

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
    topic_ids: frozenset[UUID] = frozenset()

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


class QuorumView(NamedTuple):
    """The metadata quorum in one node's answer: its leader, who is the active controller, or why there is none."""

    leader_id: int | None
    trouble: str | None = None


class Entrance(NamedTuple):
    """What a listener asks for."""

    tls: ssl.SSLContext | None = None
    sasl: SaslClient | None = None


OPEN: Final = Entrance()


def probe(endpoint: Endpoint, timeout_s: float = 1.0, entrance: Entrance = OPEN) -> ClusterView | None:
    """The view of the broker at `endpoint`; None without a valid answer in time."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    response = _answer(endpoint, timeout_s, entrance, request, MetadataResponse)
    return None if response is None else _view(response)


def probe_quorum(endpoint: Endpoint, timeout_s: float = 1.0, entrance: Entrance = OPEN) -> QuorumView | None:
    """The quorum's leader as the broker at `endpoint` knows it; None without a valid answer in time.

    Metadata does not tell it: as its controller a broker without one names itself.
    """
    partition = RequestPartitionData(partition_index=0)
    topic = RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    request = DescribeQuorumRequest(topics=[topic])
    response = _answer(endpoint, timeout_s, entrance, request, DescribeQuorumResponse)
    if response is None:
        return None
    if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return QuorumView(None, NOT_TOLD)
    if response.error_code:
        return QuorumView(None, response.error_message or "the metadata quorum has no leader")
    return QuorumView(response.topics[0].partitions[0].leader_id)


def login_refusal(endpoint: Endpoint, entrance: Entrance, timeout_s: float = 1.0) -> str | None:
    """Why the broker at `endpoint` lets nobody in; None when it does, or does not answer."""
    if entrance.sasl is None:
        return None
    try:
        with _connected(endpoint, timeout_s, entrance.tls) as connection:
            _log_in(connection, entrance.sasl)
    except KafkaError as error:
        return error.message
    except (OSError, EOFError, WireError):
        pass
    return None


def _answer(endpoint: Endpoint, timeout_s: float, entrance: Entrance, request: Message, response: type[M]) -> M | None:
    try:
        with _connected(endpoint, timeout_s, entrance.tls) as connection:
            if entrance.sasl is not None:
                _log_in(connection, entrance.sasl)
            return _ask(connection, request, response)
    except (OSError, EOFError, WireError, KafkaError):
        return None


def _log_in(connection: socket.socket, sasl: SaslClient) -> None:
    async def ask(request: Message, response: type[M]) -> M:
        return _ask(connection, request, response)

    async def log_in() -> None:
        await sasl.log_in(await sasl.begin(), ask)

    with suppress(StopIteration):
        log_in().send(None)
        raise AssertionError("it waited for something else than an answer")


def _ask(connection: socket.socket, request: Message, response: type[M]) -> M:
    api_key, version = _VERSIONS[type(request)]
    connection.sendall(encode_request(api_key, version, 1, "minikafka-probe", encode(request, version)))
    frame = _receive(connection)
    _, position = decode_response_header(frame, api_key, version)
    return decode_exactly(response, version, frame, position)


def _connected(endpoint: Endpoint, timeout_s: float, tls: ssl.SSLContext | None) -> socket.socket:
    connection = socket.create_connection(endpoint, timeout=timeout_s)
    if tls is None:
        return connection
    with connection:  # which is closed unless it is wrapped
        return tls.wrap_socket(connection, server_hostname=endpoint.host)


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


def _view(response: MetadataResponse) -> ClusterView:
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
                partition.leader_epoch,
            )
            for topic in response.topics
            for partition in topic.partitions
        ),
        frozenset(topic.topic_id for topic in response.topics),
    )
