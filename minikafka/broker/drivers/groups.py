"""Runs the group coordinators: one per partition of the offsets topic that this node leads.

On becoming leader the partition's log is replayed, off and on between other work; from then on requests are steps of
the pure machine, its records are appended like anybody's with acks=all, and its timers are alarms on the node's wheel
(row D7).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import structlog

from minikafka.broker.clock import Clock
from minikafka.broker.partition import Partition
from minikafka.broker.replicas import Replicas
from minikafka.broker.timers import Alarm, Timers
from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.groups.coordinator import GroupCoordinator, Phase
from minikafka.groups.effects import CancelTimer, Effect, Respond, SetTimer, TimerKey, Write
from minikafka.groups.partitioning import partition_for
from minikafka.groups.settings import GroupSettings
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.image import MetadataImage
from minikafka.model import CONSUMER_OFFSETS_TOPIC, TopicPartition
from minikafka.net.tasks import TaskOwner
from minikafka.records.batch import iter_batches, parse_header
from minikafka.records.build import build_batch
from minikafka.records.read import iter_records
from minikafka.records.record import Record
from minikafka.wire.errors import WireError
from minikafka.wire.schema import Message

log = structlog.get_logger(__name__)

LOAD_CHUNK_BYTES: Final = 256 * 1024

Answer = Callable[[Message], None]


class Groups:
    """The shards of this node, found by group id."""

    def __init__(
        self,
        config: BrokerConfig,
        replicas: Replicas,
        clock: Clock,
        timers: Timers,
        tasks: TaskOwner,
        new_uuid: Callable[[], str],
        image: Callable[[], MetadataImage],
    ) -> None:
        self._settings = GroupSettings(
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            max_size=config.group_max_size,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
            offsets_commit_timeout_ms=config.offsets_commit_timeout_ms,
        )
        self._replicas = replicas
        self._clock = clock
        self._timers = timers
        self._tasks = tasks
        self._new_uuid = new_uuid
        self._image = image
        self._shards: dict[int, GroupShard] = {}

    # -- leadership -------------------------------------------------------------------------------------------------

    def on_leading(self, partition: Partition) -> None:
        """This node leads a partition (again): if it is one of the offsets topic, its groups are ours now."""
        where = partition.topic_partition
        if where.topic != CONSUMER_OFFSETS_TOPIC:
            return
        self.on_leading_no_more(where)
        coordinator = GroupCoordinator(self._settings, self._new_uuid, self._clock.wall_ms)
        shard = self._shards[where.partition] = GroupShard(
            coordinator, partition, self._replicas, self._clock, self._timers
        )
        self._tasks.start(shard.load(), f"load-{where}")

    def on_leading_no_more(self, where: TopicPartition) -> None:
        """Another node leads it, or it is gone."""
        if where.topic == CONSUMER_OFFSETS_TOPIC:
            shard = self._shards.pop(where.partition, None)
            if shard is not None:
                shard.resign()

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Offsets of deleted topics are dropped."""
        deleted = [topic.name for topic in delta.deleted_topics]
        if deleted:
            for shard in self._shards.values():
                shard.step(shard.coordinator.forget_topics(deleted, self._clock.monotonic_ms()))

    # -- finding ----------------------------------------------------------------------------------------------------

    def shard_of(self, group_id: str) -> GroupShard | None:
        """The shard that coordinates a group, None when that is another node's."""
        topic = self._image().topic(CONSUMER_OFFSETS_TOPIC)
        if topic is None:
            return None
        return self._shards.get(partition_for(group_id, len(topic.partitions)))

    def __iter__(self) -> Iterator[GroupShard]:
        return iter(list(self._shards.values()))


class GroupShard:
    """One coordinator and the partition that holds its records."""

    def __init__(
        self,
        coordinator: GroupCoordinator,
        partition: Partition,
        replicas: Replicas,
        clock: Clock,
        timers: Timers,
    ) -> None:
        self.coordinator = coordinator
        self._partition = partition
        self._leader_epoch = partition.leader_epoch
        self._replicas = replicas
        self._clock = clock
        self._timers = timers
        self._alarms: dict[TimerKey, Alarm] = {}
        self._writes: deque[tuple[int, int]] = deque()  # (required offset, write id) in log order
        self._loaded_offset = 0

    async def load(self) -> None:
        """Replay the log up to its end, and serve when all of that is committed."""
        started_ms = self._clock.monotonic_ms()
        log_ = self._partition.log
        offset, count = log_.log_start_offset, 0
        while self._is_loading and offset < log_.log_end_offset:
            region = log_.read(offset, LOAD_CHUNK_BYTES)
            data = region.read()
            region.release()
            if not data:
                break  # compaction left nothing from here on
            for position, header in iter_batches(data):
                if not header.is_control:
                    for record in iter_records(data, position, header):
                        count += self._replay(record)
                offset = header.next_offset
            await asyncio.sleep(0)
        if not self._is_loading:
            return
        took_ms = self._clock.monotonic_ms() - started_ms
        log.info("groups loaded", partition=str(self._partition.topic_partition), records=count, took_ms=took_ms)
        # What was appended by the former leader and not committed must not be served before it is.
        self._loaded_offset = offset
        self._replicas.high_watermark_listeners[self._partition.topic_partition] = self._on_high_watermark
        self._on_high_watermark(self._partition.high_watermark)

    def resign(self) -> None:
        """Answer everybody that this node is not the coordinator."""
        self._replicas.high_watermark_listeners.pop(self._partition.topic_partition, None)
        self.step(self.coordinator.resign(self._clock.monotonic_ms()))
        for alarm in self._alarms.values():
            self._timers.cancel(alarm)
        self._alarms.clear()
        self._writes.clear()

    def step(self, effects: Iterable[Effect]) -> None:
        """Do what the machine said, in order."""
        queue = deque(effects)
        while queue:
            match queue.popleft():
                case Respond(token, response):
                    assert callable(token)
                    token(response)
                case Write() as write:
                    queue.extend(self._write(write))
                case SetTimer(key, deadline_ms):
                    self._set_timer(key, deadline_ms)
                case CancelTimer(key):
                    alarm = self._alarms.pop(key, None)
                    if alarm is not None:
                        self._timers.cancel(alarm)

    # -- inside -----------------------------------------------------------------------------------------------------

    @property
    def _is_loading(self) -> bool:
        return self.coordinator.phase is Phase.LOADING and self._partition.leader_epoch == self._leader_epoch

    def _replay(self, record: Record) -> bool:
        if record.key is None:
            return False
        try:
            return self.coordinator.replay(record.key, record.value, self._clock.monotonic_ms())
        except WireError as error:
            log.error("skipping a damaged group record", offset=record.offset, why=str(error))
            return False

    def _write(self, write: Write) -> list[Effect]:
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.wall_ms()
        records = [Record(index, wall_ms, record.key, record.value) for index, record in enumerate(write.records)]
        batch = memoryview(build_batch(records))
        partition = self._partition
        try:
            if partition.leader is None or partition.leader_epoch != self._leader_epoch:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the offsets partition is led elsewhere")
            partition.leader.check_enough_in_sync()
            appended = self._replicas.stage(partition, batch, parse_header(batch))
        except KafkaError as error:
            return self.coordinator.on_write_failed(write.write_id, error.code, now_ms)
        self._writes.append((appended.last_offset + 1, write.write_id))
        self._replicas.commit_soon()
        return []

    def _on_high_watermark(self, high_watermark: int) -> None:
        if self._is_loading and high_watermark >= self._loaded_offset:
            self.step(self.coordinator.finish_loading(self._clock.monotonic_ms()))
        while self._writes and self._writes[0][0] <= high_watermark:
            _, write_id = self._writes.popleft()
            self.step(self.coordinator.on_committed(write_id, self._clock.monotonic_ms()))

    def _set_timer(self, key: TimerKey, deadline_ms: int) -> None:
        alarm = self._alarms.get(key)
        if alarm is None:
            alarm = self._alarms[key] = Alarm(lambda: self._on_timer(key))
        self._timers.set(alarm, deadline_ms)

    def _on_timer(self, key: TimerKey) -> None:
        self._alarms.pop(key, None)
        self.step(self.coordinator.on_timer(key, self._clock.monotonic_ms()))
