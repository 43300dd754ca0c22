"""Partitions without a node around them: real logs, a real purgatory, and leadership as a test wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
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
from minikafka.model import TopicPartition
from minikafka.replication.leader import LeaderState
from minikafka.storage.disk import Disk
from minikafka.storage.log import Log

ME, FOLLOWER, OTHER = 1, 2, 3
LONG_MS = 20_000


class Rig:
    """The replicas of node 1."""

    def __init__(self, directory: Path, disk: Disk | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.clock = Clock(loop, lambda: NOW_MS / 1000)
        self.timers = Timers(self.clock, loop)
        self.replicas = Replicas(ME, self.clock, self.timers)
        self.disk = disk or HastyDisk()
        self._directory = directory

    def partition(self, name: str = "orders", **settings: object) -> Partition:
        """A replica with an empty log, in no role yet."""
        where = TopicPartition(name, 0)
        config = TopicConfig({key.replace("_", "."): str(value) for key, value in settings.items()})
        log = Log.open(self.disk, str(self._directory / str(where)), where, log_config(config), is_clean=True)
        partition = Partition(where, UUID(int=len(self.replicas) + 1), log, config, 0)
        self.replicas.add(partition)
        return partition

    def lead(
        self,
        partition: Partition,
        *,
        epoch: int = 1,
        replicas: Sequence[int] = (ME,),
        isr: Sequence[int] | None = None,
        lag_time_max_ms: int = 60_000,
    ) -> LeaderState:
        """Lead it, with that ISR (by default all replicas)."""
        log = partition.log
        log.begin_epoch(epoch)
        leader = LeaderState(
            partition.topic_partition,
            ME,
            epoch,
            leader_epoch_start_offset=log.log_end_offset,
            replicas=replicas,
            isr=replicas if isr is None else isr,
            partition_epoch=0,
            high_watermark=partition.high_watermark,
            log_end_offset=log.log_end_offset,
            lag_time_max_ms=lag_time_max_ms,
            now_ms=self.clock.monotonic_ms(),
            min_insync_replicas=partition.config.min_insync_replicas,
        )
        partition.become_leader(leader, ME)
        return leader

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
        self.replicas.await_acks(results, acks, timeout_ms, acknowledged.on_done)
        return acknowledged


class Acks:
    """What became of a request."""

    def __init__(self) -> None:
        self.times = 0
        self.results: list[tuple[ErrorCode, int]] = []

    def on_done(self, results: Sequence[ProduceResult]) -> None:
        self.times += 1
        self.results = [(result.error, result.base_offset) for result in results]
