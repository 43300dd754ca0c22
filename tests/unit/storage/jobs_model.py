"""Threads at work on the logs of one node, and everything else that may happen between two of their system calls.

Threads sync, cut, clean, delete segments, write checkpoints, look for files, copy logs to another directory, cut the
copies and make new logs. Meanwhile the loop appends, deletes topics and makes them again with the same names, and moves
logs; somebody takes files away, and a disk fails at some operation, and from then on, until the next process. Each job
stops at some of its operations until chance lets it go on, also for ever. Then the process is killed, or the machine
loses power, and the next process must find what was written, no damage, and nothing of a deleted topic.

The rules of the drivers hold: one sync, cut or swap at a time per log (``broker/log_jobs``), one retention, cleaning,
checkpoint and move at a time (``broker/maintenance``, ``drivers/moves``).
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random
from typing import Final, TypeVar
from uuid import UUID

from at_once import complete_compaction
from simulator.disk import Operation, SimulatedDisk
from simulator.killed import Killed
from simulator.threads import Job
from storage_batches import NOW_MS, append, values_in

from minikafka.errors import KafkaError
from minikafka.model import TopicPartition
from minikafka.storage.arriving import Arrival
from minikafka.storage.aside import TEMPORARY_SUFFIX
from minikafka.storage.compaction import CompactionJob
from minikafka.storage.config import LogConfig
from minikafka.storage.cut_job import CutJob
from minikafka.storage.errors import PassingFailure, StorageFailure
from minikafka.storage.log import FlushJob, Log
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_store import LogStore
from minikafka.storage.moving import ReplicaMove
from minikafka.storage.registration import Registrations

T = TypeVar("T")

ROOTS: Final = ("/a", "/b")
NAMES: Final = tuple(TopicPartition(name, 0) for name in ("t", "u", "v"))
CONFIG: Final = LogConfig(
    segment_bytes=400,
    index_interval_bytes=100,
    cleanup_policy=frozenset(("compact", "delete")),
    min_cleanable_dirty_ratio=0.0,
    file_delete_delay_ms=0,
)
ACTS: Final = {
    "append": 16,
    "go_on": 50,
    "begin_epoch": 1,
    "flush": 4,
    "cut": 4,
    "delete_records": 2,
    "retain": 4,
    "clean": 2,
    "checkpoint": 2,
    "look": 1,
    "move": 3,
    "clear_away": 1,
    "take_away": 1,
    "make_again": 3,
    "create": 8,
    "delete": 2,
}
"""How often each comes, relative to the others."""
LIVES: Final = 3
ACTS_OF_A_LIFE: Final = 300
FAILS_WITHIN: Final = 1_000
"""Operations of a life, after which a disk may fail."""
STOPS: Final = 0.15
"""Of the operations of threads."""


@dataclass
class Topic:
    """What a log holds, as its clients know: keys are unique, so the cleaner drops no record."""

    topic_id: UUID
    values: dict[int, bytes] = field(default_factory=dict)
    start: int = 0
    is_made: bool = False
    cut_at: int | None = None
    """While it is being cut."""
    in_doubt: dict[int, bytes] = field(default_factory=dict)
    """Records whose append failed: a disk that fails may have them."""
    is_lost: bool = False
    """Somebody took files of the running node away, and it was not fetched again since."""


class Node:
    """The lives of one node, one after the other."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self._faults = Random(-1 - seed)
        self.platter = SimulatedDisk()
        self.topics: dict[TopicPartition, Topic] = {}
        self._ids = (UUID(int=number) for number in count(1))
        self._numbers = count()
        self._boot = 0

    def run(self) -> None:
        """AssertionError when a promise is broken."""
        self._start()
        for _ in range(LIVES):
            acts = [getattr(self, f"_{name}") for name, weight in ACTS.items() for _ in range(weight)]
            if self._faults.random() < 0.1:
                self._fails_in = self._faults.randrange(FAILS_WITHIN)
            for _ in range(self.rng.randrange(ACTS_OF_A_LIFE)):
                self._do(self.rng.choice(acts))
            self._end()

    # -- lives ------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._waiting: list[Job] = []
        self._busy: set[Log] = set()
        self._epoch = 0
        self._upkeep: set[str] = set()
        self._moving: ReplicaMove | None = None
        self._fails_in: int | None = None  # operations until a disk fails
        self._failed = ""  # the log directory on it
        self._left: set[TopicPartition] = set()  # deleted when that had failed
        self._disk = disk = self.platter.mount(self._before, self._before)
        self.store = LogStore.open(
            disk,
            ROOTS,
            node_id=1,
            cluster_id="c",
            new_uuid=lambda: UUID(int=self.rng.getrandbits(128)),
            boot_id=f"boot {self._boot}",
            config_for=lambda _where: CONFIG,
            on_failure=self._on_failure,
        )
        self.claimed = Registrations(disk, self.store, f"boot {self._boot}").whole_replicas()
        Registrations(disk, self.store, f"boot {self._boot}").write(self._boot + 1)
        self._epoch = 1 + max((log.latest_epoch for log in self.store), default=0)

    def _do(self, act: Callable[[], None]) -> None:
        try:
            act()
        except (KafkaError, OSError):
            if not self._failed and not any(topic.is_lost for topic in self.topics.values()):
                raise

    def _on_failure(self, directory: LogDir, failure: StorageFailure) -> None:
        assert directory.path == self._failed, f"{directory.path} failed: {failure}"

    def _end(self) -> None:
        """SIGKILL, or no power. The next process finds the disks working."""
        loses_power = self.rng.random() < 0.3 and not self.platter.has_failed_sync  # later syncs lie then: a limit
        durable = {tp: log.recovery_point for tp in self.topics if (log := self.store.get(tp)) is not None}
        failed, left = self._failed, self._left
        places = {tp: self.store.log_dir_of(tp) for tp in self.topics}
        on_failed = {tp for tp, place in places.items() if failed and (place is None or place.path == failed)}
        self.platter.kill()
        for job in self._waiting:
            job.kill()
        if loses_power:
            self.platter.lose_power(self.rng)
            self._boot += 1
        self._start()
        for tp in NAMES:
            if loses_power:
                self._check_after_power_cut(tp, durable.get(tp, 0))
            else:
                self._check_after_kill(tp, has_failed=tp in on_failed, is_left=tp in left)
        self._go_on_with_what_is_there()

    def _check_after_kill(self, tp: TopicPartition, *, has_failed: bool, is_left: bool) -> None:
        log, topic = self.store.get(tp), self.topics.get(tp)
        if topic is not None:
            log = next((one for one in self._logs(tp) if one.topic_id == topic.topic_id), log)
        if is_left and (topic is None or not topic.is_made):
            return
        if topic is None or not topic.is_made:
            assert log is None or log.log_end_offset == 0, f"{tp} was not there"
            assert log is None or log.corruption is None, f"{tp} is damaged, and had no records: {log.corruption}"
            return
        if topic.is_lost and tp.partition not in self.claimed.get(topic.topic_id, ()):
            return
        assert log is not None, f"{tp} was there"
        assert not self.store.is_missing(tp, topic.topic_id), f"{tp} is said to be missing"
        assert log.topic_id == topic.topic_id, f"{tp} has the id of another topic"
        assert log.corruption is None, f"{tp} is damaged, and nothing was: {log.corruption}"
        end = max(topic.values, default=-1) + 1
        least = end if topic.cut_at is None else 0
        most = log.log_end_offset if has_failed else max(end, topic.start)
        assert least <= log.log_end_offset <= most, f"{tp} ends at {log.log_end_offset}, not {end}"
        if has_failed:
            for offset, value in _values(log).items():
                assert topic.values.get(offset, value) == value
            return
        assert topic.cut_at is not None or tp.partition in self.claimed.get(topic.topic_id, ()), f"{tp} is not claimed"
        self._check_values(tp, log, topic)

    def _check_after_power_cut(self, tp: TopicPartition, durable: int) -> None:
        topic = self.topics.get(tp)
        if topic is None or topic.cut_at is not None or topic.is_lost or durable == 0:
            return
        log = next((log for log in self._logs(tp) if log.topic_id == topic.topic_id), None)
        assert log is not None, f"{tp} was synced"
        assert log.corruption is None or log.corruption.offset >= durable, f"{tp} is damaged: {log.corruption}"
        assert log.log_end_offset >= durable, f"{tp} ends at {log.log_end_offset}, and was synced to {durable}"
        self._check_values(tp, log, topic)

    def _check_values(self, tp: TopicPartition, log: Log, topic: Topic) -> None:
        found = _values(log)
        start, end = log.log_start_offset, log.log_end_offset
        assert start <= topic.start, f"{tp} begins at {start}, and {topic.start} was asked for"
        expected = {offset: value for offset, value in topic.values.items() if topic.start <= offset < end}
        found = {
            offset: value
            for offset, value in found.items()
            if offset >= topic.start and topic.in_doubt.get(offset) != value
        }
        assert found == expected, f"{tp} has {found} and not {expected}"

    def _logs(self, tp: TopicPartition) -> list[Log]:
        return [log for log in self.store if log.topic_partition == tp]

    def _go_on_with_what_is_there(self) -> None:
        """A power cut may bring deleted logs back: they are set aside, as strays are."""
        before, self.topics = self.topics, {}
        for tp in NAMES:
            topic_id = before[tp].topic_id if tp in before else None
            for log in self._logs(tp):
                if log.topic_id == topic_id and log.corruption is None:
                    self.topics[tp] = Topic(log.topic_id, _values(log), log.log_start_offset, is_made=True)
                else:
                    self.store.set_aside(log)

    # -- threads ----------------------------------------------------------------------------------------------------

    def _before(self, operation: Operation) -> None:
        """A thread may stop at any operation, but where it holds the lock of a small file."""
        holds_lock = operation.kind == "rename" and operation.path.endswith(TEMPORARY_SUFFIX)
        if (job := Job.current) is not None and not holds_lock and self.rng.random() < STOPS:
            self._waiting.append(job)
            job.wait()
        if operation.kind in ("open", "read"):
            return
        if self._fails_in is not None:
            self._fails_in -= 1
            if self._fails_in <= 0:
                self._failed, self._fails_in = operation.path[:2], None
        if self._failed and operation.path.startswith(self._failed):
            raise OSError(errno.EIO, "the disk failed", operation.path)

    def _in_thread(self, act: Callable[[], object], then: Callable[[], object]) -> None:
        def work() -> None:
            try:
                act()
            except Killed:
                return
            except Exception as error:
                self._done.append(partial(_raise, error))
            else:
                self._done.append(then)

        self._let_go_on(Job(work))

    def _let_go_on(self, job: Job) -> None:
        self._done: list[Callable[[], object]] = []
        job.go_on()
        for then in self._done:
            with suppress(StorageFailure):  # of a log that was deleted, or moved away
                then()

    def _on_files(self, log: Log, act: Callable[[], object], then: Callable[[], object]) -> None:
        """A job that changes files by name."""
        under_way = ExitStack()
        under_way.enter_context(log.writing())

        def end() -> None:
            under_way.close()
            then()

        self._in_thread(act, end)

    def _go_on(self) -> None:
        if self._waiting:
            self._let_go_on(self._waiting.pop(self.rng.randrange(len(self._waiting))))

    def _alone(self, log: Log, act: Callable[[], object], then: Callable[[], object], files: Log | None = None) -> None:
        """A sync, a cut or a swap, or a sync of the log's copy, whose ``files`` are changed."""
        self._busy.add(log)

        def end() -> None:
            self._busy.discard(log)
            then()

        self._on_files(files or log, act, end)

    def _once(self, name: str, start: Callable[[Callable[[], None]], None]) -> None:
        """Upkeep of that name, unless it is under way; ``start`` is given how to say that it is over."""
        if name not in self._upkeep:
            self._upkeep.add(name)
            start(lambda: self._upkeep.discard(name))

    # -- acts -------------------------------------------------------------------------------------------------------

    def _some(self) -> tuple[TopicPartition, Topic, Log] | None:
        made = [tp for tp, topic in self.topics.items() if topic.is_made and not topic.is_lost]
        if not made:
            return None
        tp = self.rng.choice(made)
        log = self.store.get(tp)
        if self._failed and (log is None or log.failure is not None):
            return None
        assert log is not None
        assert log.failure is None, f"{tp} failed: {log.failure}"
        return tp, self.topics[tp], log

    def _idle(self) -> tuple[TopicPartition, Topic, Log] | None:
        found = self._some()
        return None if found is None or found[2] in self._busy else found

    def _append(self) -> None:
        if (found := self._some()) and not found[2].is_cutting:
            _tp, topic, log = found
            value = b"%d" % next(self._numbers) * self.rng.choice((1, 10))
            topic.in_doubt[log.log_end_offset] = value
            appended = append(log, value, keys=(value,), leader_epoch=self._epoch)
            topic.values[appended.base_offset] = topic.in_doubt.pop(appended.base_offset)

    def _begin_epoch(self) -> None:
        self._epoch += 1

    def _flush(self) -> None:
        if found := self._idle():
            log = found[2]
            job = log.prepare_flush()
            self._alone(log, job.run, lambda: log.complete_flush(job))

    def _cut(self) -> None:
        if not (found := self._idle()):
            return
        _tp, topic, log = found
        offset = self.rng.randrange(log.log_start_offset, log.log_end_offset + 1)
        job = log.prepare_truncation(offset)
        if job is not None:
            topic.cut_at = offset
            self._epoch += 1  # other records come in their place: two of one epoch and offset are the same
            self._alone(log, job.run, lambda: self._cut_done(topic, log, job))

    def _cut_done(self, topic: Topic, log: Log, job: CutJob) -> None:
        log.complete_cut(job)
        topic.cut_at = None
        topic.values = {offset: value for offset, value in topic.values.items() if offset < log.log_end_offset}
        topic.start = min(topic.start, log.log_end_offset)

    def _delete_records(self) -> None:
        if (found := self._some()) and not found[2].is_cutting:
            _tp, topic, log = found
            topic.start = log.delete_records(self.rng.randrange(log.log_end_offset + 1), log.log_end_offset)

    def _retain(self) -> None:
        def start(over: Callable[[], None]) -> None:
            found = self._some()
            job = found[2].prepare_deletion(found[2].log_end_offset, NOW_MS) if found else None
            if found is None or job is None:
                over()
                return
            log = found[2]
            self._on_files(log, job.run, lambda: (over(), log.complete_deletion(job)))

        self._once("retention", start)

    def _clean(self) -> None:
        def start(over: Callable[[], None]) -> None:
            found = self._some()
            is_moving = found and (found[2].is_arriving or self.store.moves.target_of(found[0]) is not None)
            job = found[2].plan_compaction(found[2].log_end_offset, NOW_MS) if found and not is_moving else None
            if found is None or job is None:
                over()
                return
            log = found[2]
            log.is_cleaning = True
            self._on_files(log, lambda: _all_steps(log, job), lambda: self._swap(log, job, over))

        self._once("cleaning", start)

    def _swap(self, log: Log, job: CompactionJob, over: Callable[[], None]) -> None:
        """In its turn; a pass that would have to wait for it is given up."""
        if log in self._busy or log.is_offline or not log.prepare_swap(job):
            self._end_swap(log, over)
            return

        def end() -> None:
            self._end_swap(log, over)
            complete_compaction(log, job)

        self._alone(log, job.publish, end)

    def _end_swap(self, log: Log, over: Callable[[], None]) -> None:
        over()
        log.is_cleaning = False

    def _checkpoint(self) -> None:
        def start(over: Callable[[], None]) -> None:
            for log in self.store:
                self.store.note_rows(log, log.log_end_offset)
            job = self.store.prepare_checkpoints()
            self._in_thread(job.run, lambda: (over(), self.store.complete_checkpoints(job)))

        self._once("checkpoint", start)

    def _look(self) -> None:
        def start(over: Callable[[], None]) -> None:
            look = self.store.prepare_look()
            for log in self.store:
                look.add(log)
            self._in_thread(look.run, lambda: (over(), look.complete(), self._check_nothing_lost()))

        self._once("look", start)

    def _check_nothing_lost(self) -> None:
        for log in self.store:
            is_lost = self.topics[log.topic_partition].is_lost
            assert is_lost or not log.has_lost_files, f"nobody took files away: {log.corruption}"

    def _clear_away(self) -> None:
        if (remove := self.store.take_trash()) is not None:
            self._in_thread(remove, lambda: None)

    def _move(self) -> None:
        """Begin one, or do a step."""
        if "move" in self._upkeep:
            return
        if self._moving is None or self._moving.is_over:
            self._moving = None
            if found := self._some():
                tp = found[0]
                target = next(one for one in self.store.directories if one is not self.store.log_dir_of(tp))
                self._moving = self.store.moves.begin(tp, target)
            return
        move = ReplicaMove(self._moving.current, self._moving.future)  # anew for each step, as the driver
        tp = move.current.topic_partition
        if move.current.is_cutting or self._cuts_copy(move):
            return
        found_slice = move.next_slice(300)
        if len(found_slice):
            move.append(found_slice.read())
            return
        if not move.current.is_cleaning and move.current not in self._busy:
            job = move.prepare_seal()
            self._upkeep.add("move")
            self._alone(move.current, job.run, lambda: self._arrive(move, tp, job), move.future)

    def _cuts_copy(self, move: ReplicaMove) -> bool:
        job, copy = move.prepare_cut(), move.future
        if job is None:
            return False

        def end() -> None:
            self._upkeep.discard("move")
            if not copy.is_offline:
                copy.complete_cut(job)

        self._upkeep.add("move")
        self._on_files(copy, job.run, end)
        return True

    def _arrive(self, move: ReplicaMove, tp: TopicPartition, job: FlushJob) -> None:
        """The copy is sealed. Until the log has arrived it is appended to, read and deleted, and nothing else."""
        self._upkeep.discard("move")
        if move.is_over or move.current.is_cleaning or move.current.is_cutting:
            return
        move.future.complete_flush(job)
        if self._cuts_copy(move):
            return
        while len(found := move.next_slice(1000)):
            move.append(found.read())
        with suppress(PassingFailure):
            arrival = self.store.moves.arrive(move, self.topics[tp].start)
            self._moving = None
            self._busy.add(arrival.log)
            self._in_thread(arrival.make_departure_durable, lambda: self._enter(arrival))

    def _enter(self, arrival: Arrival) -> None:
        if arrival.enter():
            self._in_thread(arrival.make_entry_durable, lambda: self._entered(arrival))

    def _entered(self, arrival: Arrival) -> None:
        arrival.complete()
        self._busy.discard(arrival.log)

    def _take_away(self) -> None:
        """Somebody removes files of the running node, at a moment when no job names them."""
        if (found := self._some()) and not found[2].writers and not found[2].is_cutting:
            _tp, topic, log = found
            topic.is_lost = True
            path = self.rng.choice([log.directory, *(segment.path(".log") for segment in log.segments)])
            self._disk.remove_tree(path) if self._disk.is_dir(path) else self._disk.unlink(path)

    def _make_again(self) -> None:
        """Once it is noticed; then it is fetched."""
        for tp, topic in self.topics.items():
            log = self.store.get(tp)
            if topic.is_lost and log is not None and log.has_lost_files and log not in self._busy:
                with suppress(PassingFailure):
                    remade = self.store.remake(tp)
                    topic.values, topic.start, topic.cut_at = {}, 0, None
                    remade.refetched()  # if it fails, the replica may be whole or not
                    topic.is_lost = False

    def _create(self) -> None:
        absent = [tp for tp in NAMES if tp not in self.topics]
        if not absent:
            return
        tp, topic = self.rng.choice(absent), Topic(next(self._ids))
        try:
            job = self.store.prepare_create(tp, topic.topic_id, CONFIG, self.rng.choice(self.store.directories))
        except PassingFailure:
            return
        self.topics[tp] = topic

        def end() -> None:
            self.store.complete_create(job)
            topic.is_made = True

        self._in_thread(job.run, end)

    def _delete(self) -> None:
        if found := self._some():
            del self.topics[found[0]]
            self.store.delete(found[0])
            if self._failed:  # perhaps just now
                self._left.add(found[0])


def run(seed: int) -> None:
    """One schedule."""
    Node(seed).run()


def _all_steps(log: Log, job: CompactionJob) -> None:
    while not log.is_offline and not job.step():
        pass


def _values(log: Log) -> dict[int, bytes]:
    values: dict[int, bytes] = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = values_in(log.read(offset, 1 << 20).read())
        values |= {at: value or b"" for at, value in found.items() if at >= offset}
        offset = max(found, default=log.log_end_offset) + 1
    return values


def _raise(error: Exception) -> None:
    raise error
