"""How group coordinators come to a node and leave it; what they do in between is tested in tests/unit/groups."""

from __future__ import annotations

import asyncio
import errno
import gc
import itertools
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from at_once import compact
from broker_client import Client, batch
from broker_node import FailingDisk, ask_to_delete, create_topic, delete_topic, eventually, in_time, led, turns
from broker_replicas import told
from captured_logs import capture_logs

from minikafka.broker.drivers import shard_loading, shards
from minikafka.broker.node import Node
from minikafka.broker.topic_creation import TopicCreation
from minikafka.coordination.phase import Phase
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.records.batch import BatchHeader, parse_header
from minikafka.records.record import Record
from minikafka.storage.log import LogSlice
from minikafka.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from minikafka.wire.messages.heartbeat import HeartbeatRequest
from minikafka.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

Dial = Callable[..., Awaitable[Client]]
StartNode = Callable[..., Awaitable[Node]]
SHARD = TopicPartition("__consumer_offsets", 0)

SETTINGS = {
    "offsets_topic_num_partitions": 1,
    "offsets_topic_replication_factor": 1,
    "group_initial_rebalance_delay_ms": 0,
}


async def with_groups(node: Node) -> Node:
    """The node, once its groups are loaded."""
    await node.parts.part(TopicCreation).create_internal("__consumer_offsets")
    await loaded(node)
    return node


async def loaded(node: Node) -> None:
    def is_loaded() -> bool:
        phases = [shard.coordinator.phase for shard in node.groups]
        return bool(phases) and all(phase is Phase.ACTIVE for phase in phases)

    await eventually(is_loaded, "the groups to be loaded")


def commit(group: str, offset: int, topic: str = "orders") -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])])


async def committed(client: Client, group: str) -> tuple[int, dict[str, int]]:
    """(error, offsets)."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    found = (await client.ask(request)).groups[0]
    return found.error_code, {topic.name: topic.partitions[0].committed_offset for topic in found.topics}


async def join(client: Client, group: str) -> str:
    """A first member's id; its session is half a minute."""
    answer = await client.ask(
        JoinGroupRequest(
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
        3,
    )
    assert not answer.error_code
    member: str = answer.member_id
    return member


async def test_groups_and_offsets_are_there_after_a_restart(start_node: StartNode, dial: Dial) -> None:
    node = await with_groups(await start_node(**SETTINGS))
    await create_topic(node, "orders")
    client = await dial(node)
    for number in range(50):
        await client.ask(commit(f"group-{number}", number))
    await node.stop()
    node = await start_node(**SETTINGS)
    await loaded(node)
    client = await dial(node)
    for number in range(50):
        assert await committed(client, f"group-{number}") == (0, {"orders": number})


async def test_loading_goes_on_in_chunks(start_node: StartNode, dial: Dial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_loading, "LOAD_CHUNK_BYTES", 200)
    node = await with_groups(await start_node(**SETTINGS))
    await create_topic(node, "orders")
    client = await dial(node)
    for number in range(20):
        await client.ask(commit("g", number))
    partition = led(node, SHARD)
    node.groups.on_leading(partition)
    assert await committed(client, "g") == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {})
    blind = await client.ask(HeartbeatRequest(group_id="g", member_id="m"))
    assert blind.error_code == ErrorCode.NONE, "as Apache Kafka answers; not every client expects an error"
    await loaded(node)
    assert await committed(client, "g") == (0, {"orders": 19})


async def test_loading_ends_where_compaction_left_nothing(start_node: StartNode, dial: Dial) -> None:
    """A tombstone at the end of a log may go, with nothing written behind it since."""
    node = await with_groups(await start_node(**SETTINGS))
    await create_topic(node, "orders")
    client = await dial(node)
    await client.ask(commit("g", 1))
    log = led(node, SHARD).log
    junk = memoryview(batch(b"goes", keys=(None,)))
    node.replicas.stage(led(node, SHARD), junk, parse_header(junk))
    node.replicas.commit_staged()
    end = log.log_end_offset
    log.roll()
    log.flush()
    assert compact(log, end, node.clock.wall_ms())
    assert not log.segments.active.size
    node.groups.on_leading(led(node, SHARD))
    await loaded(node)
    assert await committed(client, "g") == (0, {"orders": 1})


async def test_a_damaged_record_is_skipped(start_node: StartNode, dial: Dial) -> None:
    node = await with_groups(await start_node(**SETTINGS))
    await create_topic(node, "orders")
    client = await dial(node)
    await client.ask(commit("g", 1))
    for key in (None, b"", b"\0", b"\0\1\xff\xff", b"\x7f\xff"):
        junk = memoryview(batch(b"junk", keys=(key,)))
        node.replicas.stage(led(node, SHARD), junk, parse_header(junk))
    node.replicas.commit_staged()
    await client.ask(commit("h", 2))
    node.groups.on_leading(led(node, SHARD))
    await loaded(node)
    assert await committed(client, "g") == (0, {"orders": 1})
    assert await committed(client, "h") == (0, {"orders": 2})
    assert node.failure is None


async def test_a_coordinator_that_is_led_elsewhere_sends_everybody_away(start_node: StartNode, dial: Dial) -> None:
    node = await with_groups(await start_node(**SETTINGS))
    await create_topic(node, "orders")
    client = await dial(node)
    member = await join(client, "g")
    (shard,) = node.groups
    assert shard._alarms
    partition = led(node, SHARD)
    told(partition, 2, 5)
    node.groups.on_leading_no_more(SHARD)
    assert not shard._alarms, "its timers are forgotten"
    assert SHARD not in node.replicas.waiting.high_watermark_listeners
    answer = await client.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id=member))
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    node.groups.on_leading_no_more(SHARD)
    node.groups.on_leading_no_more(TopicPartition("orders", 0))


async def test_loading_ends_when_leadership_does(start_node: StartNode) -> None:
    node = await with_groups(await start_node(**SETTINGS))
    partition = led(node, SHARD)
    node.groups.on_leading(partition)
    (shard,) = node.groups
    assert shard.coordinator.phase is Phase.LOADING
    node.groups.on_leading_no_more(SHARD)
    await turns(5)
    assert shard.coordinator.phase is Phase.RESIGNED
    assert SHARD not in node.replicas.waiting.high_watermark_listeners


@pytest.mark.parametrize(
    "error", [OSError(errno.EMFILE, "no descriptor is free"), KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "unreadable")]
)
async def test_what_cannot_be_read_now_is_tried_again_from_the_start(
    start_node: StartNode, dial: Dial, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(shard_loading, "LOAD_CHUNK_BYTES", 200)
    monkeypatch.setattr(shards, "FIRST_RETRY_MS", 1)
    node = await with_groups(await start_node(**SETTINGS))
    await create_topic(node, "orders")
    client = await dial(node)
    for number in range(20):
        await client.ask(commit("g", number))
    log, calls = led(node, SHARD).log, itertools.count()
    read = log.read

    def failing(offset: int, max_bytes: int) -> LogSlice:
        if next(calls) in (0, 3, 5):  # at once, and in the middle
            raise error
        return read(offset, max_bytes)

    monkeypatch.setattr(log, "read", failing)
    with capture_logs() as said:
        node.groups.on_leading(led(node, SHARD))
        await loaded(node)
    assert [entry["event"] for entry in said if entry["event"].startswith("coordinator")] == [
        "coordinator not loaded",
        "coordinator loaded",
    ]
    assert next(entry["records"] for entry in said if entry["event"] == "coordinator loaded") == 20, "none counts twice"
    assert await committed(client, "g") == (0, {"orders": 19})


async def test_members_of_a_load_that_failed_take_no_memory(
    start_node: StartNode, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "FIRST_RETRY_MS", 1)
    node = await with_groups(await start_node(**SETTINGS))
    await create_topic(node, "orders")
    client = await dial(node)
    joining = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="a", rebalance_timeout_ms=5_000, subscribed_topic_names=["orders"], topic_partitions=[]
    )
    assert not (await client.ask(joining)).error_code
    replay_log, held, calls = shards.replay_log, node.groups._memory.held_bytes, itertools.count()
    assert held

    async def failing(*arguments: Any) -> int:
        end = await replay_log(*arguments)
        if next(calls) < 3:  # all was replayed but the last
            raise OSError(errno.EMFILE, "no descriptor is free")
        return end

    monkeypatch.setattr(shards, "replay_log", failing)
    node.groups.on_leading(led(node, SHARD))
    await loaded(node)
    assert node.groups._memory.held_bytes == held


async def test_a_log_that_stays_unreadable_is_left_alone_when_it_is_led_elsewhere(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "FIRST_RETRY_MS", 1)
    node = await with_groups(await start_node(**SETTINGS))
    calls = itertools.count()

    async def unreadable(*_arguments: object) -> int:
        next(calls)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "unreadable")

    def is_loading() -> bool:
        return any(task.get_name().endswith(f"load-{SHARD}") for task in node.tasks._tasks)

    monkeypatch.setattr(shards, "replay_log", unreadable)
    node.groups.on_leading(led(node, SHARD))
    await eventually(lambda: next(calls) > 10, "some tries")
    assert is_loading()
    node.groups.on_leading_no_more(SHARD)
    await eventually(lambda: not is_loading(), "the task to end")
    assert node.failure is None


async def test_a_log_that_moves_to_another_directory_while_it_is_loaded(
    start_node: StartNode, dial: Dial, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shard_loading, "LOAD_CHUNK_BYTES", 200)
    directories = {str(tmp_path / name) for name in ("one", "two")}
    node = await with_groups(await start_node(**{**SETTINGS, "log_dirs": ",".join(directories)}))
    await create_topic(node, "orders")
    client = await dial(node)
    for number in range(20):
        await client.ask(commit("g", number))
    partition, moved, reads = led(node, SHARD), asyncio.Event(), itertools.count()

    async def read(act: Callable[[], bytes]) -> bytes:
        if next(reads) == 2:
            await moved.wait()
        return act()

    monkeypatch.setattr(node.threads, "read", read)
    node.groups.on_leading(partition)
    before = node.store.log_dir_of(SHARD)
    assert before is not None
    (target,) = directories - {before.path}
    node.data_plane.moves.request(SHARD, target)
    await eventually(lambda: node.store.log_dir_of(SHARD) is not before, "the move")
    moved.set()
    await loaded(node)
    assert await committed(client, "g") == (0, {"orders": 19})


@pytest.mark.parametrize("made_again", [False, True])
@pytest.mark.parametrize("is_led", [False, True])
async def test_offsets_of_a_topic_deleted_while_nobody_serves_them_are_dropped(
    start_node: StartNode, dial: Dial, made_again: bool, is_led: bool
) -> None:
    """Because the shard has no leader, or because its leader is still loading it."""
    node = await with_groups(await start_node(**SETTINGS))
    await create_topic(node, "orders")
    await create_topic(node, "others")
    client = await dial(node)
    await client.ask(commit("g", 7))
    await client.ask(commit("g", 8, "others"))
    node.groups.on_leading_no_more(SHARD)
    partition = led(node, SHARD)
    leader = partition.leader
    assert leader is not None
    if is_led:
        leader.on_metadata((1, 2), 50, (1, 2), node.clock.monotonic_ms())
        leader.high_watermark = 0  # so it goes on loading
        node.groups.on_leading(partition)
    await delete_topic(node, "orders")
    await eventually(lambda: node.image.topic("orders") is None, "the deletion")
    if made_again:
        await create_topic(node, "orders")
    end = partition.log.log_end_offset
    if is_led:
        leader.on_metadata((1,), 51, (1,), node.clock.monotonic_ms())
        node.replicas.waiting.note_moved(SHARD, high_watermark=True)
    else:
        node.groups.on_leading(partition)
    await loaded(node)
    assert await committed(client, "g") == (0, {"others": 8})
    await eventually(lambda: partition.log.log_end_offset > end, "the tombstone")
    (shard,) = node.groups
    await eventually(lambda: len(shard.coordinator.shard.groups["g"].offsets) == 1, "the offset to go")


@pytest.mark.parametrize(("large_bytes", "at_once"), [(256, 10), (16, 4)])
async def test_loading_lets_others_have_their_turn(
    start_node: StartNode, dial: Dial, monkeypatch: pytest.MonkeyPatch, large_bytes: int, at_once: int
) -> None:
    """Large records, as of transactions with a thousand partitions, sooner."""
    monkeypatch.setattr(shard_loading, "RECORDS_PER_TURN", 10)
    monkeypatch.setattr(shard_loading, "LARGE_RECORD_BYTES", large_bytes)
    node = await with_groups(await start_node(**SETTINGS))
    await create_topic(node, "orders")
    client = await dial(node)
    for number in range(95):
        await client.ask(commit(f"g{number}", number))
    taken, per_turn = 0, []

    def replay(_batch: BatchHeader, _record: Record) -> None:
        nonlocal taken
        taken += 1

    async def watch() -> None:
        while taken < 95:
            before = taken
            await asyncio.sleep(0)
            per_turn.append(taken - before)

    watching = asyncio.get_running_loop().create_task(watch())
    await asyncio.sleep(0)  # it watches; Python 3.14 does not wait for a thread that is done already
    end = await shard_loading.replay_log(led(node, SHARD), replay, lambda: True, node.threads.read)
    await in_time(watching)
    assert (end, max(per_turn), sum(per_turn)) == (led(node, SHARD).log.log_end_offset, at_once, 95)


async def test_a_commit_waits_for_replication(start_node: StartNode, dial: Dial) -> None:
    node = await with_groups(await start_node(**SETTINGS))
    await create_topic(node, "orders")
    client = await dial(node)
    partition = led(node, SHARD)
    leader = partition.leader
    assert leader is not None
    leader.on_metadata((1, 2), 50, (1, 2), node.clock.monotonic_ms())  # another replica that has yet to fetch
    waiting = client.send(commit("g", 7))
    await eventually(lambda: next(iter(node.groups))._staged, "the write")
    await asyncio.sleep(0.01)
    assert not waiting.done()
    assert (await committed(await dial(node), "g"))[1] == {}, "not shown before it is committed"
    end = partition.log.log_end_offset
    node.replicas.on_follower_fetch(partition, 2, 1, end, 0, node.clock.monotonic_ms())
    answer = await in_time(waiting)
    assert answer.topics[0].partitions[0].error_code == 0


async def test_what_a_former_leader_left_uncommitted_is_not_served_before_it_is(
    start_node: StartNode, dial: Dial
) -> None:
    node = await with_groups(await start_node(**SETTINGS))
    await create_topic(node, "orders")
    client = await dial(node)
    await client.ask(commit("g", 7))
    partition = led(node, SHARD)
    leader = partition.leader
    assert leader is not None
    leader.on_metadata((1, 2), 50, (1, 2), node.clock.monotonic_ms())
    leader.high_watermark = 0
    node.groups.on_leading(partition)
    await turns(10)
    assert (await committed(client, "g"))[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    end = partition.log.log_end_offset
    node.replicas.on_follower_fetch(partition, 2, 1, end, 0, node.clock.monotonic_ms())
    await loaded(node)
    assert await committed(client, "g") == (0, {"orders": 7})


async def test_a_commit_that_cannot_be_written_is_refused(start_node: StartNode, dial: Dial) -> None:
    node = await with_groups(await start_node(**SETTINGS))
    await create_topic(node, "orders")
    client = await dial(node)
    partition = led(node, SHARD)
    leader = partition.leader
    assert leader is not None
    leader.is_under_min_isr = True
    refused = await client.ask(commit("g", 7))
    assert refused.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    leader.is_under_min_isr = False
    partition.replica.leader_epoch += 1  # another epoch began, and the shard of this one has not heard of it
    refused = await client.ask(commit("g", 7))
    assert refused.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


async def test_a_full_disk_under_the_groups_halts_the_node(start_node: StartNode, dial: Dial) -> None:
    disk = FailingDisk()
    node = await with_groups(await start_node(disk=disk, **SETTINGS))
    await create_topic(node, "orders")
    client = await dial(node)
    disk.refuse("append", "__consumer_offsets-0")
    unanswered = client.send(commit("g", 7))
    await eventually(node.stopped.is_set, "the node to halt")
    await turns(5)
    assert not unanswered.done() or unanswered.result().topics[0].partitions[0].error_code
    unanswered.cancel()


async def test_nobody_deletes_the_offsets_topic_or_writes_to_it(start_node: StartNode, dial: Dial) -> None:
    node = await with_groups(await start_node(**SETTINGS))
    await create_topic(node, "orders")
    client = await dial(node)
    await client.ask(commit("g", 7))
    assert (await ask_to_delete(node, "__consumer_offsets")).error_code == ErrorCode.INVALID_REQUEST
    refused = await client.produce("__consumer_offsets", b"x")
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await committed(client, "g") == (0, {"orders": 7})


async def test_the_nodes_settings_are_the_coordinators(start_node: StartNode, dial: Dial) -> None:
    node = await with_groups(
        await start_node(
            **SETTINGS,
            group_max_size=7,
            group_min_session_timeout_ms=100,
            group_max_session_timeout_ms=9_000,
            offsets_retention_minutes=3,
            offsets_retention_check_interval_ms=4_000,
            offset_metadata_max_bytes=10,
            offsets_commit_timeout_ms=2_000,
        )
    )
    (shard,) = node.groups
    settings = shard.coordinator.shard.settings
    assert (settings.max_size, settings.min_session_timeout_ms, settings.max_session_timeout_ms) == (7, 100, 9_000)
    assert (settings.offsets_retention_ms, settings.offsets_retention_check_interval_ms) == (180_000, 4_000)
    assert (settings.offset_metadata_max_bytes, settings.offsets_commit_timeout_ms) == (10, 2_000)
    await create_topic(node, "orders")
    request = commit("g", 7)
    request.topics[0].partitions[0].committed_metadata = "x" * 11
    refused = await (await dial(node)).ask(request)
    assert refused.topics[0].partitions[0].error_code == ErrorCode.OFFSET_METADATA_TOO_LARGE


async def test_what_was_loaded_goes_with_its_shard(start_node: StartNode, dial: Dial) -> None:
    """Without the garbage collector, from which it is hidden: nothing of a shard refers back to it in the end."""
    node = await with_groups(await start_node(**SETTINGS))
    await create_topic(node, "orders")
    client = await dial(node)
    await client.ask(commit("g", 7))
    await join(client, "h")
    (shard,) = node.groups
    references = [weakref.ref(shard), weakref.ref(shard.coordinator)]
    del shard
    gc.disable()
    try:
        node.groups.on_leading(led(node, SHARD))
        await loaded(node)
        assert [reference() for reference in references] == [None, None]
    finally:
        gc.enable()
