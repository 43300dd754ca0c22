"""Two brokers with a full disk each, and one that loses what it had: the other disks have all that was acknowledged."""

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


@pytest.fixture(params=[1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3, 4))])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """Three brokers, of which the first leads the partition."""
    made = Scene(SETTINGS, request.param, brokers=3, log_dirs=2)

    async def create() -> None:
        async with made.admin() as admin:
            for where in DISKS:
                await admin.create_topic(where.topic, partitions=1, replication_factor=3)
            await admin.alter_partition_reassignments({HERE: [1, 2, 3]})

    async def move() -> None:
        async with made.admin() as admin:
            for node_id in made.cluster.machines:
                await admin.alter_replica_log_dirs(node_id, DISKS)

    made.simulator.run(5.0)
    made.run(create)
    made.simulator.run(made.simulator.now + 2)
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
    disk = scene.cluster.machines[1].disk.mount(lambda _operation: None, lambda _operation: None)
    log = disk.open_append("/a/p-0/00000000000000000000.log")
    log.truncate(log.size() // 2)
    _all_come_back(scene)
    assert _read(scene, len(acknowledged)) == acknowledged
