"""Reads again what followers could not append, and samples of what consumers read: bytes may have gone bad here.

Off the loop, and one read at a time for the whole node, so that consumers do not wait for it. What a log is asked for
while it waits or is read is left out: the follower repeats its fetch, and the machine asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from minikafka.broker.partition import Partition
from minikafka.broker.threads import RunInThread
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_NODE
from minikafka.net.tasks import TaskOwner
from minikafka.replication.replica_effects import Verify

log = structlog.get_logger(__name__)


class Verifications:
    """``on_done`` follows each; whether the log is damaged is found there."""

    def __init__(self, tasks: TaskOwner, read: RunInThread) -> None:
        self._tasks = tasks
        self._read = read
        self._under_way: set[Partition] = set()
        self._place = asyncio.Lock()
        self.on_done: Callable[[], None] = lambda: None

    def request(self, partition: Partition, wanted: Verify) -> None:
        """Verify what was sent, soon."""
        if partition not in self._under_way:
            self._under_way.add(partition)
            self._tasks.start(self._run(partition, wanted), f"verification-{partition.topic_partition}")

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
        self.on_done()

    async def _verify(self, partition: Partition, wanted: Verify) -> None:
        """KafkaError when it is damaged."""
        job = partition.log.prepare_verification(wanted.offset, wanted.size_in_bytes)
        if job is not None:
            await self._read(job.run)
            partition.log.complete_read(job)
