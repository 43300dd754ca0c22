"""Batches that are small and hold very much: the node looks inside for keys, and for times."""

from __future__ import annotations

from functools import cache

import pytest
from live_attack import MIB, Target
from live_wire import batch, produce_request

from minikafka.errors import ErrorCode
from minikafka.model import Compression
from minikafka.records.batch import HEADER_SIZE, parse_header, write_header
from minikafka.records.compression import compress
from minikafka.records.record import encode_varint
from minikafka.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

pytestmark = pytest.mark.spec("P6")

CODECS = [codec for codec in Compression if codec is not Compression.NONE]
TINY_RECORDS = 200_000
BOMB_BYTES = 40 * MIB
"""More than a node looks through."""
HEADERS = 16 * MIB - 1_000


@cache
def bomb(codec: Compression) -> bytes:
    """Nothing but zeros inside, and many of them."""
    return made_of(bytes(BOMB_BYTES), codec, 1)


@cache
def tiny_records(codec: Compression, key: bytes = b"\x00") -> bytes:
    """As many records as fit: each seven bytes, with an empty key."""
    record = bytes([12, 0, 0, 0]) + key + bytes(2)  # seven bytes: length, then attributes, deltas, lengths, headers
    return made_of(record * TINY_RECORDS, codec, TINY_RECORDS)


@cache
def many_headers(codec: Compression, max_timestamp: int | None = None) -> bytes:
    """One record, and as many headers as a node decompresses: each of two bytes, an empty name and no value."""
    fields = bytes([0, 0, 0, 2]) + b"k" + bytes([0]) + encode_varint(HEADERS) + bytes([0, 1]) * HEADERS
    return made_of(encode_varint(len(fields)) + fields, codec, 1, max_timestamp)


def made_of(body: bytes, codec: Compression, count: int, max_timestamp: int | None = None) -> bytes:
    plain = batch(b"x")
    header = parse_header(plain)
    records = bytearray(plain[:HEADER_SIZE]) + compress(codec, body)
    header = header._replace(attributes=int(codec), record_count=count, last_offset_delta=count - 1)
    write_header(records, header if max_timestamp is None else header._replace(max_timestamp=max_timestamp))
    return bytes(records)


def error_of(target: Target, topic: str, records: bytes) -> ErrorCode:
    with target.wire() as wire:
        answer = wire.ask(produce_request(topic, records), 9)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_for_a_compacted_topic(target: Target, codec: Compression) -> None:
    topic = f"compacted-{codec.name}"
    target.create_topic(topic, cleanup_policy="compact", max_message_bytes=str(16 * MIB))
    for _ in range(3):
        assert error_of(target, topic, bomb(codec)) is ErrorCode.MESSAGE_TOO_LARGE
    error_of(target, topic, tiny_records(codec))


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_of_very_many_records_and_questions_about_its_times(target: Target, codec: Compression) -> None:
    topic = f"times-{codec.name}"
    target.create_topic(topic, max_message_bytes=str(16 * MIB))
    assert error_of(target, topic, tiny_records(codec)) is ErrorCode.NONE
    assert error_of(target, topic, bomb(codec)) is ErrorCode.NONE, "what is inside is between producer and consumer"
    with target.wire() as wire:
        for timestamp in (1, -3, parse_header(tiny_records(codec)).max_timestamp):
            wire.send(by_time(topic, timestamp), 7)
        for timestamp in (1, -3, 2):
            wire.receive(by_time(topic, timestamp), 7)


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_of_very_many_headers(target: Target, codec: Compression) -> None:
    """They took 1.5 GB, and ten seconds: where a node looks for keys, for times, or for the records it refuses."""
    topic = f"headers-{codec.name}"
    target.create_topic(topic, cleanup_policy="compact", max_message_bytes=str(16 * MIB))
    assert error_of(target, topic, many_headers(codec)) is ErrorCode.NONE
    assert error_of(target, topic, many_headers(codec, 1 << 60)) is ErrorCode.INVALID_TIMESTAMP
    with target.wire() as wire:
        wire.ask(by_time(topic, parse_header(many_headers(codec)).max_timestamp), 7)


def by_time(topic: str, timestamp: int) -> ListOffsetsRequest:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=-1)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
