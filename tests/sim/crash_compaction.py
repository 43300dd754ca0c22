"""A life of a compacted log: keys are written again and again, and the cleaner swaps segments."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from random import Random
from typing import NamedTuple
from uuid import UUID

from at_once import complete_compaction
from crash_batches import NOW_MS, check_producers, headers, read_all
from simulator.disk import MountedDisk
from store_checkpoints import write_checkpoints

from minikafka.model import TopicPartition
from minikafka.records.batch import iter_batches, parse_header
from minikafka.records.build import build_batch
from minikafka.records.read import iter_records
from minikafka.records.record import Record
from minikafka.storage.config import LogConfig
from minikafka.storage.log import Log
from minikafka.storage.log_store import LogStore

WHERE = TopicPartition("accounts", 0)
TOPIC_ID = UUID(int=9)
CONFIG = LogConfig(
    segment_bytes=500,
    index_interval_bytes=150,
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=0.0,
)
MIXES: dict[str, dict[str, int]] = {
    "compaction": {"put": 9, "flush": 2, "clean": 4, "checkpoint": 1, "clear_away": 2, "new_epoch": 1, "truncate": 1}
}


class Put(NamedTuple):
    """A record."""

    offset: int
    key: bytes | None
    value: bytes | None


class CompactedLife:
    """See the module. What was put is in ``records``, also what the cleaner has dropped since."""

    def __init__(self, disk: MountedDisk, rng: Random, mix: str, steps: int) -> None:
        self.disk = disk
        self.rng = rng
        self.mix = mix
        self.steps = steps
        self.doing = "start"
        self.store: LogStore | None = None
        self.records: list[Put] = []
        self.epochs: list[tuple[int, int]] = []  # (epoch, first offset)
        self.epoch = 0
        self.sequence = 0
        self.committed = 0
        self.durable = 0

    def promises(self) -> Hashable:
        return hash(tuple(self.records)), self.committed, self.durable, tuple(self.epochs)

    def view(self) -> Hashable:
        log = self.log
        return None if log is None else (puts_in(log), log.log_end_offset, tuple(log.epoch_entries))

    @property
    def store_(self) -> LogStore:
        assert self.store is not None
        return self.store

    @property
    def log(self) -> Log | None:
        return self.store_.get(WHERE)

    @property
    def log_(self) -> Log:
        log = self.log
        assert log is not None
        return log

    # -- restarts -----------------------------------------------------------------------------------------------------

    def restarted(self, disk: MountedDisk, *, lost_power: bool) -> CompactedLife:
        life = CompactedLife(disk, self.rng, self.mix, 6)
        life.store = open_store(disk, self.rng)
        log = life.log
        must_end = self.durable if lost_power else self.committed
        if log is None or log.topic_id != TOPIC_ID:
            assert must_end == 0, "a log that was flushed is there"
            return life
        self._check(log, must_end)
        end = log.log_end_offset
        life.records = [record for record in self.records if record.offset < end]
        life.epochs = [(epoch, start) for epoch, start in self.epochs if start < end]
        life.epoch = self.epoch + 1
        life.sequence = max((entry.last_sequence + 1 for entry in log.producers.entries), default=0)
        life.committed, life.durable = end, min(self.durable, end)
        return life

    def _check(self, log: Log, must_end: int) -> None:
        assert log.log_end_offset >= must_end, "what was promised is there"
        found = puts_in(log)
        assert set(found) <= set(self.records), "nothing is served but what was written"
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets)), "no record comes twice, or before an earlier one"
        kept = set(found)
        for record in latest(self.records, log.log_end_offset):
            assert record in kept, "the last value of each key is there"
        for epoch, start in self.epochs:
            if start < log.log_end_offset and start < must_end:
                assert log.epoch_for_offset(start) == epoch, "epochs begin where they did, whatever is left of them"
        assert log.corruption is None or log.corruption.offset >= must_end, "what was promised is not taken for damaged"
        assert log.corruption is None or "a segment is missing" not in log.corruption.why, "no crash takes a segment"
        check_producers(log, headers(read_all(log)))

    # -- work ---------------------------------------------------------------------------------------------------------

    def work(self) -> None:
        if self.store is None:
            self.store = open_store(self.disk, self.rng)
        if self.log is not None and self.log.topic_id != TOPIC_ID:  # the node takes it for another topic's
            self.store.delete(WHERE)
        if self.log is None:
            self.store.create(WHERE, TOPIC_ID, CONFIG)
        if self.log_.corruption is not None:
            self._refetch(self.log_.corruption.offset)
        mix = MIXES[self.mix]
        acts: list[Callable[[], object]] = [getattr(self, act) for act in mix]
        for act in self.rng.choices(acts, list(mix.values()), k=self.steps):
            self.doing = act.__name__
            act()

    def _refetch(self, offset: int) -> None:
        """What was damaged is cut off; the leader's records would follow."""
        self._cut(offset)
        self.log_.refetched()

    def put(self) -> None:
        log = self.log_
        count = self.rng.randint(1, 2)
        batch = [
            Record(at, NOW_MS, b"%d" % self.rng.randrange(4), self.rng.randbytes(self.rng.randrange(1, 60)))
            for at in range(count)
        ]
        data = build_batch(batch, producer_id=5, producer_epoch=0, base_sequence=self.sequence)
        self.sequence += count
        info = log.stage(memoryview(data), parse_header(data), leader_epoch=self.epoch, wall_ms=NOW_MS)
        if not self.epochs or self.epochs[-1][0] != self.epoch:
            self.epochs.append((self.epoch, info.base_offset))
        self.records += [Put(info.base_offset + at, record.key, record.value) for at, record in enumerate(batch)]
        log.commit()
        self.committed = log.log_end_offset

    def new_epoch(self) -> None:
        self.epoch += 1

    def flush(self) -> None:
        self.log_.flush()
        self.durable = self.log_.recovery_point

    def clean(self) -> None:
        """The cleaner works in a thread; now and then the log is cut meanwhile."""
        self.flush()
        job = self.log_.plan_compaction(self.log_.log_end_offset, NOW_MS)
        if job is None:
            return
        while not job.step():
            self._interrupt()
        if self.log_.prepare_swap(job):
            job.publish()
            self._interrupt()
            complete_compaction(self.log_, job)

    def _interrupt(self) -> None:
        if self.rng.random() < 0.1:
            self.put()
        if self.rng.random() < 0.1:
            self.flush()

    def truncate(self) -> None:
        """What the active segment holds is cut off."""
        self._cut(self.log_.active_base_offset)

    def _cut(self, offset: int) -> None:
        log = self.log_
        if offset < log.log_end_offset:
            self.committed, self.durable = min(self.committed, offset), min(self.durable, offset)
            log.truncate_to(offset)
            self.records = [record for record in self.records if record.offset < offset]
            self.epochs = [(epoch, start) for epoch, start in self.epochs if start < offset]
            self.sequence = max((entry.last_sequence + 1 for entry in log.producers.entries), default=0)
            self.epoch += 1

    def checkpoint(self) -> None:
        write_checkpoints(self.store_, {WHERE: self.log_.log_end_offset})

    def clear_away(self) -> None:
        trash = self.store_.take_trash()
        if trash is not None:
            trash()


def puts_in(log: Log) -> tuple[Put, ...]:
    """Every record of a log."""
    data = read_all(log)
    return tuple(
        Put(record.offset, record.key, record.value)
        for position, header in iter_batches(data)
        for record in iter_records(data, position, header)
    )


def latest(records: list[Put], end: int) -> list[Put]:
    """The last record of each key below an offset."""
    return list({record.key: record for record in records if record.offset < end}.values())


def open_store(disk: MountedDisk, rng: Random) -> LogStore:
    """The store of a node, as its start opens it."""
    return LogStore.open(
        disk,
        ["/data"],
        node_id=1,
        cluster_id="cluster",
        new_uuid=lambda: UUID(int=rng.getrandbits(128)),
        config_for=lambda _where: CONFIG,
    )
