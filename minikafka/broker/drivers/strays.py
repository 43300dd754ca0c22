"""Logs that metadata does not place here, and logs with an unreadable topic id.

A log is a *stray* if its topic was deleted, or its replica moved away, while the node was down. But it may also be one
after a mistake (a wrong ``log.dirs``, a new cluster), and a deleted log cannot be restored. So a stray is renamed to
``topic-partition.<32 hex digits>-stray``, as in Apache Kafka, and removed ``log.stray.retention.ms`` later. The time
counts from the start of the process: neither a jump of the clock nor a restart makes it shorter.

A log whose ``partition.metadata`` is unreadable, or has the topic's id with a few wrong bits, is not a stray: it is
damaged from its first offset on. The registration did not name it as whole, so it is in no ISR. If metadata places the
partition here, the log gets its topic id back. Then it is fetched again from the leader, or leads with its remaining
records if no other replica has any (docs/decisions/0008).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from uuid import UUID

from minikafka.event_log import get_logger
from minikafka.metadata.image import MetadataImage
from minikafka.model import CLUSTER_METADATA_TOPIC, ZERO_TOPIC_ID, TopicPartition
from minikafka.net.tasks import TaskOwner
from minikafka.storage.log import Log
from minikafka.storage.log_store import LogStore

log = get_logger()


class Strays:
    """Decides about the logs that a start found: used, set aside, or removed."""

    def __init__(self, node_id: int, store: LogStore, retention_ms: int, tasks: TaskOwner) -> None:
        self._node_id = node_id
        self._store = store
        self._retention_ms = retention_ms
        self._tasks = tasks

    def begin(self, image: MetadataImage) -> None:
        """Check all logs, before replicas take their roles from ``image``."""
        for tp, why in self._store.unusable().items():
            self._say(tp, f"it cannot be opened: {why}", self._store.set_unusable_aside(tp))
        by_name: dict[TopicPartition, list[Log]] = {}
        for log_ in self._store:
            if log_.topic_partition.topic != CLUSTER_METADATA_TOPIC:
                by_name.setdefault(log_.topic_partition, []).append(log_)
        for logs in by_name.values():
            self._look_at(logs, image)
        for tp in self._store.missing():
            if tp.topic != CLUSTER_METADATA_TOPIC and not self._has_place(tp, image):
                self._store.forget_missing(tp)  # deleted, and the process ended before it was checkpointed again
        paths = self._store.strays()
        if paths:
            log.warning("strays are kept", paths=paths, removed_after_ms=self._retention_ms)
            self._tasks.start(self._remove(paths), "strays")

    def _look_at(self, logs: Sequence[Log], image: MetadataImage) -> None:
        """Check the logs of one name: several, if a directory was away while a replica was created again."""
        for log_ in logs:
            if (damage := log_.corruption) is not None:
                partition = str(log_.topic_partition)
                log.error("log damaged", partition=partition, offset=damage.offset, why=str(damage))
        placed = [log_ for log_ in logs if self._is_placed(log_, image)]
        kept = max(placed, default=None, key=lambda one: (_is_named(one, image), one.latest_epoch, one.log_end_offset))
        for log_ in logs:
            if log_ is not kept:
                why = "metadata does not place it here"
                if kept and log_ in placed:
                    why = f"the log in {kept.directory} ends later"
                self._say(log_.topic_partition, why, self._store.set_aside(log_))
        if kept is not None and not _is_named(kept, image):
            self._identify(kept, image)

    def _is_placed(self, log_: Log, image: MetadataImage) -> bool:
        tp = log_.topic_partition
        topic, state = image.topic(tp.topic), image.partition(tp)
        if topic is None or state is None or not self._has_place(tp, image):
            return False
        if log_.topic_id == topic.topic_id:
            return True
        if log_.topic_id != ZERO_TOPIC_ID and not _is_garbled(log_.topic_id, topic.topic_id):
            return False
        epochs = [entry.epoch for entry in log_.epoch_entries]
        # Otherwise it is of a topic that had the name before, or of another cluster's.
        return all(state.first_leader_epoch <= epoch <= state.leader_epoch for epoch in epochs)

    def _has_place(self, tp: TopicPartition, image: MetadataImage) -> bool:
        state = image.partition(tp)
        return state is not None and self._node_id in state.replicas

    def _identify(self, log_: Log, image: MetadataImage) -> None:
        tp = log_.topic_partition
        topic = image.topic(tp.topic)
        assert topic is not None
        self._store.identify(tp, topic.topic_id)
        log.error("log identified by metadata", partition=str(tp), topic_id=str(topic.topic_id))

    def _say(self, tp: TopicPartition, why: str, paths: Iterable[str]) -> None:
        for path in paths:
            log.warning("log set aside", partition=str(tp), why=why, path=path)

    async def _remove(self, paths: Sequence[str]) -> None:
        await asyncio.sleep(self._retention_ms / 1000)
        for path in paths:
            log.info("stray removed", path=path)
            self._store.discard_stray(path)


def _is_named(log_: Log, image: MetadataImage) -> bool:
    topic = image.topic(log_.topic_partition.topic)
    return topic is not None and log_.topic_id == topic.topic_id


def _is_garbled(found: UUID, expected: UUID) -> bool:
    """Ids are random: two that differ in at most one byte are the same id, damaged."""
    return (found.int ^ expected.int).bit_count() <= 8
