"""A consumer against brokers that move, truncate, damage and hang."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from scripted_cluster import HANG, HANG_UP, ScriptedCluster, commit_answer, until

from minikafka.client import Consumer, ConsumerRecord, LogTruncatedError, NoOffsetError
from minikafka.client import metadata as metadata_module
from minikafka.client.consuming import commits
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import ZERO_TOPIC_ID, Isolation, OffsetAndEpoch, TopicPartition
from minikafka.records.build import build_batch
from minikafka.records.read import iter_records
from minikafka.records.record import Record
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from minikafka.wire.messages.list_offsets import ListOffsetsRequest
from minikafka.wire.messages.metadata import MetadataRequest
from minikafka.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from minikafka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from minikafka.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def write(cluster: ScriptedCluster, *values: bytes, index: int = 0) -> None:
    """One batch."""
    records = [Record(-1, 0, None, value) for value in values]
    cluster.partition(index).append(bytes(build_batch(records)))


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, last)]


def values(records: Iterable[ConsumerRecord]) -> list[bytes | None]:
    return [record.value for record in records]


async def read(consumer: Consumer, count: int) -> list[bytes | None]:
    """The values of the next records."""
    records: list[ConsumerRecord] = []
    while len(records) < count:
        polled = await consumer.poll(30_000, count - len(records))
        assert polled, f"got {values(records)}, and then nothing for half a minute"
        records += polled
    return values(records)


def fetch_error(request: FetchRequest, code: ErrorCode) -> FetchResponse:
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[PartitionData(partition_index=p.partition, error_code=code) for p in topic.partitions],
            )
            for topic in request.topics
        ]
    )


# -- reading --------------------------------------------------------------------------------------------------------


async def test_records_are_read_in_order_from_all_partitions(cluster: ScriptedCluster) -> None:
    write(cluster, *numbers(0, 5))
    write(cluster, *numbers(5, 8))
    write(cluster, b"other", index=1)
    async with Consumer(cluster.servers, "t", auto_offset_reset="earliest") as consumer:
        found = await read(consumer, 9)
        assert [value for value in found if value != b"other"] == numbers(0, 8)
        assert consumer.assignment == {T0, T1}
        assert await consumer.position(T0) == 8
        write(cluster, b"later")
        assert await read(consumer, 1) == [b"later"]


async def test_records_are_read_one_by_one_or_in_a_loop(cluster: ScriptedCluster) -> None:
    write(cluster, *numbers(0, 3))
    async with Consumer(cluster.servers, "t", auto_offset_reset="earliest") as consumer:
        assert (await consumer.getone()).value == b"0"
        found = []
        async for record in consumer:
            found.append(record.value)
            if len(found) == 2:
                break
        assert found == [b"1", b"2"]


async def test_reading_begins_at_the_end_by_default(cluster: ScriptedCluster) -> None:
    write(cluster, b"old")
    async with Consumer(cluster.servers, "t") as consumer:
        assert await consumer.position(T0) == 1
        write(cluster, b"new")
        assert await read(consumer, 1) == [b"new"]


async def test_nothing_comes_in_time(cluster: ScriptedCluster) -> None:
    async with Consumer(cluster.servers, "t") as consumer:
        assert await consumer.poll() == []
        assert await consumer.poll(5) == []


async def test_a_poll_that_is_cancelled_takes_nothing(cluster: ScriptedCluster) -> None:
    async with Consumer(cluster.servers, "t", auto_offset_reset="earliest", fetch_max_wait_ms=5) as consumer:
        found: list[bytes | None] = []
        for n in range(60):
            polling = asyncio.ensure_future(consumer.poll(30_000, 1))
            if n % 2:
                write(cluster, b"%d" % n)
            for _ in range(n % 7):
                await asyncio.sleep(0.0005)
            polling.cancel()
            try:
                found += values(await polling)
            except asyncio.CancelledError:
                continue
        found += await read(consumer, 30 - len(found))
        assert found == [b"%d" % n for n in range(1, 60, 2)]


async def test_a_fetch_is_under_way_while_records_wait(cluster: ScriptedCluster) -> None:
    cluster.create_topic("one", leaders=[1])
    partition = cluster.partition(0, "one")
    for n in range(10):
        partition.append(bytes(build_batch([Record(-1, 0, None, b"%d" % n)])))
    async with Consumer(cluster.servers, "one", auto_offset_reset="earliest", max_partition_fetch_bytes=1) as consumer:
        await until(lambda: len(cluster.asked(FetchRequest)) == 2)
        await asyncio.sleep(0.02)
        assert len(cluster.asked(FetchRequest)) == 2, "two answers wait, so nothing more is asked for"
        assert await read(consumer, 1) == [b"0"]
        await until(lambda: len(cluster.asked(FetchRequest)) == 3)
        assert await read(consumer, 9) == numbers(1, 10)


async def test_a_long_poll_does_not_delay_other_partitions(cluster: ScriptedCluster) -> None:
    cluster.partition(1).lead(1)
    write(cluster, b"there", index=1)
    async with Consumer(cluster.servers, fetch_max_wait_ms=60_000) as consumer:
        consumer.assign([T0])
        await until(lambda: cluster.asked(FetchRequest))
        consumer.assign([T0, T1])
        consumer.seek(T1, 0)
        assert await read(consumer, 1) == [b"there"]


# -- assignment and position ----------------------------------------------------------------------------------------


async def test_partitions_are_assigned_by_hand(cluster: ScriptedCluster) -> None:
    write(cluster, b"a")
    write(cluster, b"b", index=1)
    async with Consumer(cluster.servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        assert await read(consumer, 1) == [b"a"]
        consumer.assign([T0, T1])
        assert await read(consumer, 1) == [b"b"]
        assert await consumer.position(T0) == 1, "it went on where it was"
        consumer.assign([])
        assert await consumer.poll(10) == []
        consumer.assign([T0])
        with pytest.raises(RuntimeError, match="manually assigned partitions"):
            await consumer.subscribe("t")


async def test_a_subscription_names_topics(cluster: ScriptedCluster) -> None:
    async with Consumer(cluster.servers) as consumer:
        with pytest.raises(ValueError, match="at least one topic"):
            await consumer.subscribe()


async def test_a_subscribed_consumer_is_not_assigned_by_hand(cluster: ScriptedCluster) -> None:
    async with Consumer(cluster.servers, "t") as consumer:
        with pytest.raises(RuntimeError, match="is subscribed"):
            consumer.assign([T0])


async def test_a_consumer_reads_on_from_where_it_was_sought_to(cluster: ScriptedCluster) -> None:
    write(cluster, *numbers(0, 10))
    async with Consumer(cluster.servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        assert await read(consumer, 3) == numbers(0, 3)
        consumer.seek(T0, 7)
        assert await read(consumer, 2) == numbers(7, 9)
        consumer.seek_to_beginning()
        assert await read(consumer, 1) == [b"0"]
        consumer.seek_to_end(T0)
        assert await consumer.position(T0) == 10
        with pytest.raises(ValueError, match="cannot seek t-0 to -1"):
            consumer.seek(T0, -1)
        with pytest.raises(ValueError, match="t-1 is not assigned"):
            consumer.seek(T1, 0)


async def test_a_paused_partition_is_not_read_until_it_is_resumed(cluster: ScriptedCluster) -> None:
    write(cluster, *numbers(0, 4))
    write(cluster, b"other", index=1)
    async with Consumer(cluster.servers, "t", auto_offset_reset="earliest") as consumer:
        consumer.pause(T0)
        assert await read(consumer, 1) == [b"other"]
        assert await consumer.poll(20) == []
        consumer.resume(T0)
        assert await read(consumer, 2) == numbers(0, 2)
        consumer.pause()
        assert await consumer.poll(20) == []
        consumer.resume()
        assert await read(consumer, 2) == numbers(2, 4)


async def test_partitions_that_are_added_are_read_from_their_beginning(cluster: ScriptedCluster) -> None:
    async with Consumer(cluster.servers, "t") as consumer:
        cluster.partitions[TopicPartition("t", 2)] = type(cluster.partition(0))(leader=1)
        write(cluster, b"first", index=2)
        consumer._metadata.request_refresh()
        assert await read(consumer, 1) == [b"first"]


async def test_offsets_are_looked_up(cluster: ScriptedCluster) -> None:
    write(cluster, *numbers(0, 4))
    cluster.partition(0).log_start = 2
    async with Consumer(cluster.servers) as consumer:
        assert await consumer.beginning_offsets([T0, T1]) == {T0: 2, T1: 0}
        assert await consumer.end_offsets([T0, T1]) == {T0: 4, T1: 0}
        cluster.partition(1).lead(1)
        assert await consumer.end_offsets([T1]) == {T1: 0}, "the leader known before is corrected"


async def test_an_offset_that_nobody_tells(cluster: ScriptedCluster) -> None:
    cluster.on(ApiKey.LIST_OFFSETS, lambda node_id, request: HANG_UP)
    async with Consumer(cluster.servers, max_block_ms=50) as consumer:
        with pytest.raises(KafkaError, match=r"looking up offsets timed out after 0\.05 s"):
            await consumer.end_offsets([T0])
        with pytest.raises(KafkaError, match="LEADER_NOT_AVAILABLE"):
            await consumer.end_offsets([TopicPartition("t", 9)])
    assert cluster.asked(ListOffsetsRequest)


async def test_a_topic_that_is_missing(cluster: ScriptedCluster) -> None:
    with pytest.raises(KafkaError, match="topic 'new' not found"):
        await Consumer(cluster.servers, "new", max_block_ms=50).start()
    assert not any(request.allow_auto_topic_creation for request in cluster.asked(MetadataRequest))


# -- errors ---------------------------------------------------------------------------------------------------------


async def test_who_waits_for_records_is_told_that_the_topic_is_another(cluster: ScriptedCluster) -> None:
    """Though nothing is fetched from then on, so that no answer tells."""
    async with Consumer(cluster.servers, auto_offset_reset="none") as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 0)
        cluster.on(ApiKey.FETCH, lambda node_id, request: HANG)
        polling = asyncio.create_task(consumer.poll(60_000))
        await until(lambda: cluster.asked(FetchRequest))
        cluster.create_topic("t", leaders=[1, 2])
        consumer._metadata.request_refresh()
        with pytest.raises(LogTruncatedError):
            async with asyncio.timeout(20):
                await polling


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
async def test_what_may_pass_is_tried_again(cluster: ScriptedCluster, code: ErrorCode) -> None:
    write(cluster, b"a")
    cluster.next_only(ApiKey.FETCH, *[lambda node_id, request: fetch_error(request, code)] * 3)
    async with Consumer(cluster.servers, "t", auto_offset_reset="earliest") as consumer:
        assert await read(consumer, 1) == [b"a"]


@pytest.mark.spec("R25")
async def test_of_offsets_only_the_leader_is_believed(cluster: ScriptedCluster) -> None:
    """It sends the consumer to a follower that says the offset is out of range, which must reset nothing."""
    write(cluster, b"a")

    def script(node_id: int, request: FetchRequest) -> FetchResponse | None:
        if node_id == 2:
            return fetch_error(request, ErrorCode.OFFSET_OUT_OF_RANGE)
        if cluster.asked(FetchRequest, 2):
            return None
        answer = PartitionData(high_watermark=1, preferred_read_replica=2, records=b"")
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[answer])])

    cluster.on(ApiKey.FETCH, script)
    async with Consumer(cluster.servers, auto_offset_reset="none", client_rack="there") as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 0)
        assert await read(consumer, 1) == [b"a"]
    assert {request.rack_id for request in cluster.asked(FetchRequest)} == {"there"}
    assert len(cluster.asked(FetchRequest, 2)) == 1


async def test_a_new_leader_is_followed(cluster: ScriptedCluster) -> None:
    write(cluster, *numbers(0, 3))
    async with Consumer(cluster.servers, "t", auto_offset_reset="none", fetch_max_wait_ms=10) as consumer:
        consumer.seek_to_beginning()
        assert await read(consumer, 3) == numbers(0, 3)
        cluster.partition(0).lead(2)
        write(cluster, b"3")
        assert await read(consumer, 1) == [b"3"]
    (asked,) = cluster.asked(OffsetForLeaderEpochRequest, 2)
    assert (asked.topics[0].partitions[0].leader_epoch, asked.topics[0].partitions[0].current_leader_epoch) == (0, 1)


async def test_a_leader_that_dies_is_replaced(cluster: ScriptedCluster) -> None:
    write(cluster, b"0")
    async with Consumer(cluster.servers, "t", auto_offset_reset="earliest") as consumer:
        assert await read(consumer, 1) == [b"0"]
        cluster.kill(1)
        polling = asyncio.ensure_future(consumer.poll(30_000))
        await asyncio.sleep(0.05)
        cluster.partition(0).lead(2)
        cluster.live.discard(1)
        write(cluster, b"1")
        assert values(await polling) == [b"1"]


async def test_a_leader_that_hangs_is_left_when_the_cluster_fences_it(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_module, "LOOK_INTERVAL_S", 0.01)
    write(cluster, b"0")
    cluster.on(ApiKey.FETCH, lambda node_id, request: HANG if node_id == 1 else None)
    async with Consumer(cluster.servers, "t", auto_offset_reset="earliest", fetch_max_wait_ms=1) as consumer:
        await until(lambda: cluster.asked(FetchRequest, 1))
        cluster.partition(0).lead(2)
        cluster.live.discard(1)
        assert await read(consumer, 1) == [b"0"]


async def test_a_topic_that_is_made_anew_is_read_from_its_beginning(cluster: ScriptedCluster) -> None:
    for _ in range(3):
        cluster.partition(0).lead(1)
    write(cluster, *numbers(0, 5))
    async with Consumer(cluster.servers, auto_offset_reset="earliest", fetch_max_wait_ms=10) as consumer:
        consumer.assign([T0])
        assert await read(consumer, 5) == numbers(0, 5)
        cluster.create_topic("t", leaders=[2])
        write(cluster, b"new")
        assert await read(consumer, 1) == [b"new"]


async def test_what_was_read_of_a_topic_is_not_committed_for_the_next_one_of_its_name(
    cluster: ScriptedCluster,
) -> None:
    """Not even by an attempt that was refused while there was no such topic, and is repeated when there is one."""
    write(cluster, *numbers(0, 5))
    old_id, refusals_left = cluster.topic_ids["t"], 1

    def refuse(node_id: int, request: OffsetCommitRequest) -> OffsetCommitResponse | None:
        nonlocal refusals_left
        if request.topics[0].partitions[0].committed_offset == 0:
            return None
        if cluster.topic_ids["t"] == old_id:
            cluster.create_topic("t", leaders=[1, 2])
        elif consumer._connections.cluster.topic_id_of("t") != old_id:
            refusals_left -= 1  # the first that comes then may have been on its way
        return commit_answer(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) if refusals_left >= 0 else None

    cluster.on(ApiKey.OFFSET_COMMIT, refuse)
    async with Consumer(
        cluster.servers, group_id="g", auto_offset_reset="earliest", fetch_max_wait_ms=10, auto_commit_interval_ms=5
    ) as consumer:
        consumer.assign([T0])
        assert await read(consumer, 5) == numbers(0, 5)
        polling = asyncio.ensure_future(consumer.getone())  # the five are processed
        await until(lambda: cluster.topic_ids["t"] != old_id)
        write(cluster, b"new")
        assert (await polling).value == b"new"
        assert not await consumer.poll(1)
        await until(lambda: T0 in cluster.committed and cluster.committed[T0].offset > 0)
        assert cluster.committed[T0].offset == 1


@pytest.mark.parametrize("by", ["id", "name"])
async def test_topics_are_fetched_by_id_where_brokers_know_ids(cluster: ScriptedCluster, by: str) -> None:
    if by == "name":
        cluster.versions[ApiKey.FETCH] = (4, 12)
    write(cluster, b"a")
    async with Consumer(cluster.servers, "t", auto_offset_reset="earliest") as consumer:
        assert await read(consumer, 1) == [b"a"]
    asked = {topic.topic_id for request in cluster.asked(FetchRequest) for topic in request.topics}
    assert asked == {cluster.topic_ids["t"] if by == "id" else ZERO_TOPIC_ID}


async def test_a_broker_that_hears_first_of_a_new_topic_does_not_serve_it_for_the_old_one(
    cluster: ScriptedCluster,
) -> None:
    """Even if nothing but the id tells them apart: leader, epoch and offsets are the same."""
    write(cluster, b"old")
    async with Consumer(cluster.servers, auto_offset_reset="none", fetch_max_wait_ms=10) as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 0)
        assert await read(consumer, 1) == [b"old"]
        cluster.create_topic("t", leaders=[1, 2])
        write(cluster, b"new 0")
        write(cluster, b"new 1")
        with pytest.raises(LogTruncatedError):
            await read(consumer, 1)


async def test_an_error_that_does_not_pass_is_raised_and_tried_again(cluster: ScriptedCluster) -> None:
    write(cluster, b"a")
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    cluster.next_only(ApiKey.FETCH, lambda node_id, request: fetch_error(request, refused) if node_id == 1 else None)
    async with Consumer(cluster.servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED: fetching from t-0 failed"):
            await consumer.poll(30_000)
        assert await read(consumer, 1) == [b"a"]


async def test_a_damaged_batch_is_raised_and_fetched_again(cluster: ScriptedCluster) -> None:
    write(cluster, b"0")
    write(cluster, b"1")
    good = cluster.partition(0).batches[1]
    cluster.partition(0).batches[1] = good[:-3] + b"?" + good[-2:]
    async with Consumer(cluster.servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        assert await read(consumer, 1) == [b"0"]
        for _ in range(2):
            with pytest.raises(KafkaError, match="CORRUPT_MESSAGE: t-0: the batch at offset 1 arrived damaged"):
                await consumer.poll(30_000)
        cluster.partition(0).batches[1] = good
        consumer.seek(T0, 1)
        assert await read(consumer, 1) == [b"1"]


async def test_a_mistake_of_ours_is_not_silent(cluster: ScriptedCluster) -> None:
    def fail(*arguments: Any) -> None:
        raise ZeroDivisionError

    async with Consumer(cluster.servers, "t") as consumer:
        consumer._fetcher._start_fetches = fail  # type: ignore[method-assign]
        consumer._fetcher.wake()
        with pytest.raises(ZeroDivisionError):
            await consumer.poll(30_000)


# -- offsets that are out of range, and truncation (KIP-320) --------------------------------------------------------


async def test_an_offset_that_is_gone_is_reset_by_policy(cluster: ScriptedCluster) -> None:
    write(cluster, *numbers(0, 4))
    write(cluster, *numbers(4, 6))
    cluster.partition(0).log_start = 4
    del cluster.partition(0).batches[0]
    async with Consumer(cluster.servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 1)
        assert await read(consumer, 2) == numbers(4, 6)


async def test_an_offset_that_is_gone_is_told_without_a_policy(cluster: ScriptedCluster) -> None:
    write(cluster, *numbers(0, 4))
    async with Consumer(cluster.servers, auto_offset_reset="none") as consumer:
        consumer.assign([T0])
        for _ in range(2):
            with pytest.raises(NoOffsetError, match="t-0 has no committed offset"):
                await consumer.poll(30_000)
        with pytest.raises(NoOffsetError):
            await consumer.position(T0)
        consumer.seek(T0, 9)
        with pytest.raises(NoOffsetError, match="t-0 does not contain offset 9"):
            await consumer.poll(30_000)
        consumer.seek(T0, 2)
        assert await read(consumer, 2) == numbers(2, 4)


async def truncated(cluster: ScriptedCluster, consumer: Consumer) -> None:
    """The consumer read 0 to 5; the new leader had only 0 to 2, and writes new records."""
    consumer.assign([T0])
    consumer.seek_to_beginning()
    for n in range(3):
        write(cluster, *numbers(2 * n, 2 * n + 2))
    assert await read(consumer, 6) == numbers(0, 6)
    cluster.partition(0).lead(2, cut_to=4)
    write(cluster, *[b"new"] * 5)


@pytest.mark.spec("E4")
async def test_truncation_is_told(cluster: ScriptedCluster) -> None:
    async with Consumer(cluster.servers, auto_offset_reset="none", fetch_max_wait_ms=10) as consumer:
        await truncated(cluster, consumer)
        for _ in range(2):
            with pytest.raises(LogTruncatedError) as raised:
                await consumer.poll(30_000)
        error = raised.value
        assert (error.tp, error.offset, error.divergence) == (T0, 6, OffsetAndEpoch(4, 0))
        assert error.divergence is not None
        consumer.seek(T0, error.divergence.offset)
        assert await read(consumer, 5) == [b"new"] * 5


@pytest.mark.spec("E4")
async def test_truncation_is_made_good_by_policy(cluster: ScriptedCluster) -> None:
    async with Consumer(cluster.servers, auto_offset_reset="latest", fetch_max_wait_ms=10) as consumer:
        await truncated(cluster, consumer)
        assert await read(consumer, 5) == [b"new"] * 5


@pytest.mark.spec("E4")
async def test_what_was_fetched_and_lost_before_it_was_seen_is_not_handed_out(cluster: ScriptedCluster) -> None:
    for n in range(3):
        write(cluster, *numbers(2 * n, 2 * n + 2))
    async with Consumer(
        cluster.servers, auto_offset_reset="none", fetch_max_wait_ms=10, max_partition_fetch_bytes=1
    ) as consumer:
        consumer.assign([T0])
        consumer.seek_to_beginning()
        assert await read(consumer, 1) == [b"0"]
        await until(lambda: len(consumer._holdings.buffer) == 2)
        cluster.partition(0).lead(2, cut_to=2)
        write(cluster, b"new")
        consumer._metadata.request_refresh()
        await until(lambda: cluster.asked(OffsetForLeaderEpochRequest))
        assert await read(consumer, 2) == [b"1", b"new"]


# -- a group's offsets ----------------------------------------------------------------------------------------------


async def test_reading_begins_at_the_committed_offset(cluster: ScriptedCluster) -> None:
    write(cluster, *numbers(0, 5))
    cluster.committed[T0] = OffsetAndEpoch(3, 0)
    async with Consumer(cluster.servers, group_id="g") as consumer:
        consumer.assign([T0])
        assert await read(consumer, 2) == numbers(3, 5)
        assert await consumer.committed(T0) == 3
        assert await consumer.committed(T1) is None
    assert cluster.asked(OffsetForLeaderEpochRequest), "an offset from long ago is validated"


async def test_positions_are_committed(cluster: ScriptedCluster) -> None:
    write(cluster, *numbers(0, 5))
    async with Consumer(
        cluster.servers, group_id="g", auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.assign([T0])
        await read(consumer, 3)
        await consumer.commit()
        assert cluster.committed == {T0: (3, 0)}
        await consumer.commit({T1: 9, T0: OffsetAndEpoch(1, 0)})
        assert cluster.committed == {T0: (1, 0), T1: (9, -1)}
        with pytest.raises(ValueError, match="cannot commit offset -1"):
            await consumer.commit({T0: -1})
        await read(consumer, 2)
    assert cluster.committed[T0] == (1, 0)


async def test_what_the_caller_is_done_with_is_committed_by_itself(cluster: ScriptedCluster) -> None:
    write(cluster, *numbers(0, 9))
    async with Consumer(
        cluster.servers, group_id="g", auto_offset_reset="earliest", auto_commit_interval_ms=1
    ) as consumer:
        consumer.assign([T0])
        await read(consumer, 3)
        await until(lambda: cluster.committed.get(T0) == (0, -1))
        await read(consumer, 2)
        await until(lambda: cluster.committed[T0] == (3, 0))
        committed = len(cluster.asked(OffsetCommitRequest))
        await asyncio.sleep(0.02)
        assert len(cluster.asked(OffsetCommitRequest)) == committed, "nothing new, nothing to commit"
    assert cluster.committed[T0] == (5, 0), "at the end the caller is done with everything"


async def test_what_has_not_changed_is_committed_again_after_a_while(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the offsets of a group without members expire while its consumer waits for records."""
    monkeypatch.setattr(commits, "REPEAT_INTERVAL_S", 0.05)
    write(cluster, *numbers(0, 3))
    async with Consumer(
        cluster.servers, group_id="g", auto_offset_reset="earliest", auto_commit_interval_ms=1
    ) as consumer:
        consumer.assign([T0])
        await read(consumer, 3)
        waiting = asyncio.create_task(consumer.poll(10_000))
        await until(lambda: cluster.committed.get(T0) == (3, 0))
        cluster.committed.clear()
        await until(lambda: cluster.committed.get(T0) == (3, 0))
        waiting.cancel()
        cluster.committed.clear()
    assert cluster.committed[T0] == (3, 0), "at the end, too"


async def test_what_the_caller_failed_at_is_not_committed(cluster: ScriptedCluster) -> None:
    write(cluster, *numbers(0, 9))

    async def work() -> None:
        async with Consumer(cluster.servers, group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.assign([T0])
            await read(consumer, 3)
            await read(consumer, 2)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await work()
    assert cluster.committed[T0] == (3, 0)


async def test_commits_follow_the_coordinator(cluster: ScriptedCluster) -> None:
    cluster.next_only(
        ApiKey.OFFSET_COMMIT,
        lambda node_id, request: commit_answer(request, ErrorCode.NOT_COORDINATOR),
        HANG_UP,
        lambda node_id, request: commit_answer(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    )
    async with Consumer(cluster.servers, group_id="g") as consumer:
        await consumer.commit({T0: 4})
    assert cluster.committed[T0].offset == 4


async def test_a_commit_that_is_refused(cluster: ScriptedCluster) -> None:
    refused = ErrorCode.OFFSET_METADATA_TOO_LARGE
    cluster.on(ApiKey.OFFSET_COMMIT, lambda node_id, request: commit_answer(request, refused))
    async with Consumer(cluster.servers, group_id="g") as consumer:
        with pytest.raises(KafkaError, match="OFFSET_METADATA_TOO_LARGE: group 'g': committing an offset of t-0"):
            await consumer.commit({T0: 4})


async def test_committed_offsets_are_asked_for_until_they_come(cluster: ScriptedCluster) -> None:
    write(cluster, b"0", b"1")
    cluster.committed[T0] = OffsetAndEpoch(1, 0)
    loading = OffsetFetchResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    cluster.next_only(ApiKey.OFFSET_FETCH, loading, HANG_UP, loading)
    async with Consumer(cluster.servers, group_id="g") as consumer:
        consumer.assign([T0])
        assert await read(consumer, 1) == [b"1"]
    assert all(not request.require_stable for request in cluster.asked(OffsetFetchRequest))


async def test_a_read_committed_consumer_asks_for_what_is_stable(cluster: ScriptedCluster) -> None:
    write(cluster, b"0")
    async with Consumer(
        cluster.servers, group_id="g", auto_offset_reset="earliest", isolation_level=Isolation.READ_COMMITTED
    ) as consumer:
        consumer.assign([T0])
        assert await read(consumer, 1) == [b"0"]
    assert cluster.asked(OffsetFetchRequest)[0].require_stable
    assert cluster.asked(FetchRequest)[0].isolation_level == 1


async def test_offsets_need_a_group(cluster: ScriptedCluster) -> None:
    async with Consumer(cluster.servers) as consumer:
        with pytest.raises(KafkaError, match="INVALID_GROUP_ID"):
            await consumer.commit()
        with pytest.raises(KafkaError, match="INVALID_GROUP_ID"):
            await consumer.committed(T0)


# -- life -----------------------------------------------------------------------------------------------------------


async def test_closing_does_not_hang(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka.client.consuming.commits.LAST_COMMIT_TIMEOUT_S", 0.02)
    write(cluster, b"0")
    cluster.on(ApiKey.OFFSET_COMMIT, lambda node_id, request: HANG)
    consumer = Consumer(cluster.servers, group_id="g", auto_offset_reset="earliest")
    await consumer.start()
    consumer.assign([T0])
    await read(consumer, 1)
    await consumer.close()
    await consumer.close()
    with pytest.raises(RuntimeError, match="not running"):
        await consumer.poll()


async def test_a_poll_ends_when_the_consumer_is_closed(cluster: ScriptedCluster) -> None:
    consumer = Consumer(cluster.servers, "t")
    await consumer.start()
    polling = asyncio.ensure_future(consumer.getone())
    await asyncio.sleep(0)
    await consumer.close()
    with pytest.raises(RuntimeError, match="not running"):
        await polling


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"auto_offset_reset": "middle"}, "auto_offset_reset is 'middle'; it must be earliest, latest or none"),
        ({"fetch_max_wait_ms": 0}, "fetch_max_wait_ms is 0; it must be at least 1"),
        ({"session_timeout_ms": "1"}, "session_timeout_ms must be a whole number, not '1'"),
        ({"isolation_level": "read_committed"}, "must be one of minikafka.model.Isolation"),
        ({"group_id": 5}, "group_id must be a str, not int"),
    ],
)
def test_settings_that_cannot_be(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        Consumer("127.0.0.1:1", **arguments)


async def test_wrong_types_are_told_at_the_call(cluster: ScriptedCluster) -> None:
    async with Consumer(cluster.servers) as consumer:
        with pytest.raises(TypeError, match="a topic must be a str, not list"):
            await consumer.subscribe(["t"])  # type: ignore[arg-type]
        consumer.assign([T0])
        with pytest.raises(TypeError, match="cannot seek t-0 to '0': an offset must be a whole number"):
            consumer.seek(T0, "0")  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="already running"):
            await consumer.start()


# -- in batches -----------------------------------------------------------------------------------------------------


async def test_batches_are_polled_from_where_records_ended(cluster: ScriptedCluster) -> None:
    write(cluster, *numbers(0, 4))
    write(cluster, *numbers(4, 6))
    async with Consumer(cluster.servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        assert await read(consumer, 3) == numbers(0, 3)
        (taken,) = await consumer.poll_batches(30_000)
        assert (taken.tp, taken.start_offset, taken.end_offset) == (T0, 3, 6)
        assert [header.base_offset for _, header in taken.batches] == [0, 4]
        assert [
            record.value for at, header in taken.batches for record in iter_records(taken.buffer, at, header)
        ] == numbers(0, 6)
        assert await consumer.position(T0) == 6
        assert await consumer.poll_batches() == []
        consumer.seek(T0, 5)
        (taken,) = await consumer.poll_batches(30_000)
        assert (taken.start_offset, taken.end_offset) == (5, 6)


@pytest.mark.spec("E4")
async def test_batches_are_held_back_until_a_new_leader_answered(cluster: ScriptedCluster) -> None:
    write(cluster, *numbers(0, 4))
    async with Consumer(cluster.servers, auto_offset_reset="none") as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 0)
        assert len(await consumer.poll_batches(30_000)) == 1
        cluster.partition(0).lead(2, cut_to=2)
        write(cluster, *numbers(10, 14))
        with pytest.raises(LogTruncatedError):
            await consumer.poll_batches(30_000)


async def test_nothing_is_fetched_behind_the_end_that_was_named(cluster: ScriptedCluster) -> None:
    write(cluster, *numbers(0, 4))
    async with Consumer(cluster.servers, auto_offset_reset="none") as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 1, until=3)
        (taken,) = await consumer.poll_batches(30_000)
        assert (taken.start_offset, taken.end_offset) == (1, 4)
        write(cluster, b"later")
        assert await consumer.poll_batches(50) == []
        assert {p.fetch_offset for request in cluster.asked(FetchRequest) for p in request.topics[0].partitions} == {1}
        consumer.seek(T0, 4)
        assert await read(consumer, 1) == [b"later"]


@pytest.mark.spec("E4")
async def test_a_place_with_an_epoch_is_validated_before_anything_is_read(cluster: ScriptedCluster) -> None:
    write(cluster, *numbers(0, 2))
    write(cluster, *numbers(2, 4))
    epoch = cluster.partition(0).epoch
    cluster.partition(0).lead(2, cut_to=2)
    write(cluster, *numbers(10, 14))
    async with Consumer(cluster.servers, auto_offset_reset="none") as consumer:
        consumer.assign([T0])
        consumer.seek(T0, OffsetAndEpoch(4, epoch))
        with pytest.raises(LogTruncatedError, match="diverge at offset 2"):
            await consumer.poll(30_000)
        consumer.seek(T0, OffsetAndEpoch(2, epoch))
        assert await read(consumer, 4) == numbers(10, 14)
    assert cluster.asked(OffsetForLeaderEpochRequest)
