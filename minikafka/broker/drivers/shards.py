"""Runs the coordinators of one kind: one per partition of their internal topic that this node leads.

When this node becomes leader, the partition's log is replayed in portions, between other work. From then on each
request is a step of the pure machine. Its records are appended with acks=all, as a producer's are. Its timers (row D7)
are alarms on the node's timing wheel.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from minikafka.broker.backoff import Backoff
from minikafka.broker.drivers.shard_loading import replay_log
from minikafka.broker.logs import one_line
from minikafka.broker.pacing import PerTurn
from minikafka.broker.partition import Partition
from minikafka.broker.ports import Ports
from minikafka.broker.replicas import Replicas
from minikafka.broker.timers import Alarm
from minikafka.coordination.effects import CancelTimer, Respond, SetTimer, Write
from minikafka.coordination.partitioning import partition_for
from minikafka.coordination.phase import Phase
from minikafka.errors import ErrorCode, KafkaError
from minikafka.event_log import get_logger
from minikafka.metadata.image import MetadataImage
from minikafka.model import ProducerIdentity, TopicPartition
from minikafka.records.batch import BatchHeader, parse_header
from minikafka.records.build import build_batch
from minikafka.records.record import Record
from minikafka.wire.errors import WireError
from minikafka.wire.schema import Buffer

log = get_logger()

FIRST_RETRY_MS: Final = 50
LAST_RETRY_MS: Final = 10_000
COMMITTED_AT_ONCE: Final = 100
"""Writes of all shards, whose clients are answered in one turn: a follower that comes back commits thousands."""


class Coordinator(Protocol):
    """A machine, as its driver needs it. Each call returns effects, to be carried out in order."""

    phase: Phase

    def replay(self, key: Buffer, value: Buffer | None, now_ms: int) -> bool:
        """Apply a record of the log; False for one of an unknown type. WireError."""

    def finish_loading(self, now_ms: int) -> Sequence[Any]:
        """The log is replayed and committed. Called until the phase is ACTIVE."""

    def resign(self, now_ms: int) -> Sequence[Any]:
        """Another broker leads the partition."""

    def on_committed(self, write_id: int, now_ms: int) -> Sequence[Any]:
        """The records of a Write are below the high watermark."""

    def on_write_failed(self, write_id: int, error: ErrorCode, now_ms: int) -> Sequence[Any]:
        """The records of a Write were not appended."""

    def on_timer(self, key: Any, now_ms: int) -> Sequence[Any]:
        """A timer fired."""


C = TypeVar("C", bound=Coordinator)


class Loads:
    """How long it took to load shards."""

    def __init__(self) -> None:
        self._count = self._total_ms = self.longest_ms = 0

    def add(self, took_ms: int) -> None:
        """One was loaded."""
        self._count += 1
        self._total_ms += took_ms
        self.longest_ms = max(self.longest_ms, took_ms)

    @property
    def average_ms(self) -> float:
        """0 without any."""
        return self._total_ms / self._count if self._count else 0.0


class Shards(Generic[C]):
    """The shards of this node, found by key: a group id, a transactional id."""

    def __init__(
        self,
        topic: str,
        new_coordinator: Callable[[Partition], C],
        ports: Ports,
        replicas: Replicas,
        image: Callable[[], MetadataImage],
    ) -> None:
        """``new_coordinator(partition)``: a machine that knows nothing yet."""
        self._topic = topic
        self._new_coordinator = new_coordinator
        self._ports = ports
        self._replicas = replicas
        self._image = image
        self._loading = asyncio.Lock()
        self._per_turn = PerTurn(COMMITTED_AT_ONCE)
        self._shards: dict[int, Shard[C]] = {}
        self.loads = Loads()
        self.carry_out: Callable[[Shard[C], Any], None] = _unknown
        """Called with an effect that not all coordinators have."""
        self.replay: Callable[[C, BatchHeader, Record, int], bool] = _replay
        """Called with a record of the log, its batch and the time. False for an unknown type; WireError or KafkaError
        for a damaged one."""

    def on_leading(self, partition: Partition) -> None:
        """This node became leader of a partition; if it is one of the topic, load what it holds."""
        tp = partition.topic_partition
        if tp.topic != self._topic:
            return
        self.on_leading_no_more(tp)
        shard = Shard(
            lambda: self._new_coordinator(partition),
            partition,
            self._replicas,
            self._ports,
            self._loading,
            self._per_turn,
            lambda shard, effect: self.carry_out(shard, effect),
            lambda *what: self.replay(*what),
            self.loads,
        )
        self._shards[tp.partition] = shard
        self._ports.tasks.start(shard.load(), f"load-{tp}")

    def on_leading_no_more(self, tp: TopicPartition) -> None:
        """Another node leads it, or it was deleted."""
        if tp.topic == self._topic:
            shard = self._shards.pop(tp.partition, None)
            if shard is not None:
                shard.resign()

    def shard_of(self, key: str) -> Shard[C] | None:
        """The shard that coordinates what has this key; None when another node does."""
        partition = self.partition_of(key)
        return None if partition is None else self._shards.get(partition.partition)

    def partition_of(self, key: str) -> TopicPartition | None:
        """The partition whose leader coordinates what has this key; None while there is no such topic."""
        topic = self._image().topic(self._topic)
        return None if topic is None else TopicPartition(self._topic, partition_for(key, len(topic.partitions)))

    def __iter__(self) -> Iterator[Shard[C]]:
        return iter(list(self._shards.values()))


def _replay(coordinator: Coordinator, batch: BatchHeader, record: Record, now_ms: int) -> bool:
    if batch.is_control or record.key is None:
        return False
    return coordinator.replay(record.key, record.value, now_ms)


def _unknown(_shard: object, effect: object) -> None:
    raise AssertionError(f"nobody carries out {effect}")


class Shard(Generic[C]):
    """One coordinator and the partition that holds its records."""

    def __init__(
        self,
        new_coordinator: Callable[[], C],
        partition: Partition,
        replicas: Replicas,
        ports: Ports,
        loading: asyncio.Lock,
        per_turn: PerTurn,
        carry_out: Callable[[Shard[C], Any], None],
        replay: Callable[[C, BatchHeader, Record, int], bool],
        loads: Loads,
    ) -> None:
        """``loading`` is held during a load: one shard at a time; ``per_turn`` counts writes whose commit has its
        consequences. ``carry_out`` and ``replay``: see :class:`Shards`."""
        self.coordinator = new_coordinator()
        self._new_coordinator = new_coordinator
        self._partition = partition
        self.leader_epoch = partition.leader_epoch
        self._replicas = replicas
        self._ports = ports
        self._clock = ports.clock
        self._timers = ports.timers
        self._loading = loading
        self._per_turn = per_turn
        self._carry_out = carry_out
        self._replay = replay
        self._loads = loads
        self._alarms: dict[Hashable, Alarm] = {}
        self._staged: deque[tuple[int, Callable[[int], Sequence[Any]]]] = deque()  # offset, what follows its commit
        self._records = 0
        self._loaded_offset = self._high_watermark = 0
        self._is_scheduled = False
        self._is_committed = asyncio.Event()  # what was loaded; also set when it will never be

    async def load(self) -> None:
        """Replay the log up to its end, and serve once all of that is committed.

        If the log cannot be read now (no free descriptor, for example), it is replayed again from its start, after
        growing pauses, while this node leads. A damaged log is marked, and another replica becomes leader
        (:mod:`minikafka.broker.drivers.replica`).
        """
        started_ms = self._clock.monotonic_ms()
        await self._replay_log()
        if not self._is_loading:
            return
        took_ms, tp = self._clock.monotonic_ms() - started_ms, self._partition.topic_partition
        self._loads.add(took_ms)
        log.info("coordinator loaded", partition=str(tp), records=self._records, took_ms=took_ms)
        # Uncommitted records of the former leader must not be served before they are committed.
        self._replicas.waiting.high_watermark_listeners[tp] = self._on_high_watermark
        self._on_high_watermark(self._partition.high_watermark)
        await self._is_committed.wait()
        async with self._loading:
            while self._is_loading:
                self.step(self.coordinator.finish_loading(self._clock.monotonic_ms()))
                await asyncio.sleep(0)

    async def _replay_log(self) -> None:
        pauses = Backoff(self._ports.rng, first_ms=FIRST_RETRY_MS, last_ms=LAST_RETRY_MS)
        is_said = False
        while self._is_loading:
            try:
                async with self._loading:
                    self._loaded_offset = await replay_log(
                        self._partition, self._replay_record, lambda: self._is_loading, self._ports.threads.read
                    )
                return
            except (KafkaError, OSError) as error:
                if not is_said:
                    tp = str(self._partition.topic_partition)
                    log.error("coordinator not loaded", partition=tp, why=one_line(error))
                is_said = True
            if self._is_loading:
                self.step(self.coordinator.resign(self._clock.monotonic_ms()))  # what it has counted of the memory
                self.coordinator, self._records = self._new_coordinator(), 0
                await asyncio.sleep(pauses.next_s())

    def resign(self) -> None:
        """Answer all waiting requests with NOT_COORDINATOR."""
        self._replicas.waiting.high_watermark_listeners.pop(self._partition.topic_partition, None)
        self.step(self.coordinator.resign(self._clock.monotonic_ms()))
        for alarm in self._alarms.values():
            self._timers.cancel(alarm)
        self._alarms.clear()
        self._staged.clear()
        self._is_committed.set()

    def when_committed(self, offset: int, act: Callable[[int], Sequence[Any]]) -> None:
        """Call ``act`` with the time, for effects, once what was just staged there is below the high watermark.

        It is called in the order of the log; not if the load has found what is there, nor after :meth:`resign`.
        """
        self._staged.append((offset, act))

    def step(self, effects: Iterable[Any]) -> None:
        """Carry out the machine's effects, in order."""
        queue = deque(effects)
        while queue:
            match queue.popleft():
                case Respond(token, response):
                    assert callable(token)
                    token(response)
                case Write() as write:
                    queue.extend(self._write(write))
                case SetTimer(key, deadline_ms, weight):
                    self._set_timer(key, deadline_ms, weight)
                case CancelTimer(key):
                    alarm = self._alarms.pop(key, None)
                    if alarm is not None:
                        self._timers.cancel(alarm)
                case effect:
                    self._carry_out(self, effect)

    # -- inside -----------------------------------------------------------------------------------------------------

    @property
    def _is_loading(self) -> bool:
        return self.coordinator.phase is Phase.LOADING and self._partition.leader_epoch == self.leader_epoch

    def _replay_record(self, batch: BatchHeader, record: Record) -> None:
        try:
            self._records += self._replay(self.coordinator, batch, record, self._clock.monotonic_ms())
        except (WireError, KafkaError) as error:
            tp = str(self._partition.topic_partition)
            log.error("skipping a damaged record", partition=tp, offset=record.offset, why=str(error))

    def _write(self, write: Write) -> Sequence[Any]:
        now_ms, stamp_ms = self._clock.monotonic_ms(), self._clock.stamp_ms()
        records = [Record(index, stamp_ms, record.key, record.value) for index, record in enumerate(write.records)]
        batch = memoryview(_batch(records, write.producer))
        partition = self._partition
        try:
            if partition.leader is None or partition.leader_epoch != self.leader_epoch:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is led elsewhere")
            partition.leader.check_enough_in_sync()
            appended = self._replicas.stage(partition, batch, parse_header(batch))
        except KafkaError as error:
            return self.coordinator.on_write_failed(write.write_id, error.code, now_ms)
        self.when_committed(appended.last_offset, lambda now_ms: self.coordinator.on_committed(write.write_id, now_ms))
        self._replicas.commit_soon()
        return ()

    def _on_high_watermark(self, high_watermark: int) -> None:
        if high_watermark >= self._loaded_offset:
            self._is_committed.set()
        self._high_watermark = high_watermark
        if not self._is_scheduled:
            self._act_on_committed()

    def _act_on_committed(self) -> None:
        self._is_scheduled = False
        while self._staged and self._staged[0][0] < self._high_watermark:
            if not self._per_turn.take():
                self._is_scheduled = True
                asyncio.get_running_loop().call_soon(self._act_on_committed)
                return
            offset, act = self._staged.popleft()
            if offset >= self._loaded_offset:
                self.step(act(self._clock.monotonic_ms()))

    def _set_timer(self, key: Hashable, deadline_ms: int, weight: int) -> None:
        alarm = self._alarms.get(key)
        if alarm is None:
            alarm = self._alarms[key] = Alarm(lambda: self._on_timer(key))
        alarm.weight = weight
        self._timers.set(alarm, deadline_ms)

    def _on_timer(self, key: Hashable) -> None:
        self._alarms.pop(key, None)
        self.step(self.coordinator.on_timer(key, self._clock.monotonic_ms()))


def _batch(records: Sequence[Record], producer: ProducerIdentity | None) -> bytearray:
    """In a transaction it has no sequence: only producers count their batches."""
    if producer is None:
        return build_batch(records)
    return build_batch(records, producer_id=producer.producer_id, producer_epoch=producer.epoch, is_transactional=True)
