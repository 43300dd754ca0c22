"""Random schedules of transactional producers that write to a real log, and of a read_committed consumer.

The log is rolled, cut, flushed, cleaned, stopped, killed and without power; its start rises, segments go, and an index
of aborted transactions is damaged. A second log follows it. A naive model has every record and marker in a list. The
invariants, looked at after each step:

* the last stable offset is that of the model;
* a consumer that leaves out what it is told of as aborted gets the committed records of its range, and no others (of a
  cleaned log: some of them, and the last of each key);
* it is told of no transaction that was not aborted, or has nothing in the range;
* the batches alone tell the same open transactions as the log does;
* what the log knows of a producer is its last batch: what it sends next is let in;
* who fetched a cleaned log knows of a producer what the leader does, unless that was cut since it was cleaned (what the
  cleaner took for an earlier batch may be the last one then, as in Apache Kafka).
"""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any, Final, NamedTuple

from at_once import complete_compaction, delete_old_segments
from storage_batches import NOW_MS, batch, stage
from storage_machine import Machine

from minikafka.errors import KafkaError
from minikafka.model import TopicPartition
from minikafka.records.batch import iter_batches
from minikafka.records.control import EndTxnMarker, build_end_txn_marker
from minikafka.records.read import iter_records
from minikafka.storage.config import LogConfig
from minikafka.storage.errors import EndsMayBeGone
from minikafka.storage.key_map import KeyMap
from minikafka.storage.last_stop import LastStop
from minikafka.storage.log import Log, ReadJob
from minikafka.storage.log_ends import Noted
from minikafka.storage.producer_state import ProducerState
from minikafka.storage.segment import Segment
from minikafka.storage.segment_cache import SegmentCache
from minikafka.storage.segment_names import LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX
from minikafka.storage.snapshots import marker_in, replay_segment
from minikafka.storage.transaction_index import ENTRY, NO_ABORTED, AbortedTransaction

STEPS: Final = 45
WHERE: Final = TopicPartition("orders", 0)
PRODUCERS: Final = (1, 2, 3)
PLAIN: Final = -1


class ViolationError(AssertionError):
    """An invariant does not hold; the message names it."""


class Written(NamedTuple):
    """A record, or a marker (without a key)."""

    offset: int
    producer_id: int
    key: bytes | None
    value: bytes
    commits: bool | None = None


class Transaction(NamedTuple):
    """``marker``: its offset, None while it is open. ``last``: that of its last record."""

    producer_id: int
    first: int
    last: int
    marker: int | None
    commits: bool


class Schedule:
    """One log and its follower."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.is_compacted = seed % 3 == 1
        self.is_deleted = not self.is_compacted or seed % 2 == 0
        policies = {"compact": self.is_compacted, "delete": self.is_deleted}
        self.config = LogConfig(
            cleanup_policy=frozenset(policy for policy, has in policies.items() if has),
            min_cleanable_dirty_ratio=0.0,
            delete_retention_ms=1_000,
            segment_bytes=self.rng.choice((400, 900, 1 << 20)),
            segment_index_bytes=self.rng.choice((34 * 3, 1 << 20)),
            index_interval_bytes=self.rng.choice((1, 150, 1000)),
        )
        self.capacity = (1, 2, 256)[seed // 3 % 3]
        """Of the cache: an answer may take more segments than stay in memory."""
        self.machine = Machine()
        self.log = self._opened(LastStop())
        self.follower = Log.open(Machine().disk, "/orders-0", WHERE, self.config, last_stop=LastStop())
        self.written: list[Written] = []
        self.high_watermark = 0
        self.epoch = 0
        self.begun = 0
        self.bumps = self.rng.random() < 0.5
        """Each end of a transaction has the next epoch of its producer (KIP-890)."""
        self.producer_epochs = dict.fromkeys(PRODUCERS, 0)
        self.knows_producers = not self.is_compacted
        """Else what the cleaner takes for an earlier batch may turn out, after a cut or a load, to be the last."""
        self.has_forgotten = False
        self.forgettable: set[int] = set()
        """Producers that may be unknown: what they wrote since they were forgotten may be cut off, too."""
        self.wall_ms = NOW_MS
        self.cleaned_to = 0
        self.noted_start = 0  # what a kill leaves of the log start
        self.forgot_replication = 0
        """Markers below are not known to be above the high watermark any more: the log was loaded since."""
        self.doing = ""
        self.reader = Random(-seed)
        self.looking_up: ReadJob[Any] | None = None

    def _opened(self, last_stop: LastStop) -> Log:
        cache = SegmentCache(self.capacity)
        return Log.open(self.machine.disk, "/orders-0", WHERE, self.config, last_stop=last_stop, cache=cache)

    def run(self) -> None:
        acts = {
            self.write: 8,
            self.end: 6,
            self.replicate: 6,
            self.roll: 2,
            self.flush: 2,
            self.cut: 2,
            self.stop_and_start: 1,
            self.kill: 1,
            self.lose_power: 1,
            self.raise_start: 1,
            self.forget: 2,
            self.forget_producers: 2,
            self.damage: 1,
            self.follow: 2,
            **({self.clean: 4, self.be_away: 1, self.begin_epoch: 2} if self.is_compacted else {}),
            **({self.outlive: 1} if self.is_deleted else {}),
        }
        for act in self.rng.choices(list(acts), list(acts.values()), k=STEPS):
            self.doing = act.__name__
            act()
            self._look_up()
            self.check(self.log, self.high_watermark)
            self._check_producers()

    def _look_up(self) -> None:
        """Somebody asks for a time, which takes a thread a while: the answer comes some steps later."""
        if self.looking_up is None and self.reader.random() < 0.2:
            self.looking_up = self.log.prepare_timestamp_lookup(self.reader.choice((0, NOW_MS, NOW_MS + 1)))
            self.looking_up.run()
        elif self.looking_up is not None and self.reader.random() < 0.3:
            with suppress(KafkaError):  # the log was cut or opened anew
                self.log.complete_read(self.looking_up)
            self.looking_up = None

    # -- what happens -------------------------------------------------------------------------------------------------

    def _next_sequence(self, producer_id: int) -> int:
        entry = self.log.producers.get(producer_id)
        if entry is not None and entry.epoch != self.producer_epochs[producer_id]:
            return 0
        if entry is None:  # it may have been forgotten, and go on with a later one; not with one that comes again
            self.begun += 1
            return 1_000 * self.begun
        return entry.last_sequence + 1

    def write(self) -> None:
        producer_id = self.rng.choice((*PRODUCERS, *PRODUCERS, PLAIN))
        keys = tuple(b"%d" % self.rng.randrange(6) for _ in range(self.rng.choice((1, 1, 2, 3))))
        values = [self.rng.randbytes(self.rng.choice((1, 60))) for _ in keys]
        is_transactional = producer_id != PLAIN
        sequence = self._next_sequence(producer_id) if is_transactional else -1
        producer = (producer_id, self.producer_epochs[producer_id] if is_transactional else -1, sequence)
        appended = stage(
            self.log,
            batch(*values, keys=keys, producer=producer, is_transactional=is_transactional),
            leader_epoch=self.epoch,
        )
        self.log.commit()
        self.forgettable.discard(producer_id)
        if appended.duplicate:
            return  # of one that was forgotten, it began anew, and a snapshot tells of its first life
        for at, (key, value) in enumerate(zip(keys, values, strict=True)):
            self.written.append(Written(appended.base_offset + at, producer_id, key, value))

    def end(self) -> None:
        open_ones = [one.producer_id for one in self.transactions() if one.marker is None]
        producer_id = self.rng.choice(open_ones or PRODUCERS)
        commits = self.rng.random() < 0.5
        self.producer_epochs[producer_id] += self.bumps
        epoch = self.producer_epochs[producer_id]
        marker = build_end_txn_marker(producer_id, epoch, EndTxnMarker(commits, 0), timestamp=self.wall_ms)
        appended = stage(self.log, marker, leader_epoch=self.epoch)
        self.log.commit()
        self.written.append(Written(appended.base_offset, producer_id, None, b"", commits))

    def replicate(self) -> None:
        end = self.log.log_end_offset
        self.high_watermark = end if self.rng.random() < 0.6 else self.rng.randint(self.high_watermark, end)

    def roll(self) -> None:
        self.log.roll()

    def flush(self) -> None:
        self.log.flush()
        self.noted_start = self.log.log_start_offset

    def cut(self) -> None:
        """Mostly behind the high watermark; sometimes before, as after an unclean election."""
        low = self.high_watermark if self.rng.random() < 0.7 else self.log.log_start_offset
        low = max(low, self.cleaned_to)
        if self.rng.random() < 0.3:
            self.forget_producers()
        if low >= self.log.log_end_offset:
            return
        self.has_forgotten = self.has_forgotten or self.cleaned_to > 0  # what it took for an earlier batch was the last
        self.forgettable = set(PRODUCERS)
        self.log.truncate_to(self.rng.randint(low, self.log.log_end_offset))
        self._lost()

    def stop_and_start(self) -> None:
        start, end = self.log.log_start_offset, self.log.log_end_offset
        self.log.close()
        if self.rng.random() < 0.3:
            self._damage([one for one in self.log.segments if one.known_aborted.checksum > NO_ABORTED])
        self.noted_start = start
        self.log = self._opened(LastStop(is_clean=True, recovery_point=end, log_start_offset=start))
        self._lost()

    def kill(self) -> None:
        log, reached = self.log, max((one.offset + 1 for one in self.written), default=0)
        noted = Noted(max(reached, log.active_base_offset), log.segments[0].base_offset)
        self.machine.kill()
        start = max(self.noted_start, log.segments[0].base_offset)  # a DeleteRecords of the last seconds is undone
        last_stop = LastStop(start, log.recovery_point, self.high_watermark, noted, was_killed=True)
        self.log = self._opened(last_stop)
        if self.log.log_end_offset != log.log_end_offset:
            raise ViolationError(f"a kill cuts the log at {self.log.log_end_offset}: {self.log.corruption}")
        self._lost()

    def lose_power(self) -> None:
        log = self.log
        self.machine.lose_power(self.rng)
        self.forgettable = set(PRODUCERS)
        self.log = self._opened(LastStop(log.log_start_offset, log.recovery_point))
        corruption = self.log.corruption
        if corruption is not None:  # unsynced writes, in any order: it is fetched again from there on
            self.log.truncate_to(corruption.offset)
            self.log.refetched()
        if self.log.log_end_offset < log.recovery_point:
            raise ViolationError(f"without power the log ends at {self.log.log_end_offset}: {self.log.corruption}")
        self._lost()

    def _lost(self) -> None:
        self.log.flush()  # a start syncs what it found
        end = self.log.log_end_offset
        self.written = [one for one in self.written if one.offset < end]
        self.high_watermark = min(self.high_watermark, end)
        self.noted_start = min(self.noted_start, end)
        self.forgot_replication = end
        self.epoch += 1
        self.follower = Log.open(Machine().disk, "/orders-0", WHERE, self.config, last_stop=LastStop())

    def raise_start(self) -> None:
        """DeleteRecords, and retention takes whole segments."""
        if not self.is_deleted or self.high_watermark <= self.log.log_start_offset:
            return
        self.log.delete_records(self.rng.randint(self.log.log_start_offset, self.high_watermark), self.high_watermark)
        delete_old_segments(self.log, self.high_watermark, NOW_MS)

    def forget(self) -> None:
        """Nobody read the closed segments lately."""
        for segment in self.log.segments.closed:
            segment.cool()

    def forget_producers(self) -> None:
        """They were idle for long, or there are too many. A start may remember them by what the cleaner takes."""
        self.has_forgotten = True
        self.forgettable = set(PRODUCERS)
        producers = self.log.producers
        if self.rng.random() < 0.5:
            producers.keep_newest(self.rng.choice((0, 1)))
        else:
            producers.remove_expired(0, 0)
            producers.remove_expired(0, 0)

    def damage(self) -> None:
        """An index of aborted transactions that no crash leaves: of a closed, flushed segment.

        Of one that took the place of others nothing is known before the next flush.
        """
        self.forget()
        closed = [one for one in self.log.segments.closed if one.is_index_written]
        self._damage([one for one in closed if self.log.segment_list.aborted_of(one.base_offset) > NO_ABORTED])

    def _damage(self, segments: list[Segment]) -> None:
        if not segments:
            return
        disk, path = self.machine.disk, self.rng.choice(segments).path(TRANSACTION_INDEX_SUFFIX)
        data = bytearray(disk.read_bytes(path)) if disk.exists(path) else bytearray()
        way = self.rng.choice(["a byte less", "zeros", "an entry less", "another number", "none"])
        if way == "none" or not data:
            disk.unlink(path)
            disk.fsync_dir("/orders-0")
            return
        if way == "another number":
            data[9] ^= 1  # of the first producer's id
        elif way == "zeros":
            data = bytearray(len(data))
        else:
            del data[-1 if way == "a byte less" else -ENTRY.size :]
        disk.write_bytes(path, data)
        disk.fsync_path(path)

    def follow(self) -> None:
        """The follower comes back, gets all of it, or some, and is asked the same."""
        log, follower = self.log, self.follower
        follower.begin_following()
        end = (
            log.log_end_offset
            if self.rng.random() < 0.7
            else self.rng.randint(log.log_start_offset, log.log_end_offset)
        )
        while follower.log_end_offset < end:
            if follower.log_end_offset < log.segments[0].base_offset:  # also where it was cut to fetch again
                follower.truncate_fully_and_start_at(log.segments[0].base_offset)
                continue
            offset = follower.log_end_offset
            job = log.prepare_read(offset, 500)
            if job is not None:
                job.run()
                log.complete_read(job)
            data = log.read(offset, 500, from_first_batch=True).read()
            try:
                follower.append_as_follower(memoryview(data))
            except EndsMayBeGone as gone:
                follower.truncate_to(gone.offset)
        if follower.log_end_offset < log.log_end_offset:
            return
        follower.maybe_increment_log_start_offset(log.log_start_offset)
        self.check(follower, self.high_watermark, is_follower=True)
        self._check_same_producers(follower)

    def begin_epoch(self) -> None:
        """Another leader: its first batch stays, of whatever kind it is."""
        self.epoch += 1

    def outlive(self) -> None:
        """Retention takes the ends of transactions that a snapshot has open; then the log is loaded from that.

        Or it takes their beginnings, and the cleaner takes the rest.
        """
        for _ in range(8):
            self.write()
        self.roll()
        for _ in range(3):
            self.end()
        self.roll()
        self.high_watermark = self.log.log_end_offset
        bases = [segment.base_offset for segment in self.log.segments]
        self.log.delete_records(self.rng.choice(bases) if self.is_compacted else bases[-1], self.high_watermark)
        if self.begun % 3 == 0:
            self._damage_what_goes()
        delete_old_segments(self.log, self.high_watermark, NOW_MS)
        if self.is_compacted:
            self._live_on()
        self.kill()

    def _damage_what_goes(self) -> None:
        """Then there is no other snapshot than one from before."""
        self.forget()
        for segment in self.log.segments.closed:
            if segment.next_offset <= self.log.log_start_offset:
                self.machine.disk.write_bytes(segment.path(LOG_SUFFIX), bytes(segment.size))
                self.knows_producers = False

    def be_away(self) -> None:
        """The follower stops in the middle of transactions, and comes back days later."""
        self.follow()
        self._live_on()
        self.follow()

    def _live_on(self) -> None:
        for _ in range(4):
            self.end()
            self.write()
            self.high_watermark = self.log.log_end_offset
            self.clean()

    def clean(self) -> None:
        log, rng = self.log, self.rng
        if any(self.high_watermark <= (one.marker or 0) < self.forgot_replication for one in self.transactions()):
            return  # a load forgets, as in Kafka, that a marker is above the high watermark
        self.wall_ms += rng.choice((0, 600, 5_000))
        if rng.random() < 0.7:
            log.roll()
        if rng.random() < 0.2:
            log.first_dirty_offset = log.log_start_offset  # its checkpoint was lost, and it begins anew
        log.flush()
        job = log.plan_compaction(self.high_watermark, self.wall_ms)
        if job is None:
            return
        job._keys = KeyMap(log.first_dirty_offset, rng.choice((2, 1_000)))  # a pass may end inside a segment
        while not job.step():
            pass
        if not log.prepare_swap(job):
            raise ViolationError(f"the cleaner stops: {job.error} {job.damaged}")
        job.publish()
        complete_compaction(log, job)
        self.cleaned_to = self.high_watermark  # markers of what was cleaned are below
        self._check_cleaned(job.end_offset)

    def _check_cleaned(self, end_offset: int) -> None:
        """Of a transaction that was aborted, no record is left below the end of the pass, and in the log."""
        aborted = [one for one in self.transactions() if one.marker is not None and not one.commits]
        for offset, _value, header_producer in _records(_read(self.log)):
            if offset < self.log.log_start_offset:
                continue
            of_one = (one for one in aborted if one.producer_id == header_producer and offset < end_offset)
            if any(one.first <= offset <= one.last for one in of_one):
                raise ViolationError(f"the record at {offset} was aborted, and is there after the cleaner")

    # -- what must hold -----------------------------------------------------------------------------------------------

    def transactions(self) -> list[Transaction]:
        """All of them, by producers, in order."""
        found: list[Transaction] = []
        for producer_id in PRODUCERS:
            first = last = -1
            for one in self.written:
                if one.producer_id != producer_id:
                    continue
                if one.commits is None:
                    first, last = (one.offset if first < 0 else first), one.offset
                elif first >= 0:
                    found.append(Transaction(producer_id, first, last, one.offset, one.commits))
                    first = -1
            if first >= 0:
                found.append(Transaction(producer_id, first, last, None, False))
        return found

    def check(self, log: Log, high_watermark: int, *, is_follower: bool = False) -> None:
        self._check_last_stable_offset(log, high_watermark, is_follower=is_follower)
        self._check_reads(log, log.last_stable_offset(high_watermark))
        self._check_open(log)

    def _check_last_stable_offset(self, log: Log, high_watermark: int, *, is_follower: bool) -> None:
        """It has two bounds where an unreplicated marker, or what is below the log start, may have been forgotten."""
        start = log.log_start_offset
        unstable, maybe = [high_watermark], [high_watermark]
        for one in self.transactions():
            if one.marker is None:
                left = [w.offset for w in self.written if w.producer_id == one.producer_id and w.offset >= one.first]
                left = [offset for offset in left if offset >= start]
                unstable += left[:1] if one.first < start else [one.first]
                maybe.append(max(one.first, start))
            elif one.marker >= high_watermark:
                maybe.append(max(one.first, start))
                if one.marker >= self.forgot_replication and one.first >= start and not is_follower:
                    unstable.append(one.first)
        found = log.last_stable_offset(high_watermark)
        if not min(maybe) <= found <= min(unstable):
            raise ViolationError(f"last stable offset {found}, and not {min(maybe)} to {min(unstable)}")

    def _check_reads(self, log: Log, last_stable_offset: int) -> None:
        start = self.rng.randint(log.log_start_offset, max(last_stable_offset, log.log_start_offset))
        if self.rng.random() < 0.5:
            start = log.log_start_offset
        offset, delivered = start, {}
        max_bytes = self.rng.choice((1, 300, 1 << 20))
        while offset < last_stable_offset:
            data, aborted, end = _fetch(log, offset, last_stable_offset, max_bytes)
            if end <= offset:
                behind = log.read(offset, 1).read()
                if _end_of_first(behind) > last_stable_offset:
                    break  # it is inside of a batch
                raise ViolationError(f"nothing to read at {offset}, before {last_stable_offset}")
            self._check_told(aborted, offset, end)
            delivered.update(_consumed(data, aborted, offset))
            offset = end
        aborted_ones = {(one.producer_id, one.first, one.last) for one in self.transactions() if not one.commits}
        committed = {
            one.offset: one
            for one in self.written
            if one.commits is None
            and start <= one.offset < offset
            and not any(pid == one.producer_id and a <= one.offset <= b for pid, a, b in aborted_ones)
        }
        for found, value in delivered.items():
            if found not in committed or committed[found].value != value:
                raise ViolationError(f"a consumer gets the record at {found}, which was not committed")
        wanted = set(committed)
        if self.is_compacted:
            wanted = set({one.key: one.offset for one in committed.values()}.values())
        if not wanted <= delivered.keys():
            raise ViolationError(f"a consumer does not get {sorted(wanted - delivered.keys())}")

    def _check_told(self, aborted: list[AbortedTransaction], start: int, end: int) -> None:
        known = {(one.producer_id, one.marker): one for one in self.transactions() if not one.commits}
        for told in aborted:
            one = known.get((told.producer_id, told.last_offset))
            if one is None or not one.first <= told.first_offset <= one.last:
                raise ViolationError(f"{told} was not aborted")
            if told.first_offset >= end or told.last_offset < start:
                raise ViolationError(f"{told} has nothing from {start} to {end}")

    def _check_open(self, log: Log) -> None:
        """Whoever loads the log from its batches holds back the same offset, if nothing below its start is needed."""
        replayed = ProducerState()
        for segment in log.segments:
            replay_segment(replayed, segment, 0, log.log_end_offset)
        found, told = (next(iter(state._ongoing), None) for state in (replayed, log.producers))
        base_offset = log.segments[0].base_offset
        if found != told and log.log_start_offset == base_offset and (told is None or told >= base_offset):
            raise ViolationError(f"the batches tell {found} as the first open offset, and the log {told}")

    def _check_producers(self) -> None:
        """Of one that wrote nothing in its epoch, or is forgotten, nothing is known."""
        wrote = {one.producer_id for one in self.written if one.key is not None} - {PLAIN} - self.forgettable
        unknown = {producer_id for producer_id in wrote if self.log.producers.get(producer_id) is None}
        if unknown and self.knows_producers:
            raise ViolationError(f"nobody knows of producers {unknown}")
        for entry in self.log.producers.entries if self.knows_producers else ():
            batches = [one for one in self.written if one.producer_id == entry.producer_id and one.key is not None]
            if entry.batches and entry.last_offset != batches[-1].offset:
                last = batches[-1].offset
                raise ViolationError(f"producer {entry.producer_id} wrote {last} last, not {entry.last_offset}")

    def _check_same_producers(self, follower: Log) -> None:
        """Who fetched a cleaned log refuses what the leader refuses, unless retention took what that knows."""
        may_differ = not self.is_compacted or self.is_deleted or self.has_forgotten
        for entry in () if may_differ else self.log.producers.entries:
            theirs = follower.producers.get(entry.producer_id)
            known = None if theirs is None else (theirs.epoch, theirs.last_sequence, theirs.last_offset)
            if known != (entry.epoch, entry.last_sequence, entry.last_offset):
                raise ViolationError(f"the leader knows {entry}, and the follower {theirs}")


def _fetch(log: Log, offset: int, limit: int, max_bytes: int) -> tuple[bytes, list[AbortedTransaction], int]:
    """As the fetch handler does it."""
    job = log.prepare_read(offset, max_bytes)
    if job is not None:
        job.run()
        log.complete_read(job)
    found = log.read(offset, max_bytes, max_offset=log.aborted.read_limit(offset, limit))
    end = log.end_of(offset, found) if found.size else offset
    for _ in range(3):
        aborted = log.aborted.between(offset, end)
        if aborted is not None:
            return found.read(), aborted, end
        load = log.aborted.prepare(offset, end)
        assert load is not None
        load.run()
        log.complete_read(load)
    raise ViolationError(f"the aborted transactions from {offset} to {end} are never found")


def _end_of_first(data: bytes) -> int:
    """The offset after the first batch; 0 without one."""
    return next((header.next_offset for _at, header in iter_batches(data)), 0)


def _read(log: Log) -> bytes:
    return b"".join(segment.file.pread(segment.size, 0) for segment in log.segments)


def _records(data: bytes) -> list[tuple[int, bytes | None, int]]:
    return [
        (record.offset, record.value, header.producer_id)
        for at, header in iter_batches(data)
        if not header.is_control
        for record in iter_records(data, at, header)
    ]


def _consumed(data: bytes, told: list[AbortedTransaction], start: int) -> dict[int, bytes | None]:
    """What Kafka's consumer makes of an answer."""
    waiting = sorted(told, key=lambda one: one.first_offset)
    aborting: set[int] = set()
    delivered = {}
    for at, header in iter_batches(data):
        while waiting and waiting[0].first_offset <= header.last_offset:
            aborting.add(waiting.pop(0).producer_id)
        if header.is_control:
            marker = marker_in(data[at : at + header.size_in_bytes], header)
            if marker is not None and not marker.is_commit:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            for record in iter_records(data, at, header):
                if record.offset >= start:
                    delivered[record.offset] = record.value
    return delivered


def run(seed: int) -> None:
    """Run one schedule; raises what it violated."""
    schedule = Schedule(seed)
    try:
        schedule.run()
    except ViolationError as violation:
        violation.add_note(f"seed {seed}, while {schedule.doing}")
        raise
