from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Sequence
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
from broker_node import FailingDisk, eventually, turns
from broker_replicas import FOLLOWER, ME, Rig

from minikafka.broker import backoff
from minikafka.broker.log_jobs import LogJobs
from minikafka.broker.partition import Partition
from minikafka.errors import ErrorCode
from minikafka.net.tasks import TaskOwner
from minikafka.replication import replica_effects as do
from minikafka.storage.errors import PassingFailure, StorageFailure


class SlowThread:
    """Runs syncs when it is told to, so that a test decides what happens meanwhile."""

    def __init__(self) -> None:
        self.runs = 0
        self.gate = asyncio.Event()

    async def __call__(self, act: Callable[[], Any]) -> Any:
        self.runs += 1
        await self.gate.wait()
        return act()


class Events:
    """What a driver would hear."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.cuts = 0
        self.remakes = 0

    def on_synced(self, partition: Partition) -> None:
        self.rig.replicas.on_synced(partition)

    def on_cut(self, partition: Partition) -> None:
        self.cuts += 1
        self.rig.replicas.carry_out(partition, partition.replica.on_cut(0))

    def remake(self, partition: Partition) -> None:
        self.remakes += 1
        raise PassingFailure("too many open files")

    def on_storage_failed(self, partition: Partition, failure: StorageFailure) -> None:
        self.rig.on_storage_failed(partition, failure)


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture
async def rig(tmp_path: Path, disk: FailingDisk) -> Rig:
    return Rig(tmp_path, disk)


@pytest.fixture
async def thread() -> SlowThread:
    return SlowThread()


@pytest.fixture
async def jobs(rig: Rig, thread: SlowThread) -> LogJobs:
    def unexpected(name: str, error: BaseException) -> None:
        raise AssertionError(name) from error

    jobs = LogJobs(rig.clock, TaskOwner("test", unexpected), thread)
    jobs.events = Events(rig)

    def carry_out(partition: Partition, effects: Sequence[do.ReplicaEffect]) -> None:
        rig.carry_out(partition, effects)
        for effect in effects:
            match effect:
                case do.Sync():
                    jobs.request_sync(partition)
                case do.Cut() | do.Restart():
                    jobs.cut(partition, effect)

    rig.replicas.carry_out = carry_out
    return jobs


@pytest.mark.spec("P2")
@pytest.mark.usefixtures("jobs")
async def test_one_sync_serves_all_who_came_before_it(rig: Rig, thread: SlowThread) -> None:
    partition = rig.led(flush_messages=1)
    results = []
    for _ in range(3):
        results.append(rig.stage(partition, b"x"))
        rig.replicas.commit_staged()
    acks = [rig.await_acks(result) for result in results]
    await eventually(lambda: thread.runs == 1, "the sync to begin")
    late = rig.stage(partition, b"late")
    rig.replicas.commit_staged()
    acks.append(rig.await_acks(late))
    await turns()
    assert [each.times for each in acks] == [0, 0, 0, 0]
    thread.gate.set()
    await eventually(lambda: acks[3].times, "the last answer")
    assert [each.results for each in acks] == [[(ErrorCode.NONE, offset)] for offset in range(4)]
    assert thread.runs == 2, "one for the three, one for who came meanwhile"
    assert partition.log.recovery_point == 4


@pytest.mark.spec("P2")
@pytest.mark.usefixtures("jobs")
async def test_nobody_is_acknowledged_when_the_sync_fails(rig: Rig, disk: FailingDisk, thread: SlowThread) -> None:
    partition = rig.led(flush_messages=1)
    result = rig.stage(partition, b"x")
    rig.replicas.commit_staged()
    acks = rig.await_acks(result)
    disk.refuse("fsync", "orders-0", errno.EIO)
    thread.gate.set()
    await eventually(lambda: acks.times, "the answer")
    assert acks.results == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]
    assert len(rig.failures) == 1
    assert partition.high_watermark == 0
    disk.allow()
    rig.stage(partition, b"y")
    rig.replicas.commit_staged()
    await turns()
    assert thread.runs == 1, "a failed sync is never tried again"


@pytest.mark.usefixtures("jobs")
async def test_a_shortage_of_descriptors_is_waited_for(
    rig: Rig, disk: FailingDisk, thread: SlowThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "FIRST_PAUSE_S", 0.001)
    partition = rig.led(flush_messages=1)
    result = rig.stage(partition, b"x")
    rig.replicas.commit_staged()
    acks = rig.await_acks(result)
    monkeypatch.setattr(FailingDisk, "fsync_dir", partialmethod(FailingDisk.check, "fsync_dir"))
    disk.refuse("fsync_dir", "orders-0", errno.EMFILE)
    thread.gate.set()
    await eventually(lambda: thread.runs == 3, "the sync to be tried again")
    assert not acks.times
    disk.allow()
    await eventually(lambda: acks.times, "the answer")
    assert acks.results == [(ErrorCode.NONE, 0)]
    assert not rig.failures


async def test_who_takes_a_turn_is_alone_with_the_log(rig: Rig, jobs: LogJobs, thread: SlowThread) -> None:
    """The cleaner's swap was in no queue: a log could be cut while its new segments were being published."""
    thread.gate.set()
    partition = rig.led(flush_messages=1)
    rig.append(partition, b"x")
    rig.follow(partition, FOLLOWER, 2)
    done, order, gate = asyncio.Event(), [], asyncio.Event()

    async def act() -> bool:
        done.set()
        await gate.wait()
        order.append((partition.replica.cut, partition.log.log_end_offset, partition.log.recovery_point))
        return True

    turn = asyncio.get_running_loop().create_task(jobs.alone(partition, act))
    await done.wait()
    recovered = partition.log.recovery_point
    rig.replicas.carry_out(partition, partition.replica.truncate(0, 0))
    jobs.request_sync(partition)
    await turns(10)
    assert partition.log.log_end_offset == 1
    gate.set()
    assert await turn
    assert order == [(do.Cut(0), 1, recovered)]
    await eventually(lambda: partition.log.log_end_offset == 0, "the cut, in its turn")


async def test_what_a_turn_raises_is_for_who_took_it(rig: Rig, jobs: LogJobs, thread: SlowThread) -> None:
    thread.gate.set()
    partition = rig.led()

    async def act() -> bool:
        raise StorageFailure("not this time")

    with pytest.raises(StorageFailure, match="not this time"):
        await jobs.alone(partition, act)
    assert not rig.failures
    await jobs.sync(partition)


@pytest.mark.usefixtures("jobs")
async def test_partitions_are_synced_side_by_side(rig: Rig, thread: SlowThread) -> None:
    partitions: list[Partition] = [rig.led(name, flush_messages=1) for name in "ab"]
    for partition in partitions:
        rig.append(partition, b"x")
    await eventually(lambda: thread.runs == 2, "both syncs to begin")
    thread.gate.set()
    await eventually(lambda: all(each.high_watermark == 1 for each in partitions), "both to count")


async def test_a_follower_waits_for_its_own_sync(rig: Rig, jobs: LogJobs, thread: SlowThread) -> None:
    partition = rig.led(flush_messages=1)
    rig.append(partition, b"x")
    rig.follow(partition, FOLLOWER, 2)
    thread.gate.set()
    await jobs.sync(partition)
    assert partition.log.recovery_point == 1
    assert not partition.replica.is_sync_due


@pytest.mark.usefixtures("jobs")
async def test_a_partition_that_failed_meanwhile_is_left_alone(rig: Rig, thread: SlowThread) -> None:
    partition = rig.led(flush_messages=1, replicas=(ME,))
    rig.append(partition, b"x")
    await eventually(lambda: thread.runs == 1, "the sync to begin")
    rig.append(partition, b"y")
    rig.on_storage_failed(partition, StorageFailure("the directory is gone"))
    thread.gate.set()
    await turns(6)
    assert thread.runs == 1


@pytest.mark.usefixtures("jobs")
async def test_a_partition_that_was_deleted_meanwhile_has_not_failed(rig: Rig, thread: SlowThread) -> None:
    partition = rig.led(flush_messages=1)
    rig.append(partition, b"x")
    await eventually(lambda: thread.runs == 1, "the sync to begin")
    rig.replicas.remove(partition.topic_partition)
    partition.replica.on_removed()
    partition.log.go_offline(StorageFailure("orders-0 was deleted"))
    thread.gate.set()
    await turns(6)
    assert partition.log.recovery_point == 0


async def test_a_cut_is_made_in_a_thread(rig: Rig, jobs: LogJobs, thread: SlowThread) -> None:
    """After a failover it held the loop up for as long as it took: that of 16 MiB of tiny batches 0.3 s."""
    partition = rig.led()
    rig.append(partition, b"x")
    rig.append(partition, b"y")
    partition.replica.cut = cut = do.Cut(1)
    jobs.cut(partition, cut)
    await eventually(lambda: thread.runs == 1, "the thread to be asked")
    await turns()
    assert partition.log.is_cutting
    thread.gate.set()
    await eventually(lambda: partition.replica.cut is None, "the cut")
    assert partition.log.log_end_offset == 1


async def test_a_cut_that_lacks_something_when_the_node_stops_fails_no_disk(
    rig: Rig, jobs: LogJobs, disk: FailingDisk, thread: SlowThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = rig.led()
    rig.append(partition, b"x", b"y")
    monkeypatch.setattr(FailingDisk, "fsync_dir", partialmethod(FailingDisk.check, "fsync_dir"))
    disk.refuse("fsync_dir", "orders-0", errno.EMFILE)
    jobs.cut(partition, do.Cut(0))
    closing = asyncio.create_task(jobs.close())
    thread.gate.set()
    await closing
    assert (rig.failures, partition.log.failure) == ([], None)
    with pytest.raises(PassingFailure):
        partition.log.prepare_close()


async def test_a_log_is_not_made_again_for_a_replica_that_left_meanwhile(
    rig: Rig, jobs: LogJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store did not know it, or knew the log of a topic with the same name, and the node ended."""
    monkeypatch.setattr(backoff, "FIRST_PAUSE_S", 0.001)
    partition = rig.partition()
    rig.follow(partition, FOLLOWER, 1)
    partition.log.lose_files("somebody removed them")
    rig.replicas.carry_out(partition, partition.replica.truncate(0, 0))
    events = jobs.events
    assert isinstance(events, Events)
    await eventually(lambda: events.remakes, "the first attempt")
    rig.replicas.remove(partition.topic_partition)
    partition.replica.on_removed()
    attempts = events.remakes
    await jobs.close()
    assert (events.remakes, events.cuts) == (attempts, 0)
