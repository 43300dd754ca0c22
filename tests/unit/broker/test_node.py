from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from broker_client import Client, values_in
from broker_node import (
    PATIENCE_S,
    SECRET,
    Cluster,
    FailingDisk,
    HastyDisk,
    HastyFile,
    create_topic,
    eventually,
    listener_of,
    make_node,
    turns,
)
from captured_logs import capture_logs

from minikafka.broker import node as node_module
from minikafka.broker.drivers import metadata as metadata_module
from minikafka.broker.node import MetaError, Node
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import CLUSTER_METADATA_TOPIC
from minikafka.net import listener
from minikafka.storage.disk import File
from minikafka.storage.errors import StorageFailure
from minikafka.wire.messages.metadata import MetadataRequest

StartNode = Callable[..., Awaitable[Node]]
Dial = Callable[..., Awaitable[Client]]


async def test_a_node_on_any_ports_tells_which(node: Node, client: Client) -> None:
    answer = await client.ask(MetadataRequest(topics=None))
    assert [broker.port for broker in answer.brokers] == [listener_of(node).endpoint.port]
    assert answer.brokers[0].port > 0
    (registered,) = node.image.live_brokers()
    assert registered.listeners["REPLICATION"] == listener_of(node, "REPLICATION").endpoint


async def test_records_are_there_after_a_restart(start_node: StartNode, dial: Dial, tmp_path: Path) -> None:
    node = await start_node()
    await create_topic(node, "orders")
    await (await dial(node)).produce("orders", b"one", b"two")
    await node.stop()
    assert (tmp_path / "data/.kafka_cleanshutdown").exists()
    node = await start_node()
    assert node.store.was_clean
    fetched = await (await dial(node)).fetch("orders")
    assert values_in(fetched.records) == [b"one", b"two"]
    assert fetched.high_watermark == 2


async def test_a_taken_port_ends_the_start_at_once(
    start_node: StartNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "BIND_PATIENCE_S", 0.0)
    first = await start_node()
    taken = listener_of(first).endpoint.port
    free = "REPLICATION://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    second = make_node(tmp_path / "second", listeners=f"CLIENT://127.0.0.1:{taken},{free}")
    with pytest.raises(OSError, match=f"listener CLIENT cannot bind 127.0.0.1:{taken}"):
        await second.start()
    async with asyncio.timeout(node_module.CONTROLLED_SHUTDOWN_TIMEOUT_S / 2):  # nobody waits for it to leave
        await second.stop()


async def test_two_processes_cannot_share_a_directory(start_node: StartNode, tmp_path: Path) -> None:
    await start_node()
    with pytest.raises(MetaError, match="another process uses the log directory"):
        make_node(tmp_path / "data")


@pytest.mark.parametrize("how", [{"node_id": 2}, {"cluster_id": "other"}])
async def test_another_nodes_directory_is_refused(
    start_node: StartNode, tmp_path: Path, how: dict[str, object]
) -> None:
    await (await start_node()).stop()
    with pytest.raises(MetaError):
        make_node(tmp_path / "data", **how)  # type: ignore[arg-type]


# -- disks ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("P1")
@pytest.mark.parametrize("acks", [-1, 1])
async def test_a_full_disk_acknowledges_nothing_and_halts_the_node(
    start_node: StartNode, dial: Dial, acks: int, tmp_path: Path
) -> None:
    disk = FailingDisk()
    node = await start_node(disk=disk)
    client = await dial(node)
    await create_topic(node, "orders")
    assert (await client.produce("orders", b"before", acks=acks)).error_code == 0
    disk.refuse("append", "orders-0", errno.ENOSPC)
    refused = await client.produce("orders", b"lost", acks=acks)
    assert (refused.error_code, refused.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert node.stopped.is_set()
    assert isinstance(node.failure, StorageFailure)
    assert (await client.fetch("orders")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    await node.stop()
    assert not (tmp_path / "data/.kafka_cleanshutdown").exists(), "what it left has to be recovered"
    assert (tmp_path / "data/registration").exists(), "and is what a kill leaves"
    disk.allow()
    node = await start_node(disk=disk)
    client = await dial(node)
    assert values_in((await client.fetch("orders")).records) == [b"before"]
    assert (await client.produce("orders", b"after", acks=acks)).base_offset == 1


@pytest.mark.spec("P1")
async def test_a_metadata_log_that_cannot_be_written_halts_the_node(start_node: StartNode) -> None:
    disk = FailingDisk()
    node = await start_node(disk=disk)
    disk.refuse("append", "__cluster_metadata")
    creating = asyncio.get_running_loop().create_task(create_topic(node, "orders"))
    await eventually(node.stopped.is_set, "the node to halt")
    assert isinstance(node.failure, StorageFailure)
    creating.cancel()


@pytest.mark.spec("P1")
async def test_a_metadata_log_that_cannot_be_synced_halts_the_node(start_node: StartNode) -> None:
    disk = FailingDisk()
    node = await start_node(disk=disk)
    disk.refuse("fsync", "__cluster_metadata", errno.EIO)
    with capture_logs() as lines:
        creating = asyncio.get_running_loop().create_task(create_topic(node, "orders"))
        await eventually(node.stopped.is_set, "the node to halt")
        await turns()
    (stops,) = (line for line in lines if line["event"] == "the node stops")
    assert stops["why"].startswith("KAFKA_STORAGE_ERROR: could not"), "no class of ours is named"
    assert stops["remedy"] == "mend the disk or make room on it, then restart this node"
    assert not any(line.get("exc_info") for line in lines), "a disk that fails is no bug to be traced"
    assert node.image.topic("orders") is None, "what is not durable is not committed"
    creating.cancel()


async def test_a_disk_without_room_is_told_with_its_remedy(start_node: StartNode) -> None:
    node = await start_node()
    with capture_logs() as lines:
        node._on_fatal(OSError(errno.ENOSPC, "No space left on device"))
    assert [line.get("remedy") for line in lines] == ["mend the disk or make room on it, then restart this node"]


async def test_a_vote_that_cannot_be_written_down_is_not_given(tmp_path: Path) -> None:
    disk = FailingDisk()
    node = make_node(tmp_path / "data", disk=disk)
    disk.refuse("write", "quorum-state")
    await node.start()
    await eventually(node.stopped.is_set, "the node to halt")
    assert node.image.topic("x") is None
    assert not node.control_plane.controller.is_active
    await node.stop()


async def test_a_replica_that_cannot_be_made_halts_the_node(start_node: StartNode) -> None:
    disk = FailingDisk()
    node = await start_node(disk=disk)
    disk.refuse("mkdir", "orders-0")
    creating = asyncio.get_running_loop().create_task(create_topic(node, "orders"))
    await eventually(node.stopped.is_set, "the node to halt")
    assert isinstance(node.failure, StorageFailure)
    creating.cancel()


# -- what ends a node -------------------------------------------------------------------------------------------------


async def test_a_bug_in_a_task_of_the_node_ends_it(node: Node) -> None:
    async def fail() -> None:
        raise ZeroDivisionError("a bug")

    node.tasks.start(fail(), "faulty")
    await eventually(node.stopped.is_set, "the node to halt")
    assert isinstance(node.failure, ZeroDivisionError)
    node._on_fatal(RuntimeError("another"))
    assert isinstance(node.failure, ZeroDivisionError), "the first is the cause"


async def test_what_only_a_peer_or_a_disk_did_wrong_does_not(node: Node) -> None:
    async def fail(error: Exception) -> None:
        raise error

    for error in (KafkaError(ErrorCode.NOT_CONTROLLER), ConnectionResetError("gone")):
        node.tasks.start(fail(error), "unlucky")
    await turns()
    assert node.failure is None


async def test_a_node_without_controlled_shutdown_just_stops(start_node: StartNode, tmp_path: Path) -> None:
    node = await start_node(controlled_shutdown_enable="false")
    await node.stop()
    assert (tmp_path / "data/.kafka_cleanshutdown").exists()


@pytest.mark.spec("C2")
async def test_a_node_that_comes_back_has_what_it_had(start_node: StartNode, dial: Dial) -> None:
    for number in range(3):
        node = await start_node()
        assert len(list(node.image.topics())) == number
        tp = await create_topic(node, f"topic-{number}", 2)
        await (await dial(node)).produce(tp.topic, b"x")
        for topic in node.image.topics():
            assert sorted(topic.partitions) == [0, 1]
            assert values_in((await (await dial(node)).fetch(topic.name)).records) == [b"x"]
        await node.stop()


async def test_an_orderly_stop_before_registering_leaves_the_mark_of_the_stop_before(
    start_node: StartNode, tmp_path: Path
) -> None:
    node = await start_node()
    broker_epoch = node.control_plane.lifecycle.broker_epoch
    await node.stop()
    await make_node(tmp_path / "data").stop()
    again = make_node(tmp_path / "data")
    assert again.control_plane.registrations.previous_broker_epoch == broker_epoch > 0
    await again.stop()


@pytest.mark.spec("C2")
async def test_topics_deleted_while_a_node_was_down_leave_nothing(start_node: StartNode, tmp_path: Path) -> None:
    node = await start_node()
    await create_topic(node, "orders")
    await node.stop()
    stray = tmp_path / "data/stray-0"
    shutil.copytree(tmp_path / "data/orders-0", stray)
    node = await start_node(log_retention_check_interval_ms=5)
    await eventually(lambda: not stray.exists(), "the stray log to go")
    assert (tmp_path / "data/orders-0").exists()


async def test_a_node_that_is_killed_while_it_leaves_waits_for_nobody_any_more(
    start_node: StartNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await start_node()
    asked = asyncio.Event()

    async def never(*_: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(node.control_plane.controller, "handle", never)
    monkeypatch.setattr(node_module, "CONTROLLED_SHUTDOWN_TIMEOUT_S", 2 * PATIENCE_S)
    async with asyncio.timeout(PATIENCE_S):
        stopping = asyncio.get_running_loop().create_task(node.stop())
        await asked.wait()
        node.abort()
        node.abort()
        await stopping
    assert not (tmp_path / "data/.kafka_cleanshutdown").exists()


@pytest.mark.spec("C3")
async def test_a_node_that_nobody_gives_leave_goes_in_the_end(
    start_node: StartNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await start_node()
    asked = asyncio.Event()

    async def never(*_: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(node.control_plane.controller, "handle", never)
    monkeypatch.setattr(node_module, "CONTROLLED_SHUTDOWN_TIMEOUT_S", 0.05)
    async with asyncio.timeout(PATIENCE_S):
        await node.stop()
    assert asked.is_set()
    assert (tmp_path / "data/.kafka_cleanshutdown").exists()


@pytest.mark.spec("C3")
async def test_the_last_nodes_of_a_cluster_need_no_leave(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_module, "CONTROLLED_SHUTDOWN_TIMEOUT_S", 3600.0)
    await cluster.start()
    await cluster.ready()
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(node.stop() for node in cluster.nodes.values()))
    cluster.nodes.clear()


async def test_a_snapshot_that_could_not_be_written_is_tried_again(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_module, "RECORDS_BETWEEN_SNAPSHOTS", 4)
    monkeypatch.setattr(node_module, "SNAPSHOT_CHECK_INTERVAL_S", 0.01)
    disk = FailingDisk()
    disk.refuse("write", "-0000000001.checkpoint", errno.EMFILE)
    node = await start_node(disk=disk)
    with capture_logs() as said:
        for name in "abc":
            await create_topic(node, name)
        await eventually(lambda: [line for line in said if "no snapshot" in line["event"]], "the refusal")
    disk.allow()
    await eventually(lambda: node.control_plane.raft.machine.log.snapshot is not None, "a snapshot")
    assert node.failure is None


@pytest.mark.spec("P5")
async def test_a_metadata_log_that_is_missing_is_not_made_anew_as_if_nothing_had_been(
    start_node: StartNode, tmp_path: Path
) -> None:
    """The only voter would begin a cluster without topics; one of several would vote for whoever lacks records."""
    node = await start_node()
    await create_topic(node, "orders")
    await node.stop()
    shutil.rmtree(tmp_path / "data/__cluster_metadata-0")
    for _start in range(2):
        with pytest.raises(StorageFailure, match="only voter is damaged"):
            make_node(tmp_path / "data")
    assert (tmp_path / "data/orders-0").exists()
    voters = "1@127.0.0.1:1,2@127.0.0.1:2,3@127.0.0.1:3"
    of_several = make_node(tmp_path / "data", controller_quorum_voters=voters, cluster_secret=SECRET.decode())
    assert of_several.control_plane.raft.machine.vote_disabled
    await of_several.stop()


class BadSector(HastyFile):
    """Nothing of it can be read."""

    def pread(self, size: int, position: int) -> bytes:
        raise OSError(errno.EIO, "as at a bad sector")


class BadMetadataDisk(HastyDisk):
    """The metadata log's segments cannot be read."""

    def open_read(self, path: str) -> File:
        return BadSector(os.open(path, os.O_RDONLY)) if self._is_bad(path) else super().open_read(path)

    def open_append(self, path: str) -> File:
        return BadSector(os.open(path, os.O_RDWR)) if self._is_bad(path) else super().open_append(path)

    def _is_bad(self, path: str) -> bool:
        return CLUSTER_METADATA_TOPIC in path and path.endswith(".log") and os.path.exists(path)


@pytest.mark.spec("P5")
async def test_a_metadata_log_of_an_only_voter_that_cannot_be_opened_stays_in_place(
    start_node: StartNode, tmp_path: Path
) -> None:
    """It was renamed as a stray before the node refused to start, and the next start knew of a missing log only."""
    node = await start_node()
    await create_topic(node, "orders")
    node._on_fatal(RuntimeError("killed by the test"))
    await node.stop()
    for _start in range(2):
        with pytest.raises(StorageFailure, match=r"cannot be opened, and no other voter.*bad sector.*left as"):
            make_node(tmp_path / "data", disk=BadMetadataDisk())
        assert [path.name for path in (tmp_path / "data").glob("__cluster_metadata*")] == ["__cluster_metadata-0"]
    node = await start_node()
    assert node.image.topic("orders"), "the sector can be read again"
