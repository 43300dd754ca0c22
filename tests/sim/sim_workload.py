"""Clients of a simulated cluster: our own producer and consumer, each in a process of its own, writing a history."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence

from sim_cluster import WALL_START_S, SimulatedCluster
from sim_noise import NOISE, make_noise
from simulator.loop import Process

from minikafka.chaos.history import History
from minikafka.client import Admin, Consumer, Producer
from minikafka.client.records import Delivery
from minikafka.errors import KafkaError
from minikafka.model import TopicPartition

BACKOFF_S = 0.2
GROUP = "group"


class Workload:
    """Topics, the clients on them, and what they saw."""

    def __init__(self, cluster: SimulatedCluster, topics: dict[str, int], rate: float) -> None:
        self._cluster = cluster
        self._topics = topics
        self._rate = rate
        self._pending: dict[Delivery, None] = {}
        self.history = History(clock=lambda: cluster.simulator.now)
        self.is_finishing = False
        self.shared: set[tuple[str, int]] = set()
        """What members of the group read, as (partition, offset)."""
        self.is_judged: Callable[[str], bool] = lambda partition: True
        """Everything in that partition must be read by the group."""
        self.may_go_back: Callable[[str], bool] = lambda partition: False
        """A leader of that partition, which had lost its end, may have sent consumers back there."""
        self.is_deleted: Callable[[str, int], bool] = lambda partition, offset: False
        """That record of that partition may have been deleted."""
        self.names: Sequence[str] = ()
        """Of topics that are deleted and made again."""
        self.has_keys = False
        """Each record has a key of its own."""
        self.linger_ms = 0
        self.acks: int | str = "all"
        self._positions: dict[tuple[str, str], int] = {}
        self._follower = ""
        self._acknowledged: set[tuple[str, int]] = set()
        self.acknowledged_at: dict[str, float] = {}
        """When a record was last acknowledged, in virtual seconds, by partition."""
        self.produced = 0

    @property
    def partitions(self) -> list[TopicPartition]:
        """All partitions of all topics."""
        return [TopicPartition(topic, number) for topic, count in self._topics.items() for number in range(count)]

    def process(self, name: str) -> Process:
        """A client's process, on a machine of its own."""
        return self._cluster.network.process(name)

    def rng(self) -> random.Random:
        """Randomness for a client."""
        return random.Random(self._cluster.rng.getrandbits(64))

    def wall_s(self) -> float:
        """What the clients' clocks say."""
        return WALL_START_S + self._cluster.simulator.now

    async def create_topics(self, configs: dict[str, dict[str, str]]) -> None:
        """Make the topics; the cluster may still be starting."""
        await patiently(self._create_topics, configs)

    async def _create_topics(self, configs: dict[str, dict[str, str]]) -> None:
        async with Admin(self._cluster.bootstrap_servers, rng=self.rng()) as admin:
            existing = {view.name for view in await admin.list_topics()}
            for topic, count in self._topics.items():
                if topic not in existing:
                    await admin.create_topic(topic, partitions=count, replication_factor=3, configs=configs[topic])

    async def churn(self, name: str) -> None:
        """Make topics, change them, write a little to them and delete them, until cancelled."""
        rng = self.rng()
        number = 0
        while True:
            await asyncio.sleep(rng.expovariate(0.3))
            number += 1
            topic = f"{name}-{number}"
            try:
                async with Admin(self._cluster.bootstrap_servers, client_id=name, rng=self.rng()) as admin:
                    await admin.create_topic(topic, partitions=rng.randrange(1, 4), replication_factor=3)
                    if rng.random() < 0.5:
                        await admin.create_partitions(topic, 5)
                    if rng.random() < 0.5:
                        await admin.alter_configs(topic, {"retention.ms": str(rng.randrange(10**9))})
                    if rng.random() < 0.7:
                        await self._write_some(topic)
                    if rng.random() < 0.8:
                        await admin.delete_topic(topic)
            except KafkaError as error:
                self._cluster.say(name, f"{topic}: {error}")

    async def grow(self) -> None:
        """Give a topic one more partition."""
        topic, count = min(self._topics.items())
        async with Admin(self._cluster.bootstrap_servers, client_id="grow", rng=self.rng()) as admin:
            await admin.create_partitions(topic, count + 1)

    async def make_again(self, name: str) -> None:
        """Make topics, delete them, and make them again with the same names, until cancelled."""
        rng = self.rng()
        while True:
            await asyncio.sleep(rng.expovariate(2.0))
            topic = rng.choice(self.names)
            try:
                async with Admin(self._cluster.bootstrap_servers, client_id=name, rng=self.rng()) as admin:
                    if topic in {view.name for view in await admin.list_topics()}:
                        await admin.delete_topic(topic)
                    configs = {"flush.messages": rng.choice(("1", "1000"))}  # else hardly a job is under way
                    await admin.create_topic(topic, partitions=1, replication_factor=3, configs=configs)
            except KafkaError as error:
                self._cluster.say(name, f"{topic}: {error}")

    async def write_again(self, name: str) -> None:
        """Write to these topics, whatever becomes of them, until cancelled."""
        rng = self.rng()
        while True:
            await asyncio.sleep(rng.expovariate(10.0))
            try:
                await self._write_some(rng.choice(self.names), size=3_000)
            except KafkaError as error:
                self._cluster.say(name, str(error))

    async def move(self, name: str) -> None:
        """Reassign partitions to other brokers, or stop doing so, and have leaders elected, until cancelled."""
        rng = self.rng()
        while True:
            await asyncio.sleep(rng.expovariate(0.25))
            tp = rng.choice(self.partitions)
            target = None if rng.random() < 0.15 else rng.sample(sorted(self._cluster.machines), 3)
            try:
                async with Admin(self._cluster.bootstrap_servers, client_id=name, rng=self.rng()) as admin:
                    if rng.random() < 0.2:
                        await admin.elect_leaders("preferred")
                        continue
                    if len(self._cluster.log_dirs) > 1 and rng.random() < 0.5:
                        await self._move_within(admin, tp, rng)
                        continue
                    outcomes = await admin.alter_partition_reassignments({tp: target})
                    self._cluster.say(name, f"{tp} to {target}: {outcomes[tp] or 'begun'}")
                    for each, state in (await admin.list_partition_reassignments()).items():
                        self._cluster.say(name, f"{each} is being moved: {state}")
            except KafkaError as error:
                self._cluster.say(name, f"{tp} to {target}: {error}")

    async def _move_within(self, admin: Admin, tp: TopicPartition, rng: random.Random) -> None:
        """Let a broker move its replica to a directory."""
        broker_id, path = rng.choice(sorted(self._cluster.machines)), rng.choice(self._cluster.log_dirs)
        outcomes = await admin.alter_replica_log_dirs(broker_id, {tp: path})
        self._cluster.say("move", f"{tp} on {broker_id} to {path}: {outcomes[tp] or 'begun'}")

    async def _write_some(self, topic: str, size: int = 1) -> None:
        async with Producer(
            self._cluster.bootstrap_servers, delivery_timeout_ms=5_000, rng=self.rng(), wall_s=self.wall_s
        ) as producer:
            for number in range(10):
                await producer.send(topic, str(number).encode() * size)

    async def make_noise(self) -> None:
        """Send records that are not judged, until cancelled."""
        await make_noise(self._cluster.bootstrap_servers, self.partitions, self.rng(), self.wall_s)

    # -- writing ------------------------------------------------------------------------------------------------------

    async def produce(self, name: str) -> None:
        """Send records at an even rate until :attr:`is_finishing`, then wait for what is under way."""
        life = 0
        while not self.is_finishing:
            life += 1
            try:
                await self._produce(f"{name}.{life}")
            except KafkaError:
                await asyncio.sleep(BACKOFF_S)

    async def _produce(self, name: str) -> None:
        rng = self.rng()
        partitions = self.partitions
        async with Producer(
            self._cluster.bootstrap_servers,
            client_id=name,
            acks=self.acks,
            batch_bytes=8 << 10,
            linger_ms=self.linger_ms,
            delivery_timeout_ms=60_000,
            max_block_ms=60_000,
            rng=self.rng(),
            wall_s=self.wall_s,
        ) as producer:
            number = 0
            while not self.is_finishing:
                number += 1
                tp = rng.choice(partitions)
                identity = f"{name}:{number}"
                value = identity.encode() + b" " * rng.choice((0, 0, 50, 300, 2000))
                self.history.append(name, "invoke", "send", [(str(tp), identity)])
                key = identity.encode() if self.has_keys else None
                delivery = await producer.send(tp.topic, value, key=key, partition=tp.partition)
                self.produced += 1
                delivery.add_done_callback(lambda done, w=tp, i=identity: self.on_delivery(name, str(w), i, done))
                await asyncio.sleep(rng.expovariate(self._rate))

    def on_delivery(
        self, name: str, partition: str, identity: str, delivery: Delivery, *, is_shared: bool = True
    ) -> None:
        """Note what became of a record. ``is_shared``: the group must read it, if it was acknowledged."""
        if delivery.cancelled() or delivery.exception() is not None:
            self.history.append(name, "info", "send", [(partition, identity)])  # it may have been written all the same
            self._cluster.say(name, f"{identity} for {partition} failed: {delivery.exception()}")
        else:
            if is_shared:
                self._acknowledged.add((partition, delivery.result().offset))
            self.acknowledged_at[partition] = self._cluster.simulator.now
            self.history.append(name, "ok", "send", [(partition, identity, delivery.result().offset)])

    def silent_since(self, time_s: float) -> list[str]:
        """The partitions of which no record was acknowledged since then."""
        judged = filter(self.is_judged, map(str, self.partitions))
        return [partition for partition in judged if self.acknowledged_at.get(partition, 0.0) <= time_s]

    # -- reading ------------------------------------------------------------------------------------------------------

    async def consume(self, name: str) -> None:
        """Follow all partitions until cancelled."""
        life = 0
        while True:
            life += 1
            self._follower = f"{name}.{life}"
            try:
                await self._consume(self._follower)
            except KafkaError:
                await asyncio.sleep(BACKOFF_S)

    async def _consume(self, name: str) -> None:
        async with Consumer(
            self._cluster.bootstrap_servers, client_id=name, auto_offset_reset="earliest", rng=self.rng()
        ) as consumer:
            consumer.assign(self.partitions)
            self.history.append(name, "ok", "assign", [str(tp) for tp in self.partitions])
            while True:
                self._note(name, await consumer.poll(timeout_ms=1000))

    async def share(self, name: str) -> None:
        """Read as a member of a group, which commits what it read, until cancelled."""
        life = 0
        while True:
            life += 1
            try:
                await self._share(f"{name}.{life}")
            except KafkaError:
                await asyncio.sleep(BACKOFF_S)

    async def _share(self, name: str) -> None:
        async with Consumer(
            self._cluster.bootstrap_servers,
            *self._topics,
            group_id=GROUP,
            client_id=name,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=500,
            rng=self.rng(),
        ) as consumer:
            until = self._cluster.simulator.now + self._cluster.rng.choice((5.0, 20.0, 100.0))
            # Members come and go. In the end they stay: who stands still must not leave it to others.
            while self._cluster.simulator.now < until or self.is_finishing:
                for record in await consumer.poll(timeout_ms=1000):
                    if record.key != NOISE:
                        self.shared.add((f"{record.topic}-{record.partition}", record.offset))

    def unshared(self) -> set[tuple[str, int]]:
        """What was acknowledged, as (partition, offset), and read by no member of the group: none, in the end."""
        return self.unread(self.shared)

    def unread(self, read: set[tuple[str, int]]) -> set[tuple[str, int]]:
        """What was acknowledged, and is not in ``read``."""
        unread = self._acknowledged - read
        return {each for each in unread if self.is_judged(each[0]) and not self.is_deleted(*each)}

    async def wait_until_committed(self) -> None:
        """Until the group has committed offsets behind all that was acknowledged."""
        last: dict[str, int] = {}
        for partition, offset in self.unread(set()):
            last[partition] = max(offset, last.get(partition, offset))
        await patiently(self._wait_until_committed, last)

    async def _wait_until_committed(self, last: dict[str, int]) -> None:
        async with Consumer(self._cluster.bootstrap_servers, group_id=GROUP, rng=self.rng()) as consumer:
            for tp in self.partitions:
                while (await consumer.committed(tp) or 0) <= last.get(str(tp), -1):  # noqa: ASYNC110  # the cluster is asked
                    await asyncio.sleep(BACKOFF_S)

    def unfollowed(self) -> set[str]:
        """Partitions with an acknowledged record that who follows them all was not handed, nor a later one."""
        positions = {tp: position for (name, tp), position in self._positions.items() if name == self._follower}
        return {tp for tp, offset in self.unread(set()) if offset >= positions.get(tp, 0)}

    async def read_back(self, name: str = "reader") -> None:
        """Read everything from the beginning to the end as it is now."""
        async with Consumer(
            self._cluster.bootstrap_servers, client_id=name, auto_offset_reset="earliest", rng=self.rng()
        ) as consumer:
            consumer.assign(self.partitions)
            ends = await consumer.end_offsets(self.partitions)
            self.history.append(name, "ok", "assign", [str(tp) for tp in self.partitions])
            while True:
                behind = [tp for tp in self.partitions if await consumer.position(tp) < ends[tp]]
                if not behind:
                    break
                self._note(name, await consumer.poll(timeout_ms=1000))
            self.history.append(name, "ok", "drained", [str(tp) for tp in self.partitions])

    def _note(self, name: str, records: Iterable[object]) -> None:
        handed = [
            (f"{record.topic}-{record.partition}", (record.value or b"").rstrip().decode(), record.offset)
            for record in records
            if record.key != NOISE
        ]
        for tp, _, offset in handed:
            if offset < self._positions.get((name, tp), 0) and self.may_go_back(tp):
                self.history.append(name, "ok", "assign", [(tp, offset)])
            self._positions[name, tp] = offset + 1
        if handed:
            self.history.append(name, "ok", "poll", handed)


async def patiently(attempt, *arguments) -> None:
    """Again and again until it works."""
    while True:
        try:
            return await attempt(*arguments)
        except KafkaError:
            await asyncio.sleep(BACKOFF_S)
