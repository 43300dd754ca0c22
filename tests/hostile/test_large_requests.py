"""As large as requests may be, again and again: no turn of the loop gets long."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from hostile_requests import LARGEST, MOST, metadata, names
from live_attack import MIB, Target, is_long
from live_cluster import eventually
from live_wire import ClosedError, api_key, batch, produce_request

from minikafka.wire.codec import encode
from minikafka.wire.headers import encode_request
from minikafka.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from minikafka.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

pytestmark = pytest.mark.spec("P6")

WIDE = 500
"""Partitions of a large topic."""
CLIENTS = 16 if is_long() else 3


@pytest.mark.parametrize("name", LARGEST)
def test_the_largest_request_of_each_kind(target: Target, name: str) -> None:
    """Of many clients in the same moment: each has sent all but the last byte."""
    make, version = LARGEST[name]
    request = make()
    frame = encode_request(api_key(request), version, 1, "test", encode(request, version))
    with ExitStack() as opened:
        wires = [opened.enter_context(target.wire()) for _ in range(CLIENTS)]
        for wire in wires:
            wire.send_bytes(frame[:-1])
        for wire in wires:
            wire.send_bytes(frame[-1:])
        for wire in wires:
            wire.receive_frame()


def test_one_element_more_closes_the_connection(target: Target) -> None:
    with target.wire() as wire:
        wire.send(metadata(names(MOST + 1)), 9)
        assert wire.is_closed_by_node()


def test_batches_of_a_mebibyte_pipelined(target: Target) -> None:
    """The loop read on while there was something to read: 32 MiB in one turn."""
    target.create_topic("heavy", max_message_bytes=str(2 * MIB))
    request = produce_request("heavy", batch(b"x" * (MIB - 200)), acks=1)
    body = encode(request, 9)
    with ExitStack() as opened:
        wires = [opened.enter_context(target.wire()) for _ in range(4)]
        for _ in range(6):
            for wire in wires:
                wire.send_body(api_key(request), 9, body)
        for wire in wires:
            for _ in range(6):
                wire.receive_frame()


def test_small_requests_pipelined(target: Target) -> None:
    make, version = metadata(["honest"]), 9
    body = encode(make, version)
    with target.wire() as wire:
        for _ in range(3_000):
            wire.send_body(api_key(make), version, body)
        for _ in range(3_000):
            wire.receive_frame()


def test_a_request_of_no_bytes_closes(target: Target) -> None:
    with target.wire() as wire:
        wire.send_bytes(bytes(4) * 1000)
        with pytest.raises(ClosedError):
            wire.receive_frame()


def test_one_that_waits_for_all_partitions_of_a_large_topic(target: Target) -> None:
    """Each write that is committed looked at all partitions of the fetch: 3.8 s of one turn for a thousand."""
    with target.wire() as wire, target.wire() as waiting:
        wire.create_topic("wide", [[1]] * WIDE)
        eventually(lambda: wire.has_topic("wide"), "the wide topic")
        records = bytes(batch(b"x"))
        data = [PartitionProduceData(index=number, records=records) for number in range(WIDE)]
        produce = ProduceRequest(
            acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name="wide", partition_data=data)]
        )
        asked = [FetchPartition(partition=number, partition_max_bytes=MIB) for number in range(WIDE)]
        fetch = FetchRequest(
            max_wait_ms=1_000,
            max_bytes=16 * MIB,
            min_bytes=16 * MIB,
            topics=[FetchTopic(topic="wide", partitions=asked)],
        )
        eventually(lambda: not errors_in(wire.ask(produce, 9)), "all partitions to take records")
        waiting.send(fetch, 11)
        for _ in range(2):
            wire.ask(produce, 9)
        assert not errors_in(waiting.receive(fetch, 11))


def errors_in(answer: ProduceResponse | FetchResponse) -> set[int]:
    if isinstance(answer, ProduceResponse):
        return {data.error_code for topic in answer.responses for data in topic.partition_responses} - {0}
    return {data.error_code for topic in answer.responses for data in topic.partitions} - {0}
