"""The log cleaner (``cleanup.policy=compact``): keeps at least the last value of each key.

A pass reads the *dirty* closed segments below the high watermark (not cleaned before), and maps each key to its last
offset (:mod:`~minikafka.storage.key_map`). Then it rewrites all closed segments, clean and dirty, without the records
that a later one supersedes (:mod:`~minikafka.storage.cleaning`).

A tombstone (null value) stays for ``delete.retention.ms`` after its batch was first cleaned: the first pass gives the
batch a delete horizon (KIP-534), a later pass drops it. The last batch of each producer stays, without records if
necessary, for its sequence numbers; so does the first of each leader epoch, to tell where that began. Records of
aborted transactions go, and supersede nothing; markers go when nothing of their transaction is left
(:mod:`~minikafka.storage.cleaned_transactions`). A batch with malformed records stays unchanged.

:func:`plan`, :func:`prepare_swap` and :func:`complete` run on the event loop, :meth:`CompactionJob.step` and
:meth:`CompactionJob.publish` in any thread. Files change in Kafka's order, so a crash leaves the old segments or the
new ones: write and sync ``.cleaned`` files; remove old segments and sizes from the list of segments; rename to
``.swap`` (from here on recovery finishes it); remove the old files; rename into place.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from minikafka.errors import KafkaError
from minikafka.records.batch import BatchHeader, Buffer
from minikafka.storage.cleaned_transactions import CleanedTransactions
from minikafka.storage.cleaning import Cleaner, Kept, LastOfProducer
from minikafka.storage.config import NEVER, LogConfig
from minikafka.storage.errors import BadBatchError, is_passing
from minikafka.storage.index import MAX_RELATIVE_OFFSET
from minikafka.storage.key_map import KeyMap
from minikafka.storage.leftovers import CLEANED_SUFFIX, SWAP_SUFFIX
from minikafka.storage.scan import BATCH_CHUNK_BYTES, scan_batches
from minikafka.storage.segment import Segment, StagedBatch
from minikafka.storage.segment_cache import SegmentCache
from minikafka.storage.segment_list import Removal
from minikafka.storage.segment_names import LOG_SUFFIX, SUFFIXES, TRANSACTION_INDEX_SUFFIX
from minikafka.storage.segments import Segments

if TYPE_CHECKING:
    from minikafka.storage.log import Log

SEGMENTS_AT_ONCE: Final = 50
"""Replaced in one turn of the loop: some 10 ms."""
STEP_WORK: Final = 2_000
"""About 2 ms of work: other threads wait that long for the interpreter. Counted, so that simulations repeat."""
BATCH_WORK: Final = 4
RECORD_WORK: Final = 1
BYTES_PER_WORK: Final = 1_000
SYNC_WORK: Final = STEP_WORK


def plan(log: Log, high_watermark: int, wall_ms: int) -> CompactionJob | None:
    """A job, if enough of the log is dirty (``min.cleanable.dirty.ratio``); None otherwise, and for a damaged log."""
    if log.is_cutting or log.corruption is not None:
        return None
    try:
        return _plan(log, high_watermark, wall_ms)
    except KafkaError:  # it cannot be read; if that is damage, it is marked
        return None


def _plan(log: Log, high_watermark: int, wall_ms: int) -> CompactionJob | None:
    segments = _cleanable(log, high_watermark, wall_ms)
    dirty = [segment for segment in segments if segment.next_offset > log.first_dirty_offset]
    total = sum(segment.size for segment in segments)
    if not dirty or not total:
        return None
    is_enough = sum(segment.size for segment in dirty) >= log.config.min_cleanable_dirty_ratio * total
    if not is_enough and not _is_overdue(log, dirty[0], wall_ms):
        return None
    return CompactionJob(log, segments, high_watermark, wall_ms)


def _is_overdue(log: Log, first_dirty: Segment, wall_ms: int) -> bool:
    """By its first record: it is closed when that is so old, and later ones may be as young as that.

    Without a limit nothing is read; else ``Log.prepare_compaction`` has a job for a thread first.
    """
    limit_ms = log.config.max_compaction_lag_ms
    return limit_ms != NEVER and wall_ms - log.first_timestamp(first_dirty) > limit_ms


def _cleanable(log: Log, high_watermark: int, wall_ms: int) -> list[Segment]:
    """The closed segments that may be rewritten: committed, durable and old enough."""
    limit = min(log.last_stable_offset(high_watermark), log.recovery_point)
    lag_ms = log.config.min_compaction_lag_ms
    found = []
    for segment in log.segments.closed:
        if not segment.is_index_written:
            break  # the next flush writes it
        if segment.next_offset > limit or (lag_ms and wall_ms - log.newest_timestamp(segment) < lag_ms):
            break
        found.append(segment)
    return found


class CompactionJob:
    """One pass over one log. ``error`` or ``damaged`` is set if it could not be finished.

    :meth:`step` until True, ``Log.prepare_swap``, :meth:`publish`, ``Log.completing_compaction``.
    """

    def __init__(self, log: Log, segments: Sequence[Segment], high_watermark: int, wall_ms: int) -> None:
        self.generation = log.generation
        self.high_watermark = high_watermark
        self.error: OSError | None = None
        self.damaged: tuple[Segment, BadBatchError | OSError] | None = None
        self.end_offset = segments[-1].next_offset  # less if the map filled up
        self.groups: list[tuple[list[Segment], Segment]] = []  # old segments and the one that replaces them
        self.store_bounds: Callable[[], None] = lambda: None  # high watermark, recovery point and log start, durably
        self.removal: Removal | None = None  # of the segments that are merged into others
        self.bases_left: Sequence[int] = ()  # of the segments that the log has then
        self._disk = log.disk
        self._directory = log.directory
        self._segments = list(segments)
        self._keys = KeyMap(log.first_dirty_offset)
        self._last_of_producer = {entry.producer_id: LastOfProducer.of(entry) for entry in log.producers.entries}
        # No epoch is before 0: nobody asks where the one before it ended.
        self._epoch_starts = frozenset(entry.start_offset for entry in log.epochs.entries if entry.epoch > 0)
        self._closed = log.segments.closed
        active = log.segments.active  # its index of aborted transactions grows meanwhile
        has_aborted = active.known_aborted.are_there
        self._active = active.snapshot(SegmentCache()) if has_aborted else active.copy(SegmentCache())
        self._snapshots = log.snapshots
        self._log_start_offset = log.log_start_offset
        self._config = log.config
        self._wall_ms = wall_ms
        self._steps = self._run()

    @property
    def unreadable(self) -> Sequence[int]:
        """Base offsets of batches that stay because their records are malformed."""
        return sorted(self._keys.unreadable)

    def step(self) -> bool:
        """Do about 2 ms of work; True when all is done. After any error that is raised, the written files are gone."""
        work = 0
        try:
            for done in self._steps:
                work += done
                if work >= STEP_WORK:
                    return False
        except OSError as error:
            self.error = error
        except Exception:
            with suppress(OSError):  # a start removes them, too
                self.discard()
            raise
        return True

    def publish(self) -> None:
        """In any thread: from here on a crash leaves the new segments.

        First stores the recovery point and the list, so that recovery does not scan the new segments, or miss old ones;
        and the high watermark, so that a cut below it is known as one for whose sake records may be gone.
        """
        assert self.removal is not None
        try:
            self.store_bounds()
            self.removal.store()
            self._snapshots.keep_before(self.bases_left)
            for _old, new in self.groups:
                new.rename(SWAP_SUFFIX)
            self._disk.fsync_dir(self._directory)
        except OSError as error:
            self.error = error

    def leave_out(self, present: Segments) -> None:
        """Drop new segments of old ones that retention took: a start would find them with a gap behind."""
        gone = [group for group in self.groups if not all(segment in present for segment in group[0])]
        for _old, new in gone:
            new.remove(CLEANED_SUFFIX)
        self.groups = [group for group in self.groups if group not in gone]

    def discard(self) -> None:
        """Remove the written files."""
        for _old, new in self.groups:
            new.remove(CLEANED_SUFFIX, SWAP_SUFFIX)

    def _run(self) -> Iterator[int]:
        """Yields the amount of work after each part."""
        yield from self._map()
        if self.damaged is None:
            yield from self._rewrite()

    def _transactions(self) -> CleanedTransactions:
        """For a walk from the beginning; in the thread."""
        cache = SegmentCache()
        segments = [*(segment.copy(cache) for segment in self._closed), self._active]
        return CleanedTransactions(segments, self._snapshots, self._log_start_offset)

    def _map(self) -> Iterator[int]:
        keys, transactions = self._keys, self._transactions()
        for segment in self._segments:
            if segment.next_offset <= keys.start_offset:
                continue
            if not self._enter(transactions, segment):
                break
            for header, batch in self._batches(segment):
                is_counted = not header.is_control and not transactions.is_aborted(header)
                if is_counted and header.last_offset >= keys.start_offset:
                    keys.add(header, batch)
                    yield _work(header)
                if keys.full_at is not None:
                    self.end_offset = keys.full_at
                    break
            if keys.full_at is not None or self.damaged is not None:
                break
        keys.close()

    def _rewrite(self) -> Iterator[int]:
        transactions = self._transactions()
        cleaner = Cleaner(
            self._keys,
            self.end_offset,
            transactions,
            self._last_of_producer,
            self._epoch_starts,
            self._wall_ms,
            self._config.delete_retention_ms,
        )
        affected = [segment for segment in self._segments if segment.base_offset < self.end_offset]
        for group in _groups(affected, self._config):
            yield from self._rewrite_group(group, cleaner, transactions)
            if self.damaged is not None:
                return

    def _enter(self, transactions: CleanedTransactions, segment: Segment) -> bool:
        try:
            transactions.enter(segment.base_offset, segment.next_offset)
        except BadBatchError as error:
            self.damaged = (segment, error)
        return self.damaged is None

    def _rewrite_group(
        self, group: list[Segment], cleaner: Cleaner, transactions: CleanedTransactions
    ) -> Iterator[int]:
        target = Segment(
            self._disk,
            group[0].directory,
            group[0].base_offset,
            cache=SegmentCache(),
            index_interval_bytes=self._config.index_interval_bytes,
            suffix=CLEANED_SUFFIX,
        )
        self.groups.append((group, target))
        target.remove(CLEANED_SUFFIX)
        target.create()
        writer = _Writer(target)
        for segment in group:
            if not self._enter(transactions, segment):
                return
            for header, batch in self._batches(segment):
                kept = cleaner.clean(header, batch)
                if kept is not None:
                    writer.write(kept)
                yield _work(header)
        writer.finish()
        target.seal()
        for kind in SUFFIXES:
            if kind != TRANSACTION_INDEX_SUFFIX or target.known_aborted.are_there:
                self._disk.fsync_path(target.path(kind))
                yield SYNC_WORK

    def _batches(self, segment: Segment) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Batches, read through an own descriptor: the segment's cache belongs to the event loop. Ends at damage."""
        path = segment.path(LOG_SUFFIX)  # as it is now: retention renames
        try:
            file = self._disk.open_read(path)
            for _position, header, batch in scan_batches(file, 0, segment.size):
                yield header, batch
        except BadBatchError as error:
            self.damaged = (segment, error)
        except OSError as error:
            if is_passing(error) or not self._disk.exists(path):
                raise  # it says nothing about the file, or retention took the segment away
            self.damaged = (segment, error)


def _work(header: BatchHeader) -> int:
    return BATCH_WORK + header.record_count * RECORD_WORK + header.batch_length // BYTES_PER_WORK


class _Writer:
    """Appends batches to a segment, about a chunk at a time."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._buffers: list[Buffer] = []
        self._batches: list[StagedBatch] = []
        self._bytes = 0

    def write(self, kept: Kept) -> None:
        last_offset, batch, max_timestamp, aborted = kept
        if aborted is not None:
            self._segment.known_aborted.note(aborted)
        self._buffers.append(batch)
        self._batches.append((last_offset, len(batch), max_timestamp))
        self._bytes += len(batch)
        if self._bytes >= BATCH_CHUNK_BYTES:
            self.finish()

    def finish(self) -> None:
        if self._batches:
            self._segment.append(self._buffers, self._batches)
            self._buffers, self._batches, self._bytes = [], [], 0


def _groups(segments: Sequence[Segment], config: LogConfig) -> Iterator[list[Segment]]:
    """Runs of segments that together fit into one segment, and are few enough to be replaced in a turn of the loop.

    A topic may have a segment for each record. Those that are left are merged by later passes.
    """
    group: list[Segment] = []
    for segment in segments:
        size = sum(member.size for member in group) + segment.size
        is_too_large = size > config.segment_bytes or len(group) == SEGMENTS_AT_ONCE
        if group and (is_too_large or segment.next_offset - group[0].base_offset > MAX_RELATIVE_OFFSET):
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def prepare_swap(log: Log, job: CompactionJob) -> bool:
    """True when the new segments can replace the old ones. False: they are removed, for another pass."""
    if job.damaged is not None and job.generation == log.generation and job.damaged[0] in log.segments:
        log.mark_damaged(*job.damaged)  # else it was cut or deleted under the job
    if job.damaged or job.error or not _is_current(log, job):
        job.discard()
        return False
    job.leave_out(log.segments)
    log.note_cleaned()
    job.store_bounds = log.prepare_bounds(job.high_watermark)
    merged = {segment.base_offset for old, _new in job.groups for segment in old[1:]}
    job.bases_left = [segment.base_offset for segment in log.segments if segment.base_offset not in merged]
    job.removal = log.segment_list.take_off(merged, shrinking=[new.base_offset for _old, new in job.groups])
    log.is_swapping = True
    return True


def completing(log: Log, job: CompactionJob) -> Generator[None, None, bool]:
    """Replaces the old segments, in portions. False if the log was cut or has failed.

    StorageFailure if new segments may be lost. When it ends early the next start replaces the rest, as after a crash;
    so the old ones stay off the list of segments.
    """
    assert job.removal is not None
    try:
        yield from _swapping(log, job)
    except Exception:
        log.segment_list.gone(job.removal)
        raise
    finally:
        log.is_swapping = False
    log.segment_list.gone(job.removal)
    if job.error or not _is_current(log, job):
        job.discard()
        log.flusher.names_changed()
        return False
    log.first_dirty_offset = max(log.first_dirty_offset, job.end_offset)
    return True


def _swapping(log: Log, job: CompactionJob) -> Iterator[None]:
    if job.error is not None:
        if not is_passing(job.error):
            with log.guard("compact"):
                raise job.error
        return
    room = SEGMENTS_AT_ONCE
    for old, new in job.groups:
        if not _is_current(log, job):
            return
        with log.guard("compact"):
            _swap(log, old, new)
        room -= len(old)
        if room <= 0:
            yield
            room = SEGMENTS_AT_ONCE


def _is_current(log: Log, job: CompactionJob) -> bool:
    return job.generation == log.generation and not log.is_offline


def _swap(log: Log, old: list[Segment], new: Segment) -> None:
    """Swap. The ``.swap`` name of ``new`` is durable: after a crash it replaces the old segments in any case."""
    for segment in old:
        log.discard(segment)
    new.rename("")
    loaded = log.loaded_segment(new.base_offset, new.size, old[-1].next_offset, new.known_aborted.checksum)
    log.segments.swap(old, [loaded])
