from __future__ import annotations

import asyncio
import errno
import struct
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from broker_client import NOW_MS, Client, batch, produce_request, values_in
from broker_node import (
    FailingDisk,
    alter_setting,
    alter_topic,
    create_topic,
    delete_topic,
    eventually,
    in_time,
    led,
    turns,
)
from captured_logs import capture_logs

from minikafka.broker import maintenance
from minikafka.broker.node import Node
from minikafka.broker.partition import Partition
from minikafka.metadata.effective import EVERY_BROKER
from minikafka.model import TopicPartition
from minikafka.records.batch import HEADER_SIZE, parse_header, write_header
from minikafka.replication.local_replica import Role
from minikafka.storage.checkpoints import HIGH_WATERMARK_FILE
from minikafka.storage.compaction import CompactionJob

StartNode = Callable[..., Awaitable[Node]]
Dial = Callable[..., Awaitable[Client]]

HOUR_S = 3600.0
SOON_OLD_MS = 3_600_200
"""A retention of which an hour has passed; a jump of the clock is followed slowly, but 200 ms are not much."""


@pytest.mark.spec("R22")
async def test_high_watermarks_are_written_down_now_and_then(start_node: StartNode, dial: Dial, tmp_path: Path) -> None:
    node = await start_node(replica_high_watermark_checkpoint_interval_ms=5)
    tp = await create_topic(node, "orders")
    await (await dial(node)).produce("orders", b"a", b"b")
    assert node.data_plane.maintenance.high_watermarks()[tp] == 2
    file = tmp_path / "data" / HIGH_WATERMARK_FILE
    await eventually(lambda: file.exists() and "orders 0 2" in file.read_text(), "the checkpoint")


async def test_work_on_each_partition_leaves_turns_to_others() -> None:
    seen: list[object] = []
    asyncio.get_running_loop().call_soon(seen.append, "another")
    await maintenance._in_portions(range(maintenance.PORTION + 1), seen.append)
    assert seen == [*range(maintenance.PORTION), "another", maintenance.PORTION]


async def test_a_partition_that_leaves_meanwhile_is_passed_over(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "PORTION", 1)
    node = await start_node()
    first, second = [await create_topic(node, name) for name in ("first", "second")]
    seen: list[object] = []
    watched = node.data_plane.maintenance

    def look(partition: Partition) -> None:
        seen.append(partition.topic_partition)
        node.data_plane.replicas.remove(second)

    await maintenance._in_portions(node.data_plane.replicas, watched._if_here(look))
    assert seen == [first]


async def test_old_segments_are_deleted(start_node: StartNode, dial: Dial, tmp_path: Path) -> None:
    wall = [NOW_MS / 1000]
    node = await start_node(wall_s=lambda: wall[0], log_retention_check_interval_ms=5)
    client = await dial(node)
    tp = await create_topic(node, "orders", segment_bytes=2000, retention_ms=SOON_OLD_MS)
    for _ in range(3):
        await client.produce("orders", b"x" * 1500, timestamp=int((wall[0] - HOUR_S) * 1000))
    directory = tmp_path / "data/orders-0"
    assert len(list(directory.glob("*.log"))) == 3
    wall[0] += HOUR_S
    log = led(node, tp).log
    await eventually(lambda: log.log_start_offset == 3, "the segments to expire, the active one too")
    await eventually(lambda: len(list(directory.glob("*.log"))) == 1, "their files to go")
    assert (await client.fetch("orders", 3)).log_start_offset == 3


async def test_producers_are_forgotten_by_what_is_set_while_the_node_runs(start_node: StartNode, dial: Dial) -> None:
    node = await start_node(log_retention_check_interval_ms=5)
    log = led(node, await create_topic(node, "orders")).log
    await (await dial(node)).produce("orders", b"x", producer=(7, 0, 0))
    assert len(log.producers) == 1
    await alter_setting(node, EVERY_BROKER, "producer.id.expiration.ms", "1")
    await eventually(lambda: len(log.producers) == 0, "the producer to be forgotten")


async def test_a_table_is_compacted(start_node: StartNode, dial: Dial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "COMPACTION_CHECK_INTERVAL_S", 0.005)
    monkeypatch.setattr(maintenance, "FLUSH_CHECK_INTERVAL_S", 0.005)
    node = await start_node()
    client = await dial(node)
    tp = await create_topic(node, "table", segment_bytes=1200, cleanup_policy="compact", min_cleanable_dirty_ratio=0.01)
    for number in range(8):
        await client.produce("table", b"%d" % number + b"x" * 900, keys=(b"key",))
    log = led(node, tp).log
    await eventually(lambda: log.first_dirty_offset > 1, "the compaction")
    values = values_in((await client.fetch("table")).records)
    assert len(values) < 8
    assert node.failure is None


async def test_a_bug_that_the_cleaner_meets_in_a_log_ends_no_node(
    start_node: StartNode, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each node with a copy ended, again after each start: one batch of 80 bytes was enough."""
    monkeypatch.setattr(maintenance, "COMPACTION_CHECK_INTERVAL_S", 0.005)
    monkeypatch.setattr(maintenance, "FLUSH_CHECK_INTERVAL_S", 0.005)
    monkeypatch.setattr(CompactionJob, "_rewrite", fail_on("odd", CompactionJob._rewrite))
    node = await start_node()
    client = await dial(node)
    settings = {"segment_bytes": 1200, "cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.01}
    odd, sound = [await create_topic(node, name, **settings) for name in ("odd", "table")]
    with capture_logs() as said:
        for number in range(6):
            for name in ("odd", "table"):
                await client.produce(name, b"%d" % number + b"x" * 900, keys=(b"key",))
        await eventually(lambda: led(node, sound).log.first_dirty_offset > 3, "the compaction of the other topic")
    (told,) = [line for line in said if line["event"] == "no more compaction of a log"]
    assert told["partition"] == "odd-0"
    assert all([values_in((await client.fetch("odd", offset)).records) for offset in range(6)])
    assert led(node, odd).log.first_dirty_offset == 0
    assert not written_for(node, odd), "what it wrote would take room until the next start"
    assert node.failure is None


def written_for(node: Node, tp: TopicPartition) -> list[Path]:
    log_dir = node.store.log_dir_of(tp)
    assert log_dir is not None
    return list(Path(log_dir.path, str(tp)).glob("*.cleaned"))


def fail_on(topic: str, rewrite: Callable[[CompactionJob], Iterator[int]]) -> Callable[[CompactionJob], Iterator[int]]:
    def rewrite_and_fail(job: CompactionJob) -> Iterator[int]:
        yield from rewrite(job)
        if f"/{topic}-" in job._directory:
            raise struct.error("int too large to convert")

    return rewrite_and_fail


async def test_a_wall_clock_that_jumps_ahead_removes_no_tombstones(
    start_node: StartNode, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica that was down meanwhile would keep the value, and no longer hear that it was deleted."""
    monkeypatch.setattr(maintenance, "COMPACTION_CHECK_INTERVAL_S", 0.005)
    wall = [NOW_MS / 1000]
    node = await start_node(wall_s=lambda: wall[0])
    tp = await create_topic(node, "table", cleanup_policy="compact")
    read_ms: list[int] = []
    log = led(node, tp).log
    log.plan_compaction = lambda _high_watermark, wall_ms: read_ms.append(wall_ms)  # type: ignore[method-assign,assign]
    await eventually(lambda: read_ms, "a look for what to compact")
    wall[0] += 365 * 24 * HOUR_S
    count = len(read_ms)
    await eventually(lambda: len(read_ms) > count, "another look")
    assert read_ms[-1] < NOW_MS + HOUR_S * 1000
    wall[0] = NOW_MS / 1000 - HOUR_S
    count = len(read_ms)
    await eventually(lambda: len(read_ms) > count + 1, "another look")
    assert read_ms[-1] == NOW_MS - HOUR_S * 1000


async def test_a_wall_clock_that_is_set_back_makes_no_record_old(start_node: StartNode, dial: Dial) -> None:
    """Other replicas would delete what has just been acknowledged; and honest clients are not refused."""
    wall = [NOW_MS / 1000]
    node = await start_node(wall_s=lambda: wall[0])
    client = await dial(node)
    appended = await create_topic(node, "appended", message_timestamp_type="LogAppendTime")
    made = await create_topic(node, "made")
    wall[0] -= 30 * 24 * HOUR_S
    for tp in (appended, made):
        await client.produce(tp.topic, b"x", timestamp=NOW_MS)
        log = led(node, tp).log
        assert log.newest_timestamp(log.segments.active) >= NOW_MS


async def test_a_wall_clock_that_is_set_back_puts_no_flush_off(
    start_node: StartNode, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "FLUSH_CHECK_INTERVAL_S", 0.005)
    wall = [NOW_MS / 1000]
    node = await start_node(wall_s=lambda: wall[0])
    client = await dial(node)
    tp = await create_topic(node, "orders", flush_ms=10)
    log = led(node, tp).log
    for end in (1, 2):
        await client.produce("orders", b"x", timestamp=int(NOW_MS - 48 * HOUR_S * 1000))
        await eventually(lambda end=end: log.recovery_point == end, "a flush")  # type: ignore[misc]
        wall[0] -= 24 * HOUR_S


@pytest.mark.spec("P6")
async def test_all_logs_together_remember_a_bounded_number_of_producers(
    start_node: StartNode, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("FLUSH_CHECK_INTERVAL_S", 0.005),
        ("PRODUCERS_MAX", 64),
        ("NODE_PRODUCERS_MAX", 20),
        ("PRODUCERS_OF_A_LOG_MIN", 2),
    ):
        monkeypatch.setattr(maintenance, name, value)
    node = await start_node()
    client = await dial(node)
    many, few = [led(node, await create_topic(node, name)).log for name in ("many", "few")]
    for producer_id in range(3):
        await client.ask(produce_request("few", batch(b"x", producer=(producer_id, 0, 0))))
    for producer_id in range(100, 118):
        await client.ask(produce_request("many", batch(b"x", producer=(producer_id, 0, 0))))
    await eventually(lambda: len(many.producers) == 16, "the oldest to be forgotten")
    assert [entry.producer_id for entry in many.producers.entries] == list(range(102, 118))
    assert len(few.producers) == 3


async def test_a_batch_that_nobody_can_read_stays_and_the_rest_is_compacted(
    start_node: StartNode, dial: Dial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "COMPACTION_CHECK_INTERVAL_S", 0.005)
    monkeypatch.setattr(maintenance, "FLUSH_CHECK_INTERVAL_S", 0.005)
    node = await start_node()
    client = await dial(node)
    settings = {"segment_bytes": 1200, "min_cleanable_dirty_ratio": 0.01}
    broken = await create_topic(node, "broken", **settings)  # nobody looks into its batches yet
    sound = await create_topic(node, "table", cleanup_policy="compact", **settings)
    await client.ask(produce_request("broken", with_records(b"\xff" * 900)))
    for number in range(4):
        for name in ("broken", "table"):
            await client.produce(name, b"%d" % number + b"x" * 900, keys=(b"key",))
    with capture_logs() as said:
        await alter_topic(node, "broken", "cleanup.policy", "compact")
        await eventually(lambda: led(node, broken).log.first_dirty_offset > 1, "the compaction")
        await eventually(lambda: led(node, sound).log.first_dirty_offset > 1, "the compaction of the other topic")
        unread = "batches that cannot be read were kept"
        warnings = await eventually(lambda: [line for line in said if line["event"] == unread], "the warning")
    assert [(line["partition"], line["at"]) for line in warnings] == [("broken-0", [0])]
    assert not [line for line in said if line["event"] == "not compacted"]
    assert led(node, broken).log.read(0, 1).read().endswith(b"\xff" * 900), "the batch is still there"
    assert led(node, broken).log.corruption is None, "the bytes are as they were sent"
    assert not list((tmp_path / "data/broken-0").glob("*.cleaned"))
    assert node.failure is None


def with_records(data: bytes) -> bytearray:
    """A batch that says of these bytes that they are a record."""
    records = batch(b"x")[:HEADER_SIZE] + data
    write_header(records, parse_header(records))
    return records


async def test_closed_segments_are_synced_without_being_asked(
    start_node: StartNode, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "FLUSH_CHECK_INTERVAL_S", 0.005)
    node = await start_node()
    client = await dial(node)
    tp = await create_topic(node, "orders", segment_bytes=2000)
    for _ in range(2):
        await client.produce("orders", b"x" * 1500)
    log = led(node, tp).log
    await eventually(lambda: log.recovery_point >= 1, "the sync")


@pytest.mark.spec("P2")
async def test_a_sync_that_fails_takes_the_node_down(
    start_node: StartNode, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "FLUSH_CHECK_INTERVAL_S", 0.005)
    disk = FailingDisk()
    node = await start_node(disk=disk)
    client = await dial(node)
    await create_topic(node, "orders", segment_bytes=2000)
    disk.refuse("fsync", "orders-0", errno.EIO)
    for _ in range(2):
        await client.produce("orders", b"x" * 1500)
    await eventually(node.stopped.is_set, "the node to halt")
    assert "orders-0" in str(node.failure)


@pytest.mark.spec("R19")
async def test_a_replica_that_lags_is_proposed_away(start_node: StartNode) -> None:
    node = await start_node(replica_lag_time_max_ms=20, replica_fetch_wait_max_ms=1)
    tp = await create_topic(node, "orders")
    partition = led(node, tp)
    proposed: list[frozenset[int]] = []
    node.data_plane.driver._propose = lambda _partition, proposal: proposed.append(proposal.broker_ids)
    leader = partition.leader
    assert leader is not None
    leader.on_metadata((1, 2), 50, (1, 2), node.clock.monotonic_ms() - 1000)
    leader.on_append(5, node.clock.monotonic_ms())
    await eventually(lambda: proposed, "the proposal")
    assert proposed[0] == {1}


async def test_what_goes_wrong_once_is_tried_again(
    start_node: StartNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that cannot be removed now are no reason never to remove any again."""
    monkeypatch.setattr(maintenance, "FLUSH_CHECK_INTERVAL_S", 0.005)
    disk = FailingDisk()
    node = await start_node(disk=disk, log_segment_delete_delay_ms=0)
    refused: list[str] = []

    def refuse(path: str) -> None:
        refused.append(path)
        raise OSError(errno.EBUSY, "busy", path)

    for name in "ab":
        await create_topic(node, name)
    with monkeypatch.context() as patched:
        patched.setattr(disk, "remove_tree", refuse)
        await delete_topic(node, "a")
        await eventually(lambda: refused, "the first attempt")
    await delete_topic(node, "b")
    await eventually(lambda: not list((tmp_path / "data").glob("b-0*")), "the next files to go")
    assert node.failure is None


async def test_a_topic_that_goes_while_it_is_synced_is_no_failure(
    start_node: StartNode, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "FLUSH_CHECK_INTERVAL_S", 0.005)
    disk = FailingDisk()
    node = await start_node(disk=disk)
    client = await dial(node)
    tp = await create_topic(node, "orders", segment_bytes=2000)
    gate, syncing = asyncio.Event(), asyncio.Event()
    run_in_thread = node.data_plane.jobs._run_in_thread

    async def slowly(act: Callable[[], object]) -> object:
        syncing.set()
        await gate.wait()
        return await run_in_thread(act)

    monkeypatch.setattr(node.data_plane.jobs, "_run_in_thread", slowly)
    for _ in range(2):
        await client.produce("orders", b"x" * 1500)
    await in_time(syncing.wait())
    partition = led(node, tp)
    await delete_topic(node, "orders")
    await eventually(lambda: node.replicas.get(tp) is None, "the topic to go")
    gate.set()
    await eventually(lambda: not (Path(node.config.log_dirs[0]) / "orders-0").exists(), "its files to go")
    await turns(6)
    assert partition.replica.role is Role.REMOVED
    assert node.failure is None


@pytest.mark.spec("R21")
async def test_a_replica_that_joins_is_not_waited_for_for_ever(start_node: StartNode) -> None:
    """It is caught up with what is committed, then falls silent: time alone moves the high watermark past it."""
    node = await start_node(replica_lag_time_max_ms=30, replica_fetch_wait_max_ms=1)
    tp = await create_topic(node, "orders", min_insync_replicas=1)
    partition = led(node, tp)
    leader = partition.leader
    assert leader is not None
    now_ms = node.clock.monotonic_ms()
    leader.on_metadata((1,), 50, (1, 2), now_ms)
    leader._is_eligible = lambda _replica, _epoch: True
    leader._last_proposal_refused_ms = now_ms  # so it is not proposed, and only about to be
    node.replicas.on_follower_fetch(partition, 2, 5, 0, 0, now_ms)
    await (await Client.connect(node)).produce("orders", b"x", acks=1)
    assert partition.high_watermark == 0
    await eventually(lambda: partition.high_watermark == 1, "the high watermark to pass it")


async def test_a_partition_that_failed_is_left_alone(start_node: StartNode, dial: Dial, tmp_path: Path) -> None:
    wall = [NOW_MS / 1000]
    node = await start_node(wall_s=lambda: wall[0], log_retention_check_interval_ms=5)
    client = await dial(node)
    failed, sound = [
        await create_topic(node, name, segment_bytes=2000, retention_ms=SOON_OLD_MS) for name in ("failed", "sound")
    ]
    for tp in (failed, sound):
        for _ in range(3):
            await client.produce(tp.topic, b"x" * 1500, timestamp=int((wall[0] - HOUR_S) * 1000))
    broken = led(node, failed)
    broken.replica.on_storage_failed()
    wall[0] += HOUR_S
    await eventually(lambda: led(node, sound).log.log_start_offset == 3, "the segments to expire")
    assert broken.log.log_start_offset == 0
