"""The scene "deleted records": logs begin later and later (DeleteRecords), also inside a batch.

Producers linger, so that batches have several records. What is asked to be deleted may be gone from then on, whether an
answer comes or not. What must hold is what holds of any cluster: nothing else is lost, and every replica gets in sync
again, one that begins anew inside a batch, too.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Final

from sim_cluster import SimulatedCluster
from sim_invariants import InvariantViolatedError
from sim_workload import BACKOFF_S, Workload

from minikafka.client import Admin
from minikafka.errors import KafkaError
from minikafka.model import LATEST

MEAN_PAUSE_S: Final = 1.5
LINGER_MS: Final = 400
NODE_SETTINGS: Final[dict[str, object]] = {"log.retention.check.interval.ms": 1000}
"""Files that are out of use go soon: a run is over before nodes look for the first time by default."""
BOTH_POLICIES: Final = {"cleanup.policy": "compact,delete"}
"""Of topics that are compacted, too: records of others are not deleted."""


class Deletions:
    """What was asked to be deleted."""

    def __init__(self, cluster: SimulatedCluster, workload: Workload) -> None:
        self._cluster = cluster
        self._workload = workload
        self._rng = workload.rng()
        self._asked: dict[str, int] = defaultdict(int)

    async def run(self) -> None:
        """Delete some of a partition, again and again, until cancelled."""
        while True:
            await asyncio.sleep(self._rng.expovariate(1 / MEAN_PAUSE_S))
            try:
                await self.delete_some()
            except KafkaError:
                await asyncio.sleep(BACKOFF_S)

    async def delete_some(self) -> None:
        """Once; KafkaError when it was not done, or nobody knows."""
        tp = self._rng.choice(self._workload.partitions)
        async with Admin(self._cluster.bootstrap_servers, client_id="deleter", rng=self._workload.rng()) as admin:
            end = (await admin.list_offsets({tp: LATEST}))[tp].offset
            offset = self._rng.randint(min(self._asked[str(tp)], end), end)
            self._asked[str(tp)] = max(self._asked[str(tp)], offset)
            self._workload.history.append("deleter", "ok", "log_start", [(str(tp), offset)])
            self._cluster.say("deleter", f"{tp} up to {offset}")
            low_watermark = (await admin.delete_records({tp: offset}))[tp]
        if low_watermark < offset:
            raise InvariantViolatedError(f"{tp}: deleted up to {offset}, and begins at {low_watermark}")

    def is_asked(self, partition: str, offset: int) -> bool:
        """True for a record that may be gone."""
        return offset < self._asked[partition]
