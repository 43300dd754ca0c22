"""Where consumers read, and how fast replicas move: in virtual time, so that a rate is a rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from sim_cluster import WALL_START_S
from sim_scenario import is_healed
from sim_scene import Scene
from simulator.network import Socket

from minikafka.client import Consumer, Producer
from minikafka.config.topics import RACK_AWARE_SELECTOR
from minikafka.model import TopicPartition

WHERE = TopicPartition("t", 0)
RECORDS = 400
SIZE = 1000


class Filled(Scene):
    """Four quiet machines."""

    def __init__(self, **settings: object) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        super().__init__(named, settings_of={node_id: {"broker.rack": f"r{node_id}"} for node_id in range(1, 5)})

    def fill(self, replicas: list[int]) -> None:
        """Topic t with a few hundred thousand bytes on these brokers, of which the first leads."""

        async def act() -> None:
            async with self.admin() as admin:
                await admin.create_topic("t", partitions=1, replication_factor=len(replicas))
                await admin.alter_partition_reassignments({WHERE: replicas})
            async with Producer(self.cluster.bootstrap_servers, wall_s=lambda: WALL_START_S) as producer:
                for _ in range(RECORDS):
                    await producer.send_and_wait("t", b"x" * SIZE, partition=0)

        self.simulator.run(5.0)
        self.run(act)
        self.wait_for(lambda: self.placed(replicas))
        self.lead(WHERE, replicas[0])

    def placed(self, replicas: list[int]) -> bool:
        """These brokers have it, and nothing else is to be done."""
        states = [node.image.partition(WHERE) for _, node in self.cluster.nodes()]
        return is_healed(self.cluster) and all(
            state is not None and list(state.replicas) == replicas and not state.is_reassigning for state in states
        )


Begin = Callable[..., Filled]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Makes scenes that end with the test."""
    scenes: list[Filled] = []

    def make(**settings: object) -> Filled:
        scenes.append(Filled(**settings))
        return scenes[-1]

    yield make
    for scene in scenes:
        scene.end()


def move(scene: Filled, replicas: list[int], rates: dict[str, str]) -> float:
    """Virtual seconds that it takes to move the partition there."""

    async def act() -> None:
        async with scene.admin() as admin:
            for node_id in range(1, 5):
                await admin.alter_broker_configs(node_id, rates)
            throttled = {f"{side}.replication.throttled.replicas": "*" for side in ("leader", "follower")}
            await admin.alter_configs("t", throttled)
            await admin.alter_partition_reassignments({WHERE: replicas})

    scene.run(act)
    return scene.wait_for(lambda: scene.placed(replicas))


@pytest.mark.spec("R7")
@pytest.mark.spec("A4")
@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_replica_is_copied_at_the_rate(begin: Begin, side: str) -> None:
    scene = begin(replica_fetch_max_bytes=16_000, replica_fetch_response_max_bytes=16_000)
    scene.fill([1, 2])
    assert move(scene, [1, 3], {}) < 5.0
    took_s = move(scene, [1, 4], {f"{side}.replication.throttled.rate": "20000"})
    assert 10.0 < took_s < 40.0  # 400 kB at 20 kB/s, the first windows at any rate


@pytest.mark.spec("R25")
def test_consumers_read_in_their_rack(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = begin(replica_selector_class=RACK_AWARE_SELECTOR)
    scene.fill([1, 2, 3])
    sent: Counter[str] = Counter()
    send = Socket.send

    def counted(socket: Socket, data: bytes) -> None:
        if socket.peer_name[0] == "client":
            sent[socket.process.host] += len(data)
        send(socket, data)

    monkeypatch.setattr(Socket, "send", counted)

    async def read(rack: str) -> None:
        async with Consumer(
            scene.cluster.bootstrap_servers, client_rack=rack, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([WHERE])
            records = 0
            while records < RECORDS:
                records += len(await consumer.poll(timeout_ms=1000))

    for rack, host in (("r3", "node-3"), ("r4", "node-1"), ("", "node-1")):  # r4 has no replica
        sent.clear()
        scene.run(partial(read, rack))
        assert sent[host] > RECORDS * SIZE
        assert sent.total() - sent[host] < SIZE * RECORDS / 4
