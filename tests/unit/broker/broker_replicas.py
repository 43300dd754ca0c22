"""Partitions without a node around them: real logs, a real purgatory, and leadership as a test wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from broker_client import NOW_MS, batch
from broker_node import HastyDisk

from minikafka.broker.clock import Clock
from minikafka.broker.delayed import ProduceResult
from minikafka.broker.partition import Partition, log_config
from minikafka.broker.replicas import Replicas
from minikafka.broker.timers import Timers
from minikafka.config import TopicConfig
from minikafka.errors import ErrorCode
from minikafka.model import UNASSIGNED_DIRECTORY, TopicPartition
from minikafka.replication import replica_effects as do
from minikafka.replication.leader import LeaderState
from minikafka.replication.local_replica import LocalReplica
from minikafka.replication.replica_facts import CommittedPartition, ReplicaSettings, Surroundings
from minikafka.storage.disk import Disk
from minikafka.storage.errors import StorageFailure
from minikafka.storage.last_stop import LastStop
from minikafka.storage.log import Log

T = TypeVar("T")

ME, FOLLOWER, OTHER = 1, 2, 3
LONG_MS = 20_000


class Rig:
    """The replicas of node 1."""

    lag_time_max_ms = 60_000

    def __init__(self, directory: Path, disk: Disk | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.clock = Clock(loop, lambda: NOW_MS / 1000)
        self.timers = Timers(self.clock, loop)
        self.known: set[TopicPartition] = set()
        self.replicas = Replicas(ME, self.clock, self.timers, lambda tp: tp in self.known)
        self.replicas.carry_out = self.carry_out
        self.replicas.on_storage_failed = self.on_storage_failed
        self.effects: list[do.ReplicaEffect] = []
        self.failures: list[tuple[Partition, StorageFailure]] = []
        self.disk = disk or HastyDisk()
        self._directory = directory

    def partition(self, name: str = "orders", **settings: object) -> Partition:
        """A replica with an empty log, in no role yet."""
        tp = TopicPartition(name, 0)
        config = TopicConfig({key.replace("_", "."): str(value) for key, value in settings.items()})
        log = Log.open(
            self.disk, str(self._directory / str(tp)), tp, log_config(config), last_stop=LastStop(is_clean=True)
        )
        partition = Partition(UUID(int=len(self.replicas) + 1), log, config, self.local_replica(tp, log, config))
        self.replicas.add(partition)
        return partition

    def local_replica(self, tp: TopicPartition, log: Log, config: TopicConfig, high_watermark: int = 0) -> LocalReplica:
        settings = ReplicaSettings(config.min_insync_replicas, config.flush_messages, self.lag_time_max_ms)
        surroundings = Surroundings(lambda _replica_id, _broker_epoch: True)
        return LocalReplica(tp, ME, log, settings, surroundings, high_watermark=high_watermark)

    def carry_out(self, partition: Partition, effects: Sequence[do.ReplicaEffect]) -> None:
        """What can be done without a node around; the rest is noted."""
        for effect in effects:
            self.effects.append(effect)
            match effect:
                case do.BeginEpoch(epoch):
                    partition.log.begin_epoch(epoch)
                case do.AnswerWaiting():
                    self.replicas.waiting.release(partition.topic_partition)
                case do.HighWatermarkMoved():
                    self.replicas.waiting.note_moved(partition.topic_partition, high_watermark=True)

    def on_storage_failed(self, partition: Partition, failure: StorageFailure) -> None:
        self.failures.append((partition, failure))
        self.carry_out(partition, partition.replica.on_storage_failed())

    def noted(self, kind: type[T]) -> list[T]:
        """Effects of that kind so far."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def lead(
        self,
        partition: Partition,
        *,
        epoch: int = 1,
        replicas: Sequence[int] = (ME,),
        isr: Sequence[int] | None = None,
    ) -> LeaderState:
        """Lead it, with that ISR (by default all replicas)."""
        told(partition, ME, epoch, replicas=replicas, isr=isr, carry_out=self.carry_out)
        assert partition.leader is not None
        return partition.leader

    def follow(self, partition: Partition, leader_id: int, epoch: int) -> None:
        """Another node leads it."""
        told(partition, leader_id, epoch, replicas=(ME, leader_id), carry_out=self.carry_out)

    def led(self, name: str = "orders", *, replicas: Sequence[int] = (ME,), **settings: object) -> Partition:
        """A new partition that this node leads."""
        partition = self.partition(name, **settings)
        self.lead(partition, replicas=replicas)
        return partition

    def stage(self, partition: Partition, *values: bytes, acks: int = -1) -> ProduceResult:
        return self.replicas.stage_produced(partition.topic_partition, batch(*values), acks, 9)

    def append(self, partition: Partition, *values: bytes) -> None:
        """One batch, written, without anybody waiting for it."""
        result = self.stage(partition, *values, acks=1)
        assert not result.error, result.message
        self.replicas.commit_staged()

    def fetched(self, partition: Partition, replica_id: int, offset: int) -> None:
        """A follower asked for what comes from ``offset`` on."""
        self.replicas.on_follower_fetch(partition, replica_id, 5, offset, 0, self.clock.monotonic_ms())

    def await_acks(self, *results: ProduceResult, acks: int = -1, timeout_ms: int = LONG_MS) -> Acks:
        acknowledged = Acks()
        self.replicas.waiting.await_acks(results, acks, timeout_ms, acknowledged.on_done)
        return acknowledged


def told(
    partition: Partition,
    leader_id: int,
    epoch: int,
    *,
    replicas: Sequence[int] | None = None,
    isr: Sequence[int] | None = None,
    partition_epoch: int = 0,
    carry_out: Callable[[Partition, Sequence[do.ReplicaEffect]], None] = lambda _partition, _effects: None,
) -> None:
    """The partition hears of committed metadata; by default only its machine acts on it."""
    replicas = (ME, leader_id) if replicas is None else tuple(replicas)
    in_sync = replicas if isr is None else tuple(isr)
    committed = CommittedPartition(leader_id, epoch, partition_epoch, replicas, in_sync, (), UNASSIGNED_DIRECTORY)
    carry_out(partition, partition.replica.on_metadata(committed, 0))


class Acks:
    """What became of a request."""

    def __init__(self) -> None:
        self.times = 0
        self.results: list[tuple[ErrorCode, int]] = []

    def on_done(self, results: Sequence[ProduceResult]) -> None:
        self.times += 1
        self.results = [(result.error, result.base_offset) for result in results]
