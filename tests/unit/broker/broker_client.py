"""A client that says exactly what a test wants it to say, and what tests often say."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, Self

from broker_node import CLUSTER_ID, PATIENCE_S, SECRET, listener_of

from minikafka.broker.node import Node
from minikafka.model import Compression
from minikafka.net.channel import Channel
from minikafka.net.identity import Identity
from minikafka.records.batch import iter_batches
from minikafka.records.build import build_batch
from minikafka.records.read import iter_records
from minikafka.records.record import Record
from minikafka.wire import auth
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode_exactly, encode
from minikafka.wire.headers import decode_response_header, encode_request
from minikafka.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from minikafka.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from minikafka.wire.messages.sasl_handshake import SaslHandshakeRequest
from minikafka.wire.schema import Message

NOW_MS = 1_700_000_000_000


def api_key(request: Message) -> ApiKey:
    name = type(request).__name__.removesuffix("Request")
    return next(key for key in ApiKey if key.camel_name == name)


NEWEST_BY_NAME = {ApiKey.PRODUCE: 12, ApiKey.OFFSET_COMMIT: 9, ApiKey.OFFSET_FETCH: 9}  # later ones give ids


class Client:
    """One connection; the newest version of each API that names topics, unless another is asked for."""

    def __init__(self, channel: Channel, client_id: str = "test") -> None:
        self.channel = channel
        self.client_id = client_id

    @classmethod
    async def connect(cls, node: Node, listener: str = "CLIENT") -> Self:
        return cls(await Channel.open(listener_of(node, listener).endpoint, timeout_s=PATIENCE_S))

    @classmethod
    async def connect_as_node(cls, node: Node, node_id: int = 2) -> Self:
        """As another node of the cluster, whose coordinators and replicas may ask for more."""
        client, nonces = await cls.connect(node, "REPLICATION"), itertools.count(1)

        async def exchange(message: bytes) -> bytes:
            return bytes((await client.ask(SaslAuthenticateRequest(auth_bytes=message))).auth_bytes)

        await client.ask(SaslHandshakeRequest(mechanism=auth.MECHANISM))
        who = Identity(CLUSTER_ID, node_id, SECRET, lambda: next(nonces).to_bytes(32))
        await who.prove("REPLICATION", 1, exchange)
        return client

    async def ask(self, request: Message, version: int | None = None) -> Any:
        """The answer, which must be exactly one message."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.send(request, version)

    def send(self, request: Message, version: int | None = None) -> asyncio.Task[Any]:
        """Send now; the answer is the task's result."""
        key = api_key(request)
        version = NEWEST_BY_NAME.get(key, key.versions.last) if version is None else version
        future = self.send_body(key, version, encode(request, version))
        return asyncio.get_running_loop().create_task(self._decoded(key, version, future))

    def send_body(self, key: int, version: int, body: bytes) -> asyncio.Future[bytes]:
        correlation_id = self.channel.next_correlation_id()
        return self.channel.request(correlation_id, encode_request(key, version, correlation_id, self.client_id, body))

    async def _decoded(self, key: ApiKey, version: int, future: asyncio.Future[bytes]) -> Any:
        answer = await future
        _, position = decode_response_header(answer, key, version)
        return decode_exactly(key.response_class, version, answer, position)

    async def wait_closed(self) -> None:
        """Wait until the node closes the connection."""
        async with asyncio.timeout(PATIENCE_S):
            await self.channel.closed

    def close(self) -> None:
        self.channel.close()

    # -- what tests often say -----------------------------------------------------------------------------------------

    async def produce(
        self, topic: str, *values: bytes, partition: int = 0, acks: int = -1, version: int | None = None, **how: Any
    ) -> PartitionProduceResponse:
        """Produce one batch and answer the partition's result."""
        request = produce_request(topic, batch(*values, **how), partition=partition, acks=acks)
        answer = await self.ask(request, version)
        return answer.responses[0].partition_responses[0]

    def send_produce(self, topic: str, *values: bytes, acks: int = -1) -> asyncio.Task[Any]:
        """Produce one batch now; the whole answer is the task's result."""
        return self.send(produce_request(topic, batch(*values), acks=acks))

    def send_fetch(self, topic: str, offset: int = 0, *, version: int = 12, **how: Any) -> asyncio.Task[Any]:
        """Fetch from one partition; the whole answer is the task's result."""
        return self.send(fetch_request(topic, offset, **how), version)

    async def fetch(self, topic: str, offset: int = 0, *, version: int = 12, **how: Any) -> PartitionData:
        """Fetch from one partition, at once unless told otherwise."""
        answer = await self.ask(fetch_request(topic, offset, **how), version)
        assert not answer.error_code, answer.error_code
        return answer.responses[0].partitions[0]


def batch(
    *values: bytes,
    keys: tuple[bytes | None, ...] = (),
    timestamp: int = NOW_MS,
    compression: Compression = Compression.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
    **how: Any,
) -> bytearray:
    """A batch of records with these values; ``producer`` is (id, epoch, first sequence)."""
    records = [Record(index, timestamp, keys[index] if keys else b"k", value) for index, value in enumerate(values)]
    producer_id, producer_epoch, base_sequence = producer
    return build_batch(
        records,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        **how,
    )


def produce_request(
    topic: str, records: bytes | bytearray | None, *, partition: int = 0, acks: int = -1, timeout_ms: int = 20_000
) -> ProduceRequest:
    data = [PartitionProduceData(index=partition, records=records)]
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )


def fetch_request(topic: str, offset: int = 0, *, partition: int = 0, **how: Any) -> FetchRequest:
    """One partition; what is not a field of the request is one of the partition's."""
    partition_fields = {
        name: how.pop(name)
        for name in ("current_leader_epoch", "high_watermark", "last_fetched_epoch", "log_start_offset")
        if name in how
    }
    asked = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=how.pop("partition_max_bytes", 1 << 20),
        **partition_fields,
    )
    topic_id = {"topic_id": how.pop("topic_id")} if "topic_id" in how else {}
    return FetchRequest(topics=[FetchTopic(topic=topic, partitions=[asked], **topic_id)], **how)


def values_in(records: Any) -> list[bytes | None]:
    """The values of all records of fetched batches."""
    data = bytes(records or b"")
    return [record.value for at, header in iter_batches(data) for record in iter_records(data, at, header)]
