"""A client without any machinery: blocking sockets, one request at a time, no retries, no cache.

What it measures is the cluster and not a client's patience.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Final, TypeVar

from minikafka.chaos.layout import HOST
from minikafka.errors import ErrorCode
from minikafka.records.build import build_batch
from minikafka.records.record import Record
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode_exactly, encode
from minikafka.wire.headers import decode_response_header, encode_request
from minikafka.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from minikafka.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from minikafka.wire.schema import Message

METADATA_VERSION: Final = 12
PRODUCE_VERSION: Final = 9
ACKS_ALL: Final = -1
CLIENT_ID: Final = "benchmark"

R = TypeVar("R", bound=Message)


class BareClient:
    """One connection to one node. Raises OSError or EOFError when it breaks."""

    def __init__(self, port: int, timeout_s: float = 15.0) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> BareClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.socket.close()

    def ask(self, key: ApiKey, version: int, request: Message, response_type: type[R]) -> R:
        """Send a request and wait for its answer."""
        self.send(key, version, request)
        return self.receive(key, version, response_type)

    def send(self, key: ApiKey, version: int, request: Message) -> None:
        """Send a request; :meth:`receive` its answer later."""
        self.socket.sendall(encode_request(key, version, 1, CLIENT_ID, encode(request, version)))

    def receive(self, key: ApiKey, version: int, response_type: type[R]) -> R:
        """The next answer."""
        frame = self.receive_frame()
        _, position = decode_response_header(frame, key, version)
        return decode_exactly(response_type, version, frame, position)

    def ask_all(self, key: ApiKey, version: int, requests: Sequence[Message], response_type: type[R]) -> list[R]:
        """Send some requests at once, and wait for their answers."""
        bodies = (encode(request, version) for request in requests)
        self.socket.sendall(b"".join(encode_request(key, version, 1, CLIENT_ID, body) for body in bodies))
        answers = []
        for frame in [self.receive_frame() for _ in requests]:
            _, position = decode_response_header(frame, key, version)
            answers.append(decode_exactly(response_type, version, frame, position))
        return answers

    def receive_frame(self) -> bytearray:
        """The next answer, without its size."""
        return self._receive(int.from_bytes(self._receive(4)))

    def leader_of(self, topic: str, partition: int) -> int:
        """Who leads the partition as this node knows it; -1 while nobody does."""
        partitions, _ = self.partitions_of(topic)
        return next((p.leader_id for p in partitions if p.partition_index == partition), -1)

    def partitions_of(self, topic: str) -> tuple[list[MetadataResponsePartition], int]:
        """Those of a topic as this node knows them, none of an unknown one; and how many nodes it knows."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        answer = self.ask(ApiKey.METADATA, METADATA_VERSION, request, MetadataResponse)
        return answer.topics[0].partitions, len(answer.brokers)

    def produce(self, topic: str, partition: int, acks: int = ACKS_ALL) -> ErrorCode:
        """Write one record; how that went."""
        request = produce_request(topic, partition, acks)
        answer = self.ask(ApiKey.PRODUCE, PRODUCE_VERSION, request, ProduceResponse)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    def _receive(self, size: int) -> bytearray:
        received = bytearray(size)
        view = memoryview(received)
        while len(view):
            count = self.socket.recv_into(view)
            if not count:
                raise EOFError
            view = view[count:]
        return received


def produce_request(
    topic: str, partition: int, acks: int = ACKS_ALL, *, transactional_id: str | None = None, **producer: int
) -> ProduceRequest:
    """A request with a batch of one record of 100 bytes; ``producer`` goes to ``build_batch``."""
    record = Record(0, int(time.time() * 1000), None, b"." * 100)
    batch = build_batch([record], is_transactional=transactional_id is not None, **producer)  # type: ignore[arg-type]
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=bytes(batch))])
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=15_000, topic_data=[data])
