"""What metadata makes of the local replicas, on real nodes."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from broker_client import Client, values_in
from broker_node import (
    Cluster,
    FailingDisk,
    alter_setting,
    alter_topic,
    create_in_metadata,
    create_topic,
    delete_topic,
    eventually,
    in_time,
    led,
    make_node,
)
from deltas import apply_records

import minikafka.storage.log as log_module
from minikafka.broker.drivers.due import AT_ONCE, OPENED_AT_ONCE
from minikafka.broker.drivers.partitions import PartitionRoles
from minikafka.broker.drivers.strays import Strays
from minikafka.broker.node import Node
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.effective import EVERY_BROKER
from minikafka.metadata.image import EMPTY_IMAGE, MetadataImage
from minikafka.metadata.records import PartitionChangeRecord
from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.storage.damage import REFETCH_FILE
from minikafka.storage.directory_checkpoints import DirectoryCheckpoints
from minikafka.storage.flush import FlushJob

Dial = Callable[..., Awaitable[Client]]
StartNode = Callable[..., Awaitable[Node]]

ORDERS = TopicPartition("orders", 0)


@pytest.mark.spec("R9")
async def test_replicas_are_made_led_and_followed_as_metadata_says(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=[[1, 2], [2, 3], [3, 1]])
    roles = {1: {0: 1, 2: 3}, 2: {0: 1, 1: 2}, 3: {1: 2, 2: 3}}  # by node: partition -> leader
    for node_id, expected in roles.items():
        node = cluster.nodes[node_id]
        await eventually(lambda node=node: len(node.replicas) == 2, "two replicas")  # type: ignore[misc]
        assert {each.topic_partition.partition: each.leader_id for each in node.replicas} == expected
        for each in node.replicas:
            assert (each.leader is not None) == (each.leader_id == node_id)


async def test_roles_wait_for_the_registration_of_this_incarnation(start_node: StartNode, tmp_path: Path) -> None:
    """Decision 0004: the replayed past is not acted on."""
    node = await start_node()
    await create_topic(node, "orders")
    await node.stop()
    node = make_node(tmp_path / "data")
    node.control_plane.lifecycle.on_registered = lambda: None
    taken_up: list[int] = []
    begin = node.data_plane.roles.begin

    def note_when(image: MetadataImage) -> None:
        taken_up.append(node.metadata.applied_offset)
        begin(image)

    node.data_plane.roles.begin = note_when  # type: ignore[method-assign]
    await node.start()
    await eventually(lambda: node.data_plane.roles.has_begun, "the roles")
    assert taken_up[0] > node.control_plane.lifecycle.broker_epoch >= 0
    assert led(node, ORDERS).leader_epoch >= 1, "the leadership of the former incarnation had been taken away"
    await node.stop()


@pytest.mark.spec("R18")
async def test_who_may_join_an_isr(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.ready()
    node = cluster.controller
    epochs = {node_id: each.control_plane.lifecycle.broker_epoch for node_id, each in cluster.nodes.items()}
    roles = node.data_plane.roles
    for node_id, epoch in epochs.items():
        assert roles.is_eligible(node_id, epoch)
        assert not roles.is_eligible(node_id, -1)
        assert not roles.is_eligible(node_id, epoch - 1), "a former process of it (KIP-903)"
    assert not roles.is_eligible(99, 1)
    gone = next(node_id for node_id in cluster.node_ids if node_id != node.config.node_id)
    await cluster.kill(gone)
    await eventually(lambda: not node.image.is_live(gone), "it to be fenced")
    assert not roles.is_eligible(gone, epochs[gone])


@pytest.mark.spec("R14")
async def test_whoever_waits_is_sent_away_when_leadership_moves(cluster: Cluster, dial: Dial) -> None:
    await cluster.start()
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=[[1, 2]], min_insync_replicas=1)
    node = cluster.nodes[1]
    await eventually(lambda: node.replicas.get(ORDERS), "the replica")
    client = await dial(node)
    before_followers_were_read = 10
    fetching = client.send_fetch("orders", 0, version=before_followers_were_read, max_wait_ms=20_000, min_bytes=1)
    await eventually(lambda: node.replicas.waiting.consumer_fetches.delayed, "the fetch to wait")
    leaders: list[bool] = []
    node.data_plane.driver.on_leading_no_more = lambda tp: leaders.append(tp == ORDERS)
    node.control_plane.lifecycle.begin_shutdown()  # the controller moves its leaderships away
    answer = await in_time(fetching)
    assert answer.responses[0].partitions[0].error_code == 6
    assert leaders == [True]
    await eventually(lambda: _leads(cluster.nodes[2]), "the next leader")
    refused = await client.produce("orders", b"x")
    assert refused.error_code == 6
    assert not node.data_plane.fetchers._fetchers, "whoever is shutting down follows nobody any more"


def _leads(node: Node) -> bool:
    partition = node.replicas.get(ORDERS)
    return partition is not None and partition.leader is not None


async def test_settings_of_topics_and_nodes_reach_their_logs(node: Node) -> None:
    tp = await create_topic(node, "orders")
    own = await create_topic(node, "own", retention_ms=77)
    partition, other = led(node, tp), led(node, own)
    await alter_topic(node, "orders", "segment.bytes", "2048")
    await eventually(lambda: partition.log.config.segment_bytes == 2048, "the topic's setting")
    assert other.log.config.segment_bytes != 2048
    await alter_setting(node, EVERY_BROKER, "log.retention.ms", "5000")
    await eventually(lambda: partition.log.config.retention_ms == 5000, "the cluster's setting")
    assert other.log.config.retention_ms == 77
    later = await create_topic(node, "later")
    assert led(node, later).log.config.retention_ms == 5000
    await alter_topic(node, "orders", "min.insync.replicas", "2")
    leader = partition.leader
    assert leader is not None
    await eventually(lambda: partition.config.min_insync_replicas == 2, "the topic's setting")
    assert not leader.is_under_min_isr, "a topic with one replica needs no second"


async def test_a_smaller_min_isr_shows_what_waited_for_it(cluster: Cluster, dial: Dial) -> None:
    await cluster.start()
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=[[1, 2]], min_insync_replicas=2)
    node = cluster.nodes[1]
    await eventually(lambda: node.replicas.get(ORDERS), "the replica")
    client = await dial(node)
    await cluster.kill(2)
    leader = led(node, ORDERS).leader
    assert leader is not None
    await eventually(lambda: leader.isr == (1,), "the ISR to shrink")
    await client.produce("orders", b"x", acks=1)
    fetching = client.send_fetch("orders", 0, max_wait_ms=20_000, min_bytes=1)
    await eventually(lambda: node.replicas.waiting.consumer_fetches.delayed, "the fetch to wait")
    controller = await cluster.wait_for_controller()
    await alter_topic(controller, "orders", "min.insync.replicas", "1")
    answer = await in_time(fetching)
    assert values_in(answer.responses[0].partitions[0].records) == [b"x"]


async def test_a_topic_made_again_while_this_node_was_away_starts_empty(cluster: Cluster, dial: Dial) -> None:
    await cluster.start()
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=[[1, 2]])
    await eventually(lambda: _leads(cluster.nodes[1]), "the leader")
    await (await dial(cluster.nodes[1])).produce("orders", b"old")
    await cluster.kill(2)
    controller = await cluster.wait_for_controller()
    await eventually(lambda: not controller.image.is_live(2), "it to be fenced")
    await delete_topic(controller, "orders")
    await create_topic(controller, "orders", replicas=[[1]])
    await create_topic(controller, "other", replicas=[[1]])
    await cluster.start(2)
    await cluster.ready()
    back = cluster.nodes[2]
    await eventually(lambda: back.store.get(ORDERS) is None, "the old log to go")
    assert back.replicas.get(ORDERS) is None


async def test_an_epoch_that_did_not_change_changes_nothing(node: Node) -> None:
    tp = await create_topic(node, "orders")
    partition = led(node, tp)
    leader = partition.leader
    led_again: list[object] = []
    node.data_plane.driver.on_leading = led_again.append
    node.data_plane.roles.apply(MetadataDelta(node.image, node.image, partitions=frozenset({tp})))
    assert partition.leader is leader
    assert led_again == []


async def test_a_replica_that_failed_is_left_alone(node: Node) -> None:
    tp = await create_topic(node, "orders")
    partition = led(node, tp)
    partition.replica.on_storage_failed()
    epoch = partition.leader_epoch
    change = PartitionChangeRecord(partition.topic_id, 0, leader=2)
    _, delta = apply_records(node.image, [change], OffsetAndEpoch(node.image.offset + 1, node.image.epoch))
    node.data_plane.roles.apply(delta)
    assert partition.leader_epoch == epoch


async def test_damage_is_fetched_again_and_forgotten(cluster: Cluster, dial: Dial) -> None:
    await cluster.start()
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=[[1, 2, 3]], min_insync_replicas=1)
    await eventually(lambda: _leads(cluster.nodes[1]), "the leader")
    client = await dial(cluster.nodes[1])
    for number in range(5):
        await client.produce("orders", b"%d" % number)
    directory = cluster._directory / "node-2" / "orders-0"
    await cluster.nodes.pop(2).stop()
    segment = directory / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[100] ^= 0xFF
    segment.write_bytes(data)
    (cluster._directory / "node-2" / ".kafka_cleanshutdown").unlink(missing_ok=True)  # so that it is looked at
    await cluster.start(2)
    await cluster.ready()
    back = cluster.nodes[2].replicas
    await eventually(lambda: back.get(ORDERS), "the replica")
    partition = back.get(ORDERS)
    assert partition is not None
    await eventually(lambda: partition.log.log_end_offset == 5, "everything to be fetched again")
    await eventually(lambda: partition.log.corruption is None, "the damage to be forgotten")
    whole = (cluster._directory / "node-1" / "orders-0" / "00000000000000000000.log").read_bytes()
    assert b"".join(each.read_bytes() for each in sorted(directory.glob("*.log"))) == whole


async def test_a_mark_that_cannot_be_removed_for_want_of_something_is_removed_later(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever else hears of metadata hears of all of it meanwhile."""
    await cluster.start()
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=[[1, 2, 3]])
    node = cluster.nodes[1]
    await eventually(lambda: _leads(node), "the leader")
    heard: list[int] = []
    node.metadata.subscribe(lambda delta: heard.append(delta.after.offset))
    refused: list[str] = []

    def refuse(_disk: object, directory: str) -> None:
        refused.append(directory)
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(log_module, "remove_refetch_mark", refuse)
        partition = node.replicas.get(ORDERS)
        assert partition is not None
        partition.log.mark_damaged(partition.log.segments[0], OSError(errno.EIO, "input/output error"))
        await eventually(lambda: refused, "it to be whole")
        mark = Path(refused[0]) / REFETCH_FILE
        assert partition.log.corruption is None, "it counts"
        assert mark.exists(), "but a start would fetch it again"
        assert node.failure is None
    await eventually(lambda: not mark.exists(), "the mark to be removed")
    assert partition.log.corruption is None
    await eventually(lambda: set(node.image.partition(ORDERS).isr) == {1, 2, 3}, "everybody in the ISR")
    assert heard[-1] == node.image.offset


class Gate:
    """In place of a pool of threads: what is to run waits until it is opened."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    def run_in_thread(self, act: Callable[[], Any]) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.waiting.append((act, done))
        return done

    def open(self) -> None:
        for act, done in self.waiting:
            done.set_result(act())
        self.waiting.clear()


@pytest.fixture
def gate(node: Node, monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate()
    monkeypatch.setattr(node.data_plane.roles.due, "_run_in_thread", gate.run_in_thread)
    return gate


async def create_many(node: Node, gate: Gate, name: str, partitions: int) -> None:
    """Create a topic, and wait until files are about to be made."""
    await create_in_metadata(node, name, partitions)
    await eventually(lambda: gate.waiting, "files to be made")


async def all_told(node: Node, gate: Gate) -> None:
    """Wait until every replica knows what metadata says of it."""

    def is_done() -> bool:
        gate.open()
        return not node.data_plane.roles.due.is_behind

    await eventually(is_done, "the replicas to be told")


async def delete_and_see(node: Node, name: str) -> None:
    await delete_topic(node, name)
    await eventually(lambda: node.image.topic(name) is None, "the topic to go")


@pytest.mark.spec("P6")
async def test_many_replicas_are_opened_in_portions_and_their_files_made_in_a_thread(node: Node, gate: Gate) -> None:
    """A thousand partitions in one request held the loop for 0.5 s, and for more where the disk was slow."""
    count = 2 * AT_ONCE + 1
    await create_many(node, gate, "many", count)
    roles, opened = node.data_plane.roles, []
    while roles.due.is_behind:
        opened.append(len(node.replicas))
        assert not node.store.get(TopicPartition("many", len(node.replicas)))
        gate.open()
        await eventually(lambda: gate.waiting or not roles.due.is_behind, "the next portion")
    assert opened == [0, AT_ONCE, 2 * AT_ONCE]
    assert all(led(node, TopicPartition("many", number)) for number in range(count))


@pytest.mark.spec("P6")
async def test_a_setting_of_all_brokers_reaches_many_replicas_in_portions(
    node: Node, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All in one turn took 0.2 s with 5,000 of them."""
    count = 2 * AT_ONCE + 1
    await create_many(node, gate, "many", count)
    await all_told(node, gate)
    replicas = [led(node, TopicPartition("many", number)) for number in range(count)]
    at_once: list[int] = []
    due = node.data_plane.roles.due

    def told() -> int:
        return sum(replica.log.config.retention_ms == 5000 for replica in replicas)

    def begin(begin: Callable[[], None] = due.begin) -> None:
        begin()
        at_once.append(told())

    monkeypatch.setattr(due, "begin", begin)
    await alter_setting(node, EVERY_BROKER, "log.retention.ms", "5000")
    await eventually(lambda: told() == count, "every replica to have it")
    assert next(count for count in at_once if count) == AT_ONCE


@pytest.mark.spec("P6")
async def test_a_small_change_is_acted_on_while_many_replicas_are_due(node: Node, gate: Gate) -> None:
    await create_topic(node, "orders")
    await create_many(node, gate, "many", OPENED_AT_ONCE + 1)
    await alter_topic(node, "orders", "min.insync.replicas", "3")
    partition = led(node, ORDERS)
    await eventually(lambda: partition.config.min_insync_replicas == 3, "the setting")
    await delete_and_see(node, "orders")
    assert node.replicas.get(ORDERS) is None
    assert gate.waiting, "the files are still being made"
    await all_told(node, gate)


@pytest.mark.spec("C5")
@pytest.mark.parametrize("is_made_again", [False, True])
async def test_a_topic_that_goes_while_its_files_are_made_leaves_nothing(
    node: Node, gate: Gate, is_made_again: bool
) -> None:
    await create_many(node, gate, "many", AT_ONCE + 5)  # the last five are not even begun
    await delete_and_see(node, "many")
    if is_made_again:
        await create_in_metadata(node, "many", AT_ONCE)
    await all_told(node, gate)
    topic = node.image.topic("many")
    found = {log_.topic_partition: log_.topic_id for log_ in node.store if log_.topic_partition.topic == "many"}
    assert len(found) == (AT_ONCE if is_made_again else 0)
    assert {tp for tp in found if led(node, tp)} == found.keys()
    assert topic is None or set(found.values()) == {topic.topic_id}


@pytest.mark.spec("R12")
async def test_files_that_cannot_be_made_are_tried_again_and_named(
    node: Node, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create_many(node, gate, "many", OPENED_AT_ONCE + 1)

    def mkdir(make: Callable[[str], None], path: str) -> None:
        if path.endswith("many-3"):
            raise OSError(errno.EMFILE, "too many open files")
        make(path)

    disk, lacking = node.store._disk, TopicPartition("many", 3)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "mkdir", partial(mkdir, disk.mkdir))
        await all_told(node, gate)
        assert list(node.replicas.offline) == [lacking]
        assert len(node.replicas) == OPENED_AT_ONCE
        assert len(node.store.online) == 1
    await eventually(lambda: gate.waiting, "the next attempt")
    await all_told(node, gate)
    assert led(node, lacking).log.log_end_offset == 0
    assert not node.replicas.offline


@pytest.mark.spec("R12")
@pytest.mark.parametrize("error", [errno.EIO, errno.EMFILE])
async def test_a_directory_that_takes_no_new_log(start_node: StartNode, tmp_path: Path, dial: Dial, error: int) -> None:
    """Broken: the replica is made in another. Short of descriptors: nothing goes offline, and it is made later."""
    disk = FailingDisk()
    node = await start_node(log_dirs=f"{tmp_path / 'one'},{tmp_path / 'two'}", disk=disk)
    disk.refuse("mkdir", str(tmp_path / "two") if error == errno.EIO else str(tmp_path), error)
    await create_in_metadata(node, "orders", 2)
    if error == errno.EMFILE:
        await eventually(lambda: len(node.replicas.offline) == 2, "the replicas to be refused")
        disk.allow()
    await eventually(lambda: len(node.replicas) == 2 and not node.replicas.offline, "the replicas to be made")
    client = await dial(node)
    for partition in (0, 1):
        assert not (await client.produce("orders", b"x", partition=partition)).error_code
    names = ["one"] if error == errno.EIO else ["one", "two"]
    assert [Path(directory.path).name for directory in node.store.online] == names


async def test_a_bug_met_in_a_portion_stops_the_node(node: Node, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that is met at once does: a replica that was not told is of no use to anybody."""
    await create_many(node, gate, "many", OPENED_AT_ONCE + 1)
    monkeypatch.setattr(node.data_plane.driver, "on_opened", lambda _partition: 1 // 0)
    gate.open()
    await in_time(node.stopped.wait())
    assert isinstance(node.failure, ZeroDivisionError)


async def test_before_anything_is_known_nothing_is_done(node: Node) -> None:
    roles = PartitionRoles(
        node.config,
        node.store,
        node.replicas,
        node.data_plane.driver,
        node.data_plane.moves,
        Strays(node.config.node_id, node.store, 1000, node.tasks),
        node.clock,
        lambda: node.control_plane.lifecycle.broker_epoch,
        node.control_plane.raft.known_until_ms,
        node.tasks,
        node.threads.sync,
        node._on_fatal,
    )
    assert not roles.has_begun
    roles.apply(None)  # type: ignore[arg-type]  # not looked at
    assert not roles.is_eligible(1, -1)
    roles.begin(EMPTY_IMAGE)
    assert roles.has_begun


async def test_a_topic_that_is_made_again_waits_for_the_jobs_of_the_former_one(
    start_node: StartNode, dial: Dial, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A sync in a thread knows files by name: it wrote the former leader epochs into the new log's directory."""
    node = await start_node()
    await create_topic(node, "orders")
    former, gate, begun, run = led(node, ORDERS), threading.Event(), threading.Event(), FlushJob.run

    def wait_and_run(job: FlushJob) -> None:
        if job.durable_end is None:  # not the metadata log's
            begun.set()
            gate.wait()
        run(job)

    monkeypatch.setattr(FlushJob, "run", wait_and_run)
    try:
        await (await dial(node)).produce("orders", b"x")
        node.data_plane.jobs.request_sync(former)
        await eventually(begun.is_set, "the sync")
        await delete_topic(node, "orders")
        await create_in_metadata(node, "orders")
        await eventually(lambda: ORDERS in node.replicas.offline, "the new replica to wait")
        assert node.store.get(ORDERS) is None
    finally:
        gate.set()
    await eventually(lambda: node.replicas.get(ORDERS), "the new replica")
    assert led(node, ORDERS).log.log_end_offset == 0
    assert not (tmp_path / "data/orders-0/leader-epoch-checkpoint").exists()


@pytest.mark.spec("P6")
async def test_the_loop_does_not_wait_until_checkpoints_forget_a_former_topic(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its partitions took eight syncs: a topic that was made again held up all clients of a slow disk."""
    node = await start_node()
    await create_topic(node, "orders", OPENED_AT_ONCE)
    node.store.online[0].write_checkpoints({ORDERS: 0})
    written_by, store = [], DirectoryCheckpoints._store

    def note_and_store(checkpoints: DirectoryCheckpoints) -> None:
        written_by.append(threading.current_thread())
        store(checkpoints)

    monkeypatch.setattr(DirectoryCheckpoints, "_store", note_and_store)
    await delete_topic(node, "orders")
    await create_topic(node, "orders", OPENED_AT_ONCE)
    assert written_by
    assert threading.current_thread() not in written_by
