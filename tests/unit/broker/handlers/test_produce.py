from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from random import Random
from uuid import UUID

import pytest
from broker_client import NOW_MS, Client, batch, produce_request, values_in
from broker_node import alter_topic, create_topic, delete_topic, eventually, led, listener_of

from minikafka.broker.dispatch import Dispatcher
from minikafka.broker.handlers.produce import BATCHES_AT_ONCE, FIRST_VERSION_WITH_IDS
from minikafka.broker.lookups import Lookups
from minikafka.broker.node import Node
from minikafka.broker.staging import LARGE_AT_ONCE
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import ZERO_TOPIC_ID, Compression, TopicPartition
from minikafka.net.connection import Connection
from minikafka.net.turns import REQUEST_COST
from minikafka.records.batch import ATTRIBUTES_POSITION, CONTROL_FLAG, CRC_POSITION, compute_crc, parse_header
from minikafka.records.build import build_batch
from minikafka.records.read import MAX_DECOMPRESSED_BYTES
from minikafka.records.record import Record
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

Dial = Callable[..., Awaitable[Client]]
StartNode = Callable[..., Awaitable[Node]]

ORDERS = TopicPartition("orders", 0)
DAY_MS = 86_400_000


def patched(records: bytearray, position: int, layout: str, value: int) -> bytearray:
    """A field of the header changed, and the checksum made to fit."""
    struct.pack_into(layout, records, position, value)
    struct.pack_into(">I", records, CRC_POSITION, compute_crc(records, 0, len(records)))
    return records


@pytest.mark.spec("R1")
@pytest.mark.parametrize("acks", [-1, 1])
async def test_batches_get_their_offsets(node: Node, client: Client, acks: int) -> None:
    await create_topic(node, "orders")
    first = await client.produce("orders", b"a", b"b", acks=acks)
    second = await client.produce("orders", b"c", acks=acks)
    assert (first.error_code, first.base_offset, first.log_start_offset, first.log_append_time_ms) == (0, 0, 0, -1)
    assert (second.error_code, second.base_offset) == (0, 2)
    partition = led(node, ORDERS)
    assert partition.log.log_end_offset == partition.high_watermark == 3
    assert values_in((await client.fetch("orders")).records) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("version", range(ApiKey.PRODUCE.versions.first, ApiKey.PRODUCE.versions.last + 1))
async def test_every_version_is_understood(node: Node, client: Client, version: int) -> None:
    await create_topic(node, "orders")
    by_id = version >= FIRST_VERSION_WITH_IDS
    for offset in range(2):  # the second answer is made of what the first left
        good = await produce_by(client, node, "orders", version)
        assert (good.error_code, good.base_offset) == (0, offset)
    bad = await produce_by(client, node, "nowhere", version)
    error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (bad.error_code, bad.base_offset) == (error, -1)
    if version >= 8:
        assert bad.error_message


async def produce_by(client: Client, node: Node, topic: str, version: int) -> PartitionProduceResponse:
    """By name, or from version 13 on by id; the answer names the topic likewise."""
    found = node.image.topic(topic)
    topic_id = UUID(int=7) if found is None else found.topic_id
    request = produce_request(topic, batch(b"x"))
    request.topic_data[0].topic_id = topic_id
    answer = (await client.ask(request, version)).responses[0]
    named = ("", topic_id) if version >= FIRST_VERSION_WITH_IDS else (topic, ZERO_TOPIC_ID)
    assert (answer.name, answer.topic_id) == named
    found_in: PartitionProduceResponse = answer.partition_responses[0]
    return found_in


async def test_what_was_meant_for_a_deleted_topic_does_not_land_in_the_next_of_its_name(
    node: Node, client: Client
) -> None:
    await create_topic(node, "orders")
    assert (await produce_by(client, node, "orders", 13)).base_offset == 0
    before = node.image.topics_by_name["orders"].topic_id
    await delete_topic(node, "orders")
    await eventually(lambda: node.image.topic("orders") is None, "the topic to go")
    late = produce_request("orders", batch(b"late"))
    late.topic_data[0].topic_id = before
    for _ in range(2):
        answer = (await client.ask(late, 13)).responses[0]
        refused = answer.partition_responses[0]
        assert (answer.topic_id, refused.error_code) == (before, ErrorCode.UNKNOWN_TOPIC_ID)
        if node.image.topic("orders") is None:
            await create_topic(node, "orders")
    assert led(node, ORDERS).log.log_end_offset == 0
    assert (await produce_by(client, node, "orders", 13)).base_offset == 0


async def test_a_request_may_name_several_topics_by_their_ids(node: Node, client: Client) -> None:
    await create_topic(node, "orders")
    await create_topic(node, "other")
    ids = [node.image.topics_by_name["orders"].topic_id, UUID(int=7), UUID(int=8)]
    ids.append(node.image.topics_by_name["other"].topic_id)
    request = produce_request("", batch(b"x"))
    data = request.topic_data[0].partition_data
    request.topic_data = [TopicProduceData(topic_id=topic_id, partition_data=data) for topic_id in ids]
    answer = await client.ask(request, 13)
    assert [topic.topic_id for topic in answer.responses] == ids
    errors = [topic.partition_responses[0].error_code for topic in answer.responses]
    assert errors == [0, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID, 0]


@pytest.mark.spec("R23")
async def test_acks_0_is_not_answered(node: Node, client: Client) -> None:
    await create_topic(node, "orders")
    unanswered = client.send(produce_request("orders", batch(b"silent"), acks=0))
    assert (await client.produce("orders", b"loud")).base_offset == 1  # the answer to the second request, not the first
    assert not unanswered.done()
    unanswered.cancel()
    assert values_in((await client.fetch("orders")).records) == [b"silent", b"loud"]


@pytest.mark.parametrize(
    "request_", [produce_request("nowhere", batch(b"x"), acks=0), produce_request("x", b"", acks=0)]
)
async def test_an_error_with_acks_0_closes(node: Node, client: Client, request_: ProduceRequest) -> None:
    unanswered = client.send(request_)
    await client.wait_closed()
    with pytest.raises(ConnectionError):
        await unanswered


async def test_answers_keep_the_order_of_pipelined_requests(node: Node, client: Client) -> None:
    await create_topic(node, "orders")
    waiting = [
        client.send(produce_request("orders", batch(b"%d" % number), acks=number % 2 or -1)) for number in range(50)
    ]
    offsets = [(await each).responses[0].partition_responses[0].base_offset for each in waiting]
    assert offsets == list(range(50))


async def test_one_request_may_bring_good_and_bad_batches(node: Node, client: Client) -> None:
    await create_topic(node, "a", partitions=2)
    await create_topic(node, "b")
    answer = await client.ask(
        ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name="a",
                    partition_data=[
                        PartitionProduceData(index=0, records=batch(b"x")),
                        PartitionProduceData(index=7, records=batch(b"x")),
                        PartitionProduceData(index=1, records=batch(b"x", b"y")),
                    ],
                ),
                TopicProduceData(name="none", partition_data=[PartitionProduceData(index=0, records=batch(b"x"))]),
                TopicProduceData(name="b", partition_data=[PartitionProduceData(index=0, records=b"junk")]),
            ],
        )
    )
    results = {
        (topic.name, each.index): (each.error_code, each.base_offset)
        for topic in answer.responses
        for each in topic.partition_responses
    }
    assert results == {
        ("a", 0): (0, 0),
        ("a", 7): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("a", 1): (0, 0),
        ("none", 0): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("b", 0): (ErrorCode.CORRUPT_MESSAGE, -1),
    }
    assert [topic.name for topic in answer.responses] == ["a", "none", "b"]
    assert led(node, TopicPartition("a", 1)).log.log_end_offset == 2


async def test_a_request_without_topics_is_answered(client: Client) -> None:
    for acks in (-1, 1):
        assert (await client.ask(ProduceRequest(acks=acks, timeout_ms=10))).responses == []


BAD_BATCHES = {
    "none": (None, 11, ErrorCode.INVALID_RECORD),
    "empty": (b"", 11, ErrorCode.INVALID_RECORD),
    "short": (b"x" * 60, 11, ErrorCode.CORRUPT_MESSAGE),
    "checksum": (bytes(batch(b"x"))[:-1] + b"!", 11, ErrorCode.CORRUPT_MESSAGE),
    "truncated": (bytes(batch(b"x"))[:-1], 11, ErrorCode.CORRUPT_MESSAGE),
    "magic 1": (patched(batch(b"x"), 16, ">b", 1), 11, ErrorCode.INVALID_RECORD),
    "two batches": (batch(b"x") + batch(b"y"), 11, ErrorCode.INVALID_RECORD),
    "record count": (patched(batch(b"x"), 57, ">i", 2), 11, ErrorCode.INVALID_RECORD),
    "control": (patched(batch(b"x"), ATTRIBUTES_POSITION, ">h", CONTROL_FLAG), 11, ErrorCode.INVALID_RECORD),
    "codec 5": (patched(batch(b"x"), ATTRIBUTES_POSITION, ">h", 5), 11, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "old zstd": (batch(b"x" * 200, compression=Compression.ZSTD), 6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "future": (batch(b"x", timestamp=NOW_MS + DAY_MS), 11, ErrorCode.INVALID_TIMESTAMP),
    "stamped": (patched(batch(b"x"), ATTRIBUTES_POSITION, ">h", 8), 11, ErrorCode.INVALID_TIMESTAMP),
    "half a producer": (batch(b"x", producer=(5, -1, -1)), 11, ErrorCode.INVALID_RECORD),
    "too large": (batch(b"x" * 2000), 11, ErrorCode.MESSAGE_TOO_LARGE),
}


@pytest.mark.spec("P6")
@pytest.mark.parametrize("case", BAD_BATCHES)
async def test_a_bad_batch_gets_its_error_and_nothing_is_appended(start_node: StartNode, dial: Dial, case: str) -> None:
    records, version, error = BAD_BATCHES[case]
    node = await start_node(wall_s=lambda: NOW_MS / 1000)
    client = await dial(node)
    await create_topic(node, "orders", max_message_bytes=1000)
    answer = await client.ask(produce_request("orders", records), version)
    result = answer.responses[0].partition_responses[0]
    assert result.error_code == error
    assert result.base_offset == -1
    if version >= 8:
        assert result.error_message
    assert led(node, ORDERS).log.log_end_offset == 0
    assert (await client.produce("orders", b"fine")).base_offset == 0


async def test_a_batch_larger_than_a_segment(node: Node, client: Client) -> None:
    await create_topic(node, "orders", segment_bytes=2000)
    assert (await client.produce("orders", b"x" * 3000)).error_code == ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize(("acks", "error"), [(2, 21), (-2, 21), (127, 21)])
async def test_unknown_acks_are_refused(node: Node, client: Client, acks: int, error: int) -> None:
    await create_topic(node, "orders")
    assert (await client.produce("orders", b"x", acks=acks)).error_code == error == ErrorCode.INVALID_REQUIRED_ACKS
    assert led(node, ORDERS).log.log_end_offset == 0


@pytest.mark.spec("P3")
async def test_an_idempotent_producer_is_held_to_its_sequence(node: Node, client: Client) -> None:
    await create_topic(node, "orders")
    outcomes = []
    for epoch, sequence, count in [
        (1, 0, 2),
        (1, 2, 1),
        (1, 2, 1),
        (1, 0, 2),
        (1, 5, 1),
        (0, 3, 1),
        (2, 0, 1),
        (1, 3, 1),
    ]:
        result = await client.produce("orders", *[b"x"] * count, producer=(9, epoch, sequence))
        outcomes.append((result.error_code, result.base_offset))
    gap, fenced = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH
    assert outcomes == [(0, 0), (0, 2), (0, 2), (0, 0), (gap, -1), (fenced, -1), (0, 3), (fenced, -1)]
    assert led(node, ORDERS).log.log_end_offset == 4


LIMITS = {
    "max.message.bytes": ("200", ErrorCode.MESSAGE_TOO_LARGE),
    "segment.bytes": ("1024", ErrorCode.RECORD_LIST_TOO_LARGE),
    "message.timestamp.after.max.ms": ("1", ErrorCode.INVALID_TIMESTAMP),
    "message.timestamp.before.max.ms": ("1", ErrorCode.INVALID_TIMESTAMP),
    "cleanup.policy": ("compact", ErrorCode.INVALID_RECORD),
}


@pytest.mark.spec("P3")
@pytest.mark.parametrize("setting", LIMITS)
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
async def test_a_limit_does_not_undo_what_is_written(
    start_node: StartNode, dial: Dial, setting: str, compression: Compression
) -> None:
    """A producer repeats a batch whose answer it missed. Apache Kafka refuses it, and its author sends it anew."""
    value, error = LIMITS[setting]
    node = await start_node(wall_s=lambda: NOW_MS / 1000)
    client = await dial(node)
    await create_topic(node, "orders")

    def one(sequence: int) -> bytearray:
        noise = Random(sequence).randbytes(1500)
        timestamp = NOW_MS - 1000 if "before" in setting else NOW_MS + 1000
        how = {"timestamp": timestamp, "producer": (9, 0, sequence), "keys": (None,)}
        return batch(noise, compression=compression, **how)

    async def outcome(records: bytearray) -> tuple[int, int]:
        answer = await client.ask(produce_request("orders", records))
        result = answer.responses[0].partition_responses[0]
        return result.error_code, result.base_offset

    assert [await outcome(one(0)), await outcome(one(1))] == [(0, 0), (0, 1)]
    await alter_topic(node, "orders", setting, value)
    assert await outcome(one(2)) == (error, -1)
    assert [await outcome(one(1)), await outcome(one(0))] == [(0, 1), (0, 0)]
    damaged = one(1)
    damaged[-1] ^= 1
    assert (await outcome(damaged))[0] == ErrorCode.CORRUPT_MESSAGE
    assert led(node, ORDERS).log.log_end_offset == 2


async def test_a_log_that_stamps_says_when(start_node: StartNode, dial: Dial) -> None:
    wall_s = [NOW_MS / 1000]
    node = await start_node(wall_s=lambda: wall_s[0])
    client = await dial(node)
    await create_topic(node, "orders", message_timestamp_type="LogAppendTime")
    wall_s[0] += 3600
    result = await client.produce("orders", b"x", timestamp=5)
    assert (result.error_code, result.log_append_time_ms) == (0, NOW_MS + 3_600_000)


async def test_what_a_producer_stamped_is_nothing_to_a_log_that_stamps(start_node: StartNode, dial: Dial) -> None:
    node = await start_node(wall_s=lambda: NOW_MS / 1000)
    client = await dial(node)
    await create_topic(node, "orders", message_timestamp_type="LogAppendTime")
    assert (await client.produce("orders", b"x", timestamp=NOW_MS + DAY_MS)).error_code == 0
    assert (await client.produce("orders", b"x")).error_code == 0


async def test_a_compacted_topic_needs_keys(node: Node, client: Client) -> None:
    tp = await create_topic(node, "table", cleanup_policy="compact")
    assert (await client.produce("table", b"a", b"b", keys=(b"k", None))).error_code == ErrorCode.INVALID_RECORD
    assert (await client.produce("table", b"a", compression=Compression.GZIP)).error_code == 0
    assert led(node, tp).log.log_end_offset == 1


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
async def test_the_records_that_are_wrong_are_named(node: Node, client: Client, compression: Compression) -> None:
    """KIP-467: the producer sends the others again. A compressed batch is looked into in a thread."""
    await create_topic(node, "table", cleanup_policy="compact")
    records = batch(*[b"value"] * 4, keys=(b"k", None, b"k", None), compression=compression)
    answer = (await client.ask(produce_request("table", records))).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    assert [each.batch_index for each in answer.record_errors] == [1, 3]
    assert all("without a key" in each.batch_index_error_message for each in answer.record_errors)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
async def test_the_records_with_wrong_timestamps_are_named(
    start_node: StartNode, dial: Dial, compression: Compression
) -> None:
    node = await start_node(wall_s=lambda: NOW_MS / 1000)
    client = await dial(node)
    await create_topic(node, "orders")
    times = (NOW_MS, NOW_MS + DAY_MS, NOW_MS, NOW_MS + 2 * DAY_MS)
    records = build_batch([Record(0, each, b"k", b"v" * 100) for each in times], compression=compression)
    answer = (await client.ask(produce_request("orders", records))).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_TIMESTAMP, -1)
    assert [each.batch_index for each in answer.record_errors] == [1, 3]
    assert all("message.timestamp.after.max.ms" in each.batch_index_error_message for each in answer.record_errors)


@pytest.mark.spec("P6")
@pytest.mark.parametrize("compression", list(Compression))
async def test_damage_inside_a_batch_is_found_where_it_is_looked_into(
    node: Node, client: Client, compression: Compression
) -> None:
    await create_topic(node, "table", cleanup_policy="compact")
    records = batch(b"value" * 20, compression=compression)
    records[61:] = b"\xff" * (len(records) - 61)
    struct.pack_into(">I", records, CRC_POSITION, compute_crc(records, 0, len(records)))
    answer = await client.ask(produce_request("table", records))
    assert answer.responses[0].partition_responses[0].error_code in (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
    )
    assert (await client.produce("table", b"fine")).base_offset == 0


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("sent", list(Compression))
async def test_a_topic_has_a_codec_of_its_own(node: Node, client: Client, sent: Compression, wanted: str) -> None:
    tp = await create_topic(node, "orders", compression_type=wanted)
    values = [b"%d" % number * 200 for number in range(20)]
    for sequence in (0, 0, 20):  # the second is the first again
        records = batch(*values, compression=sent, producer=(9, 0, sequence), timestamp=NOW_MS)
        answer = await client.ask(produce_request("orders", records))
        assert answer.responses[0].partition_responses[0].base_offset == sequence
    stored = (await client.fetch("orders")).records
    assert stored is not None
    header = parse_header(stored)
    codec = Compression.NONE if wanted == "uncompressed" else Compression[wanted.upper()]
    assert (header.compression, header.producer_id, header.record_count) == (codec, 9, 20)
    assert values_in(stored) == values * 2
    assert led(node, tp).log.log_end_offset == 40


async def test_a_level_of_compression_takes_effect(node: Node, client: Client) -> None:
    rng = Random(1)
    text = b" ".join(rng.choice([b"leader", b"follower", b"epoch", b"offset", b"log"]) for _ in range(5000))
    sizes = {}
    for codec, levels in (("gzip", (1, 9)), ("lz4", (9, 17)), ("zstd", (-50, 19))):
        for level in levels:
            name = f"{codec}{level}"
            settings = {"compression_type": codec, f"compression_{codec}_level": level}
            tp = await create_topic(node, name, **settings)
            assert (await client.produce(name, text)).error_code == 0
            sizes[name] = led(node, tp).log.size_in_bytes
    assert sizes["gzip9"] < sizes["gzip1"]
    assert sizes["lz417"] < sizes["lz49"]
    assert sizes["zstd19"] < sizes["zstd-50"]


async def test_a_batch_that_is_recompressed_must_fit_and_be_whole(node: Node, client: Client) -> None:
    tp = await create_topic(node, "orders", compression_type="uncompressed", max_message_bytes=3000)
    produced = await client.ask(produce_request("orders", batch(b"x" * 4000, compression=Compression.GZIP)))
    assert produced.responses[0].partition_responses[0].error_code == ErrorCode.MESSAGE_TOO_LARGE
    records = batch(b"value" * 20, compression=Compression.ZSTD)
    records[61:] = b"\xff" * (len(records) - 61)
    struct.pack_into(">I", records, CRC_POSITION, compute_crc(records, 0, len(records)))
    produced = await client.ask(produce_request("orders", records))
    assert produced.responses[0].partition_responses[0].error_code == ErrorCode.CORRUPT_MESSAGE
    assert (await client.produce("orders", b"fine")).base_offset == 0
    assert led(node, tp).log.log_end_offset == 1


async def test_a_table_with_a_codec_has_keys_and_order(node: Node, client: Client) -> None:
    """A batch may have to be looked into and to be recompressed; those behind it wait."""
    tp = await create_topic(node, "table", cleanup_policy="compact", compression_type="lz4")
    asked = [
        client.send(produce_request("table", batch(b"x" * 5_000, compression=Compression.GZIP))),
        client.send(produce_request("table", batch(b"no key", keys=(None,)))),
        client.send(produce_request("table", batch(b"small"))),
        client.send(produce_request("table", batch(b"like it", compression=Compression.LZ4))),
    ]
    outcomes = [(await answer).responses[0].partition_responses[0] for answer in asked]
    assert [(one.error_code, one.base_offset) for one in outcomes] == [
        (0, 0), (ErrorCode.INVALID_RECORD, -1), (0, 1), (0, 2)
    ]  # fmt: skip
    assert led(node, tp).log.log_end_offset == 3


@pytest.mark.spec("P6")
async def test_requests_behind_a_look_into_a_batch_keep_their_order(node: Node, client: Client) -> None:
    """The look is taken beside the loop; nothing of the connection overtakes it, and other connections go on."""
    tp = await create_topic(node, "table", cleanup_policy="compact")
    await create_topic(node, "orders")
    costly = batch(*[b"value"] * 5_000, keys=tuple(b"key %d" % number for number in range(5_000)))
    asked = [
        client.send(produce_request("table", costly)),
        client.send(produce_request("table", batch(b"small"))),
        client.send(produce_request("orders", batch(b"elsewhere"))),
        client.send(produce_request("table", batch(b"x" * 5_000, compression=Compression.GZIP))),
    ]
    offsets = [(await answer).responses[0].partition_responses[0].base_offset for answer in asked]
    assert offsets == [0, 5_000, 0, 5_001]
    assert led(node, tp).log.log_end_offset == 5_002


@pytest.mark.spec("P6")
async def test_few_requests_of_very_many_batches_are_staged_at_once(
    node: Node, client: Client, dial: Callable[..., Awaitable[Client]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty of 60 KB took 200 MB, and were decoded in one turn: they cost what their bytes do."""
    spent: list[int] = []
    monkeypatch.setattr(Connection, "spend", lambda _connection, cost: spent.append(cost))
    await create_topic(node, "orders")
    large = produce_request("orders", None)
    large.topic_data[0].partition_data *= BATCHES_AT_ONCE
    large.topic_data[0].partition_data += [PartitionProduceData(index=0, records=batch(b"large"))]
    dispatcher = listener_of(node)._handler
    assert isinstance(dispatcher, Dispatcher)
    staging = dispatcher.on_read_event_end.__self__  # type: ignore[attr-defined]
    for _ in range(LARGE_AT_ONCE):
        await staging.large.acquire()
    waiting, behind = client.send(large), client.send(produce_request("orders", batch(b"x")))
    assert (await (await dial(node)).produce("orders", b"small")).base_offset == 0
    assert max(spent) >= REQUEST_COST * BATCHES_AT_ONCE
    for _ in range(LARGE_AT_ONCE):
        staging.large.release()
    answers = [(await each).responses[0].partition_responses[-1].base_offset for each in (waiting, behind)]
    assert answers == [1, 2]


@pytest.mark.spec("P6")
async def test_who_waits_for_a_thread_keeps_no_large_request_out(
    node: Node, dial: Callable[..., Awaitable[Client]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight whose batches were to be recompressed, or whose coordinator did not answer, kept all others waiting."""
    gate, begun = asyncio.Event(), list[object]()

    async def recompress(_lookups: Lookups, records: bytes, _codec: object) -> bytes:
        begun.append(records)
        await gate.wait()
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE)

    monkeypatch.setattr(Lookups, "recompress", recompress)
    await create_topic(node, "packed", compression_type="gzip")
    await create_topic(node, "orders")

    async def send_large(topic: str) -> Awaitable[ProduceResponse]:
        large = produce_request(topic, None)
        large.topic_data[0].partition_data *= BATCHES_AT_ONCE
        large.topic_data[0].partition_data += [PartitionProduceData(index=0, records=batch(b"large"))]
        return (await dial(node)).send(large)

    held = [await send_large("packed") for _ in range(LARGE_AT_ONCE)]
    await eventually(lambda: len(begun) == LARGE_AT_ONCE, "all to wait")
    honest = await asyncio.wait_for(await send_large("orders"), 5)
    assert honest.responses[0].partition_responses[-1].base_offset == 0
    gate.set()
    for each in held:
        assert (await each).responses[0].partition_responses[-1].error_code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.spec("P6")
@pytest.mark.parametrize("is_first", [True, False])
async def test_no_batch_hides_behind_one_that_is_looked_into(node: Node, client: Client, is_first: bool) -> None:
    tp = await create_topic(node, "table", cleanup_policy="compact")
    keyed = batch(b"x" * 5_000, compression=Compression.GZIP)
    both = [batch(b"no key", keys=(None,)), keyed] if is_first else [keyed, batch(b"no key", keys=(None,))]
    request = produce_request("table", None)
    request.topic_data[0].partition_data = [PartitionProduceData(index=0, records=records) for records in both]
    answers = (await client.ask(request)).responses[0].partition_responses
    bad = 0 if is_first else 1
    assert [answer.error_code for answer in answers][bad] == ErrorCode.INVALID_RECORD
    assert (answers[1 - bad].error_code, answers[1 - bad].base_offset) == (0, 0), "each batch has its own answer"
    assert led(node, tp).log.log_end_offset == 1


@pytest.mark.spec("P6")
async def test_batches_beside_one_that_is_looked_into_are_written_once(node: Node, client: Client) -> None:
    """What comes before it in its request is in the log already when the look begins."""
    await create_topic(node, "table", cleanup_policy="compact")
    await create_topic(node, "orders", partitions=2)
    costly = batch(b"x" * 5_000, compression=Compression.GZIP)
    for acks, offset in ((1, 0), (-1, 1)):
        request = produce_request("orders", batch(b"before"), acks=acks)
        request.topic_data += [
            TopicProduceData(name="table", partition_data=[PartitionProduceData(index=0, records=bytearray(costly))]),
            TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=1, records=batch(b"behind"))]),
        ]
        answers = [topic.partition_responses[0] for topic in (await client.ask(request)).responses]
        assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, offset)] * 3
    for number in range(2):
        assert led(node, TopicPartition("orders", number)).log.log_end_offset == 2


@pytest.mark.spec("P6")
async def test_a_client_that_leaves_during_a_look_harms_nobody(node: Node, client: Client, dial: Dial) -> None:
    tp = await create_topic(node, "table", cleanup_policy="compact")
    leaving = await dial(node)
    leaving.send(produce_request("table", batch(b"x" * 5_000, compression=Compression.GZIP)))
    await eventually(lambda: len(listener_of(node)._connections) == 2, "both to be connected")
    leaving.close()
    await eventually(lambda: len(listener_of(node)._connections) == 1, "one to be gone")
    await client.produce("table", b"y")
    assert led(node, tp).log.log_end_offset in (1, 2)


@pytest.mark.spec("P6")
async def test_a_bomb_is_not_unpacked_whole(node: Node, client: Client) -> None:
    await create_topic(node, "table", cleanup_policy="compact")
    bomb = batch(bytes(MAX_DECOMPRESSED_BYTES + 1), compression=Compression.ZSTD)
    assert len(bomb) < 100_000
    answer = await client.ask(produce_request("table", bomb))
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.MESSAGE_TOO_LARGE


async def test_settings_of_a_topic_take_effect_at_once(node: Node, client: Client) -> None:
    await create_topic(node, "orders")
    assert (await client.produce("orders", b"x" * 500)).error_code == 0
    await alter_topic(node, "orders", "max.message.bytes", "200")
    assert (await client.produce("orders", b"x" * 500)).error_code == ErrorCode.MESSAGE_TOO_LARGE


async def test_a_client_that_knows_no_zstd_may_write_to_a_topic_of_zstd(node: Node, client: Client) -> None:
    """As in Apache Kafka: the version tells what its producer may send, not what the topic stores."""
    await create_topic(node, "orders", compression_type="zstd")
    assert (await client.produce("orders", b"v" * 100, version=3)).error_code == 0
    refused = await client.produce("orders", b"v" * 100, version=3, compression=Compression.ZSTD)
    assert refused.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    stored = (await client.fetch("orders")).records
    assert stored is not None
    assert (parse_header(stored).compression, values_in(stored)) == (Compression.ZSTD, [b"v" * 100])
