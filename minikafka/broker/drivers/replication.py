"""Runs the follower's fetchers: one task and one connection per source broker and fetcher id (rows R3, R9, R12).

The machine decides. The driver sends its requests over the REPLICATION listener, which asks for the cluster secret, and
carries out its effects on the local logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple
from zlib import crc32

from minikafka.broker.clock import Clock
from minikafka.broker.drivers.leader_calls import LeaderCalls
from minikafka.broker.log_jobs import LogJobs
from minikafka.broker.partition import Partition
from minikafka.broker.quotas import ReplicationQuotas
from minikafka.broker.replicas import ROLLS_AT_ONCE, Replicas
from minikafka.broker.supervision import supervised
from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.event_log import get_logger
from minikafka.model import Endpoint, TopicPartition
from minikafka.net.channel import ChannelClosedError
from minikafka.net.identity import Identity
from minikafka.net.peer import PeerConnection
from minikafka.net.tasks import TaskOwner
from minikafka.replication import effects as do
from minikafka.replication.fetch_state import FollowedPartition
from minikafka.replication.fetcher import FetcherSettings, ReplicaFetcher
from minikafka.replication.local_replica import Effects, LocalReplica
from minikafka.storage.errors import EndsMayBeGone, EpochsFall, PassingFailure, StartsInsideBatch
from minikafka.storage.log import IllegalLogState, StorageFailure
from minikafka.wire.errors import WireError
from minikafka.wire.messages.fetch import FetchResponse
from minikafka.wire.messages.list_offsets import ListOffsetsResponse
from minikafka.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse

log = get_logger()

IDLE_SHUTDOWN_S: Final = 5.0
THROTTLED_PAUSE_MS: Final = 100
NEVER_MS: Final = 1 << 62
APPENDED_AT_ONCE: Final = 256 * 1024
"""Bytes of an answer: 8 ms if each record has a batch. An answer may have 10 MiB."""
ROLL_BYTES: Final = APPENDED_AT_ONCE // ROLLS_AT_ONCE
"""Of an append that begins a segment: partitions that were idle for ``segment.ms`` may all begin one at once."""


class FetcherKey(NamedTuple):
    """Key of a fetcher."""

    source_id: int
    fetcher_id: int


@dataclass(slots=True)
class FetcherParts:
    """What fetchers ask of their node."""

    config: BrokerConfig
    replicas: Replicas
    identity: Identity
    clock: Clock
    tasks: TaskOwner
    jobs: LogJobs
    quotas: ReplicationQuotas
    endpoint_of: Callable[[int], Endpoint | None]
    broker_epoch: Callable[[], int]
    on_connection_lost: Callable[[int], None]


class ReplicaFetchers:
    """All fetchers of this node. A partition is in one of them while this node follows its leader."""

    def __init__(self, parts: FetcherParts) -> None:
        self._parts = parts
        self._fetchers: dict[FetcherKey, _Fetcher] = {}
        self._key_of: dict[TopicPartition, FetcherKey] = {}

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its leader, in its leader epoch."""
        tp = partition.topic_partition
        key = self._key(tp, partition.leader_id)
        if self._key_of.get(tp, key) != key:
            self.unfollow([tp])
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = _Fetcher(key, self._parts, on_end=partial(self._fetchers.pop, key))
        self._key_of[tp] = key
        fetcher.add(partition)

    def unfollow(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching them. Answers that arrive for them later are dropped (row R10)."""
        for tp in partitions:
            key = self._key_of.pop(tp, None)
            fetcher = None if key is None else self._fetchers.get(key)
            if fetcher is not None:  # it ends when it has given up all its partitions
                fetcher.remove(tp)

    def on_cut(self, tp: TopicPartition) -> None:
        """A log was cut: its fetcher goes on with it."""
        key = self._key_of.get(tp)
        if key is not None:
            self._fetchers[key].on_cut(tp)

    def max_lag(self) -> int:
        """Most records below a leader's high watermark that a replica here lacks, as of the leaders' last answers."""
        return max((fetcher.max_lag() for fetcher in self._fetchers.values()), default=0)

    def _key(self, tp: TopicPartition, source_id: int) -> FetcherKey:
        fetcher_id = crc32(f"{tp}".encode()) % self._parts.config.num_replica_fetchers
        return FetcherKey(source_id, fetcher_id)


class _Fetcher:
    """One machine, its task and its connection."""

    def __init__(self, key: FetcherKey, parts: FetcherParts, on_end: Callable[[], object]) -> None:
        config = parts.config
        self._key = key
        self._parts = parts
        self._on_end = on_end
        self._replicas = parts.replicas
        self._clock = parts.clock
        self._now = parts.clock.monotonic_ms
        self._machine = ReplicaFetcher(
            key.source_id,
            config.node_id,
            broker_epoch=parts.broker_epoch(),
            settings=FetcherSettings(
                wait_max_ms=config.replica_fetch_wait_max_ms,
                min_bytes=config.replica_fetch_min_bytes,
                response_max_bytes=config.replica_fetch_response_max_bytes,
                max_bytes=config.replica_fetch_max_bytes,
                backoff_ms=config.replica_fetch_backoff_ms,
            ),
        )
        self._calls = LeaderCalls(self._dial, self._note_absence)
        self._wake = asyncio.Event()
        self._is_throttling = False  # some partitions are left out of fetches
        self._appended_bytes = 0  # in this turn of the loop
        self._unsynced: dict[TopicPartition, None] = {}  # to be looked at before the next fetch
        self._name = f"fetcher-{key.source_id}-{key.fetcher_id}"
        parts.tasks.start(self._fetch_while_needed(), self._name)

    def add(self, partition: Partition) -> None:
        self._machine.add_partitions(
            [
                FollowedPartition(
                    partition.topic_partition, partition.leader_epoch, partition.replica, partition.topic_id
                )
            ]
        )
        self._unsynced[partition.topic_partition] = None  # what another fetcher appended, or we did as its leader
        self._wake.set()
        self._calls.abandon_if_held()

    def remove(self, tp: TopicPartition) -> None:
        self._machine.remove_partitions([tp])
        self._wake.set()

    def max_lag(self) -> int:
        return max((state.lag for state in self._machine.states()), default=0)

    def on_cut(self, tp: TopicPartition) -> None:
        self._machine.on_cut(tp)
        self._wake.set()

    async def _fetch_while_needed(self) -> None:
        try:
            await supervised(self._fetch_until_idle, self._name)
        finally:
            self._on_end()
            self._calls.close()

    async def _fetch_until_idle(self) -> None:
        while True:
            if self._machine.is_idle:
                await self._linger()
                if self._machine.is_idle:
                    return
            if self._unsynced:
                await self._sync_unsynced()
            self._machine.broker_epoch = self._parts.broker_epoch()
            self._apply_quota()
            await self._carry_out(self._machine.next(self._now()))

    async def _linger(self) -> None:
        """Shut an idle fetcher down, after a pause in which partitions may come back (row R9)."""
        self._wake.clear()
        try:
            async with asyncio.timeout(IDLE_SHUTDOWN_S):
                await self._wake.wait()
        except TimeoutError:
            return

    def _apply_quota(self) -> None:
        """Leave lagging throttled partitions out of fetches while the quota is exceeded (row R7)."""
        quotas = self._parts.quotas
        if not quotas.as_follower.is_limited and not self._is_throttling:
            return
        left_out: list[TopicPartition] = []
        fetched: list[TopicPartition] = []
        for state in self._machine.states():
            partition = self._local(state.topic_partition)
            is_left_out = partition is not None and quotas.leaves_out(partition, state.lag)
            (left_out if is_left_out else fetched).append(state.topic_partition)
        self._is_throttling = bool(left_out)
        self._machine.throttle(left_out)
        self._machine.unthrottle(fetched)

    # -- effects ----------------------------------------------------------------------------------------------------

    async def _carry_out(self, effects: Iterable[do.Effect]) -> None:
        for effect in effects:
            match effect:
                case do.SendFetch() | do.SendOffsetsForLeaderEpoch() | do.SendListOffsets():
                    for consequence in await self._send(effect):
                        self._apply(consequence)
                        if self._appended_bytes >= APPENDED_AT_ONCE:
                            self._appended_bytes = 0
                            await asyncio.sleep(0)
                case do.Wait(until_ms):
                    await self._wait(until_ms)
                case _:
                    self._apply(effect)

    def _apply(self, effect: do.Effect) -> None:
        """Change logs without an ``await``: a partition could follow another leader after one (row R10)."""
        match effect:
            case do.Append():
                for consequence in self._append(effect):
                    self._apply(consequence)
            case do.FollowOffsets(tp, high_watermark, log_start_offset):
                if (partition := self._local(tp)) is not None:
                    self._follow_offsets(partition, high_watermark, log_start_offset)
            case do.TruncateTo(tp, offset):
                self._cut(tp, lambda replica: replica.truncate(offset, self._now()))
            case do.FetchAgain(tp, offset):
                self._cut(tp, lambda replica: replica.fetch_again(offset, self._now()))
            case do.RestartAt(tp, offset):
                self._cut(tp, lambda replica: replica.restart(offset, self._now()))
            case do.Delayed(tp, error, _):
                log.info("following is delayed", partition=str(tp), why=error.name, source=self._key.source_id)
            case do.Fenced(tp, epoch):
                log.info("a later leader exists", partition=str(tp), epoch=epoch)
            case do.MarkFailed(tp, reason):
                log.error("following failed", partition=str(tp), why=reason)
            case _:
                raise AssertionError(f"{effect} follows from an answer")

    def _append(self, effect: do.Append) -> list[do.Effect]:
        tp = effect.topic_partition
        partition = self._local(tp)
        if partition is None:  # not followed any more, or failed: the machine must not ask for it again
            return self._machine.on_append_failed(tp, ErrorCode.KAFKA_STORAGE_ERROR, self._now())
        active = partition.log.segments.active
        try:
            partition.log.append_as_follower(
                memoryview(effect.records),
                leader_epoch=partition.replica.leader_epoch,
                end_offset=effect.end_offset,
                wall_ms=self._clock.wall_ms(),
            )
        except StorageFailure as failure:
            self._replicas.on_storage_failed(partition, failure)
            return []
        except PassingFailure as shortage:
            self._unsynced[tp] = None
            log.warning("following is put off", partition=str(tp), why=str(shortage))
            log_ = partition.log
            return self._machine.on_append_put_off(tp, log_.log_end_offset, log_.latest_epoch, self._now())
        except StartsInsideBatch as found:
            return self._machine.on_starts_inside_batch(tp, found.base_offset, self._now())
        except KafkaError as error:
            return self._machine.on_append_failed(tp, error.code, self._now())
        except EndsMayBeGone as found:
            self._unsynced[tp] = None
            log.warning("transactions are fetched again", partition=str(tp), why=str(found))
            return self._machine.on_ends_gone(tp, found.offset)
        except IllegalLogState as error:  # offset and epoch of a batch have no checksum: they may be damaged
            log.error("append does not continue the log", partition=str(tp), why=str(error))
            if isinstance(error, EpochsFall):
                return self._machine.on_epochs_fall(tp, error.epoch, self._now())
            return self._machine.on_append_failed(tp, ErrorCode.INVALID_RECORD, self._now())
        if partition.replica.is_sync_due:
            self._unsynced[tp] = None
        has_rolled = partition.log.segments.active is not active
        self._appended_bytes += len(effect.records) + ROLL_BYTES * has_rolled
        self._replicas.traffic.replication_bytes_in += len(effect.records)
        if self._parts.quotas.as_follower.is_limited:
            self._parts.quotas.on_fetched(partition, len(effect.records))
        self._follow_offsets(partition, effect.high_watermark, effect.log_start_offset)
        self._machine.on_appended(tp, partition.log.log_end_offset, partition.log.latest_epoch)
        return []

    async def _sync_unsynced(self) -> None:
        """Sync, if ``flush.messages`` asks for it, before the next fetch tells the leader of these records."""
        while due := self._take_due_for_sync():  # some may come to be followed meanwhile
            for outcome in await asyncio.gather(*map(self._parts.jobs.sync, due), return_exceptions=True):
                if outcome is not None and not isinstance(outcome, StorageFailure):  # such are followed no longer
                    raise outcome

    def _take_due_for_sync(self) -> list[Partition]:
        unsynced, self._unsynced = self._unsynced, {}
        followed = [partition for tp in unsynced if (partition := self._local(tp)) is not None]
        return [partition for partition in followed if partition.replica.is_sync_due]

    def _follow_offsets(self, partition: Partition, high_watermark: int, log_start_offset: int) -> None:
        log_ = partition.log
        if log_start_offset > log_.log_start_offset:
            log_.maybe_increment_log_start_offset(min(log_start_offset, log_.log_end_offset))
        if partition.replica.follow_high_watermark(high_watermark):  # consumers in this rack may read here (row R25)
            self._replicas.waiting.note_followed(partition)

    def _cut(self, tp: TopicPartition, decide: Callable[[LocalReplica], Effects]) -> None:
        partition = self._local(tp)
        if partition is None:
            return
        effects = decide(partition.replica)
        self._replicas.carry_out(partition, effects)
        if not effects:
            for consequence in self._machine.on_cut_put_off(tp, self._now()):
                self._apply(consequence)

    def _local(self, tp: TopicPartition) -> Partition | None:
        """The partition, while it is still followed here."""
        partition = self._replicas.get(tp)
        return partition if partition is not None and partition.replica.is_followed else None

    # -- requests ---------------------------------------------------------------------------------------------------

    async def _send(
        self, effect: do.SendFetch | do.SendOffsetsForLeaderEpoch | do.SendListOffsets
    ) -> Iterable[do.Effect]:
        """What follows from the answer; nothing without one."""
        try:
            match effect:
                case do.SendFetch(request):
                    fetched = await self._calls.call(request, FetchResponse)
                    return self._machine.on_fetch_response(fetched, self._now())
                case do.SendOffsetsForLeaderEpoch(question):
                    ends = await self._calls.call(question, OffsetForLeaderEpochResponse)
                    return self._machine.on_epoch_end_offsets(ends, self._now())
                case do.SendListOffsets(earliest, latest):
                    first = await self._calls.call(earliest, ListOffsetsResponse)
                    last = await self._calls.call(latest, ListOffsetsResponse)
                    return self._machine.on_list_offsets(first, last, self._now())
        except (OSError, TimeoutError, ChannelClosedError, WireError, KafkaError) as error:
            self._on_no_answer(error)
            return ()

    def _on_no_answer(self, error: Exception) -> None:
        if self._calls.on_no_answer():
            self._machine.on_request_abandoned()
            return
        log.debug("request to leader failed", source=self._key.source_id, why=str(error))
        self._machine.on_request_failed(self._now())
        if isinstance(error, ChannelClosedError):
            self._parts.on_connection_lost(self._key.source_id)

    def _note_absence(self) -> None:
        """The leader was out of reach, maybe for days: it may have cleaned its log."""
        for state in self._machine.states():
            if (partition := self._local(state.topic_partition)) is not None:
                partition.log.begin_following()

    async def _dial(self) -> PeerConnection:
        endpoint = self._parts.endpoint_of(self._key.source_id)
        if endpoint is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {self._key.source_id} is not registered")
        return await PeerConnection.open(endpoint, self._parts.identity, self._key.source_id)

    async def _wait(self, until_ms: int | None) -> None:
        self._wake.clear()
        if until_ms is None and self._machine.is_idle:
            return
        if self._is_throttling:  # look again whether the rate has fallen
            until_ms = min(self._now() + THROTTLED_PAUSE_MS, until_ms or NEVER_MS)
        timeout_s = None if until_ms is None else max(0.0, (until_ms - self._now()) / 1000)
        try:
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            pass
