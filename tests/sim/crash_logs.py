"""A life that works on one log of a store: appends, rolls, flushes, truncations, checkpoints, retention, stops."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from random import Random
from typing import Self
from uuid import UUID

from at_once import delete_old_segments, offset_for_timestamp
from crash_batches import (
    NOW_MS,
    Producers,
    Written,
    check_epochs,
    check_producers,
    check_transactions,
    headers,
    read_all,
    transactional_batch,
)
from simulator.disk import MountedDisk
from store_checkpoints import write_checkpoints

from minikafka.model import NO_EPOCH, TopicPartition
from minikafka.records.batch import BatchHeader, parse_header
from minikafka.storage.checkpoints import HIGH_WATERMARK_FILE, OffsetCheckpoint
from minikafka.storage.config import LogConfig
from minikafka.storage.cut_job import CutJob
from minikafka.storage.log import Log
from minikafka.storage.log_store import LogStore

WHERE = TopicPartition("orders", 0)
TOPIC_ID = UUID(int=7)
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150)
ROOT = "/data"

MIXES: dict[str, dict[str, int]] = {
    "appends and rolls": {"append": 6, "flush": 2, "roll": 2, "new_epoch": 1, "flush_under_appends": 1},
    "overlapping flushes": {"append": 4, "flush": 1, "overlapping_flushes": 3, "checkpoint": 1},
    "truncation": {"append": 6, "flush": 2, "truncate": 3, "new_epoch": 1, "checkpoint": 1, "flush_while_cut": 2},
    "restarts of the log": {"append": 5, "flush": 2, "start_at": 2, "checkpoint": 1, "new_epoch": 1},
    "checkpoints": {"append": 4, "flush": 2, "checkpoint": 4, "drop": 1, "new_epoch": 1, "truncate": 1},
    "retention": {"append": 6, "flush": 2, "roll": 2, "drop": 3, "expire": 1, "checkpoint": 1, "clear_away": 2},
    "transactions": {"transact": 8, "flush": 2, "roll": 2, "truncate": 1, "stop_and_start": 1, "drop": 1, "append": 1},
    "orderly stops": {"append": 5, "flush": 1, "stop_and_start": 3, "roll": 1, "drop": 1, "truncate": 1},
}


class LogLife:
    """One process with one log. Offsets up to ``committed`` survive a kill, up to ``durable`` a power cut."""

    mixes = MIXES
    roots: Sequence[str] = (ROOT,)

    def __init__(self, disk: MountedDisk, rng: Random, mix: str, steps: int) -> None:
        self.disk = disk
        self.rng = rng
        self.mix = mix
        self.steps = steps
        self.store: LogStore | None = None
        self.written: list[Written] = []
        self.producers = Producers()
        self.epoch = 0
        self.broker_epoch = NO_EPOCH
        self.committed = 0
        self.durable = 0
        self.start = 0  # the log may begin there, not later
        self.recorded_start = 0  # and not earlier than there
        self.high_watermarks = {0}  # what the checkpoint may say
        self.is_created = False
        self.is_damaged = False
        self.is_stopping = False
        self.is_flushed = False
        self.doing = "start"

    # -- promises -----------------------------------------------------------------------------------------------------

    def promises(self) -> Hashable:
        return (
            hash(tuple(self.written)),
            self.committed,
            self.durable,
            self.start,
            self.recorded_start,
            tuple(sorted(self.high_watermarks)),
            self.is_created,
            self.is_damaged,
            self.is_stopping,
        )

    def view(self) -> Hashable:
        log = self.log
        if log is None:
            return None
        entries = [
            (entry.producer_id, entry.last_sequence, entry.last_offset)
            for entry in log.producers.entries
            if entry.last_offset >= log.log_start_offset
        ]
        ends = log.log_start_offset, log.log_end_offset, log.corruption is None, self.store_.high_watermark(WHERE)
        epochs = tuple(entry for entry in log.epoch_entries if entry.start_offset < log.log_end_offset)
        return read_all(log), epochs, tuple(sorted(entries)), ends

    def restarted(self, disk: MountedDisk, *, lost_power: bool) -> Self:
        life = type(self)(disk, self.rng, self.mix, 6)
        recorded = {root: OffsetCheckpoint(disk, root, HIGH_WATERMARK_FILE).read().get(WHERE, 0) for root in self.roots}
        life.store = open_store(disk, self.rng, self.roots, self.boot_id(lost_power=lost_power))
        assert self.is_stopping or not life.store.was_clean, "a crash is never taken for an orderly stop"
        must_end = self.durable if lost_power else self.committed
        log = life.log
        if log is None:
            assert must_end == 0, "a log that was flushed is there"
            assert lost_power or not self.is_created, "a log that was made is there"
            return life
        if log.topic_id != TOPIC_ID:
            assert must_end == 0, "the topic id is durable with the first flush"
            assert lost_power or not self.is_created, "a log that was made has its topic id"
            return life
        self._check(log, must_end, may_be_damaged=lost_power or self.is_damaged)
        directory = life.store_.log_dir_of(WHERE)
        assert directory is not None
        # Where the log moved away from, the number of then may still stand.
        assert lost_power or self.is_damaged or log.log_end_offset >= recorded[directory.path], (
            "a kill leaves no log that ends below its recorded high watermark"
        )
        high_watermark = life.store_.high_watermark(WHERE)
        bounded = {max(log.log_start_offset, min(offset, log.log_end_offset)) for offset in self.high_watermarks}
        assert high_watermark in bounded, "the high watermark is the one that was recorded"
        life._inherit(self, log)
        return life

    def _check(self, log: Log, must_end: int, *, may_be_damaged: bool) -> None:
        served = read_all(log)
        found = headers(served)
        first = found[0].base_offset if found else log.log_start_offset
        expected = b"".join(batch.data for batch in self.written if batch.base_offset >= first)
        assert expected.startswith(served), "nothing is served but what was written, in its order, without a gap"
        bases = {header.base_offset for header in found}
        for batch in self.written:
            if self.start < batch.next_offset <= must_end:
                assert batch.base_offset in bases, "what was promised is there"
        assert log.log_end_offset >= must_end, "the log ends where it did, or behind"
        assert self.recorded_start <= log.log_start_offset <= self.start, "the log starts where it was said to"
        assert log.recovery_point <= log.log_end_offset, "nothing beyond the log's end is taken for durable"
        if log.corruption is not None:
            assert may_be_damaged, "a kill damages nothing"
            assert "a segment is missing" not in log.corruption.why, "no crash takes a segment that is listed"
            assert self.is_damaged or log.corruption.offset >= must_end, "what was promised is not taken for damaged"
        check_epochs(log, found)
        check_producers(log, found, self.producers)
        check_transactions(log, served)
        self._check_lookups(log, found)

    def _check_lookups(self, log: Log, found: list[BatchHeader]) -> None:
        if not found or self.rng.random() > 0.2:
            return
        offset = self.rng.randrange(log.log_start_offset, log.log_end_offset)
        first = headers(log.read(offset, 1).read())[0]
        assert first.base_offset <= offset <= first.last_offset, "an offset is found in its batch"
        newest = max(header.max_timestamp for header in found)
        assert offset_for_timestamp(log, newest + 1) is None, "no timestamp is found that the log does not hold"
        if found[0].base_offset >= log.log_start_offset:
            assert offset_for_timestamp(log, newest) is not None, "the newest timestamp is found"

    def _inherit(self, former: LogLife, log: Log) -> None:
        end = log.log_end_offset
        self.written = [batch for batch in former.written if batch.next_offset <= end]
        self.producers = former.producers.after_loss(self.written)
        self.epoch = max(former.epoch, log.latest_epoch) + 1
        self.committed = end
        self.durable = min(former.durable, end)
        self.start = log.log_start_offset
        self.recorded_start = former.recorded_start
        directory = self.store_.log_dir_of(WHERE)
        assert directory is not None
        self.high_watermarks = {directory.checkpoints.high_watermarks.get(WHERE, 0)}
        self.is_created = True
        self.is_flushed = former.is_flushed
        self.is_damaged = log.corruption is not None

    def boot_id(self, *, lost_power: bool = False) -> str | None:
        """Of the machine, as it runs or after it has lost power; None: it does not tell."""
        return None

    # -- work ---------------------------------------------------------------------------------------------------------

    @property
    def store_(self) -> LogStore:
        assert self.store is not None
        return self.store

    @property
    def log(self) -> Log | None:
        return None if self.store is None else self.store.get(WHERE)

    @property
    def log_(self) -> Log:
        log = self.log
        assert log is not None
        return log

    def work(self) -> None:
        if self.store is None:
            self.store = open_store(self.disk, self.rng, self.roots, self.boot_id())
        if self.log is not None and self.log.topic_id != TOPIC_ID:  # the node takes it for another topic's
            self.store.delete(WHERE)
        if self.log is None:
            self.store.create(WHERE, TOPIC_ID, CONFIG)
            self.is_created = True
        if self.is_damaged:
            self.refetch()
        mix = self.mixes[self.mix]
        acts: list[Callable[[], None]] = [getattr(self, act) for act in mix]
        for act in self.rng.choices(acts, list(mix.values()), k=self.steps):
            self.doing = act.__name__
            act()

    def append(self) -> None:
        log = self.log_
        for _ in range(self.rng.randint(1, 3)):
            data = self.producers.batch(self.rng)
            info = log.stage(memoryview(data), parse_header(data), leader_epoch=self.epoch, wall_ms=NOW_MS)
            self.written.append(Written(info.base_offset, info.last_offset + 1, self.epoch, bytes(data)))
        log.commit()
        self.committed = log.log_end_offset

    def transact(self) -> None:
        log = self.log_
        for _ in range(self.rng.randint(1, 4)):
            data = transactional_batch(log, self.rng)
            info = log.stage(memoryview(data), parse_header(data), leader_epoch=self.epoch, wall_ms=NOW_MS)
            self.written.append(Written(info.base_offset, info.last_offset + 1, self.epoch, bytes(data)))
        log.commit()
        self.committed = log.log_end_offset

    def new_epoch(self) -> None:
        """It leads again, and may be killed before its first append."""
        self.epoch += 1
        self.log_.begin_epoch(self.epoch)

    def roll(self) -> None:
        self.log_.roll()

    def flush(self) -> None:
        self.log_.flush()
        self.durable = self.log_.recovery_point
        self.is_flushed = True

    def flush_under_appends(self) -> None:
        """The log grows while a thread syncs."""
        job = self.log_.prepare_flush()
        self.append()
        job.run()
        self.log_.complete_flush(job)
        self.durable = max(self.durable, job.up_to_offset)

    def overlapping_flushes(self) -> None:
        """Two threads sync; the segment was rolled before both, and the later one is the sooner."""
        self.roll()
        self.append()
        first = self.log_.prepare_flush()
        self.append()
        second = self.log_.prepare_flush()
        second.run()
        self.log_.complete_flush(second)
        self.durable = max(self.durable, self.log_.recovery_point)
        self.append()
        first.run()
        self.log_.complete_flush(first)

    def flush_while_cut(self) -> None:
        """The log is cut, and grows again, while a thread syncs."""
        job = self.log_.prepare_flush()
        job.run()
        self.truncate()
        self.append()
        self.log_.complete_flush(job)
        self.durable = self.log_.recovery_point

    def truncate(self) -> None:
        if self.written:
            batch = self.rng.choice(self.written)
            self._cut(batch.base_offset, self.rng.randrange(batch.base_offset, batch.next_offset))

    def start_at(self) -> None:
        """The leader's log begins behind the end of this one."""
        offset = self.log_.log_end_offset + self.rng.randrange(1, 50)
        self.committed = self.durable = self.recorded_start = 0
        self.start = offset
        self.is_damaged = True  # on the way the log holds nothing, and says so
        self._cut_off_the_loop(self.log_.prepare_restart(offset))
        self.is_damaged = False
        self._began_at(offset)

    def _cut_off_the_loop(self, job: CutJob | None) -> None:
        """Checkpoints may be prepared before a thread cuts and written after it, or in between."""
        if job is None:
            return
        floor = self.log_.cut_floor
        assert floor is not None
        lowered = {min(offset, floor) for offset in self.high_watermarks}
        self.high_watermarks |= lowered
        checkpoints = None
        if self.rng.random() < 0.3:
            self.store_.note_rows(self.log_, None)
            checkpoints = self.store_.prepare_checkpoints()
        job.run()
        self.high_watermarks = lowered
        if checkpoints is not None and self.rng.random() < 0.5:
            self.log_.complete_cut(job)
            checkpoints.run()
        else:
            if checkpoints is not None:
                checkpoints.run()
            self.log_.complete_cut(job)

    def _cut(self, end: int, offset: int) -> None:
        log = self.log_
        restarts = offset < log.segments[0].base_offset
        low = 0 if restarts else min(end, offset)
        self.committed, self.durable = min(self.committed, low), min(self.durable, low)
        self.recorded_start = min(self.recorded_start, low)
        if restarts:
            self.start = max(self.start, offset)
        was_damaged, self.is_damaged = self.is_damaged, self.is_damaged or restarts
        self._cut_off_the_loop(log.prepare_truncation(offset))
        self.is_damaged = was_damaged
        if restarts:
            self._began_at(offset)
        else:
            self.written = [batch for batch in self.written if batch.base_offset < end]
            self.start = min(self.start, log.log_end_offset)
            self.committed = log.log_end_offset
        self.producers = self.producers.after_loss(self.written)
        self.epoch += 1

    def _began_at(self, offset: int) -> None:
        self.written = []
        self.producers = Producers()
        self.start = self.committed = offset
        self.durable = self.recorded_start = offset if self.is_flushed else 0

    def drop(self) -> None:
        """DeleteRecords or retention: the log begins later."""
        log = self.log_
        offset = self.rng.randint(log.log_start_offset, log.log_end_offset)
        self.start = max(self.start, offset)
        log.maybe_increment_log_start_offset(offset)
        job = log.prepare_deletion(log.log_end_offset, NOW_MS)
        if job is None:
            return
        self._flush_meanwhile()
        job.run()
        self._flush_meanwhile()
        log.complete_deletion(job)

    def _flush_meanwhile(self) -> None:
        """Between the parts of a job, now and then."""
        if self.rng.random() < 0.3:
            self.append()
            self.flush()

    def expire(self) -> None:
        """Everything is old: the segment that is written is closed, and all go."""
        log = self.log_
        self.start = log.log_end_offset
        delete_old_segments(log, log.log_end_offset, NOW_MS + 2 * CONFIG.retention_ms)
        assert log.log_start_offset == log.log_end_offset

    def clear_away(self) -> None:
        trash = self.store_.take_trash()
        if trash is not None:
            trash()

    def checkpoint(self) -> None:
        log = self.log_
        high_watermark = self.rng.randint(log.log_start_offset, log.log_end_offset)
        self.high_watermarks.add(high_watermark)
        write_checkpoints(self.store_, {WHERE: high_watermark})
        self.high_watermarks = {high_watermark}
        self.recorded_start = log.log_start_offset

    def stop_and_start(self) -> None:
        self.is_stopping = True
        self.store_.close({}, broker_epoch=self.broker_epoch)
        self.durable = self.committed
        self.recorded_start = self.start
        self.store = open_store(self.disk, self.rng, self.roots, self.boot_id())
        self.is_stopping = False

    def refetch(self) -> None:
        log = self.log_
        assert log.corruption is not None
        offset = log.corruption.offset
        if offset < log.log_end_offset:
            self._cut(
                min((batch.base_offset for batch in self.written if batch.next_offset > offset), default=offset), offset
            )
        self.append()
        log.refetched()
        self.is_damaged = False


def open_store(disk: MountedDisk, rng: Random, roots: Sequence[str] = (ROOT,), boot_id: str | None = None) -> LogStore:
    """The store of a node, as its start opens it."""
    return LogStore.open(
        disk,
        roots,
        node_id=1,
        cluster_id="cluster",
        new_uuid=lambda: UUID(int=rng.getrandbits(128)),
        config_for=lambda _where: CONFIG,
        boot_id=boot_id,
    )
