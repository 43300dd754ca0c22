"""What encoding and decoding cost: ``python benchmarks/wire.py``. Prints microseconds per call, best of five.

kio (a development dependency) is measured beside minikafka's codecs where it is installed.
"""

from __future__ import annotations

import importlib.util
import io
import subprocess
import sys
import time
import timeit
from collections.abc import Callable
from functools import partial
from uuid import UUID

from minikafka.wire.codec import decoder, encode_around, encoder
from minikafka.wire.decoder import compile_decoder
from minikafka.wire.encoder import compile_encoder
from minikafka.wire.framing import ReceiveBuffer
from minikafka.wire.headers import decode_request_header, encode_request, encode_response
from minikafka.wire.hot import encode_fetch_response, records_slot
from minikafka.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from minikafka.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from minikafka.wire.schema import Message

TOPIC_ID = UUID(int=7)


def microseconds(work: Callable[[], object]) -> float:
    """The time of one call."""
    timer = timeit.Timer(work)
    count, _ = timer.autorange(lambda _count, _seconds: None)
    count = max(1, count // 5)
    return min(timer.repeat(5, count)) / count * 1e6


def report(name: str, work: Callable[[], object]) -> None:
    """Print one line."""
    print(f"{name:<58}{microseconds(work):>10.2f} us")


def examples() -> dict[str, tuple[Message, int]]:
    """Typical messages of one topic and one partition, and a large Metadata response."""
    fetch = FetchTopic(topic="events", topic_id=TOPIC_ID, partitions=[FetchPartition(partition=3, fetch_offset=5)])
    fetched = FetchableTopicResponse(topic="events", topic_id=TOPIC_ID, partitions=[PartitionData(records=b"x" * 1000)])
    produce = TopicProduceData(name="events", partition_data=[PartitionProduceData(index=3, records=b"x" * 1000)])
    produced = TopicProduceResponse(
        name="events", partition_responses=[PartitionProduceResponse(index=3, base_offset=9)]
    )
    return {
        "Fetch request, 1 partition": (FetchRequest(max_wait_ms=500, topics=[fetch]), 12),
        "Fetch response, 1 partition, 1 kB": (FetchResponse(responses=[fetched]), 12),
        "Produce request, 1 partition, 1 kB": (ProduceRequest(acks=-1, topic_data=[produce]), 9),
        "Produce response, 1 partition": (ProduceResponse(responses=[produced]), 9),
        "Metadata response, 100 topics of 6 partitions": (metadata(100), 12),
    }


def metadata(topic_count: int) -> MetadataResponse:
    """A Metadata response of three brokers."""
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=1, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3])
        for index in range(6)
    ]
    brokers = [MetadataResponseBroker(node_id=node_id, host="localhost", port=9092) for node_id in (1, 2, 3)]
    topics = [
        MetadataResponseTopic(name=f"topic-{n}", topic_id=UUID(int=n), partitions=partitions)
        for n in range(topic_count)
    ]
    return MetadataResponse(brokers=brokers, topics=topics)


def measure_codecs() -> None:
    """Compiled codecs, with kio's beside them."""
    with_kio = importlib.util.find_spec("kio") is not None
    for name, (message, version) in examples().items():
        encode, decode = encoder(type(message), version), decoder(type(message), version)
        view = memoryview(encode(message))
        report(f"decode {name} v{version}", partial(decode, view, 0))
        report(f"encode {name} v{version}", partial(encode, message))
        if with_kio:
            measure_kio(name, message, version, bytes(view))


def measure_kio(name: str, message: Message, version: int, encoded: bytes) -> None:
    """The same message in kio."""
    from kio.serial import entity_reader, entity_writer

    cls = type(message)
    module = cls.__module__.rpartition(".")[2]
    kind = "request" if cls.__name__.endswith("Request") else "response"
    twin = getattr(importlib.import_module(f"kio.schema.{module}.v{version}.{kind}"), cls.__name__)
    read, write = entity_reader(twin), entity_writer(twin)
    entity, _ = read(encoded, 0)
    report(f"    kio decode {name}", lambda: read(encoded, 0))
    report(f"    kio encode {name}", lambda: write(io.BytesIO(), entity))


def measure_hot_paths() -> None:
    """Headers, frames, segments, cached topics."""
    request = encode_request(1, 12, 7, "client-1", bytes(60))
    frame = memoryview(request)[4:]
    report("decode request header", lambda: decode_request_header(frame))
    report("encode response (prefix, header, 60 byte body)", lambda: encode_response(1, 12, 7, bytes(60)))
    partition = PartitionData(records=records_slot(1_000_000, 5))
    response = FetchResponse(responses=[FetchableTopicResponse(topic="events", partitions=[partition])])
    report("encode Fetch response in segments, 1 MB slot", lambda: encode_fetch_response(response, 12, 7))
    whole = metadata(100)
    topics = [encoder(MetadataResponseTopic, 12)(topic) for topic in whole.topics]
    report("encode Metadata response of 100 cached topics", lambda: encode_around(whole, 12, "topics", topics))
    for size, count in ((80, 200), (1_000_000, 8)):
        report(f"receive and scan {count} frames of {size} bytes", receiver(size, count))


def receiver(size: int, count: int) -> Callable[[], object]:
    """Pushes frames through a receive buffer in reads of up to 64 KiB."""
    stream = memoryview((size.to_bytes(4, "big") + bytes(size)) * count)
    buffer = ReceiveBuffer()

    def receive() -> int:
        rest, frames = stream, 0
        while rest:
            room = buffer.writable(65536)
            read = min(len(room), len(rest), 65536)
            room[:read] = rest[:read]
            buffer.received(read)
            rest = rest[read:]
            frames += sum(1 for _ in buffer.frames())
        return frames

    return receive


def measure_first_use() -> None:
    """Compilation, and what importing costs."""
    report("compile decoder of FetchRequest v12", lambda: compile_decoder(FetchRequest, 12))
    report("compile encoder of FetchResponse v12", lambda: compile_encoder(FetchResponse, 12))
    for name, statement in (
        ("import minikafka.wire.api", "import minikafka.wire.api"),
        ("import all message modules", "from minikafka.wire.api import *; [key.request_class for key in ApiKey]"),
    ):
        print(f"{name:<58}{import_milliseconds(statement):>10.2f} ms")


def import_milliseconds(statement: str) -> float:
    """Best of five fresh interpreters, without the interpreter's own start."""
    program = f"import time; start = time.perf_counter(); {statement}; print((time.perf_counter() - start) * 1e3)"
    return min(float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(5))


if __name__ == "__main__":
    started = time.perf_counter()
    measure_codecs()
    measure_hot_paths()
    measure_first_use()
    print(f"({time.perf_counter() - started:.1f} s in all)")
