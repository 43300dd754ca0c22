"""The log cleaner (``cleanup.policy=compact``): keeps at least the last value of each key.

Of the closed segments below the high watermark, the *dirty* ones (not cleaned before) are read to map each key to its
last offset; then all of them, clean and dirty, are rewritten without the records that a later one supersedes. Offsets
do not change. A tombstone (null value) stays for ``delete.retention.ms`` after its batch was first cleaned: that first
pass stamps the batch with a delete horizon (KIP-534), a later one drops it. The last batch of each producer stays,
emptied if need be, so that its sequence numbers are not forgotten; control batches stay. Records of a transaction
count once its commit marker was seen; those of an aborted one supersede nothing.

:func:`plan` and :func:`complete` run on the event loop, :meth:`CompactionJob.step` anywhere, a piece at a time. Files
change as Kafka changes them, so that a crash at any point leaves the old segments or the new ones: written and synced
as ``.cleaned``, renamed to ``.swap`` (from here on recovery finishes it), the old ones taken away, renamed into place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from minikafka.errors import KafkaError
from minikafka.records.batch import BatchHeader, Buffer
from minikafka.records.build import rebuild_batch
from minikafka.records.read import iter_records
from minikafka.records.record import Record
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk
from minikafka.storage.errors import BadBatchError
from minikafka.storage.index import MAX_RELATIVE_OFFSET
from minikafka.storage.leftovers import CLEANED_SUFFIX, SWAP_SUFFIX
from minikafka.storage.scan import BATCH_CHUNK_BYTES, scan_batches
from minikafka.storage.segment import LOG_SUFFIX, SUFFIXES, Segment, SegmentCache, StagedBatch
from minikafka.storage.snapshots import marker_in

if TYPE_CHECKING:
    from minikafka.storage.log import Log

MAX_KEY_BYTES = 64 * 1024**2  # of the map; a log with more distinct keys is cleaned in several passes
KEY_OVERHEAD_BYTES = 120


def plan(log: Log, high_watermark: int, wall_ms: int) -> CompactionJob | None:
    """A job, if enough of the log is dirty (``min.cleanable.dirty.ratio``); None otherwise."""
    if log.is_uncleanable or log.is_cutting:
        return None
    segments = _cleanable(log, high_watermark, wall_ms)
    dirty = [segment for segment in segments if segment.next_offset > log.first_dirty_offset]
    total = sum(segment.size for segment in segments)
    if not dirty or not total:
        return None
    overdue = wall_ms - dirty[0].max_timestamp.timestamp > log.config.max_compaction_lag_ms
    if not overdue and sum(segment.size for segment in dirty) < log.config.min_cleanable_dirty_ratio * total:
        return None
    return CompactionJob(log, segments, dirty, wall_ms)


def _cleanable(log: Log, high_watermark: int, wall_ms: int) -> list[Segment]:
    """The closed segments that may be rewritten: decided, durable and old enough."""
    unstable = log.producers.first_unstable_offset(high_watermark)
    limit = min(high_watermark if unstable is None else min(unstable, high_watermark), log.recovery_point)
    lag_ms = log.config.min_compaction_lag_ms
    found = []
    for segment in log.segments.closed:
        if segment.next_offset > limit or (lag_ms and wall_ms - segment.max_timestamp.timestamp < lag_ms):
            break
        found.append(segment)
    return found


class CompactionJob:
    """One pass over one log. ``error``, ``damaged`` or ``unreadable`` is set if it could not be finished."""

    def __init__(self, log: Log, segments: Sequence[Segment], dirty: Sequence[Segment], wall_ms: int) -> None:
        self.generation = log.generation
        self.error: OSError | None = None
        self.damaged: tuple[Segment, BadBatchError] | None = None
        self.unreadable: KafkaError | None = None  # a batch is as its producer sent it, but holds no records
        self.end_offset = segments[-1].next_offset  # less if the map filled up
        self.groups: list[tuple[list[Segment], Segment]] = []  # old segments and the one that replaces them
        self._disk = log.disk
        self._segments = list(segments)
        self._first_dirty = len(segments) - len(dirty)
        self._last_of_producer = {entry.producer_id: entry.last_offset for entry in log.producers.entries}
        self._config = log.config
        self._wall_ms = wall_ms
        self._reading = segments[0]
        self._steps = self._run()

    def step(self) -> bool:
        """Do about a MiB of work; True when there is nothing left to do."""
        try:
            next(self._steps)
        except StopIteration:
            return True
        except BadBatchError as error:
            self.damaged = (self._reading, error)
            return True
        except KafkaError as error:
            self.unreadable = error
            return True
        except OSError as error:
            self.error = error
            return True
        return False

    def discard(self) -> None:
        """Remove what was written."""
        for _old, new in self.groups:
            _remove(self._disk, new)

    def _run(self) -> Iterator[None]:
        latest = LatestOffsets()
        dirty = self._segments[self._first_dirty :]
        for at, segment in enumerate(dirty):
            for header, batch in self._batches(segment):
                latest.add(header, batch)
                yield
            if latest.is_full and at + 1 < len(dirty):
                self._segments = self._segments[: self._first_dirty + at + 1]
                self.end_offset = segment.next_offset
                break
        for group in _groups(self._segments, self._config):
            yield from self._clean(group, latest)

    def _clean(self, group: list[Segment], latest: LatestOffsets) -> Iterator[None]:
        target = Segment(
            self._disk,
            group[0].directory,
            group[0].base_offset,
            cache=SegmentCache(),
            index_interval_bytes=self._config.index_interval_bytes,
            suffix=CLEANED_SUFFIX,
        )
        self.groups.append((group, target))
        _remove(self._disk, target)
        target.create()
        writer = _Writer(target)
        for segment in group:
            for header, batch in self._batches(segment):
                kept = self._filtered(header, batch, latest)
                if kept is not None:
                    writer.write(*kept)
                yield
        writer.finish()
        target.seal()
        for kind in SUFFIXES:
            self._disk.fsync_path(target.path(kind))

    def _batches(self, segment: Segment) -> Iterator[tuple[BatchHeader, memoryview]]:
        """By a descriptor of its own: the segment's cache belongs to the event loop."""
        self._reading = segment
        for _position, header, batch in scan_batches(self._disk.open_read(segment.path(LOG_SUFFIX)), 0, segment.size):
            yield header, batch

    def _filtered(
        self, header: BatchHeader, batch: memoryview, latest: LatestOffsets
    ) -> tuple[int, Buffer, int] | None:
        """(last offset, bytes, max timestamp) of what is left of a batch, None when nothing is."""
        unchanged = header.last_offset, batch, header.max_timestamp
        if header.is_control:
            return unchanged
        past_horizon = header.has_delete_horizon and self._wall_ms >= header.base_timestamp
        records = list(iter_records(batch, 0, header))
        kept = [record for record in records if latest.keeps(record) and not (record.value is None and past_horizon)]
        if not kept and self._last_of_producer.get(header.producer_id) != header.last_offset:
            return None
        needs_horizon = not header.has_delete_horizon and any(record.value is None for record in kept)
        if len(kept) == len(records) and not needs_horizon:
            return unchanged
        horizon = self._wall_ms + self._config.delete_retention_ms if needs_horizon else None
        rebuilt = rebuild_batch(header, kept, delete_horizon_ms=horizon)
        max_timestamp = max((record.timestamp for record in kept), default=header.max_timestamp)
        return header.last_offset, rebuilt, max_timestamp


class LatestOffsets:
    """key -> offset of its last record in the dirty part of a log."""

    def __init__(self) -> None:
        self._offsets: dict[bytes, int] = {}
        self._undecided: dict[int, dict[bytes, int]] = {}  # by producer: keys of a transaction whose marker is to come
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """True when no further segment should be added."""
        return self._bytes >= MAX_KEY_BYTES

    def add(self, header: BatchHeader, batch: Buffer) -> None:
        """Note a batch that comes behind all noted before."""
        if header.is_control:
            self._decide(header, batch)
            return
        offsets = self._undecided.setdefault(header.producer_id, {}) if header.is_transactional else self._offsets
        for record in iter_records(batch, 0, header):
            if record.key is not None:
                if record.key not in offsets:
                    self._bytes += len(record.key) + KEY_OVERHEAD_BYTES
                offsets[record.key] = record.offset

    def keeps(self, record: Record) -> bool:
        """False for a record that a later one supersedes, and for one without a key."""
        return record.key is not None and record.offset >= self._offsets.get(record.key, record.offset)

    def _decide(self, header: BatchHeader, batch: Buffer) -> None:
        marker = marker_in(batch, header)
        written = self._undecided.pop(header.producer_id, None) if marker is not None else None
        if marker is None or written is None or not marker.is_commit:
            return
        for key, offset in written.items():
            self._offsets[key] = max(offset, self._offsets.get(key, offset))


class _Writer:
    """Appends batches to a segment, about a chunk at a time."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._buffers: list[Buffer] = []
        self._batches: list[StagedBatch] = []
        self._bytes = 0

    def write(self, last_offset: int, batch: Buffer, max_timestamp: int) -> None:
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
    """Runs of segments that fit one segment together."""
    group: list[Segment] = []
    for segment in segments:
        size = sum(member.size for member in group) + segment.size
        if group and (size > config.segment_bytes or segment.next_offset - group[0].base_offset > MAX_RELATIVE_OFFSET):
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def complete(log: Log, job: CompactionJob) -> bool:
    """Put the new segments in the place of the old. False if the log changed under the job, or it failed."""
    if job.damaged is not None:
        log.mark_damaged(*job.damaged)
    log.is_uncleanable = job.unreadable is not None  # trying again would end at the same batch
    if job.error or job.damaged or job.unreadable or job.generation != log.generation or log.is_offline:
        job.discard()
        return False
    with log.guard("compact"):
        log.record_bounds()
        for old, new in job.groups:
            if all(segment in log.segments for segment in old):
                _swap(log, old, new)
            else:
                _remove(log.disk, new)
    log.first_dirty_offset = max(log.first_dirty_offset, job.end_offset)
    return True


def _remove(disk: Disk, new: Segment) -> None:
    for kind in SUFFIXES:
        disk.unlink(new.path(kind))


def _swap(log: Log, old: list[Segment], new: Segment) -> None:
    new.rename(SWAP_SUFFIX)
    log.disk.fsync_dir(log.directory)
    for segment in old:
        log.discard(segment)
    new.rename("")
    log.segments.swap(old, [log.loaded_segment(new.base_offset, new.size, old[-1].next_offset)])
