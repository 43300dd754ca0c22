"""The scene "committed offsets": a group stores offsets, and reads back what was acknowledged, whoever coordinates it.

One client commits a higher offset each time, for one partition after the other. What it may find: the last offset that
was acknowledged, or one of later attempts whose outcome nobody knows. (An attempt of which the client heard nothing may
arrive late, after the next one: such offsets stay possible.) The group has no members, so its offsets expire by their
age: whatever clocks say, they are not that old (docs/decisions/0009).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from sim_cluster import SimulatedCluster
from sim_invariants import InvariantViolatedError
from sim_workload import BACKOFF_S, Workload, patiently

from minikafka.client import Consumer
from minikafka.errors import KafkaError
from minikafka.model import TopicPartition

GROUP: Final = "bookmarks"
PAUSE_S: Final = 0.2
NODE_SETTINGS: Final[dict[str, object]] = {
    "offsets.retention.minutes": 60,
    "offsets.retention.check.interval.ms": 200,
    "log.retention.ms": 3_600_000,
    "log.retention.check.interval.ms": 1000,
    "log.message.timestamp.type": "LogAppendTime",
}
"""Clocks jump by a day, and no run takes an hour. Records expire by what the clock of their leader was, too."""


class Bookmarks:
    """What was committed, and what may be found."""

    def __init__(self, cluster: SimulatedCluster, workload: Workload) -> None:
        self._cluster = cluster
        self._workload = workload
        self._acknowledged: dict[TopicPartition, int] = {}
        self._in_doubt: dict[TopicPartition, set[int]] = {}
        self._next = 0
        self._wrong = ""

    async def run(self) -> None:
        """Commit and look, until cancelled."""
        while True:
            try:
                async with self._consumer() as consumer:
                    for _ in range(20):
                        tp = self._workload.partitions[self._next % len(self._workload.partitions)]
                        self._check(tp, await consumer.committed(tp))  # it was there for a while
                        await self._commit(consumer, tp)
                        self._check(tp, await consumer.committed(tp))
                        await asyncio.sleep(PAUSE_S)
            except KafkaError:
                await asyncio.sleep(BACKOFF_S)

    async def look(self) -> None:
        """All of it, in the end."""
        await patiently(self._look, self._workload.partitions)

    async def _look(self, partitions: Sequence[TopicPartition]) -> None:
        async with self._consumer() as consumer:
            for tp in partitions:
                self._check(tp, await consumer.committed(tp))

    async def _commit(self, consumer: Consumer, tp: TopicPartition) -> None:
        self._next += 1
        offset = self._next
        doubts = self._in_doubt.setdefault(tp, set())
        doubts.add(offset)
        await consumer.commit({tp: offset})
        doubts.discard(offset)
        self._acknowledged[tp] = offset

    def check(self) -> None:
        """InvariantViolatedError when something else was found, or nothing was committed."""
        if self._wrong or not self._acknowledged:
            raise InvariantViolatedError(self._wrong or "no offset was committed")

    def _check(self, tp: TopicPartition, found: int | None) -> None:
        expected = self._acknowledged.get(tp)
        if found != expected and found not in self._in_doubt.get(tp, ()):
            self._wrong = self._wrong or f"{tp}: offset {expected} was committed, and {found} is found"

    def _consumer(self) -> Consumer:
        return Consumer(self._cluster.bootstrap_servers, group_id=GROUP, client_id=GROUP, rng=self._workload.rng())
