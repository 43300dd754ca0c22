"""A life of topics that are deleted and made again under the same name."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from random import Random
from uuid import UUID

from at_once import delete_old_segments
from crash_batches import NOW_MS, Producers, Written, headers, read_all
from crash_logs import CONFIG, WHERE, open_store
from simulator.disk import MountedDisk
from store_checkpoints import write_checkpoints

from minikafka.model import ZERO_TOPIC_ID
from minikafka.records.batch import parse_header
from minikafka.storage.log import Log
from minikafka.storage.log_store import LogStore

MIXES: dict[str, dict[str, int]] = {
    "deletion": {"append": 5, "flush": 3, "checkpoint": 3, "drop": 2, "delete": 3, "clear_away": 3, "stop_and_start": 1}
}


class TopicLife:
    """One name; ``incarnations`` are the topics that had it, by id; ``topic_id`` is the present one."""

    def __init__(self, disk: MountedDisk, rng: Random, mix: str, steps: int) -> None:
        self.disk = disk
        self.rng = rng
        self.mix = mix
        self.steps = steps
        self.doing = "start"
        self.store: LogStore | None = None
        self.incarnations: dict[UUID, list[Written]] = {}
        self.topic_id: UUID | None = None
        self.committed = 0
        self.durable = 0
        self.start = 0
        self.high_watermark = 0
        self.is_changing = False
        self.producers = Producers()

    def promises(self) -> Hashable:
        written = tuple((topic_id, hash(tuple(batches))) for topic_id, batches in self.incarnations.items())
        return written, self.topic_id, self.committed, self.durable, self.start, self.high_watermark, self.is_changing

    def view(self) -> Hashable:
        log = self.log
        return None if log is None else (log.topic_id, read_all(log), log.log_start_offset, log.log_end_offset)

    @property
    def log(self) -> Log | None:
        assert self.store is not None
        return self.store.get(WHERE)

    def restarted(self, disk: MountedDisk, *, lost_power: bool) -> TopicLife:
        life = TopicLife(disk, self.rng, self.mix, 6)
        life.store = open_store(disk, self.rng)
        life.incarnations = dict(self.incarnations)
        log = life.log
        must_end = self.durable if lost_power else self.committed
        if not self.is_changing and self.topic_id is not None:
            assert log is not None or must_end == 0, "what was flushed is there"
            assert must_end == 0 or (log is not None and log.topic_id == self.topic_id), "under its topic's id"
        if log is None or log.topic_id == ZERO_TOPIC_ID:
            return life
        self._check(log, must_end if log.topic_id == self.topic_id else 0)
        if log.topic_id == self.topic_id:
            high_watermark = life.store.high_watermark(WHERE)
            assert high_watermark <= max(self.high_watermark, log.log_start_offset), (
                "a topic inherits no high watermark from one that had its name"
            )
        life.topic_id = log.topic_id
        life.committed = log.log_end_offset
        life.durable = min(self.durable, log.log_end_offset) if log.topic_id == self.topic_id else 0
        life.start, life.high_watermark = log.log_start_offset, life.store.high_watermark(WHERE)
        batches = [batch for batch in life.incarnations[log.topic_id] if batch.next_offset <= log.log_end_offset]
        life.incarnations[log.topic_id] = batches
        life.producers = Producers(batches)
        return life

    def _check(self, log: Log, must_end: int) -> None:
        batches = self.incarnations[log.topic_id]
        served = read_all(log)
        found = headers(served)
        first = found[0].base_offset if found else log.log_start_offset
        expected = b"".join(batch.data for batch in batches if batch.base_offset >= first)
        assert expected.startswith(served), "a topic serves nothing that was written to another of its name"
        assert log.log_end_offset >= must_end, "what was flushed is there"
        if log.topic_id == self.topic_id:
            assert log.log_start_offset <= self.start, "a topic inherits no start from one that had its name"
            bases = {header.base_offset for header in found}
            for batch in batches:
                assert not self.start < batch.next_offset <= must_end or batch.base_offset in bases, (
                    "what was flushed is there"
                )

    # -- work ---------------------------------------------------------------------------------------------------------

    def work(self) -> None:
        if self.store is None:
            self.store = open_store(self.disk, self.rng)
        if self.log is None or self.log.topic_id == ZERO_TOPIC_ID:
            self.delete()
        mix = MIXES[self.mix]
        acts: list[Callable[[], None]] = [getattr(self, act) for act in mix]
        for act in self.rng.choices(acts, list(mix.values()), k=self.steps):
            self.doing = act.__name__
            act()

    @property
    def log_(self) -> Log:
        log = self.log
        assert log is not None
        return log

    @property
    def store_(self) -> LogStore:
        assert self.store is not None
        return self.store

    def append(self) -> None:
        assert self.topic_id is not None
        for _ in range(self.rng.randint(1, 3)):
            data = self.producers.batch(self.rng)
            info = self.log_.stage(memoryview(data), parse_header(data), leader_epoch=0, wall_ms=NOW_MS)
            self.incarnations[self.topic_id] = [
                *self.incarnations[self.topic_id],
                Written(info.base_offset, info.last_offset + 1, 0, bytes(data)),
            ]
        self.log_.commit()
        self.committed = self.log_.log_end_offset

    def flush(self) -> None:
        self.log_.flush()
        self.durable = self.log_.recovery_point

    def checkpoint(self) -> None:
        self.high_watermark = max(self.high_watermark, self.log_.log_end_offset)
        write_checkpoints(self.store_, {WHERE: self.high_watermark})

    def drop(self) -> None:
        self.start = self.rng.randint(self.log_.log_start_offset, self.log_.log_end_offset)
        self.log_.maybe_increment_log_start_offset(self.start)
        delete_old_segments(self.log_, self.log_.log_end_offset, NOW_MS)

    def delete(self) -> None:
        """The topic is deleted, and another one of that name is created."""
        self.is_changing = True
        self.committed = self.durable = 0
        if self.log is not None:
            self.store_.delete(WHERE)
        if self.rng.random() < 0.5:
            self.clear_away()
        self.topic_id = UUID(int=self.rng.getrandbits(128))
        self.incarnations[self.topic_id] = []
        self.start = self.high_watermark = 0
        self.producers = Producers()
        self.store_.create(WHERE, self.topic_id, CONFIG)
        self.is_changing = False

    def clear_away(self) -> None:
        trash = self.store_.take_trash()
        if trash is not None:
            trash()

    def stop_and_start(self) -> None:
        self.store_.close({WHERE: self.high_watermark})
        self.durable = self.committed
        self.store = open_store(self.disk, self.rng)
