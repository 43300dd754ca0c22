"""Logs that are here although metadata does not place them here, and those that do not say of which topic they are.

A topic is deleted, or a replica moved away, while the node is down: its log is a *stray*. So may be a log after a
mistake (a wrong ``log.dirs``, a cluster made anew), and a deleted log cannot be had back. So a stray is renamed to
``topic-partition.<32 hex digits>-stray``, as Apache Kafka does, and removed ``log.stray.retention.ms`` later. The time
is counted from the start of the process: neither a jump of the clock nor a restart makes it shorter.

A log whose ``partition.metadata`` cannot be read, or names the topic's id but for a few bits, is not a stray: it is
damaged from its first offset on. The registration did not name it as whole, so it is in no ISR. Metadata that places
the partition here gives it its topic id back; then it is fetched again from the leader, or leads with what is left when
nobody else has anything (docs/decisions/0008).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

import structlog

from minikafka.metadata.image import MetadataImage
from minikafka.model import CLUSTER_METADATA_TOPIC, ZERO_TOPIC_ID, TopicPartition
from minikafka.net.tasks import TaskOwner
from minikafka.storage.log import Log
from minikafka.storage.log_store import LogStore

log = structlog.get_logger(__name__)


class Strays:
    """What of the logs that a start found is used, set aside, and removed in the end."""

    def __init__(self, node_id: int, store: LogStore, retention_ms: int, tasks: TaskOwner) -> None:
        self._node_id = node_id
        self._store = store
        self._retention_ms = retention_ms
        self._tasks = tasks

    def begin(self, image: MetadataImage) -> None:
        """Before replicas take up the roles that ``image`` gives them."""
        for where, why in self._store.unusable().items():
            self._set_aside(where, f"it cannot be opened: {why}")
        for log_ in list(self._store):
            if log_.topic_partition.topic != CLUSTER_METADATA_TOPIC:
                self._look_at(log_, image)
        for where in self._store.missing():
            if self._is_replica(where, image):
                log.error("log missing", partition=str(where), effect="it is made anew and fetched again")
        paths = self._store.strays()
        if paths:
            log.warning("strays are kept", paths=paths, removed_after_ms=self._retention_ms)
            self._tasks.start(self._remove(paths), "strays")

    def _look_at(self, log_: Log, image: MetadataImage) -> None:
        where, damage = log_.topic_partition, log_.corruption
        if damage is not None:
            log.error("log damaged", partition=str(where), offset=damage.offset, why=str(damage))
        if not self._is_placed(log_, image):
            self._set_aside(where, "metadata does not place it here")

    def _is_replica(self, where: TopicPartition, image: MetadataImage) -> bool:
        state = image.partition(where)
        return state is not None and self._node_id in state.replicas

    def _is_placed(self, log_: Log, image: MetadataImage) -> bool:
        where = log_.topic_partition
        topic, state = image.topic(where.topic), image.partition(where)
        if topic is None or state is None or self._node_id not in state.replicas:
            return False
        if log_.topic_id == topic.topic_id:
            return True
        if log_.topic_id != ZERO_TOPIC_ID and not _is_garbled(log_.topic_id, topic.topic_id):
            return False
        if log_.latest_epoch > state.leader_epoch:
            return False  # of a topic that had the name before
        self._store.identify(where, topic.topic_id)
        log.error("log identified by metadata", partition=str(where), topic_id=str(topic.topic_id))
        return True

    def _set_aside(self, where: TopicPartition, why: str) -> None:
        for path in self._store.set_aside(where):
            log.warning("log set aside", partition=str(where), why=why, path=path)

    async def _remove(self, paths: Sequence[str]) -> None:
        await asyncio.sleep(self._retention_ms / 1000)
        for path in paths:
            log.info("stray removed", path=path)
            self._store.discard_stray(path)


def _is_garbled(found: UUID, expected: UUID) -> bool:
    """Ids are random: two that differ in one byte at most are one, damaged."""
    return (found.int ^ expected.int).bit_count() <= 8
