"""Several log directories of one broker: one fails, replicas move between them (rows A5, R22, R12)."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import threading
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from broker_client import Client, values_in
from broker_node import Cluster, FailingDisk, HastyDisk, create_topic, eventually, led, make_node

from minikafka.broker.drivers import moves
from minikafka.broker.handlers import describe_log_dirs
from minikafka.broker.handlers.alter_replica_log_dirs import AT_ONCE
from minikafka.broker.node import Node
from minikafka.broker.partition import Partition
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_NODE, TopicPartition
from minikafka.records.batch import Buffer
from minikafka.replication.replica_condition import Condition
from minikafka.storage import disk
from minikafka.storage.cut_job import CutJob
from minikafka.storage.disk import File, NamesFile
from minikafka.storage.errors import StorageFailure
from minikafka.storage.flush import FlushJob
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_ends import LOG_ENDS_FILE
from minikafka.storage.moving import ReplicaMove
from minikafka.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from minikafka.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
)

Dial = Callable[..., Awaitable[Client]]
StartNode = Callable[..., Awaitable[Node]]

ORDERS = TopicPartition("orders", 0)


def two(directory: Path) -> str:
    return f"{directory / 'one'},{directory / 'two'}"


async def alter(client: Client, path: object, tp: TopicPartition = ORDERS) -> ErrorCode:
    topic = AlterReplicaLogDirTopic(name=tp.topic, partitions=[tp.partition])
    answer = await client.ask(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(path), topics=[topic])]))
    return ErrorCode(answer.results[0].partitions[0].error_code)


async def described(client: Client, *topics: str) -> dict[str, dict[TopicPartition, DescribeLogDirsPartition]]:
    """Directory -> its replicas; fails when one has an error."""
    wanted = [DescribableLogDirTopic(topic=name, partitions=[0, 1]) for name in topics]
    answer = await client.ask(DescribeLogDirsRequest(topics=wanted or None))
    assert all(result.error_code == 0 and result.total_bytes >= result.usable_bytes > 0 for result in answer.results)
    return {
        Path(result.log_dir).name: {
            TopicPartition(topic.name, each.partition_index): each
            for topic in result.topics
            for each in topic.partitions
        }
        for result in answer.results
    }


def files(directory: str) -> bytes:
    """The segment files of a log, one behind the other."""
    return b"".join(each.read_bytes() for each in sorted(Path(directory).glob("*.log")))


def flip(path: str, position: int) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1]))


def directory_in_image(node: Node, tp: TopicPartition) -> object:
    state = node.image.partition(tp)
    return None if state is None else state.directory_id_of(node.config.node_id)


def leader_in_image(node: Node, tp: TopicPartition) -> int:
    state = node.image.partition(tp)
    return NO_NODE if state is None else state.leader


def directory_id(node: Node, tp: TopicPartition) -> object:
    directory = node.store.log_dir_of(tp)
    assert directory is not None
    assert directory.meta is not None
    return directory.meta.directory_id


def other_directory(node: Node, tp: TopicPartition) -> LogDir:
    source = node.store.log_dir_of(tp)
    assert source is not None
    return next(each for each in node.store.directories if each is not source)


async def with_a_record(start_node: StartNode, tmp_path: Path, dial: Dial) -> tuple[Node, Client, LogDir, LogDir]:
    """A node with one record, its client, the directory of the record and the other one."""
    node = await start_node(log_dirs=two(tmp_path))
    await create_topic(node, "orders")
    client = await dial(node)
    await client.produce("orders", b"a")
    source = node.store.log_dir_of(ORDERS)
    assert source is not None
    return node, client, source, next(each for each in node.store.directories if each is not source)


@pytest.mark.spec("A5")
async def test_many_moves_begin_in_many_turns(
    start_node: StartNode, tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop makes the files of each copy."""
    node = await start_node(log_dirs=two(tmp_path))
    await create_topic(node, "orders", 50)
    await eventually(lambda: node.replicas.get(TopicPartition("orders", 49)), "the last replica")
    loop, turn = asyncio.get_running_loop(), 0
    begun: Counter[int] = Counter()
    begin_move = node.store.moves.begin

    def next_turn() -> None:
        nonlocal turn
        turn += 1
        loop.call_soon(next_turn)

    def begin(tp: TopicPartition, target: LogDir) -> ReplicaMove:
        begun[turn] += 1
        return begin_move(tp, target)

    monkeypatch.setattr(node.store.moves, "begin", begin)
    topic = AlterReplicaLogDirTopic(name="orders", partitions=list(range(50)))
    dirs = [AlterReplicaLogDir(path=str(tmp_path / name), topics=[topic]) for name in ("one", "two")]
    client = await dial(node)
    next_turn()
    answer = await client.ask(AlterReplicaLogDirsRequest(dirs=dirs))
    assert [len(result.partitions) for result in answer.results] == [100]
    assert begun.total() >= 50
    assert max(begun.values()) <= AT_ONCE


@pytest.mark.spec("A5")
async def test_a_question_for_one_replica_costs_little_however_many_there_are(
    start_node: StartNode, tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each looked at all: 200 pipelined ones for nothing held the loop of a node with 3,000 replicas for 3 s."""
    node = await start_node(log_dirs=two(tmp_path))
    await create_topic(node, "orders", 50)
    await eventually(lambda: node.replicas.get(TopicPartition("orders", 49)), "the last replica")
    made: list[int] = []

    def make(**fields: Any) -> DescribeLogDirsPartition:
        made.append(fields["partition_index"])
        return DescribeLogDirsPartition(**fields)

    monkeypatch.setattr(describe_log_dirs, "DescribeLogDirsPartition", make)
    client, one = await dial(node), [DescribableLogDirTopic(topic="orders", partitions=[7])]
    answer = await client.ask(DescribeLogDirsRequest(topics=one))
    assert [p.partition_index for result in answer.results for topic in result.topics for p in topic.partitions] == [7]
    assert made == [7]
    nothing = await client.ask(DescribeLogDirsRequest(topics=[]))
    assert not any(result.topics for result in nothing.results)
    assert made == [7]


@pytest.mark.spec("A5")
async def test_replicas_are_spread_and_the_cluster_knows_where(
    start_node: StartNode, tmp_path: Path, dial: Dial
) -> None:
    node = await start_node(log_dirs=two(tmp_path))
    await create_topic(node, "orders", 4)
    counts = [len(directory.logs) for directory in node.store.directories]
    assert counts in ([2, 3], [3, 2]), "the metadata log is in the first"
    for index in range(4):
        tp = TopicPartition("orders", index)
        await eventually(
            lambda tp=tp: directory_in_image(node, tp) == directory_id(node, tp),  # type: ignore[misc]
            "the controller to know",
        )
    found = await described(await dial(node))
    assert sorted(len(replicas) for replicas in found.values()) == [2, 2] or sum(map(len, found.values())) == 4


@pytest.mark.spec("A5")
async def test_a_replica_moves_while_it_is_written(start_node: StartNode, tmp_path: Path, dial: Dial) -> None:
    node = await start_node(log_dirs=two(tmp_path), log_segment_bytes=20_000)
    await create_topic(node, "orders")
    client = await dial(node)
    source = node.store.log_dir_of(ORDERS)
    assert source is not None
    target = next(each for each in node.store.directories if each is not source)
    for number in range(100):
        await client.produce("orders", b"%d" % number * 300)
    assert await alter(client, target.path) is ErrorCode.NONE
    number = 100
    while node.store.log_dir_of(ORDERS) is source:
        await client.produce("orders", b"%d" % number * 300)
        number += 1
    await client.produce("orders", b"the last")
    assert led(node, ORDERS).high_watermark == number + 1
    assert not (Path(source.path) / "orders-0").exists()
    found = await described(client, "orders")
    assert found[Path(source.path).name] == {}
    replica = found[Path(target.path).name][ORDERS]
    assert (replica.is_future_key, replica.offset_lag) == (False, 0)
    await eventually(lambda: not led(node, ORDERS).log.is_arriving, "the copy to have its name")
    assert replica.partition_size == len(files(f"{target.path}/orders-0"))
    await eventually(lambda: directory_in_image(node, ORDERS) == directory_id(node, ORDERS), "the controller to know")
    await node.stop()
    node = await start_node(log_dirs=two(tmp_path))
    assert led(node, ORDERS).log.log_end_offset == number + 1
    assert values_in((await (await dial(node)).fetch("orders", number)).records) == [b"the last"]


@pytest.mark.spec("A5", "P6")
async def test_the_loop_does_not_wait_until_checkpoints_forget_a_log_that_was_moved_away(
    start_node: StartNode, tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six syncs for each replica that was to move back, twenty replicas in a turn."""
    node, client, source, target = await with_a_record(start_node, tmp_path, dial)
    source.write_checkpoints({ORDERS: 1})
    assert await alter(client, target.path) is ErrorCode.NONE
    await eventually(lambda: node.store.log_dir_of(ORDERS) is target, "the move")
    assert source.checkpoints.mentions(ORDERS)
    begin, begun = node.store.moves.begin, list[bool]()

    def note_and_begin(tp: TopicPartition, to: LogDir) -> ReplicaMove:
        begun.append(to.checkpoints.mentions(tp))
        return begin(tp, to)

    monkeypatch.setattr(node.store.moves, "begin", note_and_begin)
    assert await alter(client, source.path) is ErrorCode.NONE
    assert begun == [False], "the loop would have to"
    await eventually(lambda: node.store.log_dir_of(ORDERS) is source, "the move back")
    assert values_in((await client.fetch("orders", 0)).records) == [b"a"]


@pytest.mark.spec("A5")
async def test_moves_leave_no_room_in_the_file_of_log_ends_behind(
    start_node: StartNode, tmp_path: Path, dial: Dial
) -> None:
    """Each took a slot that nobody got any more, until the next start."""
    node = await start_node(log_dirs=two(tmp_path), boot_id="boot")
    await create_topic(node, "orders")
    client = await dial(node)
    sizes: list[int] = []
    for _ in range(4):
        target = other_directory(node, ORDERS)
        assert await alter(client, target.path) is ErrorCode.NONE
        await eventually(lambda: not node.store.moves.under_way(), "the move")
        await eventually(lambda: not led(node, ORDERS).log.is_arriving, "its end")
        sizes.append(sum(os.stat(f"{each.path}/{LOG_ENDS_FILE}").st_size for each in node.store.directories))
    assert sizes[1:] == sizes[:1] * 3


@pytest.mark.spec("A5")
async def test_the_last_step_of_a_move_has_few_segments(
    start_node: StartNode, tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the loop for itself. A log of 160 KB in 2,000 segments was all copied in it: the node hung for 20 s."""
    node = await start_node(log_dirs=two(tmp_path), log_segment_bytes=1024)
    await create_topic(node, "orders")
    client = await dial(node)
    for _ in range(10):
        await client.produce("orders", b"x" * 900)
    left: list[int] = []
    moves = node.data_plane.moves
    maybe_complete = moves._maybe_complete

    async def last_step(move: ReplicaMove, partition: Partition) -> int:
        left.append(move.segments_left)
        return await maybe_complete(move, partition)

    monkeypatch.setattr(moves, "_maybe_complete", last_step)
    source = node.store.log_dir_of(ORDERS)
    target = next(each for each in node.store.directories if each is not source)
    assert await alter(client, target.path) is ErrorCode.NONE
    await eventually(lambda: node.store.log_dir_of(ORDERS) is target, "the move")
    assert left
    assert max(left) <= 3


@pytest.mark.spec("A5")
async def test_a_move_ends_without_a_sync_on_the_loop(
    start_node: StartNode, tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There were a dozen: with 100 ms each, 30 moves held all clients of the node up for a second each."""
    node, client, _source, target = await with_a_record(start_node, tmp_path, dial)
    on_loop: list[str] = []
    synced, mover, loop = disk._synced, node.data_plane.moves, threading.get_ident()

    def sync(act: Callable[[int], None], fd: int) -> None:
        if threading.get_ident() == loop:
            on_loop.append("".join(traceback.format_stack()))
        synced(act, fd)

    maybe_complete = mover._maybe_complete

    async def last_step(move: ReplicaMove, partition: Partition) -> int:
        monkeypatch.setattr(disk, "_synced", sync)
        return await maybe_complete(move, partition)

    monkeypatch.setattr(mover, "_maybe_complete", last_step)
    assert await alter(client, target.path) is ErrorCode.NONE
    await eventually(lambda: node.store.log_dir_of(ORDERS) is target, "the move")
    await eventually(lambda: not led(node, ORDERS).log.is_arriving, "its end")
    assert disk._synced is sync
    assert not on_loop
    assert values_in((await client.fetch("orders", 0)).records) == [b"a"]


@pytest.mark.spec("A5")
async def test_a_log_waits_for_the_syncs_of_few_segments_of_its_copy(
    start_node: StartNode, tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All 80 were synced while no sync of the log could begin: with 50 ms each its writers, and those of all logs that
    are followed at the same leader, waited for 14 s."""
    node = await start_node(log_dirs=two(tmp_path), log_segment_bytes=1024)
    await create_topic(node, "orders")
    client = await dial(node)
    for _ in range(10):
        await client.produce("orders", b"x" * 900)
    synced: list[int] = []
    prepare_seal = ReplicaMove.prepare_seal

    def noted_seal(move: ReplicaMove) -> FlushJob:
        job = prepare_seal(move)
        synced.append(len(job.sealed))
        return job

    monkeypatch.setattr(ReplicaMove, "prepare_seal", noted_seal)
    target = other_directory(node, ORDERS)
    assert await alter(client, target.path) is ErrorCode.NONE
    await eventually(lambda: node.store.log_dir_of(ORDERS) is target, "the move")
    assert synced
    assert max(synced) <= 3


@pytest.mark.spec("A5", "R22")
async def test_a_slow_move_is_shown_resumed_and_cancelled(start_node: StartNode, tmp_path: Path, dial: Dial) -> None:
    how = {"log_dirs": two(tmp_path), "replica_alter_log_dirs_io_max_bytes_per_second": 100}
    node = await start_node(**how)
    await create_topic(node, "orders")
    client = await dial(node)
    for _ in range(3):
        await client.produce("orders", b"x" * 1000)
    source = node.store.log_dir_of(ORDERS)
    assert source is not None
    target = next(each for each in node.store.directories if each is not source)
    assert await alter(client, target.path) is ErrorCode.NONE
    replica = (await described(client))[Path(target.path).name][ORDERS]
    assert replica.is_future_key
    assert replica.offset_lag > 0
    node._on_fatal(RuntimeError("killed by the test"))
    await node.stop()
    node = await start_node(**how)
    await eventually(lambda: node.replicas.get(ORDERS), "the replica")
    client = await dial(node)
    assert (await described(client))[Path(target.path).name][ORDERS].is_future_key
    assert await alter(client, source.path) is ErrorCode.NONE, "it shall stay where it is"
    assert node.store.moves.under_way() == []
    assert led(node, ORDERS).log.log_end_offset == 3


@pytest.mark.spec("A5")
async def test_a_move_for_which_no_second_is_enough_can_be_cancelled_and_sped_up(
    start_node: StartNode, tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a byte a second the copy of a batch slept for as many seconds, whatever happened meanwhile."""
    monkeypatch.setattr(moves, "PAUSE_S_MAX", 0.01)
    node = await start_node(log_dirs=two(tmp_path), replica_alter_log_dirs_io_max_bytes_per_second=1)
    client = await dial(node)
    for topic in ("slow", "orders"):
        await create_topic(node, topic)
        await client.produce(topic, b"x" * 10_000)
    slow = TopicPartition("slow", 0)
    for tp in (slow, ORDERS):
        assert await alter(client, other_directory(node, tp).path, tp) is ErrorCode.NONE
    await eventually(lambda: node.store.moves.under_way()[0].is_caught_up, "the copy of a batch")
    first = node.store.moves.under_way()[0].current.topic_partition
    source = node.store.log_dir_of(first)
    assert source is not None
    assert await alter(client, source.path, first) is ErrorCode.NONE
    await eventually(lambda: node.store.moves.under_way()[0].is_caught_up, "the copy of the other's")
    monkeypatch.setattr(node.data_plane.moves, "_rate", lambda: 1 << 30)
    await eventually(lambda: not node.store.moves.under_way(), "the end of the move")


@pytest.mark.spec("A5")
async def test_a_copy_is_cut_in_a_thread(
    start_node: StartNode, tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop did it: with transactions a cut replays up to a segment, 3.6 s for a GiB."""
    node = await start_node(log_dirs=two(tmp_path), replica_alter_log_dirs_io_max_bytes_per_second=4_000)
    await create_topic(node, "orders")
    client = await dial(node)
    for _ in range(10):
        await client.produce("orders", b"x" * 1_000)
    source, threads = node.store.log_dir_of(ORDERS), []
    assert source is not None
    run = CutJob.run

    def noted(job: CutJob) -> None:
        threads.append(threading.current_thread())
        run(job)

    monkeypatch.setattr(CutJob, "run", noted)
    target = next(each for each in node.store.directories if each is not source)
    assert await alter(client, target.path) is ErrorCode.NONE
    await eventually(lambda: target.futures[ORDERS].log.log_end_offset, "a piece of the copy")
    led(node, ORDERS).log.delete_records(9, 10)
    await eventually(lambda: node.store.log_dir_of(ORDERS) is target, "the end of the move")
    assert led(node, ORDERS).log.log_end_offset == 10
    assert threads
    assert threading.main_thread() not in threads


@pytest.mark.spec("A5")
async def test_what_cannot_be_moved(start_node: StartNode, tmp_path: Path, dial: Dial) -> None:
    node = await start_node(log_dirs=two(tmp_path))
    client = await dial(node)
    later = TopicPartition("later", 0)
    assert await alter(client, tmp_path / "three", later) is ErrorCode.LOG_DIR_NOT_FOUND
    for path in (tmp_path / "one", tmp_path / "two", tmp_path / "one"):  # the last wish counts
        assert await alter(client, path, later) is ErrorCode.REPLICA_NOT_AVAILABLE
    assert await alter(client, tmp_path / "two", TopicPartition("../x", 0)) is ErrorCode.INVALID_TOPIC_EXCEPTION
    metadata = TopicPartition("__cluster_metadata", 0)
    assert await alter(client, tmp_path / "two", metadata) is ErrorCode.REPLICA_NOT_AVAILABLE
    await create_topic(node, "later")
    directory = node.store.log_dir_of(later)
    assert directory is not None
    assert Path(directory.path).name == "one"
    node.store.directories[1].fail(StorageFailure("EIO"))
    assert await alter(client, tmp_path / "two", later) is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.spec("R12", "E3")
async def test_a_directory_fails_and_the_other_goes_on(start_node: StartNode, tmp_path: Path, dial: Dial) -> None:
    disk = FailingDisk()
    node = await start_node(log_dirs=two(tmp_path), disk=disk)
    await create_topic(node, "orders", 4)
    client = await dial(node)
    there = [tp for tp in node.store.directories[1].logs if tp.topic == "orders"]
    here = [tp for tp in node.store.directories[0].logs if tp.topic == "orders"]
    disk.refuse("append", str(tmp_path / "two"), errno.EIO)
    answer = await client.produce("orders", b"x", partition=there[0].partition)
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    disk.allow()
    for tp in there:
        answer = await client.produce("orders", b"x", partition=tp.partition)
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR, "nothing is tried again"
    for tp in here:
        assert not (await client.produce("orders", b"x", partition=tp.partition)).error_code
    for tp in there:
        await eventually(lambda tp=tp: node.image.partition(tp).leader == -1, "it to be led no more")  # type: ignore[misc]
    assert node.failure is None
    answer = await client.ask(DescribeLogDirsRequest(topics=None))
    assert [result.error_code for result in answer.results] == [0, ErrorCode.KAFKA_STORAGE_ERROR]
    await create_topic(node, "another", 2)
    assert not (tmp_path / "two/another-0").exists()


class WatchedDisk(FailingDisk):
    """Notes in which threads the registration is written and removed."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: dict[str, set[bool]] = {"write": set(), "unlink": set()}

    def _note(self, operation: str, path: str) -> None:
        if os.path.basename(path).startswith("registration"):
            self.threads[operation].add(threading.current_thread() is threading.main_thread())

    def _write(self, path: str, data: Buffer, *, durable: bool) -> None:
        self._note("write", path)
        super()._write(path, data, durable=durable)

    def unlink(self, path: str) -> None:
        self._note("unlink", path)
        super().unlink(path)


@pytest.mark.spec("P6", "R12")
async def test_a_registration_is_written_and_forgotten_in_threads(start_node: StartNode, tmp_path: Path) -> None:
    """A slow disk, or a broken one, holds up nobody else."""
    disk = WatchedDisk()
    node = await start_node(log_dirs=two(tmp_path), disk=disk)
    await create_topic(node, "orders", flush_messages=1)
    registrations = node.control_plane.registrations
    await eventually(lambda: registrations.synced_topics, "the topic to be claimed")
    node.store.directories[1].fail(StorageFailure("EIO"))
    await eventually(lambda: disk.threads["unlink"], "the registration to go")
    assert disk.threads == {"write": {False}, "unlink": {False}}
    await eventually(lambda: not (tmp_path / "two/registration").exists(), "the file to go")


@pytest.mark.spec("A5", "R12")
async def test_a_directory_fails_when_a_copy_has_taken_the_place_of_a_log(
    start_node: StartNode, tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await start_node(log_dirs=two(tmp_path))
    client = await dial(node)
    source, target = node.store.directories
    assert await alter(client, source.path) is ErrorCode.REPLICA_NOT_AVAILABLE, "it will be made there"
    await create_topic(node, "orders")
    await client.produce("orders", b"x")
    await eventually(lambda: directory_in_image(node, ORDERS) == directory_id(node, ORDERS), "the controller to know")
    assert node.store.log_dir_of(ORDERS) is source
    retire = LogDir.retire

    def and_the_other_fails(*arguments: Any) -> str:
        path = retire(*arguments)
        target.fail(StorageFailure("EIO"))
        return path

    monkeypatch.setattr(LogDir, "retire", and_the_other_fails)
    assert await alter(client, target.path) is ErrorCode.NONE
    await eventually(lambda: leader_in_image(node, ORDERS) == NO_NODE, "it to be led no more")
    assert (await client.produce("orders", b"y")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert node.failure is None
    await node.stop()
    node = await start_node(log_dirs=two(tmp_path))
    await eventually(lambda: leader_in_image(node, ORDERS) == 1, "it to be led again")
    assert led(node, ORDERS).log.log_end_offset == 1
    assert led(node, ORDERS).log.directory == f"{target.path}/orders-0"


@pytest.mark.spec("A5", "P5")
async def test_a_move_that_meets_damage_says_so(start_node: StartNode, tmp_path: Path, dial: Dial) -> None:
    node = await start_node(log_dirs=two(tmp_path))
    await create_topic(node, "orders")
    client = await dial(node)
    for number in range(9):
        await client.produce("orders", b"%d" % number)
    log = led(node, ORDERS).log
    source = node.store.log_dir_of(ORDERS)
    flip(f"{log.directory}/{'0' * 20}.log", log.size_in_bytes // 2)
    target = next(each for each in node.store.directories if each is not source)
    assert await alter(client, target.path) is ErrorCode.NONE
    await eventually(lambda: log.corruption is not None, "the leader to believe what the copy found")
    assert node.store.log_dir_of(ORDERS) is source
    assert not target.futures


@pytest.mark.spec("R12")
async def test_the_directory_of_the_metadata_log_takes_the_node_with_it(start_node: StartNode, tmp_path: Path) -> None:
    node = await start_node(log_dirs=two(tmp_path))
    node.store.directories[0].fail(StorageFailure("EIO"))
    await eventually(node.stopped.is_set, "the node to halt")
    assert isinstance(node.failure, StorageFailure)


@pytest.mark.spec("R12", "R22")
async def test_a_node_starts_without_a_directory_that_cannot_be_read(
    start_node: StartNode, tmp_path: Path, dial: Dial
) -> None:
    node = await start_node(log_dirs=two(tmp_path))
    await create_topic(node, "orders", 4)
    client = await dial(node)
    for index in range(4):
        await client.produce("orders", b"x", partition=index)
        tp = TopicPartition("orders", index)
        await eventually(
            lambda tp=tp: directory_in_image(node, tp) == directory_id(node, tp),  # type: ignore[misc]
            "the controller to know",
        )
    there = [tp for tp in node.store.directories[1].logs if tp.topic == "orders"]
    await node.stop()
    (tmp_path / "two").rename(tmp_path / "away")
    (tmp_path / "two").write_text("not a directory")
    node = await start_node(log_dirs=two(tmp_path))
    await eventually(lambda: all(tp in node.replicas.offline for tp in there), "them to be offline")
    client = await dial(node)
    for index in range(4):
        answer = await client.produce("orders", b"y", partition=index)
        expected = ErrorCode.KAFKA_STORAGE_ERROR if TopicPartition("orders", index) in there else ErrorCode.NONE
        assert answer.error_code == expected
    await node.stop()
    (tmp_path / "two").unlink()
    (tmp_path / "away").rename(tmp_path / "two")
    node = await start_node(log_dirs=two(tmp_path))
    for index in range(4):
        tp = TopicPartition("orders", index)
        await eventually(lambda tp=tp: led(node, tp).log.log_end_offset >= 1, "what was there")  # type: ignore[misc]


class UnreadableDisk(HastyDisk):
    """One file cannot be read."""

    def __init__(self, path: Path, error: int = errno.EIO) -> None:
        self._path, self._error = str(path), error

    def read_bytes(self, path: str) -> bytes:
        if path == self._path:
            raise OSError(self._error, os.strerror(self._error), path)
        return super().read_bytes(path)


SMALL_FILES = (
    "registration",
    ".kafka_cleanshutdown",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "log-ends",
)


@pytest.mark.spec("P5", "P6", "R12")
@pytest.mark.parametrize("name", SMALL_FILES)
async def test_a_small_file_that_cannot_be_read_counts_as_damaged(
    start_node: StartNode, tmp_path: Path, name: str
) -> None:
    """The node starts with all directories, also where it is that of the metadata log."""
    node = await start_node(log_dirs=two(tmp_path))
    await create_topic(node, "orders", 4)
    await node.stop()
    for directory in ("one", "two"):
        node = await start_node(log_dirs=two(tmp_path), disk=UnreadableDisk(tmp_path / directory / name))
        assert [directory.failure for directory in node.store.directories] == [None, None]
        await node.stop()
    with pytest.raises(OSError, match="Too many open files"):  # says nothing about the file
        make_node(tmp_path, log_dirs=two(tmp_path), disk=UnreadableDisk(tmp_path / "two" / name, errno.EMFILE))


@pytest.mark.spec("P6", "R12")
async def test_an_identity_that_cannot_be_read_costs_its_directory(start_node: StartNode, tmp_path: Path) -> None:
    """The node starts with the others. The only one, or that of the metadata log: it says why, and what to do."""
    node = await start_node(log_dirs=two(tmp_path))
    await create_topic(node, "orders", 4)
    await node.stop()
    name = "meta.properties"
    node = await start_node(log_dirs=two(tmp_path), disk=UnreadableDisk(tmp_path / "two" / name))
    assert [directory.failure is None for directory in node.store.directories] == [True, False]
    await node.stop()
    with pytest.raises(StorageFailure, match=f"{name} is damaged: .*put the file back, or move") as failure:
        make_node(tmp_path, log_dirs=str(tmp_path / "one"), disk=UnreadableDisk(tmp_path / "one" / name))
    assert "\n" not in str(failure.value)
    with pytest.raises(OSError, match="Too many open files"):  # says nothing about the directory
        make_node(tmp_path, log_dirs=two(tmp_path), disk=UnreadableDisk(tmp_path / "two" / name, errno.EMFILE))


async def test_without_the_first_directory_there_is_no_metadata_log(start_node: StartNode, tmp_path: Path) -> None:
    node = await start_node(log_dirs=two(tmp_path))
    await node.stop()
    (tmp_path / "one").rename(tmp_path / "away")
    (tmp_path / "one").write_text("not a directory")
    with pytest.raises(StorageFailure, match="metadata log may be in a log directory that is offline"):
        make_node(tmp_path, log_dirs=two(tmp_path))


@pytest.mark.spec("P5", "R12")
async def test_a_leader_that_finds_its_log_damaged_lets_another_lead(cluster: Cluster, dial: Dial) -> None:
    await cluster.start()
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=[[1, 2, 3]])
    node = cluster.nodes[1]
    partition = await eventually(lambda: node.replicas.get(ORDERS), "the replica")
    await eventually(lambda: partition.leader is not None, "node 1 to lead")
    client = await dial(node)
    for number in range(5):
        await client.produce("orders", b"%d" % number)
    whole = files(partition.log.directory)
    partition.log.mark_damaged(partition.log.segments[0], OSError(errno.EIO, "as if a read had failed"))
    await eventually(lambda: node.image.partition(ORDERS).leader not in (1, -1), "another to lead")  # type: ignore[union-attr]
    await eventually(
        lambda: 1 in node.image.partition(ORDERS).isr and partition.log.corruption is None, "it to be whole"
    )  # type: ignore[union-attr]
    assert files(partition.log.directory) == whole
    assert directory_in_image(node, ORDERS) == directory_id(node, ORDERS)


@pytest.mark.spec("P1", "P6", "R12")
@pytest.mark.parametrize(
    ("taken", "noticed_by"),
    [("directory", "a look"), ("active file", "a look"), ("directory", "a roll"), ("directory", "a flush")],
)
async def test_files_of_one_replica_are_taken_away_from_a_running_leader(
    cluster: Cluster, dial: Dial, taken: str, noticed_by: str
) -> None:
    """Finding: the first write that missed the directory took the log directory, and with it the node."""
    interval_ms = 50 if noticed_by == "a look" else 3_600_000
    await cluster.start(replica_high_watermark_checkpoint_interval_ms=interval_ms)
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=[[1, 2, 3]], min_insync_replicas=2)
    node = cluster.nodes[1]
    partition = await eventually(lambda: node.replicas.get(ORDERS), "the replica")
    await eventually(lambda: partition.leader is not None, "node 1 to lead")
    client = await dial(node)
    for number in range(5):
        assert (await client.produce("orders", b"%d" % number)).error_code == 0
    whole, lost = files(partition.log.directory), partition.log
    if taken == "directory":
        shutil.rmtree(lost.directory)
    else:
        os.unlink(lost.segments.active.path(".log"))
    if noticed_by == "a roll":
        with pytest.raises(StorageFailure) as failure:
            lost.roll()
        node.replicas.on_storage_failed(partition, failure.value)
    elif noticed_by == "a flush":
        node.data_plane.jobs.request_sync(partition)
    await eventually(lambda: node.image.partition(ORDERS).leader not in (1, -1), "another to lead")  # type: ignore[union-attr]
    await eventually(
        lambda: 1 in node.image.partition(ORDERS).isr and partition.log.corruption is None, "it to be whole"
    )  # type: ignore[union-attr]
    assert node.failure is None
    assert partition.log is not lost
    assert files(partition.log.directory) == whole
    assert directory_in_image(node, ORDERS) == directory_id(node, ORDERS)


@pytest.mark.spec("P5", "P6")
async def test_files_that_go_during_a_cut_make_the_replica_a_damaged_one(cluster: Cluster, dial: Dial) -> None:
    """What it is begun anew with is no log that was cut: the cluster is told before anybody counts on it."""
    await cluster.start()
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=[[1, 2, 3]], min_insync_replicas=2)
    node, leader = cluster.nodes[2], cluster.nodes[1]
    partition = await eventually(lambda: node.replicas.get(ORDERS), "the replica")
    await eventually(lambda: leader.replicas.get(ORDERS), "the leader's")
    client = await dial(leader)
    for number in range(5):
        assert (await client.produce("orders", b"%d" % number)).error_code == 0
    await eventually(lambda: partition.high_watermark == 5, "all of it")
    lost, whole = partition.log, files(partition.log.directory)
    shutil.rmtree(lost.directory)
    node.data_plane.fetchers.unfollow([ORDERS])
    node.replicas.carry_out(partition, partition.replica.truncate(3, 0))
    await eventually(lambda: partition.replica.cut is None, "the cut to be done")
    assert partition.replica.condition.now is not Condition.WHOLE
    await eventually(lambda: partition.log is not lost and partition.log.corruption is None, "it to be whole")
    await eventually(lambda: 2 in led(leader, ORDERS).leader.isr, "it to be in sync")  # type: ignore[union-attr]
    assert files(partition.log.directory) == whole
    assert node.failure is None


@pytest.mark.spec("P2", "R12")
@pytest.mark.parametrize("moment", ["closing tasks", "closing the store"])
async def test_a_directory_that_fails_while_the_node_stops_loses_its_registration(
    start_node: StartNode, tmp_path: Path, moment: str
) -> None:
    """No task can be started for it any more; the next start claimed its replicas as whole."""
    disk = FailingDisk()
    node = await start_node(log_dirs=two(tmp_path), disk=disk, boot_id="boot")
    await create_topic(node, "orders", 4)
    assert (tmp_path / "two/registration").exists()

    async def fail_when_cancelled() -> None:
        try:
            await node.stopped.wait()
        finally:
            node.store.directories[1].fail(StorageFailure("EIO"))

    if moment == "closing tasks":
        node.tasks.start(fail_when_cancelled(), "fails")
    else:
        disk.refuse("fsync", str(tmp_path / "two"), errno.EIO)
    await node.stop()
    assert [directory.failure is None for directory in node.store.directories] == [True, False]
    assert not (tmp_path / "two/registration").exists()
    node = await start_node(log_dirs=two(tmp_path), boot_id="boot", wait=False)
    registrations = node.control_plane.registrations
    here = {
        log.topic_partition.partition
        for log in node.store.directories[0].logs.values()
        if log.topic_partition.topic == "orders"
    }
    assert [set(whole) for whole in registrations.whole_replicas().values()] == [here]


class ShortDisk(HastyDisk):
    """Every use of a descriptor by name fails from the one behind so many on; None: none does."""

    def __init__(self) -> None:
        self.left: int | None = None

    def take(self, path: str) -> None:
        if self.left is not None:
            if not self.left:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
            self.left -= 1

    def open_append(self, path: str) -> File:
        self.take(path)
        return super().open_append(path)

    def read_bytes(self, path: str) -> bytes:
        self.take(path)
        return super().read_bytes(path)

    def open_names(self, path: str) -> NamesFile:
        self.take(path)
        return super().open_names(path)

    def _write(self, path: str, data: Buffer, *, durable: bool) -> None:
        self.take(path)
        super()._write(path, data, durable=durable)


@pytest.mark.spec("P6")
async def test_a_node_that_cannot_be_made_for_want_of_descriptors_leaves_its_directories_free(tmp_path: Path) -> None:
    """Whatever of it lacked one, and be it the registrations, the same process may begin again."""
    for left in range(100):
        disk, where = ShortDisk(), tmp_path / str(left)
        disk.left = left
        try:
            node = make_node(tmp_path, log_dirs=two(where), disk=disk)
        except (KafkaError, OSError):
            disk.left = None
            make_node(tmp_path, log_dirs=two(where), disk=disk).store.abandon()
        else:
            node.store.abandon()
            assert left > 10, "some were needed"
            return
    raise AssertionError("it never had enough")
