"""A producer against brokers that refuse, hang, die and lose count."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scripted_cluster import (
    HANG,
    HANG_UP,
    PRODUCER_ID,
    Reaction,
    ScriptedCluster,
    ScriptedPartition,
    produce_answer,
    until,
)

from minikafka.client import Producer, RecordMetadata
from minikafka.client import metadata as metadata_module
from minikafka.client.records import Delivery
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Compression, TopicPartition
from minikafka.records.batch import BatchHeader, parse_header
from minikafka.records.build import BatchBuilder, build_batch
from minikafka.records.record import Record
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from minikafka.wire.messages.metadata import MetadataRequest
from minikafka.wire.messages.produce import ProduceRequest, ProduceResponse


def batches(cluster: ScriptedCluster, index: int | None = None) -> list[BatchHeader]:
    """The batches of every Produce request so far, of one partition or of all."""
    return [
        parse_header(data.records)
        for request in cluster.asked(ProduceRequest)
        for topic in request.topic_data
        for data in topic.partition_data
        if index in (None, data.index)
    ]


async def settled(*deliveries: Delivery) -> list[RecordMetadata | ErrorCode]:
    """What became of each."""
    outcomes = await asyncio.gather(*deliveries, return_exceptions=True)
    return [outcome.code if isinstance(outcome, KafkaError) else outcome for outcome in outcomes]  # type: ignore[misc]


async def test_records_get_the_offsets_they_are_written_at(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.servers) as producer:
        deliveries = [await producer.send("t", b"%d" % n, partition=0, timestamp_ms=n) for n in range(5)]
        assert await settled(*deliveries) == [RecordMetadata("t", 0, n, n) for n in range(5)]
        other = await producer.send_and_wait("t", None, key=b"k", partition=1, headers=[("h", None)], timestamp_ms=9)
        assert other == RecordMetadata("t", 1, 0, 9)
    assert cluster.partition(0).values == [b"%d" % n for n in range(5)]


async def test_partitions_for_callers_that_place_records_themselves(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.servers, max_block_ms=50) as producer:
        assert await producer.partitions_for("t") == [tp.partition for tp in sorted(cluster.partitions)]
        with pytest.raises(KafkaError, match="topic 'missing' not found"):
            await producer.partitions_for("missing")


async def test_batches_grow_while_the_one_before_is_under_way(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.servers) as producer:
        for n in range(100):
            await producer.send("t", b"%d" % n, partition=0)
    assert cluster.partition(0).values == [b"%d" % n for n in range(100)]
    assert len(batches(cluster)) <= 2


async def test_partitions_of_one_leader_share_a_request(cluster: ScriptedCluster) -> None:
    cluster.partition(1).lead(1)
    async with Producer(cluster.servers, linger_ms=10_000) as producer:
        await producer.send("t", b"a", partition=0)
        await producer.send("t", b"b", partition=1)
    assert len(cluster.asked(ProduceRequest)) == 1


async def test_requests_are_bounded(cluster: ScriptedCluster) -> None:
    cluster.create_topic("wide", leaders=[1] * 6)
    async with Producer(cluster.servers, linger_ms=10_000, max_request_bytes=2500) as producer:
        for index in range(6):
            await producer.send("wide", b"." * 1000, partition=index)
    sizes = [
        sum(len(data.records) for topic in request.topic_data for data in topic.partition_data)
        for request in cluster.asked(ProduceRequest)
    ]
    assert len(sizes) == 3
    assert max(sizes) <= 2500


async def test_what_is_written_once_is_written_once(cluster: ScriptedCluster) -> None:
    """The answer to the first attempt is lost, and the second is recognised (KIP-98)."""

    def write_then_hang_up(node_id: int, request: ProduceRequest) -> Any:
        cluster._produce(node_id, request)
        return HANG_UP

    cluster.next_only(ApiKey.PRODUCE, write_then_hang_up)
    async with Producer(cluster.servers) as producer:
        metadata = await producer.send_and_wait("t", b"once", partition=0)
    assert metadata.offset == 0
    assert cluster.partition(0).values == [b"once"]
    first, second = batches(cluster)
    assert first == second


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
async def test_a_new_leader_is_found(cluster: ScriptedCluster, code: ErrorCode) -> None:
    async with Producer(cluster.servers) as producer:
        await producer.send_and_wait("t", b"a", partition=0)
        cluster.on(ApiKey.PRODUCE, lambda node, request: produce_answer(request, code) if node == 1 else None)
        cluster.partition(0).lead(2)
        deliveries = [await producer.send("t", value, partition=0) for value in (b"b", b"c")]
        assert [metadata.offset for metadata in await asyncio.gather(*deliveries)] == [1, 2]
    assert cluster.partition(0).values == [b"a", b"b", b"c"]


async def test_a_leader_that_dies_is_replaced(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.servers) as producer:
        await producer.send_and_wait("t", b"a", partition=0)
        cluster.kill(1)
        delivery = await producer.send("t", b"b", partition=0)
        await until(lambda: len(cluster.asked(MetadataRequest, 2)) >= 2)
        assert not delivery.done()
        cluster.partition(0).lead(2)
        cluster.live.discard(1)
        assert (await delivery).offset == 1


async def test_a_leader_that_hangs_is_left_when_the_cluster_fences_it(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_module, "LOOK_INTERVAL_S", 0.01)
    cluster.on(ApiKey.PRODUCE, lambda node_id, request: HANG if node_id == 1 else None)
    async with Producer(cluster.servers) as producer:
        delivery = await producer.send("t", b"a", partition=0)
        await until(lambda: cluster.asked(ProduceRequest, 1))
        cluster.partition(0).lead(2)
        cluster.live.discard(1)
        assert (await delivery).partition == 0


async def test_a_leader_that_hangs_holds_up_only_its_own_partitions(cluster: ScriptedCluster) -> None:
    cluster.on(ApiKey.PRODUCE, lambda node_id, request: HANG if node_id == 1 else None)
    async with Producer(cluster.servers) as producer:
        stuck = await producer.send("t", b"a", partition=0)
        for n in range(3):
            assert (await producer.send_and_wait("t", b"b", partition=1)).offset == n
        assert not stuck.done()
        cluster.on(ApiKey.PRODUCE, None)
        cluster.kill(1)
        await cluster.start(1)
        assert (await stuck).offset == 0


async def test_a_partition_without_a_leader_waits_for_one(cluster: ScriptedCluster) -> None:
    cluster.partition(0).lead(-1)
    async with Producer(cluster.servers) as producer:
        delivery = await producer.send("t", b"a", partition=0)
        asked = len(cluster.asked(MetadataRequest))
        await until(lambda: len(cluster.asked(MetadataRequest)) > asked + 2)
        cluster.partition(0).lead(2)
        assert (await delivery).offset == 0


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT]
)
async def test_what_may_pass_is_tried_again(cluster: ScriptedCluster, code: ErrorCode) -> None:
    cluster.next_only(ApiKey.PRODUCE, *[lambda node_id, request: produce_answer(request, code)] * 3)
    async with Producer(cluster.servers) as producer:
        first = await producer.send("t", b"a", partition=0)
        second = await producer.send("t", b"b", partition=0)
        assert [(await first).offset, (await second).offset] == [0, 1]
    assert cluster.partition(0).values == [b"a", b"b"]


# -- refusals ---------------------------------------------------------------------------------------------------------


async def test_a_batch_that_is_refused_fails_alone(cluster: ScriptedCluster) -> None:
    code = ErrorCode.MESSAGE_TOO_LARGE
    cluster.next_only(ApiKey.PRODUCE, lambda node_id, request: produce_answer(request, code, "at most 9 bytes"))
    async with Producer(cluster.servers) as producer:
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE: at most 9 bytes"):
            await producer.send_and_wait("t", b"large", partition=0)
        assert (await producer.send_and_wait("t", b"small", partition=0)).offset == 0
    refused, accepted = batches(cluster)
    assert (refused.producer_epoch, refused.base_sequence) == (0, 0)
    assert (accepted.producer_epoch, accepted.base_sequence) == (1, 0), "numbers are not handed on to other records"


@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID])
async def test_a_broker_that_lost_count_gets_new_numbers(cluster: ScriptedCluster, code: ErrorCode) -> None:
    async with Producer(cluster.servers) as producer:
        await producer.send_and_wait("t", b"a", partition=0)
        await producer.send_and_wait("t", b"a", partition=1)
        cluster.next_only(ApiKey.PRODUCE, lambda node_id, request: produce_answer(request, code))
        await producer.send_and_wait("t", b"b", partition=0)
        await producer.send_and_wait("t", b"b", partition=1)
    numbers = [(batch.producer_epoch, batch.base_sequence) for batch in batches(cluster, 0)]
    assert numbers == [(0, 0), (0, 1), (1, 0)]
    assert [batch.producer_epoch for batch in batches(cluster, 1)] == [0, 0]
    assert cluster.partition(0).values == [b"a", b"b"]
    assert len(cluster.asked(InitProducerIdRequest)) == 1


async def test_a_duplicate_whose_offset_is_forgotten_is_delivered(cluster: ScriptedCluster) -> None:
    code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    cluster.next_only(ApiKey.PRODUCE, lambda node_id, request: produce_answer(request, code))
    async with Producer(cluster.servers) as producer:
        assert (await producer.send_and_wait("t", b"a", partition=0)).offset == -1


async def test_a_partition_missing_from_the_answer_fails(cluster: ScriptedCluster) -> None:
    cluster.next_only(ApiKey.PRODUCE, produce_answer(ProduceRequest(), ErrorCode.NONE))
    async with Producer(cluster.servers) as producer:
        with pytest.raises(KafkaError, match="the response does not contain the partition"):
            await producer.send_and_wait("t", b"a", partition=0)


async def test_an_id_is_asked_for_until_there_is_one(cluster: ScriptedCluster) -> None:
    not_yet = InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    cluster.next_only(ApiKey.INIT_PRODUCER_ID, not_yet, HANG_UP, not_yet)
    async with Producer(cluster.servers) as producer:
        await producer.send_and_wait("t", b"a", partition=0)
    assert batches(cluster)[0].producer_id == PRODUCER_ID


async def test_a_refused_id_is_the_end(cluster: ScriptedCluster) -> None:
    refused = InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    cluster.on(ApiKey.INIT_PRODUCER_ID, lambda node_id, request: refused)
    async with Producer(cluster.servers) as producer:
        with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED: the cluster returned no producer id"):
            await producer.send_and_wait("t", b"a", partition=0)
        with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
            await producer.send("t", b"b", partition=0)
        await producer.flush()


async def test_no_id_is_asked_for_without_idempotence(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.servers, acks=1) as producer:
        assert (await producer.send_and_wait("t", b"a", partition=0)).offset == 0
    assert not cluster.asked(InitProducerIdRequest)
    assert batches(cluster)[0].producer_id == -1


async def test_acks_0_is_not_answered(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.servers, acks=0) as producer:
        metadata = await producer.send_and_wait("t", b"a", partition=0)
        assert (metadata.partition, metadata.offset) == (0, -1)
    await until(lambda: cluster.partition(0).values == [b"a"])


# -- time -------------------------------------------------------------------------------------------------------------


async def test_a_batch_that_is_not_acknowledged_in_time_fails(cluster: ScriptedCluster) -> None:
    def hang_up_on_others(node_id: int, request: ProduceRequest) -> Reaction | None:
        """One of them may still be on its way when its time is over."""
        return None if b"third" in bytes(request.topic_data[0].partition_data[0].records or b"") else HANG_UP

    cluster.on(ApiKey.PRODUCE, hang_up_on_others)
    async with Producer(cluster.servers, delivery_timeout_ms=100) as producer:
        deliveries = [await producer.send("t", b"a", partition=0)]
        await until(lambda: batches(cluster))
        deliveries.append(await producer.send("t", b"b", partition=0))
        assert await settled(*deliveries) == [ErrorCode.REQUEST_TIMED_OUT] * 2
        assert (await producer.send_and_wait("t", b"third", partition=0)).offset == 0
    assert batches(cluster)[0].producer_epoch == 0
    assert batches(cluster)[-1].producer_epoch > 0, "they may have been written: a new epoch turns them away"


async def test_a_leader_that_hangs_does_not_hold_a_batch_beyond_its_time(cluster: ScriptedCluster) -> None:
    cluster.on(ApiKey.PRODUCE, lambda node_id, request: HANG)
    async with Producer(cluster.servers, delivery_timeout_ms=50) as producer:
        with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
            await producer.send_and_wait("t", b"a", partition=0)


async def test_a_batch_near_its_end_does_not_cut_the_others_in_its_request_short(cluster: ScriptedCluster) -> None:
    cluster.on(ApiKey.PRODUCE, lambda node_id, request: HANG_UP)
    async with Producer(cluster.servers, delivery_timeout_ms=300, request_timeout_ms=20_000) as producer:
        assert await settled(await producer.send("t", b"old", partition=0)) == [ErrorCode.REQUEST_TIMED_OUT]
    requests = cluster.asked(ProduceRequest)
    assert len(requests) > 1
    assert {request.timeout_ms for request in requests} == {300}, "of the last attempt, too"


async def test_what_follows_a_batch_that_expired_under_way_has_a_new_epoch(cluster: ScriptedCluster) -> None:
    cluster.on(ApiKey.PRODUCE, lambda node_id, request: HANG)
    async with Producer(cluster.servers, delivery_timeout_ms=100, request_timeout_ms=200) as producer:
        late = await producer.send("t", b"late", partition=0)
        with pytest.raises(KafkaError, match=r"within 0\.1 s: attempt 1 has no response"):
            await late
        assert (await producer._connections.to_node(1, "produce")).is_open, "others may wait for answers on it"
        cluster.on(ApiKey.PRODUCE, None)
        await until(lambda: not len(producer._accumulator))  # its request has ended
        assert (await producer.send_and_wait("t", b"next", partition=0)).offset == 0
    first, second = batches(cluster)
    assert (first.producer_epoch, second.producer_epoch) == (0, 1), "a late copy of the first is turned away"


async def test_a_batch_whose_fate_is_unknown_does_not_hand_its_numbers_on(cluster: ScriptedCluster) -> None:
    """The broker wrote it and failed behind that. Under its numbers the next one would pass for its duplicate."""

    def write_and_fail(node_id: int, request: ProduceRequest) -> Any:
        cluster._produce(node_id, request)
        return produce_answer(request, ErrorCode.UNKNOWN_SERVER_ERROR)

    cluster.next_only(ApiKey.PRODUCE, write_and_fail)
    async with Producer(cluster.servers) as producer:
        with pytest.raises(KafkaError, match="UNKNOWN_SERVER_ERROR"):
            await producer.send_and_wait("t", b"first", partition=0)
        assert (await producer.send_and_wait("t", b"second", partition=0)).offset == 1
    assert cluster.partition(0).values == [b"first", b"second"]


async def test_what_cannot_be_sent_at_all_fails_too(cluster: ScriptedCluster) -> None:
    cluster.partition(0).lead(-1)
    async with Producer(cluster.servers, delivery_timeout_ms=50) as producer:
        with pytest.raises(KafkaError, match=r"t-0 was not acknowledged within 0\.05 s: it could not be sent"):
            await producer.send_and_wait("t", b"a", partition=0)


async def test_what_was_refused_until_its_time_was_up_tells_why(cluster: ScriptedCluster) -> None:
    cluster.on(ApiKey.PRODUCE, lambda node_id, request: produce_answer(request, ErrorCode.NOT_ENOUGH_REPLICAS))
    async with Producer(cluster.servers, delivery_timeout_ms=50) as producer:
        told = (
            r"REQUEST_TIMED_OUT.*(attempts failed, the last one|has no response; the one before): NOT_ENOUGH_REPLICAS"
        )
        with pytest.raises(KafkaError, match=told):
            await producer.send_and_wait("t", b"a", partition=0)


async def test_closing_waits_for_what_is_buffered(cluster: ScriptedCluster) -> None:
    producer = Producer(cluster.servers, linger_ms=60_000)
    await producer.start()
    delivery = await producer.send("t", b"a", partition=0)
    await producer.close()
    assert (await delivery).offset == 0
    await producer.close()


async def test_closing_does_not_hang(cluster: ScriptedCluster) -> None:
    cluster.on(ApiKey.PRODUCE, lambda node_id, request: HANG)
    producer = Producer(cluster.servers)
    await producer.start()
    deliveries = [await producer.send("t", b"a", partition=n) for n in (0, 1)]
    await until(lambda: len(batches(cluster)) == 2)
    await producer.close(timeout_ms=10)
    assert await settled(*deliveries) == [ErrorCode.REQUEST_TIMED_OUT] * 2
    with pytest.raises(RuntimeError, match="not running"):
        await producer.send("t", b"b")


async def test_a_record_whose_topic_is_found_when_the_producer_is_closed_does_not_wait_for_ever(
    cluster: ScriptedCluster,
) -> None:
    producer = Producer(cluster.servers)
    await producer.start()

    async def look_and_close() -> None:
        await producer.partitions_for("t")
        await producer.close()

    closing = asyncio.ensure_future(look_and_close())  # hears of the topic in the same turn, but first
    sending = asyncio.ensure_future(producer.send_and_wait("t", b"a", partition=0))
    with pytest.raises(RuntimeError, match="not running"):
        await asyncio.wait_for(sending, timeout=30)
    await closing


async def test_an_exception_in_the_block_is_not_held_up(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minikafka.client.producer.LEAVING_TIMEOUT_MS", 10)
    cluster.on(ApiKey.PRODUCE, lambda node_id, request: HANG)
    deliveries = []

    async def fail() -> None:
        async with Producer(cluster.servers) as producer:
            deliveries.append(await producer.send("t", b"a"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await settled(*deliveries) == [ErrorCode.REQUEST_TIMED_OUT]


async def test_leaving_by_an_exception_says_enough(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio reports no future that nobody looks at."""
    monkeypatch.setattr("minikafka.client.producer.LEAVING_TIMEOUT_MS", 10)
    cluster.on(ApiKey.PRODUCE, lambda node_id, request: HANG)
    deliveries = []

    async def fail() -> None:
        async with Producer(cluster.servers) as producer:
            deliveries.extend([await producer.send("t", value) for value in (b"a", b"b")])
            deliveries[1].cancel()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert all(delivery.done() for delivery in deliveries)
    assert not any(delivery._log_traceback for delivery in deliveries)


async def test_a_close_that_is_cancelled_says_enough(cluster: ScriptedCluster) -> None:
    cluster.on(ApiKey.PRODUCE, lambda node_id, request: HANG)
    producer = Producer(cluster.servers)
    await producer.start()
    delivery = await producer.send("t", b"a")
    closing = asyncio.ensure_future(producer.close())
    await until(lambda: batches(cluster))
    closing.cancel()
    await asyncio.wait((closing,))
    assert closing.cancelled()
    assert delivery.done()
    assert not delivery._log_traceback


async def test_flushing_waits_only_for_what_was_there(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.servers) as producer:
        first = await producer.send("t", b"a", partition=1)
        flushing = asyncio.ensure_future(producer.flush())
        await asyncio.sleep(0)
        cluster.on(ApiKey.PRODUCE, lambda node_id, request: HANG if node_id == 1 else None)
        stuck = await producer.send("t", b"b", partition=0)
        await flushing
        assert first.done()
        assert not stuck.done()
        await producer.close(timeout_ms=10)
    assert await settled(stuck) == [ErrorCode.REQUEST_TIMED_OUT]


async def test_nobody_has_to_wait_for_a_delivery(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.servers) as producer:
        (await producer.send("t", b"a", partition=0)).cancel()
        assert (await producer.send_and_wait("t", b"b", partition=0)).offset == 1


# -- bounds and mistakes ----------------------------------------------------------------------------------------------


async def test_sending_waits_for_room(cluster: ScriptedCluster) -> None:
    cluster.on(ApiKey.PRODUCE, lambda node_id, request: HANG)
    async with Producer(cluster.servers, buffer_bytes=3000, max_request_bytes=3000) as producer:
        sending = [asyncio.ensure_future(producer.send("t", b"." * 1000, partition=n % 2)) for n in range(8)]
        await until(lambda: sum(task.done() for task in sending) == 2)
        await until(lambda: batches(cluster))
        assert sum(task.done() for task in sending) == 2
        cluster.on(ApiKey.PRODUCE, None)
        for node_id in (1, 2):
            cluster.kill(node_id)
            await cluster.start(node_id)
        deliveries = await asyncio.gather(*sending)
        assert all(isinstance(outcome, RecordMetadata) for outcome in await settled(*deliveries))
    assert cluster.partition(0).log_end + cluster.partition(1).log_end == 8


async def test_a_caller_that_never_waits_does_not_keep_batches_from_being_sent(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.servers, batch_bytes=1000) as producer:
        for _ in range(200):
            await producer.send("t", b"." * 100, partition=0)
        assert batches(cluster), "sent while the loop above was running"


@pytest.mark.parametrize("compression", Compression)
async def test_compression(cluster: ScriptedCluster, compression: Compression) -> None:
    async with Producer(cluster.servers, compression=compression) as producer:
        await producer.send_and_wait("t", b"." * 10_000, partition=0)
    assert batches(cluster)[0].compression is compression
    assert cluster.partition(0).values == [b"." * 10_000]


async def test_keys_choose_partitions_and_others_spread(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.servers) as producer:
        for key in (b"21", b"abc") * 3:
            await producer.send_and_wait("t", key, key=key)
        for _ in range(6):
            await producer.send_and_wait("t", b"unkeyed")
    for index in (0, 1):
        values = cluster.partition(index).values
        assert len({value for value in values if value != b"unkeyed"}) <= 1
        assert b"unkeyed" in values


async def test_a_record_that_is_too_large_is_refused_before_it_is_sent(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.servers, max_request_bytes=1000) as producer:
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE") as raised:
            await producer.send("t", b"." * 1000)
        assert "too large: at most 1000 bytes fit in a request" in raised.value.message


async def test_a_partition_that_does_not_exist(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.servers) as producer:
        with pytest.raises(KafkaError, match="t has partitions 0 to 1, not 2"):
            await producer.send("t", b"a", partition=2)


async def test_a_partition_that_was_added_is_found(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.servers) as producer:
        await producer.send_and_wait("t", b"a", partition=0)
        cluster.partitions[TopicPartition("t", 2)] = ScriptedPartition(leader=1)
        assert (await producer.send_and_wait("t", b"a", partition=2)).partition == 2


@pytest.mark.parametrize("leaders", [[1, 2], [1]], ids=["with-the-partition", "without-it"])
async def test_what_was_sent_to_a_topic_is_not_sent_to_the_next_one_of_its_name(
    cluster: ScriptedCluster, leaders: list[int]
) -> None:
    old_id = cluster.topic_ids["t"]

    def refuse(node_id: int, request: ProduceRequest) -> ProduceResponse | None:
        if request.topic_data[0].topic_id != old_id:
            return None
        if cluster.topic_ids["t"] == old_id:
            del cluster.partitions[TopicPartition("t", 1)]
            cluster.create_topic("t", leaders)
        return produce_answer(request, ErrorCode.UNKNOWN_TOPIC_ID)

    cluster.on(ApiKey.PRODUCE, refuse)
    async with Producer(cluster.servers) as producer:
        with pytest.raises(KafkaError, match="deleted and created again") as refused:
            await producer.send_and_wait("t", b"old", partition=1)
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_ID
        assert (await producer.send_and_wait("t", b"new", partition=0)).offset == 0


async def test_a_topic_that_does_not_exist(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.servers, max_block_ms=50) as producer:
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION: topic 'new' not found"):
            await producer.send("new", b"a")


async def test_text_is_not_bytes(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.servers) as producer:
        with pytest.raises(TypeError, match="the value of a record must be bytes or None, not str; encode it first"):
            await producer.send("t", "text")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="the key of a record must be bytes or None, not int"):
            await producer.send("t", b"", key=7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"timestamp_ms": 1 << 63}, ValueError, "timestamp_ms is 9223372036854775808; it must be from 0"),
        ({"timestamp_ms": -1}, ValueError, "timestamp_ms is -1"),
        ({"timestamp_ms": 1.5}, TypeError, "timestamp_ms must be a whole number of milliseconds, not 1.5"),
        ({"headers": [("name", "text")]}, TypeError, r"not \('name', 'text'\)"),
        ({"headers": {"name": b"value"}}, TypeError, "a header must be a pair of a str and bytes or None, not 'name'"),
        ({"partition": "0"}, TypeError, "a partition must be a whole number, not '0'"),
        ({"topic": None}, TypeError, "a topic must be a str, not NoneType"),
    ],
)
async def test_what_no_record_can_have_is_refused_and_spoils_no_other(
    cluster: ScriptedCluster, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    async with Producer(cluster.servers) as producer:
        first = await producer.send("t", b"first", partition=0)
        with pytest.raises(error, match=message):
            await producer.send(**{"topic": "t", "value": b"bad", "partition": 0, **arguments})
        second = await producer.send("t", b"second", partition=0)
        assert [(await first).offset, (await second).offset] == [0, 1]


async def test_whatever_breaks_the_sender_no_record_waits_for_ever(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: BatchBuilder) -> bytearray:
        raise ZeroDivisionError("a bug")

    producer = Producer(cluster.servers)
    await producer.start()
    delivery = await producer.send("t", b"a")
    monkeypatch.setattr(BatchBuilder, "build", refuse)
    with pytest.raises(KafkaError, match="a bug"):
        async with asyncio.timeout(20):
            await delivery
    await producer.close()


async def test_a_producer_is_started_once(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.servers) as producer:
        with pytest.raises(RuntimeError, match="already running"):
            await producer.start()


async def test_a_producer_has_to_be_started() -> None:
    with pytest.raises(RuntimeError, match="not running"):
        await Producer("127.0.0.1:1").send("t", b"a")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"acks": 2}, "acks is 2; it must be 'all', 1 or 0"),
        ({"acks": "some"}, "acks is 'some'"),
        ({"acks": 1, "enable_idempotence": True}, "needs acks='all'"),
        ({"batch_bytes": 0}, "batch_bytes is 0; it must be at least 1"),
        ({"linger_ms": -1}, "linger_ms is -1; it must be at least 0"),
        ({"linger_ms": "5"}, "linger_ms must be a whole number, not '5'"),
        ({"compression": "lz4"}, "compression is 'lz4'; it must be one of minikafka.model.Compression"),
        ({"bootstrap_servers": ["127.0.0.1:1"]}, "bootstrap_servers must be a str, not list"),
    ],
)
def test_settings_that_cannot_be(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        Producer(**{"bootstrap_servers": "127.0.0.1:1", **arguments})


async def test_a_cluster_that_is_not_there(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka.client.connections.BOOTSTRAP_TIMEOUT_S", 0.01)
    cluster.kill(1)
    cluster.kill(2)
    with pytest.raises(KafkaError, match="no broker answers"):
        await Producer(cluster.servers).start()


# -- encoded batches ------------------------------------------------------------------------------------------------


def encoded(*values: bytes, **header: Any) -> bytearray:
    return build_batch([Record(-1, 7, None, value) for value in values], **header)


async def test_encoded_batches_and_records_are_written_in_order(cluster: ScriptedCluster) -> None:
    cluster.next_only(ApiKey.PRODUCE, HANG_UP, None)  # whatever happens
    async with Producer(cluster.servers) as producer:
        first = await producer.send("t", b"0", partition=0)
        second = await producer.send_batch("t", 0, encoded(b"1", b"2", b"3"), 3)
        third = await producer.send_batch("t", 0, encoded(b"4"), 1)
        last = await producer.send("t", b"5", partition=0)
        written = await settled(first, second, third, last)
    assert [m.offset for m in written if isinstance(m, RecordMetadata)] == [0, 1, 4, 5]
    assert written[1] == RecordMetadata("t", 0, 1, 7)
    assert cluster.partition(0).values == [b"0", b"1", b"2", b"3", b"4", b"5"]
    stamps = {(header.producer_id, header.producer_epoch, header.base_sequence) for header in batches(cluster)}
    assert stamps == {(PRODUCER_ID, 0, 0), (PRODUCER_ID, 0, 1), (PRODUCER_ID, 0, 4), (PRODUCER_ID, 0, 5)}


@pytest.mark.parametrize(
    ("batch", "count", "message"),
    [
        (bytearray(60), 1, "60 bytes are too short for a record batch"),
        (encoded(b"1") + b"?", 1, "are not one record batch"),
        (encoded(b"1", b"2"), 1, "a batch of 2 records, the last with delta 1, was sent as one of 1"),
        (
            encoded(b"1", is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=0),
            1,
            "control batches are written by brokers",
        ),
    ],
)
async def test_what_is_no_batch_is_refused(
    cluster: ScriptedCluster, batch: bytearray, count: int, message: str
) -> None:
    async with Producer(cluster.servers) as producer:
        with pytest.raises(KafkaError, match=message) as raised:
            await producer.send_batch("t", 0, batch, count)
        assert raised.value.code is ErrorCode.INVALID_RECORD
        assert (await producer.send_and_wait("t", b"ok", partition=0)).offset == 0


async def test_batches_that_cannot_be_placed(cluster: ScriptedCluster) -> None:
    producer = Producer(cluster.servers, max_request_bytes=1000)
    with pytest.raises(RuntimeError, match="not running"):
        await producer.send_batch("t", 0, encoded(b"1"), 1)
    async with producer:
        with pytest.raises(KafkaError, match=r"a batch of .* bytes is too large") as raised:
            await producer.send_batch("t", 0, encoded(b"." * 1000), 1)
        assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
        with pytest.raises(KafkaError, match="t has partitions 0 to 1, not 5"):
            await producer.send_batch("t", 5, encoded(b"1"), 1)
        with pytest.raises(TypeError, match="a batch must be a bytearray"):
            await producer.send_batch("t", 0, bytes(encoded(b"1")), 1)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="not running"):
        await producer.send_batch("t", 0, encoded(b"1"), 1)


async def test_batches_wait_for_room(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.servers, buffer_bytes=300) as producer:
        deliveries = [await producer.send_batch("t", 0, encoded(b"." * 100), 1) for _ in range(9)]
        assert sum(delivery.done() for delivery in deliveries) >= 7
    assert len(cluster.partition(0).values) == 9
