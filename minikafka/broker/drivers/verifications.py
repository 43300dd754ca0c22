"""Verifies records that followers could not append, and samples of consumers' reads: bytes may have gone bad here.

Off the loop, one read at a time for the whole node, so that consumers do not wait for it. A second request for the same
log is dropped while the first is waiting or under way: the follower will fetch again, and the machine ask again. A
sample is dropped while any verification is under way, and for :data:`SAMPLES_APART_S` after another sample.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from minikafka.broker.partition import Partition
from minikafka.broker.threads import RunInThread
from minikafka.errors import ErrorCode, KafkaError
from minikafka.event_log import get_logger
from minikafka.model import NO_NODE
from minikafka.net.tasks import TaskOwner
from minikafka.replication.replica_effects import Verify

log = get_logger()


SAMPLES_APART_S: Final = 0.1


class Verifications:
    """Calls ``on_done`` after each verification; it looks for damage."""

    def __init__(self, tasks: TaskOwner, read: RunInThread) -> None:
        self._tasks = tasks
        self._read = read
        self._under_way: set[Partition] = set()
        self._place = asyncio.Lock()
        self._no_sample_before_s = 0.0
        self.on_done: Callable[[Partition], None] = lambda _partition: None

    def request(self, partition: Partition, wanted: Verify) -> None:
        """Verify the records of ``wanted``, soon."""
        if wanted.replica_id == NO_NODE and not self._may_sample():
            return
        if partition not in self._under_way:
            self._under_way.add(partition)
            self._tasks.start(self._run(partition, wanted), f"verification-{partition.topic_partition}")

    def _may_sample(self) -> bool:
        now_s = asyncio.get_running_loop().time()
        if self._under_way or now_s < self._no_sample_before_s:
            return False
        self._no_sample_before_s = now_s + SAMPLES_APART_S
        return True

    async def _run(self, partition: Partition, wanted: Verify) -> None:
        where = str(partition.topic_partition)
        try:
            async with self._place:
                await self._verify(partition, wanted)
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_NOT_AVAILABLE:  # the log was cut meanwhile
                log.info("verification failed", partition=where, offset=wanted.offset, why=error.message)
        else:
            if wanted.replica_id != NO_NODE:
                log.warning(
                    "a follower cannot append what is whole here; look at its log, its memory and the network",
                    partition=where,
                    offset=wanted.offset,
                    follower=wanted.replica_id,
                )
        finally:
            self._under_way.discard(partition)
        self.on_done(partition)

    async def _verify(self, partition: Partition, wanted: Verify) -> None:
        """Verify; KafkaError for damage."""
        job = partition.log.prepare_verification(wanted.offset, wanted.size_in_bytes)
        if job is not None:
            await self._read(job.run)
            partition.log.complete_read(job)
