"""Requests to a running node over a bare socket, well-formed or not."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from minikafka.errors import ErrorCode
from minikafka.model import Compression
from minikafka.records.build import build_batch
from minikafka.records.record import Record
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode_exactly, encode
from minikafka.wire.headers import decode_response_header, encode_request
from minikafka.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from minikafka.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.wire.schema import Message

TIMEOUT_S = 60.0
ALL = -1


class ClosedError(Exception):
    """The node closed the connection."""


class Wire:
    """One connection to a node's listener. Correlation ids count from 1."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self._correlation_id = 0

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.socket.close()

    # -- requests -----------------------------------------------------------------------------------------------------

    def ask(self, request: Message, version: int) -> Any:
        """Send a request and wait for its answer. Raises ClosedError when there is none."""
        self.send(request, version)
        return self.receive(request, version)

    def send(self, request: Message, version: int) -> None:
        """Send a request; its answer is fetched with :meth:`receive`, in order."""
        self.send_body(api_key(request), version, encode(request, version))

    def send_body(self, key: int, version: int, body: bytes) -> None:
        """Send a request whose body is given as bytes."""
        self._correlation_id += 1
        self.send_bytes(encode_request(key, version, self._correlation_id, "test", body))

    def send_frame(self, frame: bytes) -> None:
        """Send bytes with a size prefix that fits."""
        self.send_bytes(len(frame).to_bytes(4) + frame)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        try:
            self.socket.sendall(data)
        except ConnectionError:
            raise ClosedError from None

    # -- answers ------------------------------------------------------------------------------------------------------

    def receive(self, request: Message, version: int) -> Any:
        """The answer to `request`."""
        key = api_key(request)
        frame = self.receive_frame()
        _, position = decode_response_header(frame, key, version)
        return decode_exactly(key.response_class, version, frame, position)

    def receive_frame(self) -> bytes:
        """The next answer, without its size prefix. Raises ClosedError."""
        size = int.from_bytes(self._receive_exactly(4))
        return self._receive_exactly(size)

    def is_closed_by_node(self) -> bool:
        """Wait for the node's next bytes: True when it closed the connection instead."""
        try:
            self.receive_frame()
        except ClosedError:
            return True
        return False

    def _receive_exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            try:
                chunk = self.socket.recv(size - len(received))
            except ConnectionError:
                chunk = b""
            if not chunk:
                raise ClosedError
            received += chunk
        return bytes(received)

    # -- what most tests need -----------------------------------------------------------------------------------------

    def create_topic(self, name: str, assignment: Sequence[Sequence[int]], **config: str) -> None:
        """Create a topic with its replicas given by partition."""
        (result,) = self.ask(CreateTopicsRequest(topics=[assigned_topic(name, assignment, **config)]), 7).topics
        assert result.error_code == ErrorCode.NONE, result.error_message

    def has_topic(self, name: str) -> bool:
        """True when this node knows the topic."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        return bool(self.ask(request, 9).topics[0].error_code == ErrorCode.NONE)

    def produce(self, topic: str, value: bytes, **how: int) -> int:
        """Produce one record to a partition led here (`how`: see :func:`produce_request`); its offset, or -1."""
        answer = self.ask(produce_request(topic, batch(value), **how), 9)
        return int(answer.responses[0].partition_responses[0].base_offset)

    def fetch(self, topic: str, offset: int) -> bytes:
        """What lies in partition 0 from `offset` on, as far as one answer goes."""
        answer = self.ask(fetch_request(topic, offset), 11)
        return bytes(answer.responses[0].partitions[0].records or b"")


def api_key(request: Message) -> ApiKey:
    """The API that the request's class belongs to."""
    name = type(request).__name__.removesuffix("Request")
    return next(key for key in ApiKey if key.camel_name == name)


def batch(*values: bytes | None, timestamp: int | None = None, **producer: Any) -> bytearray:
    """A batch of records with these values, made now; `producer` goes to ``build_batch``."""
    now_ms = int(time.time() * 1000) if timestamp is None else timestamp
    return build_batch([Record(0, now_ms, b"key", value) for value in values], **producer)


def compressed_batch(compression: Compression) -> bytearray:
    """A batch that its codec makes smaller, so that it is really compressed."""
    return batch(b"x" * 1000, compression=compression)


def produce_request(
    topic: str, records: bytes | bytearray | None, *, acks: int = ALL, partition: int = 0, timeout_ms: int = 30_000
) -> ProduceRequest:
    """One batch, or whatever the bytes are, for one partition."""
    data = PartitionProduceData(index=partition, records=records)
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def fetch_request(topic: str, offset: int, *, wait_ms: int = 0, epoch: int = -1, **fields: Any) -> FetchRequest:
    """A fetch of partition 0, without a session unless `fields` of the request say otherwise."""
    asked = FetchPartition(partition=0, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[asked])], **fields
    )


def assigned_topic(name: str, assignment: Sequence[Sequence[int]], **config: str) -> CreatableTopic:
    """A topic whose replicas are given by partition; settings with underscores for dots."""
    return CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=n, broker_ids=list(replicas))
            for n, replicas in enumerate(assignment)
        ],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()],
    )
