"""Two brokers with a full disk each, and one that loses what it had: somebody has all that was acknowledged."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence

import pytest
from sim_cluster import WALL_START_S, Machine
from sim_scene import Scene

from minikafka.client import Consumer, Producer
from minikafka.errors import KafkaError
from minikafka.model import TopicPartition

HERE, FULL = TopicPartition("p", 0), TopicPartition("q", 0)
"""One on each of the two disks of each broker."""
DISKS = {HERE: "/a", FULL: "/b"}
SETTINGS = {"min.insync.replicas": 2, "replica.lag.time.max.ms": 2000, "auto.leader.rebalance.enable": False}
RECORDS = 20
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3, 4))]
ROOM = 1 << 40


def _cluster(seed: int, log_dirs: int) -> Scene:
    """Three brokers with both topics."""
    made = Scene(SETTINGS, seed, brokers=3, log_dirs=log_dirs)

    async def create() -> None:
        async with made.admin() as admin:
            for where in DISKS:
                await admin.create_topic(where.topic, partitions=1, replication_factor=3)
            await admin.alter_partition_reassignments({HERE: [1, 2, 3]})

    made.simulator.run(5.0)
    made.run(create)
    made.simulator.run(made.simulator.now + 2)
    return made


@pytest.fixture(params=SEEDS)
def single(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """Brokers with one disk each, of which the first leads the partition."""
    made = _cluster(request.param, log_dirs=1)
    made.lead(HERE, 1)
    yield made
    made.end()


@pytest.fixture(params=SEEDS)
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """Brokers with two disks each, of which the first leads the partition."""
    made = _cluster(request.param, log_dirs=2)

    async def move() -> None:
        async with made.admin() as admin:
            for node_id in made.cluster.machines:
                await admin.alter_replica_log_dirs(node_id, DISKS)

    made.run(move)
    made.wait_for(lambda: all(_disk_of(machine, where) == DISKS[where] for machine in _up(made) for where in DISKS))
    made.lead(HERE, 1)
    yield made
    made.end()


def _up(scene: Scene) -> list[Machine]:
    return [machine for machine, _ in scene.cluster.nodes()]


def _disk_of(machine: Machine, where: TopicPartition) -> str | None:
    assert machine.node is not None
    directory = machine.node.store.log_dir_of(where)
    return None if directory is None else directory.path


def _written(scene: Scene, where: TopicPartition, who: str, count: int = RECORDS) -> dict[int, bytes]:
    """What was acknowledged, by offset."""

    async def act() -> dict[int, bytes]:
        acknowledged = {}
        servers = scene.cluster.bootstrap_servers
        async with Producer(servers, wall_s=lambda: WALL_START_S, delivery_timeout_ms=8000) as producer:
            for number in range(count):
                value = f"{who}-{number}".encode()
                try:
                    sent = await producer.send_and_wait(where.topic, value, partition=0)
                except KafkaError:
                    continue
                acknowledged[sent.offset] = value
        return acknowledged

    return scene.run(act)


def _read(scene: Scene, count: int) -> dict[int, bytes | None]:
    async def act() -> dict[int, bytes | None]:
        found: dict[int, bytes | None] = {}
        async with Consumer(scene.cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([HERE])
            for _ in range(20):
                found |= {record.offset: record.value for record in await consumer.poll(timeout_ms=500)}
                if len(found) >= count:
                    break
        return found

    return scene.run(act)


def _fill(scene: Scene, node_ids: Sequence[int]) -> None:
    """Their second disk takes nothing more, and they have noticed."""
    machines = [scene.cluster.machines[node_id] for node_id in node_ids]
    for machine in machines:
        machine.failing_path, machine.disk_error = "/b", OSError(errno.ENOSPC, "no space left on device")
    _written(scene, FULL, "too-much", 3)
    scene.wait_for(lambda: all(machine.node and len(machine.node.store.online) == 1 for machine in machines))


def _all_come_back(scene: Scene) -> None:
    for machine in scene.cluster.machines.values():
        if not machine.is_up:
            machine.start()

    def are_back() -> bool:
        state = scene.state(HERE) if len(_up(scene)) == 3 else None
        return state is not None and state.leader >= 0 and len(state.isr) >= 2

    scene.wait_for(are_back)


@pytest.mark.spec("C4")
def test_one_is_killed_one_is_down_and_the_third_loses_power(scene: Scene) -> None:
    first, second, third = scene.cluster.machines.values()
    acknowledged = _written(scene, HERE, "before")
    _fill(scene, [2])
    third.kill()
    scene.wait_for(lambda: (state := scene.state(HERE)) and 3 not in state.isr)
    acknowledged |= _written(scene, HERE, "meanwhile")
    assert len(acknowledged) == 2 * RECORDS
    second.kill()
    first.lose_power()
    _all_come_back(scene)
    assert _read(scene, len(acknowledged)) == acknowledged


@pytest.mark.spec("C4")
def test_all_are_killed_and_one_log_is_cut(scene: Scene) -> None:
    acknowledged = _written(scene, HERE, "before")
    _fill(scene, [2, 3])
    acknowledged |= _written(scene, HERE, "meanwhile")
    assert len(acknowledged) == 2 * RECORDS
    for machine in scene.cluster.machines.values():
        machine.kill()
    _cut_the_log_of_the_first(scene)
    _all_come_back(scene)
    assert _read(scene, len(acknowledged)) == acknowledged


def _cut_the_log_of_the_first(scene: Scene) -> None:
    disk = scene.cluster.machines[1].disk.mount(lambda _operation: None, lambda _operation: None)
    log = disk.open_append("/a/p-0/00000000000000000000.log")
    log.truncate(log.size() // 2)


@pytest.mark.spec("P1", "P5")
def test_two_end_for_their_only_disks_and_the_log_of_the_third_is_cut(single: Scene) -> None:
    """The last that ended has all; it is believed when there is room again, as after a kill."""
    acknowledged = _written(single, HERE, "before")
    _end_for_want_of_room(single, 2)
    single.wait_for(lambda: (state := single.state(HERE)) and 2 not in state.isr)
    acknowledged |= _written(single, HERE, "meanwhile")
    assert len(acknowledged) == 2 * RECORDS
    _end_for_want_of_room(single, 3)
    single.cluster.machines[1].kill()
    _cut_the_log_of_the_first(single)
    for machine in single.cluster.machines.values():
        machine.disk.capacity = ROOM
    _all_come_back(single)
    assert _read(single, len(acknowledged)) == acknowledged


def _end_for_want_of_room(scene: Scene, node_id: int) -> None:
    """The disk takes a few bytes more; syncs succeed."""
    machine = scene.cluster.machines[node_id]
    machine.disk.capacity = machine.disk.used + 20
    scene.wait_for(lambda: not machine.is_up)
