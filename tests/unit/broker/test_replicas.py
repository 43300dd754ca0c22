from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from broker_client import batch
from broker_node import FailingDisk, eventually, turns
from broker_replicas import FOLLOWER, LONG_MS, ME, OTHER, Rig

from minikafka.broker.delayed import DelayedProduce, ProduceResult
from minikafka.broker.partition import Partition
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.replication import replica_effects as do
from minikafka.storage.errors import StorageFailure
from minikafka.timing.purgatory import DelayedOperation

NONE = ErrorCode.NONE


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture
async def rig(tmp_path: Path, disk: FailingDisk) -> Rig:
    return Rig(tmp_path, disk)


# -- the table --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("E3")
async def test_why_a_partition_cannot_be_asked(rig: Rig) -> None:
    replicas = rig.replicas
    partition = rig.partition("orders")
    tp = partition.topic_partition
    nowhere = TopicPartition("nowhere", 0)

    def refusal(tp: TopicPartition, epoch: int = -1) -> ErrorCode:
        with pytest.raises(KafkaError) as refused:
            replicas.leader_of(tp, current_leader_epoch=epoch)
        return refused.value.code

    assert refusal(nowhere) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    rig.known.add(nowhere)
    assert refusal(nowhere) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refusal(tp) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    rig.lead(partition, epoch=4)
    assert replicas.leader_of(tp) is partition
    assert replicas.leader_of(tp, current_leader_epoch=4) is partition
    assert refusal(tp, 3) is ErrorCode.FENCED_LEADER_EPOCH
    assert refusal(tp, 5) is ErrorCode.UNKNOWN_LEADER_EPOCH
    rig.on_storage_failed(partition, StorageFailure("the directory is gone"))
    assert refusal(tp) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_replicas_come_and_go(rig: Rig) -> None:
    partition = rig.partition("a")
    other = rig.partition("b")
    assert (len(rig.replicas), list(rig.replicas)) == (2, [partition, other])
    with pytest.raises(AssertionError):
        rig.replicas.add(partition)
    assert rig.replicas.remove(partition.topic_partition) is partition
    assert rig.replicas.remove(partition.topic_partition) is None
    assert rig.replicas.get(partition.topic_partition) is None


# -- appends ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("R1")
async def test_what_one_read_event_brings_is_one_write_per_partition(rig: Rig, disk: FailingDisk) -> None:
    first, second = rig.led("a"), rig.led("b")
    written = disk.counts["append"]
    results = [rig.stage(first, b"1"), rig.stage(second, b"2"), rig.stage(first, b"3", b"4"), rig.stage(first, b"5")]
    assert [result.base_offset for result in results] == [0, 0, 1, 3]
    assert (first.log.log_end_offset, first.high_watermark) == (0, 0), "nothing staged is visible"
    rig.replicas.commit_staged()
    assert disk.counts["append"] - written == 2
    assert (first.log.log_end_offset, second.log.log_end_offset) == (4, 1)
    assert (first.high_watermark, second.high_watermark) == (4, 1)
    rig.replicas.commit_staged()
    assert disk.counts["append"] - written == 2


@pytest.mark.spec("R23")
async def test_acks_1_is_answered_after_the_append(rig: Rig) -> None:
    partition = rig.led(replicas=(ME, FOLLOWER))
    result = rig.stage(partition, b"a", acks=1)
    rig.replicas.commit_staged()
    acks = rig.await_acks(result, acks=1)
    assert acks.results == [(NONE, 0)]
    assert partition.high_watermark == 0
    assert rig.replicas.waiting.produces.delayed == 0


@pytest.mark.spec("R23")
@pytest.mark.spec("C3")
async def test_a_node_that_hands_over_acknowledges_what_the_next_leader_has(rig: Rig) -> None:
    partition, alone = rig.led("a", replicas=(ME, FOLLOWER)), rig.led("b")
    rig.append(partition, b"before")
    rig.append(alone, b"before")
    handed_over: list[bool] = []
    rig.replicas.waiting.hand_over(LONG_MS, lambda: handed_over.append(True))
    result = rig.stage(partition, b"after", acks=1)
    rig.replicas.commit_staged()
    acks = rig.await_acks(result, acks=1)
    await turns()
    assert (handed_over, acks.times) == ([], 0)
    rig.fetched(partition, FOLLOWER, 1)
    await turns()
    assert (handed_over, acks.times) == ([True], 0), "what was written before is in sync"
    rig.fetched(partition, FOLLOWER, 2)
    await turns()
    assert (handed_over, acks.results) == ([True], [(NONE, 1)])


@pytest.mark.spec("C3")
async def test_a_node_that_nobody_can_follow_hands_over_at_once(rig: Rig) -> None:
    partition = rig.led(replicas=(ME, FOLLOWER), min_insync_replicas=2)
    rig.lead(partition, epoch=2, replicas=(ME, FOLLOWER), isr=(ME,))
    rig.append(partition, b"before")
    handed_over: list[bool] = []
    rig.replicas.waiting.hand_over(LONG_MS, lambda: handed_over.append(True))
    result = rig.stage(partition, b"after", acks=1)
    rig.replicas.commit_staged()
    assert rig.await_acks(result, acks=1).results == [(NONE, 1)]
    assert handed_over == [True]


@pytest.mark.spec("R23")
@pytest.mark.spec("D4")
@pytest.mark.spec("D6")
async def test_acks_all_is_answered_when_every_replica_in_sync_has_it(rig: Rig) -> None:
    partition = rig.led(replicas=(ME, FOLLOWER, OTHER))
    result = rig.stage(partition, b"a", b"b")
    rig.replicas.commit_staged()
    acks = rig.await_acks(result)
    rig.fetched(partition, FOLLOWER, 2)
    await turns()
    assert acks.times == 0
    rig.fetched(partition, OTHER, 1)
    await turns()
    assert (acks.times, partition.high_watermark) == (0, 1)
    rig.fetched(partition, OTHER, 2)
    assert acks.times == 0, "not within the event that moved it"
    await turns()
    assert (acks.times, acks.results) == (1, [(NONE, 0)])
    assert rig.replicas.waiting.produces.delayed == 0


@pytest.mark.spec("D4")
async def test_one_operation_waits_for_all_partitions_of_its_request(rig: Rig) -> None:
    partitions = [rig.led(name, replicas=(ME, FOLLOWER)) for name in "ab"]
    results = [rig.stage(each, b"x") for each in partitions]
    results.append(rig.replicas.stage_produced(TopicPartition("nowhere", 0), batch(b"x"), -1, 9))
    rig.replicas.commit_staged()
    acks = rig.await_acks(*results)
    assert rig.replicas.waiting.produces.delayed == 1
    for partition in partitions:
        assert acks.times == 0
        rig.fetched(partition, FOLLOWER, 1)
        await turns()
    assert acks.results == [(NONE, 0), (NONE, 0), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]


async def test_a_request_of_errors_only_is_answered_at_once(rig: Rig) -> None:
    for acks in (1, -1):
        result = rig.replicas.stage_produced(TopicPartition("nowhere", 0), batch(b"x"), acks, 9)
        assert rig.await_acks(result, acks=acks).results == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    assert rig.await_acks().times == 1


@pytest.mark.spec("R23")
async def test_too_few_replicas_in_sync_refuse_acks_all_before_the_append(rig: Rig) -> None:
    partition = rig.partition(min_insync_replicas=2)
    rig.lead(partition, replicas=(ME, FOLLOWER), isr=(ME,))
    result = rig.stage(partition, b"x")
    assert (result.error, result.base_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    rig.replicas.commit_staged()
    assert partition.log.log_end_offset == 0
    assert rig.stage(partition, b"x", acks=1).error is NONE
    rig.replicas.commit_staged()
    assert (partition.log.log_end_offset, partition.high_watermark) == (1, 0), "written, but not shown"


@pytest.mark.spec("R23")
async def test_too_few_after_the_append_are_waited_for(rig: Rig) -> None:
    partition = rig.partition(min_insync_replicas=2)
    leader = rig.lead(partition, replicas=(ME, FOLLOWER, OTHER), isr=(ME, FOLLOWER))
    result = rig.stage(partition, b"x")
    rig.replicas.commit_staged()
    acks = rig.await_acks(result)
    leader.on_metadata((ME,), 9, (ME, FOLLOWER, OTHER), rig.clock.monotonic_ms())
    await turns()
    assert acks.times == 0, "it may be committed yet"
    leader.on_metadata((ME, FOLLOWER), 10, (ME, FOLLOWER, OTHER), rig.clock.monotonic_ms())
    rig.fetched(partition, FOLLOWER, 1)
    await turns()
    assert acks.results == [(NONE, 0)]


@pytest.mark.spec("D4")
async def test_what_is_not_replicated_in_time_times_out(rig: Rig) -> None:
    good, slow = rig.led("good", replicas=(ME,)), rig.led("slow", replicas=(ME, FOLLOWER))
    results = [rig.stage(good, b"x"), rig.stage(slow, b"x")]
    rig.replicas.commit_staged()
    acks = rig.await_acks(*results, timeout_ms=10)
    await eventually(lambda: acks.times, "the answer")
    assert acks.results == [(NONE, 0), (ErrorCode.REQUEST_TIMED_OUT, -1)]
    assert results[1].message
    rig.fetched(slow, FOLLOWER, 1)
    await turns()
    assert acks.times == 1, "answered once"


@pytest.mark.spec("D4")
@pytest.mark.spec("R14")
@pytest.mark.parametrize("how", ["follows", "next epoch", "removed"])
async def test_a_leader_that_moves_answers_who_waits(rig: Rig, how: str) -> None:
    partition = rig.led(replicas=(ME, FOLLOWER))
    tp = partition.topic_partition
    result = rig.stage(partition, b"x")
    rig.replicas.commit_staged()
    acks = rig.await_acks(result)
    if how == "follows":
        rig.follow(partition, FOLLOWER, 2)
    elif how == "next epoch":
        rig.lead(partition, epoch=2, replicas=(ME,))
    if how == "removed":
        rig.replicas.remove(tp)
    else:
        rig.replicas.waiting.release(tp)
    assert acks.results == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


async def test_with_acks_1_a_leader_that_moved_in_between_is_noticed(rig: Rig) -> None:
    partition = rig.led()
    result = rig.stage(partition, b"x", acks=1)
    rig.replicas.commit_staged()
    rig.follow(partition, FOLLOWER, 2)
    assert rig.await_acks(result, acks=1).results == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


# -- a disk that gives up ---------------------------------------------------------------------------------------------


@pytest.mark.spec("P1")
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("acks", [1, -1])
async def test_nothing_that_could_not_be_written_is_acknowledged(
    rig: Rig, disk: FailingDisk, error: int, acks: int
) -> None:
    bad, good = rig.led("bad"), rig.led("good")
    before = rig.stage(bad, b"fine", acks=acks)
    rig.replicas.commit_staged()
    assert rig.await_acks(before, acks=acks).results == [(NONE, 0)]
    disk.refuse("append", "bad-0", error)
    results = [rig.stage(bad, b"x", acks=acks), rig.stage(good, b"y", acks=acks)]
    rig.replicas.commit_staged()
    assert rig.await_acks(*results, acks=acks).results == [(ErrorCode.KAFKA_STORAGE_ERROR, -1), (NONE, 0)]
    assert [partition for partition, _ in rig.failures] == [bad]
    assert (bad.high_watermark, bad.log.log_end_offset) == (1, 1)
    assert bad.replica.is_offline
    disk.allow()
    again = rig.stage(bad, b"z", acks=acks)
    assert again.error is ErrorCode.KAFKA_STORAGE_ERROR, "not before it was looked at"
    assert rig.stage(good, b"z", acks=acks).error is NONE


@pytest.mark.spec("P1")
async def test_a_failure_answers_everybody_who_waited_already(rig: Rig, disk: FailingDisk) -> None:
    partition = rig.led(replicas=(ME, FOLLOWER))
    first = rig.stage(partition, b"x")
    rig.replicas.commit_staged()
    waiting = rig.await_acks(first)
    tried: list[int] = []
    fetch = Waiter(LONG_MS, lambda _tp: partition.replica.is_offline, lambda: tried.append(1))
    rig.replicas.waiting.consumer_fetches.try_complete_else_watch(fetch, [partition.topic_partition], 0)
    disk.refuse("append")
    rig.stage(partition, b"y")
    rig.replicas.commit_staged()
    assert waiting.results == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]
    assert tried == [1]
    with pytest.raises(KafkaError):
        rig.fetched(partition, FOLLOWER, 1)
    assert waiting.times == 1


# -- who waits for what -----------------------------------------------------------------------------------------------


class Waiter(DelayedOperation):
    """Something that waits as a fetch does."""

    def __init__(self, timeout_ms: int, is_satisfied: Callable[[object], bool], answer: Callable[[], object]) -> None:
        super().__init__(timeout_ms)
        self._is_satisfied = is_satisfied
        self._answer = answer

    def try_complete(self) -> bool:
        return self._is_satisfied(None) and self.force_complete()

    def on_complete(self) -> None:
        self._answer()


class Watcher:
    """A fetch that is never satisfied, and how often it was tried."""

    def __init__(self, rig: Rig, partition: Partition, *, follower: bool) -> None:
        self.tried = 0
        self.answered = 0
        purgatory = rig.replicas.waiting.follower_fetches if follower else rig.replicas.waiting.consumer_fetches
        operation = Waiter(LONG_MS, self._try, self._answer)
        purgatory.try_complete_else_watch(operation, [partition.topic_partition], rig.clock.monotonic_ms())
        self.tried = 0

    def _try(self, _tp: object) -> bool:
        self.tried += 1
        return False

    def _answer(self) -> None:
        self.answered += 1


@pytest.mark.spec("D6")
async def test_a_burst_of_appends_tries_a_waiting_fetch_once(rig: Rig) -> None:
    partition = rig.led(replicas=(ME, FOLLOWER))
    follower, consumer = Watcher(rig, partition, follower=True), Watcher(rig, partition, follower=False)
    for _ in range(100):
        rig.append(partition, b"x")
    assert follower.tried == 0
    await turns()
    assert (follower.tried, consumer.tried) == (1, 0)
    for offset in range(1, 100):
        rig.fetched(partition, FOLLOWER, offset)
    await turns()
    assert (follower.tried, consumer.tried) == (1, 1)
    await turns()
    assert (follower.tried, consumer.tried) == (1, 1)


def test_a_waiting_request_may_name_a_partition_very_often() -> None:
    """The list of its batches was copied for each: 10,000 took 0.4 s of the loop, and 40,000 six seconds."""
    results = [ProduceResult(TopicPartition("t", 0), required_offset=offset) for offset in range(1, 40_001)]
    began_s = time.thread_time()
    DelayedProduce(LONG_MS, results, lambda _tp: None, lambda _results: None, needs_all=True)
    assert time.thread_time() - began_s < 2, "of CPU; it takes some milliseconds"


@pytest.mark.spec("D4", "P6")
async def test_a_waiting_request_looks_only_at_the_partition_that_changed(rig: Rig) -> None:
    """Forty requests of a thousand partitions, one of them without a follower, took a turn of a second."""
    partitions = [rig.led(f"t{number}", replicas=(ME, FOLLOWER)) for number in range(20)]
    results = [rig.stage(partition, b"x") for partition in partitions]
    rig.replicas.commit_staged()
    looked_at: list[TopicPartition] = []
    answered: list[int] = []

    def find(tp: TopicPartition) -> Partition | None:
        looked_at.append(tp)
        return rig.replicas.get(tp)

    waiting = DelayedProduce(LONG_MS, results, find, lambda _results: answered.append(1), needs_all=True)
    keys = [partition.topic_partition for partition in partitions]
    rig.replicas.waiting.produces.try_complete_else_watch(waiting, keys, rig.clock.monotonic_ms())
    looked_at.clear()
    for partition in partitions[1:]:
        rig.fetched(partition, FOLLOWER, 1)
    await turns()
    assert looked_at == keys[1:]
    assert not answered
    rig.fetched(partitions[0], FOLLOWER, 1)
    await turns()
    assert answered
    assert all(not result.error and result.base_offset == 0 for result in results)


@pytest.mark.spec("D6")
async def test_listeners_hear_of_the_high_watermark(rig: Rig) -> None:
    partition, other = rig.led("a"), rig.led("b")
    heard: list[int] = []
    rig.replicas.waiting.high_watermark_listeners[partition.topic_partition] = heard.append
    rig.append(other, b"x")
    rig.append(partition, b"x", b"y")
    rig.append(partition, b"z")
    await turns()
    assert heard == [3]
    rig.append(partition, b"z")
    rig.replicas.remove(partition.topic_partition)
    await turns()
    assert heard == [3]


@pytest.mark.spec("D6")
async def test_a_fetch_answers_with_what_there_is_when_its_time_is_up(rig: Rig) -> None:
    partition = rig.led()
    answered: list[int] = []
    fetch = Waiter(5, lambda _tp: False, lambda: answered.append(1))
    rig.replicas.waiting.consumer_fetches.try_complete_else_watch(
        fetch, [partition.topic_partition], rig.clock.monotonic_ms()
    )
    await eventually(lambda: answered, "the answer")
    assert rig.replicas.waiting.consumer_fetches.delayed == 0


async def test_what_is_staged_outside_of_a_read_event_is_committed_soon(rig: Rig) -> None:
    partition = rig.led()
    for _ in range(3):
        rig.stage(partition, b"x")
        rig.replicas.commit_soon()
    assert partition.log.log_end_offset == 0
    await turns()
    assert partition.log.log_end_offset == 3
    rig.stage(partition, b"x")
    rig.replicas.commit_soon()
    await turns()
    assert partition.log.log_end_offset == 4


# -- followers --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("R17")
async def test_a_broker_that_is_no_replica_moves_nothing(rig: Rig) -> None:
    partition = rig.led(replicas=(ME, FOLLOWER))
    rig.append(partition, b"x")
    with pytest.raises(KafkaError) as refused:
        rig.fetched(partition, 9, 1)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.high_watermark == 0


async def test_an_incarnation_that_is_gone_is_refused(rig: Rig) -> None:
    partition = rig.led(replicas=(ME, FOLLOWER))
    rig.fetched(partition, FOLLOWER, 0)
    with pytest.raises(KafkaError) as refused:
        rig.replicas.on_follower_fetch(partition, FOLLOWER, 4, 0, 0, rig.clock.monotonic_ms())
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
    with pytest.raises(KafkaError) as refused:
        rig.fetched(partition, FOLLOWER, 1)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.spec("R18")
async def test_a_follower_that_caught_up_is_proposed(rig: Rig) -> None:
    partition = rig.partition()
    rig.lead(partition, replicas=(ME, FOLLOWER), isr=(ME,))
    rig.append(partition, b"x")
    rig.fetched(partition, FOLLOWER, 0)
    assert not rig.noted(do.Propose)
    rig.fetched(partition, FOLLOWER, 1)
    assert [sorted(each.proposal.broker_ids) for each in rig.noted(do.Propose)] == [[ME, FOLLOWER]]


# -- topics that sync before they acknowledge -------------------------------------------------------------------------


async def test_what_is_not_synced_does_not_count(rig: Rig) -> None:
    partition = rig.led(flush_messages=1)
    follower = Watcher(rig, partition, follower=True)
    results = [rig.stage(partition, b"x", acks=acks) for acks in (1, -1)]
    rig.replicas.commit_staged()
    acks = [rig.await_acks(result, acks=level) for result, level in zip(results, (1, -1), strict=True)]
    await turns()
    assert rig.noted(do.Sync) == [do.Sync()]
    assert [each.times for each in acks] == [0, 0]
    assert partition.high_watermark == 0
    assert follower.tried == 1, "followers need not wait for our disk"
    partition.log.flush()
    rig.replicas.on_synced(partition)
    await turns()
    assert [each.results for each in acks] == [[(NONE, 0)], [(NONE, 1)]]
    assert partition.high_watermark == 2
    rig.follow(partition, FOLLOWER, 2)
    rig.replicas.on_synced(partition)  # too late to mean anything


async def test_a_result_may_turn_into_an_error(rig: Rig) -> None:
    result = ProduceResult(TopicPartition("t", 0))
    result.base_offset = result.log_append_time = result.required_offset = 5
    result.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    assert (result.base_offset, result.log_append_time, result.required_offset) == (-1, -1, -1)
    assert (result.error, result.message) == (ErrorCode.REQUEST_TIMED_OUT, None)


async def test_the_wall_clock_is_read_once_per_read_event(rig: Rig) -> None:
    partition = rig.led(message_timestamp_type="LogAppendTime")
    stamps = iter(range(1_800_000_000, 1_800_000_100))
    rig.clock._wall_s = lambda: float(next(stamps))
    times = [rig.stage(partition, b"x").log_append_time for _ in range(3)]
    rig.replicas.commit_staged()
    times.append(rig.stage(partition, b"x").log_append_time)
    assert times == [1_800_000_000_000] * 3 + [1_800_000_001_000]
    await asyncio.sleep(0)
