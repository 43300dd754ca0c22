"""The synchronous client of Spark's driver and workers.

``cluster_of(settings)`` returns the :class:`Cluster` of this process for these settings. A cluster connects at the
first call, keeps its connections for the next task of a worker, and disconnects at the end of the process. All
clusters of a process share one event loop in a thread of its own. The loop goes on fetching while the caller decodes.
Any number of threads may use a cluster. One thread at a time uses an iterator of ``read_batches`` or a writer.

A forked process starts with new clusters and leaves those of its parent alone. PySpark forks its workers from a daemon.

Every call has a time-out and raises :class:`~minikafka.errors.KafkaError`: one line with the request and the servers.
A read or a write survives the death of a leader and goes on at the new one. A new leader that lacks records is an
error.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from minikafka.client import Admin, Consumer, FetchedBatches, LogTruncatedError
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import LATEST, NO_EPOCH, NO_OFFSET, Isolation, OffsetAndEpoch, TopicPartition
from minikafka.spark.clients import admin_of, consumer_of, producer_of
from minikafka.spark.gaps import holds_none
from minikafka.spark.loop import LoopThread
from minikafka.spark.options import ClientSettings
from minikafka.spark.pool import Pool
from minikafka.spark.topics import TopicReplacedError, find_replaced, partitions_of, topic_ids_of, unless_deleted
from minikafka.spark.writer import BatchWriter

__all__ = ["BatchWriter", "ClientSettings", "Cluster", "TopicReplacedError", "cluster_of"]

T = TypeVar("T")

CLUSTERS_MAX: Final = 16  # of one process; the least recently used one is disconnected
CONNECT_TIMEOUT_MS: Final = 10_000
POLL_TIMEOUT_MS: Final = 120_000
CLOSE_TIMEOUT_S: Final = 2.0
MARGIN_MS: Final = 5_000  # the client's own time-outs come first
LOOK_AFTER_MS: Final = 1_000  # without records: do the topic and the records still exist?
LOOK_TIMEOUT_MS: Final = 3_000
MAX_MESSAGE_BYTES: Final = "max.message.bytes"


class Cluster:
    """The clients of this process for one cluster; made by :func:`cluster_of`."""

    def __init__(self, settings: ClientSettings, loop: LoopThread) -> None:
        self.settings = settings
        self._loop = loop
        connect_timeout_s = min(CONNECT_TIMEOUT_MS, settings.max_block_ms) / 1000
        servers = settings.bootstrap_servers
        self._admins = Pool(partial(admin_of, settings), connect_timeout_s, servers=servers)
        self._consumers = Pool(partial(consumer_of, settings), connect_timeout_s, servers=servers)
        self._producers = Pool(partial(producer_of, settings), connect_timeout_s, servers=servers)
        self._topics_read: WeakKeyDictionary[Consumer, dict[str, str]] = WeakKeyDictionary()  # ids by name

    async def disconnect_idle(self) -> None:
        """Close the idle clients, on the loop. The cluster stays usable."""
        for pool in (self._admins, self._consumers, self._producers):
            await pool.close_idle()

    async def disconnect(self) -> None:
        """Close all clients, on the loop."""
        for pool in (self._admins, self._consumers, self._producers):
            await pool.close()

    # -- topics -----------------------------------------------------------------------------------------------------

    def topics(self) -> list[str]:
        """The names of all topics, in order, without internal ones."""

        async def ask(admin: Admin) -> list[str]:
            return [topic.name for topic in await admin.list_topics()]

        return self._ask(ask, "listing topics")

    def cluster_id(self) -> str:
        """The cluster's id."""

        async def ask(admin: Admin) -> str:
            return (await admin.describe_cluster()).cluster_id or ""

        return self._ask(ask, "asking for the cluster's id")

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """The partitions of these topics, in order. Raises UNKNOWN_TOPIC_OR_PARTITION for a missing topic."""
        wanted = sorted(set(topics))

        async def ask(admin: Admin) -> list[TopicPartition]:
            return await partitions_of(admin, wanted)

        return self._ask(ask, f"describing {', '.join(wanted)}")

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """The ids of these topics, without the missing ones. A topic that is deleted and created again has a new id.

        An id is empty if the cluster is too old for topic ids, or cannot tell it now.
        """
        wanted = sorted(set(topics))
        return self._ask(partial(topic_ids_of, topics=wanted), f"describing {', '.join(wanted)}") if wanted else {}

    def replaced(self, topic_ids: Mapping[str, str], *, timeout_ms: int | None = None) -> dict[str, str]:
        """The topics whose id changed, with their new ids; an empty id for a deleted topic.

        Brokers learn of a change one after the other. Only a change that persists for a second counts.
        """

        ask = partial(find_replaced, topic_ids=topic_ids)
        return self._ask(ask, f"describing {', '.join(sorted(topic_ids))}", timeout_ms) if topic_ids else {}

    def max_message_bytes(self, topic: str) -> int | None:
        """The topic's ``max.message.bytes``: of a compressed batch. None if the cluster does not tell."""

        async def ask(admin: Admin) -> int | None:
            values = {entry.name: entry.value for entry in await admin.describe_configs(topic)}
            found = values.get(MAX_MESSAGE_BYTES)
            return None if found is None else int(found)

        try:
            return self._ask(ask, f"describing the settings of {topic}")
        except KafkaError as error:
            if error.code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
                return None
            raise

    # -- offsets ----------------------------------------------------------------------------------------------------

    def offsets(self, partitions: Iterable[TopicPartition], at: int) -> dict[TopicPartition, OffsetAndEpoch]:
        """The first offset (``at`` EARLIEST) or the end offset (LATEST) of each partition, with its leader epoch."""
        return self._offsets(dict.fromkeys(partitions, at))

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The end offsets of the logs; those of :meth:`offsets` are before the first open transaction, if there is one
        and only committed records are read."""
        found = self._offsets(dict.fromkeys(partitions, LATEST), Isolation.READ_UNCOMMITTED)
        return {tp: end.offset for tp, end in found.items()}

    def offsets_for_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndEpoch]:
        """The first record at or after each time (ms), with its epoch. Partitions without one are left out."""
        found = self._offsets(times_ms)
        return {tp: offset for tp, offset in found.items() if offset.offset != NO_OFFSET}

    def truncated(self, ends: Mapping[TopicPartition, OffsetAndEpoch]) -> dict[TopicPartition, OffsetAndEpoch]:
        """The partitions whose logs were truncated below these ends, and the ends of the common part (KIP-320).

        After an unclean election new records may have the offsets of lost ones, so that only epochs show the loss. An
        end without an epoch (-1) is not checked.
        """
        epochs = {tp: end.epoch for tp, end in ends.items() if end.epoch != NO_EPOCH}

        async def ask(admin: Admin) -> dict[TopicPartition, OffsetAndEpoch]:
            return await unless_deleted(admin, epochs, admin.epoch_ends)

        found = self._ask(ask, f"comparing the logs of {_named(epochs)}") if epochs else {}
        return {tp: end for tp, end in found.items() if end.offset < ends[tp].offset}

    def _offsets(
        self, timestamps: Mapping[TopicPartition, int], isolation: Isolation | None = None
    ) -> dict[TopicPartition, OffsetAndEpoch]:
        isolation = self.settings.isolation_level if isolation is None else isolation

        async def ask(admin: Admin) -> dict[TopicPartition, OffsetAndEpoch]:
            list_offsets = partial(admin.list_offsets, isolation=isolation)
            return await unless_deleted(admin, timestamps, list_offsets)

        return self._ask(ask, f"looking up offsets of {_named(timestamps)}") if timestamps else {}

    # -- records ----------------------------------------------------------------------------------------------------

    def read_batches(
        self,
        tp: TopicPartition,
        start: OffsetAndEpoch | int,
        end: OffsetAndEpoch | int,
        *,
        topic_id: str = "",
        timeout_ms: int = POLL_TIMEOUT_MS,
    ) -> Iterator[FetchedBatches]:
        """The batches with the records from ``start`` to before ``end``. At most four fetches are held ahead.

        ``end_offset`` of an item is at most ``end``. Only the last batch of an item may reach beyond ``end``. Batches
        without a wanted record are left out.

        An epoch is that of the record before the offset, or the leader's at the end of the log. With epochs, the log
        is first compared with them. With a ``topic_id``, a reader that ends without TopicReplacedError has read that
        topic only; the error may come at the very end.

        Raises LogTruncatedError for a log that has lost records, before or while they are read; NoOffsetError when
        ``start`` is no longer in the log; REQUEST_TIMED_OUT after ``timeout_ms`` without a record.
        """
        first, last = _with_epoch(start), _with_epoch(end)
        if first.offset >= last.offset:
            return
        doing = f"reading {tp} from {first.offset} to {last.offset}"
        self._check_topic(tp.topic, topic_id)
        for agreed in self.truncated({tp: last}).values():
            raise LogTruncatedError(tp, last.offset, agreed)
        consumer = self._call(self._consumer_of(tp.topic, topic_id), CONNECT_TIMEOUT_MS, doing)
        may_be_used_again = False
        try:
            self._call(_begin(consumer, tp, first, last), self.settings.max_block_ms, doing)
            yield from self._until(consumer, tp, first.offset, last.offset, topic_id, timeout_ms, doing)
            may_be_used_again = True
        except GeneratorExit:
            may_be_used_again = True
            raise
        finally:
            self._loop.post(_end(consumer, self._consumers, may_be_used_again))
        self._check_topic(tp.topic, topic_id, may_be_deleted=True)  # ids never come back: all reads had this id

    def writer(self) -> BatchWriter:
        """A writer for one task. Use it in a ``with``, which flushes at its end."""
        settings = self.settings
        timeout_ms = settings.delivery_timeout_ms + settings.max_block_ms + CONNECT_TIMEOUT_MS + MARGIN_MS
        return BatchWriter(self._producers, self._loop, settings.bootstrap_servers, timeout_s=timeout_ms / 1000)

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _consumer_of(self, topic: str, topic_id: str) -> Consumer:
        """A consumer that has not read another topic of this name: it would go on asking the leaders of that one."""
        while True:
            consumer = await self._consumers.borrow()
            read = self._topics_read.setdefault(consumer, {})
            if not topic_id or read.setdefault(topic, topic_id) == topic_id:
                return consumer
            self._consumers.forget(consumer)
            await consumer.close()

    def _until(
        self,
        consumer: Consumer,
        tp: TopicPartition,
        offset: int,
        end: int,
        topic_id: str,
        timeout_ms: int,
        doing: str,
    ) -> Iterator[FetchedBatches]:
        waited_ms = 0
        while offset < end:
            patience_ms = min(LOOK_AFTER_MS, timeout_ms - waited_ms)
            polled = self._call(consumer.poll_batches(patience_ms), patience_ms, doing)
            if polled:
                waited_ms = 0
            elif self._is_vain(tp, offset, end, topic_id):
                return
            elif (waited_ms := waited_ms + patience_ms) >= timeout_ms:
                message = f"{doing}: no record from offset {offset} on arrived within {timeout_ms / 1000:g} s"
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, message)
            for fetched in polled:
                wanted = tuple(item for item in fetched.batches if item[1].base_offset < end)
                offset = min(fetched.end_offset, end)
                if wanted:
                    yield fetched._replace(batches=wanted, end_offset=offset)

    def _is_vain(self, tp: TopicPartition, offset: int, end: int, topic_id: str) -> bool:
        """True when no record will come. Raises TopicReplacedError; after any other error waiting goes on."""
        try:
            self._check_topic(tp.topic, topic_id, timeout_ms=LOOK_TIMEOUT_MS)
            doing = f"looking for records of {tp}"
            return self._call(holds_none(self.settings, tp, offset, end), LOOK_TIMEOUT_MS, doing)
        except TopicReplacedError:
            raise
        except KafkaError:
            return False

    def _check_topic(
        self, topic: str, topic_id: str, *, may_be_deleted: bool = False, timeout_ms: int | None = None
    ) -> None:
        """Raise TopicReplacedError for a topic with another id. An empty ``topic_id`` is not checked."""
        for found_id in self.replaced({topic: topic_id}, timeout_ms=timeout_ms).values() if topic_id else ():
            if found_id or not may_be_deleted:
                raise TopicReplacedError(topic, topic_id, found_id)

    def _ask(self, question: Callable[[Admin], Awaitable[T]], doing: str, timeout_ms: int | None = None) -> T:
        async def ask() -> T:
            async with self._admins.borrowed() as admin:
                return await question(admin)

        longest_ms = self.settings.max_block_ms + CONNECT_TIMEOUT_MS
        return self._call(ask(), longest_ms if timeout_ms is None else timeout_ms, doing)

    def _call(self, coroutine: Coroutine[Any, Any, T], timeout_ms: int, doing: str) -> T:
        doing = f"{doing} at {self.settings.bootstrap_servers}"
        return self._loop.call(coroutine, timeout_s=(timeout_ms + MARGIN_MS) / 1000, doing=doing)


# -- on the loop ------------------------------------------------------------------------------------------------------


async def _begin(consumer: Consumer, tp: TopicPartition, start: OffsetAndEpoch, end: OffsetAndEpoch) -> None:
    consumer.assign([tp])
    consumer.seek(tp, start, until=end.offset)


async def _end(consumer: Consumer, consumers: Pool[Consumer], may_be_used_again: bool) -> None:
    if may_be_used_again:
        consumer.assign([])
        await consumers.give_back(consumer)
    else:
        consumers.forget(consumer)
        await consumer.close()


def _with_epoch(offset: OffsetAndEpoch | int) -> OffsetAndEpoch:
    return OffsetAndEpoch(offset, NO_EPOCH) if isinstance(offset, int) else offset


def _named(partitions: Iterable[TopicPartition]) -> str:
    names = sorted(map(str, partitions))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


# -- one for a process ------------------------------------------------------------------------------------------------


class _Process:
    """The clusters of this process, by settings, and their common loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: LoopThread | None = None
        self._clusters: dict[ClientSettings, Cluster] = {}  # the most recently used one is last

    def cluster_of(self, settings: ClientSettings) -> Cluster:
        with self._lock:
            if self._loop is None:
                self._loop = LoopThread("minikafka-spark")
            cluster = self._clusters.pop(settings, None) or Cluster(settings, self._loop)
            self._clusters[settings] = cluster
            if len(self._clusters) > CLUSTERS_MAX:
                forgotten = self._clusters.pop(next(iter(self._clusters)))
                self._loop.post(forgotten.disconnect_idle())
            return cluster

    def close(self) -> None:
        with self._lock:
            clusters, self._clusters = self._clusters, {}
            loop, self._loop = self._loop, None
        if loop is None:
            return
        try:
            for cluster in clusters.values():
                loop.call(cluster.disconnect(), timeout_s=CLOSE_TIMEOUT_S, doing="disconnecting")
        except KafkaError:
            pass  # this process ends, and its connections with it
        finally:
            loop.close()


_process = _Process()
_of_parents: list[_Process] = []  # kept alive: closing a parent's loop in the child would disturb the parent


def cluster_of(settings: ClientSettings) -> Cluster:
    """The cluster of this process for these settings. It connects at its first use."""
    return _process.cluster_of(settings)


def _start_anew() -> None:
    global _process
    _of_parents.append(_process)
    _process = _Process()


os.register_at_fork(after_in_child=_start_anew)
atexit.register(lambda: _process.close())
