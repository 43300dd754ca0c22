"""Logs that are damaged, missing, or not placed here, while all nodes were killed: no acknowledged record is lost."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID

import pytest
from broker_client import Client, values_in
from broker_node import Cluster, create_topic, delete_topic, eventually, led, turns
from captured_logs import capture_logs
from store_checkpoints import write_checkpoints

from minikafka.broker.drivers.due import OPENED_AT_ONCE
from minikafka.broker.node import Node
from minikafka.model import TopicPartition
from minikafka.storage.meta import format_uuid

Dial = Callable[..., Awaitable[Client]]
StartNode = Callable[..., Awaitable[Node]]

ORDERS = TopicPartition("orders", 0)
VALUES = [b"%d" % number for number in range(20)]
BOOT = {"boot_id": "one"}
LOG = f"{0:020d}.log"


def empty_identity(directory: Path) -> None:
    (directory / "partition.metadata").write_bytes(b"")


def remove_identity(directory: Path) -> None:
    (directory / "partition.metadata").unlink()


def garble_identity(directory: Path) -> None:
    path = directory / "partition.metadata"
    data = bytearray(path.read_bytes())
    data[-5] = ord("A") if data[-5] != ord("A") else ord("B")
    path.write_bytes(data)


def flip_last_batch(directory: Path) -> None:
    data = bytearray((directory / LOG).read_bytes())
    data[-1] ^= 1
    (directory / LOG).write_bytes(data)


def cut_last_batch(directory: Path) -> None:
    data = (directory / LOG).read_bytes()
    (directory / LOG).write_bytes(data[:-7])


def remove_log(directory: Path) -> None:
    (directory / LOG).unlink()


def replace_by_file(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.write_bytes(b"x")


DAMAGES = [
    empty_identity,
    remove_identity,
    garble_identity,
    flip_last_batch,
    cut_last_batch,
    remove_log,
    replace_by_file,
    shutil.rmtree,
]


@pytest.mark.spec("P1")
@pytest.mark.spec("P5")
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_all_are_killed_and_the_leaders_log_is_damaged(
    tmp_path: Path, dial: Dial, damage: Callable[[Path], None]
) -> None:
    """Rows 1 and 2 of issue 11. The others have everything: one of them leads, and the damaged one is made whole."""
    cluster = Cluster(tmp_path, 3, **BOOT)
    try:
        await cluster.start()
        await cluster.ready()
        await create_topic(cluster.controller, "orders", replicas=[[1, 2, 3]], min_insync_replicas=2)
        await eventually(lambda: leader_of(cluster), "a leader")
        client = await dial(cluster.nodes[1])
        for value in VALUES:
            assert not (await client.produce("orders", value)).error_code
        for node_id in cluster.node_ids:
            await cluster.kill(node_id)
        damage(tmp_path / "node-1" / "orders-0")
        await cluster.start()
        await cluster.ready()
        await eventually(lambda: leader_of(cluster), "a leader")
        await eventually(lambda: is_whole(cluster), "all replicas to have everything, and to be in sync")
        for node_id in cluster.node_ids:
            path = tmp_path / f"node-{node_id}" / "orders-0"
            assert path.is_dir()
        leader = cluster.nodes[leader_of(cluster)]
        assert values_in((await (await dial(leader)).fetch("orders")).records) == VALUES
    finally:
        await cluster.stop()


def leader_of(cluster: Cluster) -> int:
    for node in cluster.nodes.values():
        partition = node.replicas.get(ORDERS)
        if partition is not None and partition.leader is not None:
            return node.config.node_id
    return 0


def is_led(node: Node) -> bool:
    partition = node.replicas.get(ORDERS)
    return partition is not None and partition.leader is not None


def is_whole(cluster: Cluster) -> bool:
    replicas = [node.replicas.get(ORDERS) for node in cluster.nodes.values()]
    image = cluster.nodes[1].image.partition(ORDERS)
    assert image is not None
    return len(image.isr) == 3 and all(
        one is not None and one.log.log_end_offset == len(VALUES) and one.log.corruption is None for one in replicas
    )


async def test_what_was_deleted_before_a_kill_is_not_missed_when_its_name_is_used_again(
    start_node: StartNode, tmp_path: Path, dial: Dial
) -> None:
    """The checkpoints mention it for some seconds more: a new topic of that name counted as one that had lost all."""
    node = await start_node(**BOOT)
    await create_topic(node, "orders")
    await eventually(lambda: is_led(node), "its leader")
    await (await dial(node)).produce("orders", b"value")
    write_checkpoints(node.store, {ORDERS: 1})
    checkpoints = {path: path.read_bytes() for path in (tmp_path / "data").glob("*-checkpoint")}
    await delete_topic(node, "orders")
    await eventually(lambda: node.replicas.get(ORDERS) is None, "the topic to be gone")
    await node.stop()
    for path, content in checkpoints.items():
        path.write_bytes(content)  # as a kill leaves them
    (tmp_path / "data" / ".kafka_cleanshutdown").unlink(missing_ok=True)
    node = await start_node(**BOOT)
    with capture_logs() as said:
        await create_topic(node, "orders")
        await eventually(lambda: is_led(node), "its leader")
    assert not [line["event"] for line in said if line["event"] in ("log missing", "records lost")]
    assert not (tmp_path / "data" / "losses").exists()


@pytest.mark.spec("P5")
@pytest.mark.parametrize("damage", [empty_identity, remove_identity, garble_identity])
async def test_the_only_replica_stays_when_its_topic_id_cannot_be_read(
    start_node: StartNode, tmp_path: Path, dial: Dial, damage: Callable[[Path], None]
) -> None:
    """Decision 0008: metadata places it here, and nobody else has anything."""
    node = await start_node(**BOOT)
    await create_topic(node, "orders")
    client = await dial(node)
    for value in VALUES:
        await client.produce("orders", value)
    await node.stop()
    damage(tmp_path / "data/orders-0")
    for _start in range(2):
        node = await start_node(**BOOT)
        await eventually(lambda node=node: node.replicas.get(ORDERS), "the replica")  # type: ignore[misc]
        await eventually(lambda node=node: node.replicas.get(ORDERS).leader, "its leader")  # type: ignore[misc]
        client = await dial(node)
        assert values_in((await client.fetch("orders")).records) == VALUES
        assert led(node, ORDERS).log.topic_id == node.image.topic("orders").topic_id  # type: ignore[union-attr]
        await node.stop()


@pytest.mark.spec("P5")
@pytest.mark.parametrize(
    ("damage", "partitions"), [(shutil.rmtree, 1), (shutil.rmtree, OPENED_AT_ONCE + 1), (flip_last_batch, 1)]
)
async def test_a_loss_beyond_the_promise_is_said(
    start_node: StartNode, tmp_path: Path, dial: Dial, damage: Callable[[Path], None], partitions: int
) -> None:
    """With one replica there is nobody to fetch from: the node leads with what is left.

    Among many, whose files are made in a thread, a missing log was made again without a word.
    """
    node = await start_node(**BOOT)
    await create_topic(node, "orders", replicas=[[1]] * partitions)
    await eventually(lambda: is_led(node), "its leader")
    client = await dial(node)
    for value in VALUES:
        await client.produce("orders", value)
    node._on_fatal(RuntimeError("killed by the test"))
    await node.stop()
    node.store.directories[0].write_checkpoints({ORDERS: len(VALUES)})
    damage(tmp_path / "data/orders-0")
    with capture_logs() as said:
        node = await start_node(**BOOT)
        await eventually(lambda: node.replicas.get(ORDERS), "the replica")
        await eventually(lambda: node.replicas.get(ORDERS).leader, "its leader")  # type: ignore[union-attr]
    assert [line["partition"] for line in said if line["event"] == "records lost"] == ["orders-0"]
    await eventually((tmp_path / "data/losses").exists, "it to be written down")


@pytest.mark.spec("C2")
async def test_a_stray_is_set_aside_and_kept_for_a_while(start_node: StartNode, tmp_path: Path) -> None:
    node = await start_node()
    await create_topic(node, "orders")
    await node.stop()
    stray = tmp_path / "data/stray-0"
    shutil.copytree(tmp_path / "data/orders-0", stray)
    with capture_logs() as said:
        node = await start_node()
    await eventually(node.store.strays, "the stray to be set aside")
    await turns(20)
    assert node.store.strays(), "it is not given up to be removed"
    await node.stop()
    (kept,) = (tmp_path / "data").glob("stray-0.*-stray")
    assert sorted(path.name for path in kept.iterdir()) == sorted(
        path.name for path in (tmp_path / "data/orders-0").iterdir()
    )
    assert not stray.exists()
    assert [line["path"] for line in said if line["event"] == "log set aside"] == [str(kept)]
    node = await start_node(log_stray_retention_ms=1)
    await eventually(lambda: not kept.exists(), "the stray to go")


async def test_a_log_of_the_topic_that_had_the_name_before_is_not_given_to_this_one(
    start_node: StartNode, tmp_path: Path, dial: Dial
) -> None:
    """Its leader epochs are earlier than any that the topic has had: those of names go on."""
    node = await start_node(**BOOT)
    await create_topic(node, "orders")
    for _restart in range(2):
        await node.stop()
        node = await start_node(**BOOT)
        await eventually(lambda node=node: node.replicas.get(ORDERS), "the replica")  # type: ignore[misc]
        await eventually(lambda node=node: node.replicas.get(ORDERS).leader, "its leader")  # type: ignore[misc]
    await (await dial(node)).produce("orders", b"old")
    old = led(node, ORDERS).log
    assert old.latest_epoch == 4
    kept = tmp_path / "kept"
    shutil.copytree(old.directory, kept)
    await delete_topic(node, "orders")
    await eventually(lambda: node.image.topic("orders") is None, "the topic to go")
    await create_topic(node, "orders")
    await node.stop()
    shutil.rmtree(tmp_path / "data/orders-0")
    shutil.copytree(kept, tmp_path / "data/orders-0")
    remove_identity(tmp_path / "data/orders-0")
    node = await start_node(**BOOT)
    await eventually(lambda: node.replicas.get(ORDERS), "the replica")
    assert led(node, ORDERS).log.log_end_offset == 0
    assert len(list((tmp_path / "data").glob("orders-0.*-stray"))) == 1


def strays_below(directory: Path) -> list[Path]:
    """The log directories that hold them."""
    return [path.parent for path in directory.glob("*/orders-0.*-stray")]


def as_it_was(kept: Path, to: Path) -> None:
    shutil.copytree(kept, to)


def of_another_topic(kept: Path, to: Path) -> None:
    shutil.copytree(kept, to)
    path = to / "partition.metadata"
    path.write_text(f"version: 0\ntopic_id: {format_uuid(UUID(int=7))}\n")


def without_a_name(_kept: Path, to: Path) -> None:
    to.mkdir()


def a_file(_kept: Path, to: Path) -> None:
    to.write_bytes(b"x")


@pytest.mark.spec("A5", "C2", "P5")
@pytest.mark.parametrize("leave", [as_it_was, of_another_topic, without_a_name, a_file])
@pytest.mark.parametrize("is_first", [False, True])
async def test_what_comes_back_with_another_directory_does_not_take_the_place_of_the_log(
    start_node: StartNode, tmp_path: Path, dial: Dial, leave: Callable[[Path, Path], None], is_first: bool
) -> None:
    log_dirs = ",".join(str(tmp_path / name) for name in ("one", "two", "three"))
    node = await start_node(log_dirs=log_dirs)
    await create_topic(node, "orders")
    client = await dial(node)
    await client.produce("orders", b"old")
    held = node.store.log_dir_of(ORDERS)
    assert held is not None
    kept = tmp_path / "kept"
    shutil.copytree(led(node, ORDERS).log.directory, kept)
    await client.produce("orders", b"new")
    await node.stop()
    if is_first:
        (Path(held.path) / "orders-0").rename(tmp_path / "three/orders-0")
        other = tmp_path / "one"
    else:
        other = tmp_path / "three"
    leave(kept, other / "orders-0")
    node = await start_node(log_dirs=log_dirs)
    await eventually(lambda: node.replicas.get(ORDERS), "the replica")
    await eventually(lambda: node.replicas.get(ORDERS).leader, "its leader")  # type: ignore[union-attr]
    assert led(node, ORDERS).log.log_end_offset == 2
    assert led(node, ORDERS).log.corruption is None
    assert strays_below(tmp_path) == [other]
