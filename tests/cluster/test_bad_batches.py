"""Record batches that a leader must not take, and producers that are not who they were."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from live_wire import ClosedError, Wire, batch, compressed_batch, fetch_request, produce_request

from minikafka.errors import ErrorCode
from minikafka.model import Compression
from minikafka.records.batch import CONTROL_FLAG, HEADER_SIZE, parse_header, write_header
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest
from minikafka.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minikafka.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = [pytest.mark.spec("P6"), pytest.mark.usefixtures("nodes_are_unharmed")]

HOUR_MS = 3_600_000
MIB = 1 << 20


def answered(wire: Wire, topic: str, records: bytes | bytearray | None, *, version: int = 9, acks: int = -1) -> Any:
    """The partition's part of the answer."""
    return wire.ask(produce_request(topic, records, acks=acks), version).responses[0].partition_responses[0]


def refused(wire: Wire, topic: str, records: bytes | bytearray | None, *, version: int = 9) -> ErrorCode:
    """The error; one with a message, where the version has room for it, and no offset."""
    answer = answered(wire, topic, records, version=version)
    assert answer.base_offset == -1
    assert answer.error_message or version < 8 or answer.error_code == ErrorCode.NONE
    return ErrorCode(answer.error_code)


def forged(records: bytearray, **fields: int) -> bytearray:
    """The batch with header fields changed, its checksum right again."""
    write_header(records, parse_header(records)._replace(**fields))
    return records


def with_byte(records: bytearray, position: int, value: int) -> bytearray:
    records[position] = value
    return records


BAD_BATCHES: dict[str, tuple[Callable[[], bytes | bytearray | None], ErrorCode]] = {
    "wrong checksum": (lambda: with_byte(batch(b"value"), 17, 1), ErrorCode.CORRUPT_MESSAGE),
    "flipped bit": (lambda: with_byte(batch(b"value"), HEADER_SIZE + 8, 0xFF), ErrorCode.CORRUPT_MESSAGE),
    "one byte": (lambda: b"x", ErrorCode.CORRUPT_MESSAGE),
    "shorter than a header": (lambda: batch(b"value")[:60], ErrorCode.CORRUPT_MESSAGE),
    "cut off": (lambda: batch(b"value")[:-1], ErrorCode.CORRUPT_MESSAGE),
    "length of 0": (lambda: with_byte(batch(b"value"), 11, 0), ErrorCode.CORRUPT_MESSAGE),
    "negative length": (lambda: with_byte(batch(b"value"), 8, 0xFF), ErrorCode.CORRUPT_MESSAGE),
    "magic 0": (lambda: with_byte(batch(b"value"), 16, 0), ErrorCode.INVALID_RECORD),
    "magic 1": (lambda: with_byte(batch(b"value"), 16, 1), ErrorCode.INVALID_RECORD),
    "magic 3": (lambda: with_byte(batch(b"value"), 16, 3), ErrorCode.INVALID_RECORD),
    "no batch": (lambda: b"", ErrorCode.INVALID_RECORD),
    "null": (lambda: None, ErrorCode.INVALID_RECORD),
    "two batches": (lambda: batch(b"one") + batch(b"two"), ErrorCode.INVALID_RECORD),
    "a batch and a byte": (lambda: batch(b"one") + b"x", ErrorCode.INVALID_RECORD),
    "count too high": (lambda: forged(batch(b"a", b"b"), record_count=3), ErrorCode.INVALID_RECORD),
    "no records": (lambda: forged(batch(b"a"), record_count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
    "negative count": (lambda: forged(batch(b"a"), record_count=-1), ErrorCode.INVALID_RECORD),
    "offset range too wide": (lambda: forged(batch(b"a", b"b"), last_offset_delta=9), ErrorCode.INVALID_RECORD),
    "more records than fit": (
        lambda: forged(batch(b"a"), record_count=1000, last_offset_delta=999),
        ErrorCode.INVALID_RECORD,
    ),
    "control batch": (lambda: forged(batch(b"a"), attributes=CONTROL_FLAG), ErrorCode.INVALID_RECORD),
    "unknown codec": (lambda: forged(batch(b"a"), attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "negative sequence": (
        lambda: batch(b"a", producer_id=7, producer_epoch=0, base_sequence=-1),
        ErrorCode.INVALID_RECORD,
    ),
    "far future": (
        lambda: batch(b"a", timestamp=int(time.time() * 1000) + 2 * HOUR_MS),
        ErrorCode.INVALID_TIMESTAMP,
    ),
}


@pytest.mark.parametrize("kind", BAD_BATCHES)
def test_a_bad_batch_is_refused_and_leaves_no_trace(wire: Wire, topic: str, kind: str) -> None:
    make, error = BAD_BATCHES[kind]
    assert wire.produce(topic, b"before") == 0
    assert refused(wire, topic, make()) is error
    assert wire.produce(topic, b"after") == 1


def test_a_refused_batch_does_not_hold_up_the_rest_of_the_request(wire: Wire, topic: str) -> None:
    data = [
        PartitionProduceData(index=0, records=batch(b"good")),
        PartitionProduceData(index=7, records=batch(b"no such partition")),
        PartitionProduceData(index=0, records=b"bad"),
    ]
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])
    answers = wire.ask(request, 9).responses[0].partition_responses
    assert [(each.index, each.error_code, each.base_offset) for each in answers] == [
        (0, ErrorCode.NONE, 0),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (0, ErrorCode.CORRUPT_MESSAGE, -1),
    ]


def test_a_batch_above_the_topics_limits_is_refused(wire: Wire) -> None:
    wire.create_topic("small-batches", [[1, 2, 3]], max_message_bytes="2000")
    wire.create_topic("small-segments", [[1, 2, 3]], segment_bytes="2048", max_message_bytes="1000000")
    assert refused(wire, "small-batches", batch(b"x" * 2000)) is ErrorCode.MESSAGE_TOO_LARGE
    assert refused(wire, "small-segments", batch(b"x" * 2048)) is ErrorCode.RECORD_LIST_TOO_LARGE
    assert wire.produce("small-batches", b"x" * 1900) == 0
    assert wire.produce("small-segments", b"x" * 1900) == 0


def test_a_batch_above_the_default_limit_is_refused(wire: Wire, topic: str) -> None:
    assert refused(wire, topic, batch(b"x" * MIB)) is ErrorCode.MESSAGE_TOO_LARGE
    assert wire.produce(topic, b"x" * (MIB - 1000)) == 0


def test_zstd_needs_a_version_that_knows_it(wire: Wire, topic: str) -> None:
    zstd = compressed_batch(Compression.ZSTD)
    assert refused(wire, topic, zstd, version=6) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert answered(wire, topic, zstd, version=7).base_offset == 0
    assert answered(wire, topic, compressed_batch(Compression.LZ4), version=3).base_offset == 1


def test_a_record_without_a_key_does_not_enter_a_compacted_topic(wire: Wire) -> None:
    wire.create_topic("compacted", [[1, 2, 3]], cleanup_policy="compact")
    keyless = batch(b"value")
    position = keyless.index(b"key")
    keyless = keyless[: position - 1] + b"\x01" + keyless[position + 3 :]  # its key's length is -1
    keyless[HEADER_SIZE] -= 6  # which leaves the record three bytes shorter
    assert refused(wire, "compacted", forged(keyless)) is ErrorCode.INVALID_RECORD
    assert wire.produce("compacted", b"with a key") == 0


def test_a_compression_bomb_is_not_inflated(wire: Wire) -> None:
    """100 kB of gzip that would become 100 MiB and more, for a topic where the broker has to look inside."""
    wire.create_topic("bombed", [[1, 2, 3]], cleanup_policy="compact")
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(MIB)
    body = b"".join(squeeze.compress(zeros) for _ in range(101)) + squeeze.flush()
    bomb = forged(
        bytearray(HEADER_SIZE) + body, **parse_header(batch(b"x"))._asdict() | {"attributes": Compression.GZIP}
    )
    assert refused(wire, "bombed", bomb) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_garbage_in_a_compressed_batch_is_the_consumers_problem(wire: Wire, topic: str, codec: Compression) -> None:
    """The broker does not look inside; where it has to, to find a timestamp, it survives."""
    garbage = forged(batch(b"this is not compressed at all"), attributes=codec)
    assert answered(wire, topic, garbage).base_offset == 0
    for timestamp in (1_700_000_000_000, -3):
        asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(timestamp=timestamp)])
        answer = wire.ask(ListOffsetsRequest(replica_id=-1, topics=[asked]), 7)
        assert answer.topics[0].partitions[0].partition_index == 0
    assert wire.produce(topic, b"after") == 1


# -- idempotent producers ---------------------------------------------------------------------------------------------


@pytest.fixture
def producer_id(wire: Wire) -> int:
    answer = wire.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1), 4)
    assert answer.error_code == ErrorCode.NONE
    return int(answer.producer_id)


@pytest.fixture
def send(wire: Wire, topic: str, producer_id: int) -> Callable[..., tuple[int, int]]:
    """Sends one record as an idempotent producer: (error, offset)."""

    def send(sequence: int, epoch: int = 0, value: bytes = b"value") -> tuple[int, int]:
        records = batch(value, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        answer = answered(wire, topic, records)
        return answer.error_code, answer.base_offset

    return send


Send = Callable[..., tuple[int, int]]


@pytest.mark.spec("P3")
def test_a_gap_in_the_sequence_is_refused(send: Send) -> None:
    assert send(0) == (ErrorCode.NONE, 0)
    assert send(2) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert send(1) == (ErrorCode.NONE, 1)


@pytest.mark.spec("P3")
def test_each_of_the_last_five_batches_is_written_once(send: Send) -> None:
    for sequence in range(7):
        assert send(sequence) == (ErrorCode.NONE, sequence)
    for sequence in range(2, 7):
        assert send(sequence) == (ErrorCode.NONE, sequence)
    assert send(0)[0] in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert send(7) == (ErrorCode.NONE, 7)


@pytest.mark.spec("P3")
def test_an_old_epoch_is_fenced(send: Send) -> None:
    assert send(0, epoch=0) == (ErrorCode.NONE, 0)
    assert send(1, epoch=1) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)  # a new epoch begins at 0
    assert send(0, epoch=1) == (ErrorCode.NONE, 1)
    assert send(1, epoch=0) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert send(1, epoch=1) == (ErrorCode.NONE, 2)


def test_a_transactional_batch_outside_of_a_transaction_is_refused(wire: Wire, topic: str, producer_id: int) -> None:
    records = batch(b"value", producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert parse_header(records).is_transactional
    assert refused(wire, topic, records) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "it names none"
    assert wire.produce(topic, b"after") == 0
    answer = wire.ask(fetch_request(topic, 0, isolation_level=1), 11)
    assert b"after" in bytes(answer.responses[0].partitions[0].records)


# -- acks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [7, -2, 32767])
def test_acks_that_do_not_exist_are_refused(wire: Wire, topic: str, acks: int) -> None:
    assert answered(wire, topic, batch(b"x"), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert wire.produce(topic, b"first") == 0


def test_without_acks_nothing_is_answered(wire: Wire, topic: str) -> None:
    for number in range(3):
        wire.send(produce_request(topic, batch(b"%d" % number), acks=0), 9)
    assert wire.produce(topic, b"next") == 3


@pytest.mark.parametrize("kind", ["bad batch", "no such topic", "no such partition"])
def test_without_acks_an_error_closes_the_connection(wire: Wire, topic: str, kind: str) -> None:
    if kind == "bad batch":
        wire.send(produce_request(topic, b"bad", acks=0), 9)
    else:
        name, partition = ("missing", 0) if kind == "no such topic" else (topic, 9)
        wire.send(produce_request(name, batch(b"x"), acks=0, partition=partition), 9)
    with pytest.raises(ClosedError):
        wire.receive_frame()
