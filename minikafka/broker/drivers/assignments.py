"""Reports the log directory of each local replica to the controller, until it has acknowledged (KIP-858)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Final, NamedTuple
from uuid import UUID

from minikafka.broker.backoff import Backoff
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.logs import one_line
from minikafka.errors import KafkaError
from minikafka.event_log import get_logger
from minikafka.model import TopicPartition
from minikafka.net.channel import ChannelClosedError
from minikafka.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)

log = get_logger()

CALL_TIMEOUT_S: Final = 5.0
BATCH_SIZE: Final = 1000


class _Report(NamedTuple):
    tp: TopicPartition
    topic_id: UUID
    directory: UUID


class DirectoryAssignments:
    """At most one call is under way. The latest report of a replica is sent until the controller acknowledges it."""

    def __init__(
        self, node_id: int, controller: ControllerClient, broker_epoch: Callable[[], int], rng: random.Random
    ) -> None:
        self._node_id = node_id
        self._controller = controller
        self._broker_epoch = broker_epoch
        self._pending: dict[TopicPartition, _Report] = {}
        self._wake = asyncio.Event()
        self._backoff = Backoff(rng, first_ms=20, last_ms=1000)

    def report(self, tp: TopicPartition, topic_id: UUID, directory: UUID) -> None:
        """A replica of this node is in that directory."""
        self._pending[tp] = _Report(tp, topic_id, directory)
        self._wake.set()

    def forget(self, tp: TopicPartition) -> None:
        """The replica left this node."""
        self._pending.pop(tp, None)

    async def run(self) -> None:
        """Send reports, for ever."""
        self._wake.set()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._pending:
                if not await self._send(list(self._pending.values())[:BATCH_SIZE]):
                    await asyncio.sleep(self._backoff.next_s())

    async def _send(self, reports: list[_Report]) -> bool:
        request = AssignReplicasToDirsRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            directories=[
                DirectoryData(id=directory, topics=_topics(some))
                for directory, some in groupby(reports, lambda report: report.directory)
            ],
        )
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                answer = await self._controller.call_once(request, AssignReplicasToDirsResponse)
        except (KafkaError, OSError, TimeoutError, ChannelClosedError) as error:
            log.debug("directories not reported", why=one_line(error))
            return False
        self._backoff.reset()
        results = (result for one in answer.directories for topic in one.topics for result in topic.partitions)
        for report, result in zip(reports, results, strict=True):
            if result.error_code:  # deleted, or moved away: metadata will tell
                log.info("directory report refused", partition=str(report.tp), why=result.error_message)
            if self._pending.get(report.tp) is report:
                del self._pending[report.tp]
        return True


def _topics(reports: Iterable[_Report]) -> list[TopicData]:
    return [
        TopicData(topic_id=topic_id, partitions=[PartitionData(partition_index=one.tp.partition) for one in some])
        for topic_id, some in groupby(reports, lambda report: report.topic_id)
    ]
