"""A topic that is compacted, and then not: whatever an unclean election gives up, replicas agree on what is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from random import Random

import pytest
import sim_noise
from sim_cluster import WALL_START_S
from sim_scene import Scene

from minikafka.client import Producer
from minikafka.errors import KafkaError
from minikafka.model import TopicPartition
from minikafka.records.batch import iter_batches
from minikafka.records.read import iter_records
from minikafka.storage.log import Log

WHERE = TopicPartition("p", 0)
HOLDERS = (4, 5, 6)  # no voters: all of them may be down
SETTINGS = {"replica.lag.time.max.ms": 2000, "auto.leader.rebalance.enable": False, **sim_noise.NODE_SETTINGS}
CONFIGS = {"segment.bytes": "1024", "min.cleanable.dirty.ratio": "0.01", "unclean.leader.election.enable": "true"}
KEYS = 6
ROUNDS = 3


@pytest.fixture
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    with ExitStack() as stack:
        stack.enter_context(sim_noise.cleaning_often(True))
        made = Scene(SETTINGS, request.param, brokers=6, log_dirs=2)
        stack.callback(made.end)

        async def create() -> None:
            async with made.admin() as admin:
                await admin.create_topic(WHERE.topic, partitions=1, replication_factor=3, configs=CONFIGS)
                await admin.alter_partition_reassignments({WHERE: HOLDERS})

        made.simulator.run(5.0)
        made.run(create)
        _pass(made, 3)
        yield made


def _pass(scene: Scene, seconds: float) -> None:
    scene.simulator.run(scene.simulator.now + seconds)


def _set_policy(scene: Scene, policy: str) -> None:
    async def alter() -> None:
        async with scene.admin() as admin:
            await admin.alter_configs(WHERE.topic, {"cleanup.policy": policy})

    scene.run(alter)
    _pass(scene, 0.5)


def _move(scene: Scene, node_id: int, directory: str) -> None:
    async def alter() -> None:
        async with scene.admin() as admin:
            await admin.alter_replica_log_dirs(node_id, {WHERE: directory})

    scene.run(alter)


def _write(scene: Scene, rng: Random, count: int) -> None:
    async def write() -> None:
        servers = scene.cluster.bootstrap_servers
        async with Producer(servers, wall_s=lambda: WALL_START_S, delivery_timeout_ms=2500) as producer:
            for _ in range(count):
                key, value = b"%d" % rng.randrange(KEYS), rng.randbytes(100)
                try:
                    await producer.send_and_wait(WHERE.topic, value, key=key, partition=0)
                except KafkaError:
                    continue

    scene.run(write)


def _start(scene: Scene, node_id: int) -> None:
    if not scene.cluster.machines[node_id].is_up:
        scene.cluster.machines[node_id].start()


def _last_values(log: Log) -> dict[bytes | None, tuple[int, bytes | None]]:
    """(offset, value) of the last record of each key."""
    found: dict[bytes | None, tuple[int, bytes | None]] = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset and (data := log.read(offset, 1 << 20).read()):
        for position, header in iter_batches(data):
            found |= {one.key: (one.offset, one.value) for one in iter_records(data, position, header)}
            offset = header.next_offset
    return found


@pytest.mark.long
@pytest.mark.spec("R26")
@pytest.mark.parametrize("scene", [2, 9, 17], indirect=True)
def test_replicas_agree_on_the_last_value_of_each_key(scene: Scene) -> None:
    """A replica that did not know that its log had been cleaned kept holes where it was cut, and was in sync."""
    rng, machines = scene.simulator.rng, scene.cluster.machines
    for _ in range(ROUNDS):
        _set_policy(scene, "compact")
        _write(scene, rng, rng.randrange(4, 14))
        _pass(scene, rng.choice((0.2, 2.5)))
        state = scene.state(WHERE)
        assert state is not None
        behind = rng.sample([one for one in HOLDERS if one != state.leader], rng.choice((1, 2)))
        for node_id in behind:
            machines[node_id].kill()
        _pass(scene, 2.5)
        _write(scene, rng, rng.randrange(6, 16))
        _pass(scene, rng.choice((0.2, 4)))
        _set_policy(scene, "delete")
        up = [node_id for node_id in HOLDERS if machines[node_id].is_up]
        for node_id in up:
            _move(scene, node_id, rng.choice(scene.cluster.log_dirs))
        _pass(scene, rng.choice((0.3, 3)))
        for node_id in up:
            machines[node_id].kill()
        _pass(scene, 1.5)
        _start(scene, behind[0])  # elected uncleanly
        _pass(scene, 4)
        _write(scene, rng, rng.randrange(6))
        for node_id in HOLDERS:
            _start(scene, node_id)
        _pass(scene, 8)
    scene.wait_for(lambda: (state := scene.state(WHERE)) and len(state.isr) == len(HOLDERS))
    _pass(scene, 2)
    logs = [node.store.get(WHERE) for machine, node in scene.cluster.nodes() if machine.node_id in HOLDERS]
    first, *others = [_last_values(log) for log in logs if log is not None]
    assert first
    assert others == [first, first]
