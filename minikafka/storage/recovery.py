"""A partition directory -> the segments and state of a log, after an orderly stop or a crash.

After an orderly stop the files are believed; only the end of the last segment is walked. After any other stop every
batch from the segment of the recovery point on is read and its checksum verified, and the indexes, leader epochs and
producer state that lie there are made again from the batches.

At the first bad batch there are two cases (reliability.md). *A torn tail*: nothing valid lies behind it and it is not
below the recovery point. A crash cut off what nobody was promised; it is truncated. *Corruption*: anything else. What
lies behind is kept aside in ``.corrupt`` files, the log ends before the damage, and :class:`Corruption` tells the
broker that this replica must be fetched again before it may count or lead.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import NamedTuple

from minikafka.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, crc_is_valid, parse_header
from minikafka.storage.batch_index import BatchIndex
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk, File
from minikafka.storage.epochs import LeaderEpochCache
from minikafka.storage.errors import BadBatchError, Corruption
from minikafka.storage.producer_state import ProducerState
from minikafka.storage.scan import BATCH_CHUNK_BYTES, scan_batches, scan_headers
from minikafka.storage.segment import DELETED_SUFFIX, LOG_SUFFIX, SUFFIXES, Segment, SegmentCache, file_name
from minikafka.storage.segments import Segments
from minikafka.storage.snapshots import SNAPSHOT_SUFFIX, SnapshotFiles

CORRUPT_SUFFIX = ".corrupt"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
TEMPORARY_SUFFIX = ".tmp"

_MAGIC_POSITION = 16
_MAX_OFFSET_DISTANCE = 2**31  # how far behind the damage a batch is still believed to belong to the segment


class LoadedLog(NamedTuple):
    """What a log starts from; the last segment is active."""

    segments: Segments
    epochs: LeaderEpochCache
    producers: ProducerState
    log_start_offset: int
    recovery_point: int
    corruption: Corruption | None


def load_log(
    disk: Disk,
    directory: str,
    config: LogConfig,
    cache: SegmentCache,
    *,
    log_start_offset: int,
    recovery_point: int,
    is_clean: bool,
) -> LoadedLog:
    """Load a partition directory. ``is_clean``: the last stop was orderly, so nothing needs to be verified."""
    return _Loader(disk, directory, config, cache, log_start_offset, recovery_point).load(is_clean)


class _Loader:
    """One load; fields are shared by its steps."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        cache: SegmentCache,
        log_start_offset: int,
        recovery_point: int,
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.config = config
        self.cache = cache
        self.log_start_offset = log_start_offset
        self.recovery_point = recovery_point
        self.snapshots = SnapshotFiles(disk, directory)
        self.corruption: Corruption | None = None
        self.epochs = LeaderEpochCache()
        self.segments: list[Segment] = []

    def load(self, is_clean: bool) -> LoadedLog:
        self._remove_leftovers()
        self._find_segments()
        epochs = LeaderEpochCache.load(self.disk, self.directory)
        if epochs is not None:
            self.epochs = epochs
        elif any(segment.size for segment in self.segments[:-1]) or not is_clean:
            is_clean, self.recovery_point = False, min(self.recovery_point, self._base(0))
        if not (is_clean and self._activate_believed()):
            self._recover()
        end_offset = self.segments[-1].next_offset
        if end_offset < self.recovery_point and self.corruption is None:
            self._report(self.segments[-1], self.segments[-1].size, "records that were durable are missing", None)
        if end_offset < self.log_start_offset:
            self._restart_at(self.log_start_offset)
        return self._loaded()

    def _loaded(self) -> LoadedLog:
        segments = Segments(self.segments)
        end_offset = segments.active.next_offset
        log_start_offset = max(self.log_start_offset, segments[0].base_offset)
        self.epochs.truncate_from_end(end_offset)
        self.epochs.truncate_from_start(log_start_offset)
        self.snapshots.remove(above=end_offset)
        producers = self.snapshots.load(segments, log_start_offset, end_offset)
        _note_first_append(segments.active)
        return LoadedLog(
            segments,
            self.epochs,
            producers,
            log_start_offset,
            min(self.recovery_point, end_offset),
            self.corruption,
        )

    # -- files ------------------------------------------------------------------------------------------------------

    def _remove_leftovers(self) -> None:
        """Finish what compaction and deletion were doing when the process ended."""
        names = self.disk.listdir(self.directory)
        for name in names:
            if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)):
                self.disk.unlink(f"{self.directory}/{name}")
        for name in names:
            if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
                self._finish_swap(int(name.split(".")[0]))
        for name in self.disk.listdir(self.directory):
            if name.endswith(SWAP_SUFFIX):
                self.disk.unlink(f"{self.directory}/{name}")

    def _finish_swap(self, base_offset: int) -> None:
        """A compacted segment was complete: it replaces the segments whose offsets it covers."""
        path = f"{self.directory}/{file_name(base_offset)}{LOG_SUFFIX}{SWAP_SUFFIX}"
        file = self.disk.open_read(path)
        end_offset = base_offset
        for _position, header in scan_headers(file, 0, self.disk.size(path)):
            end_offset = header.next_offset
        for base in self._log_files():
            if base_offset < base < end_offset:
                for kind in SUFFIXES:
                    self.disk.unlink(f"{self.directory}/{file_name(base)}{kind}")
        for kind in SUFFIXES:
            target = f"{self.directory}/{file_name(base_offset)}{kind}"
            if self.disk.exists(target + SWAP_SUFFIX):
                self.disk.rename(target + SWAP_SUFFIX, target)
            elif kind != LOG_SUFFIX:
                self.disk.unlink(target)
        self.disk.fsync_dir(self.directory)

    def _log_files(self) -> list[int]:
        names = self.disk.listdir(self.directory)
        stems = (name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX))
        return sorted(int(stem) for stem in stems if stem.isdigit())

    def _find_segments(self) -> None:
        bases = self._log_files()
        for base, next_base in zip_longest(bases, bases[1:]):
            segment = self._segment(base)
            segment.next_offset = base if next_base is None else next_base
            self.segments.append(segment)
        if not self.segments:
            self._add_empty(self.log_start_offset)

    def _segment(self, base_offset: int) -> Segment:
        path = f"{self.directory}/{file_name(base_offset)}{LOG_SUFFIX}"
        return Segment(
            self.disk,
            self.directory,
            base_offset,
            cache=self.cache,
            index_interval_bytes=self.config.index_interval_bytes,
            size=self.disk.size(path) if self.disk.exists(path) else 0,
        )

    def _add_empty(self, base_offset: int) -> None:
        segment = self._segment(base_offset)
        segment.create()
        self.segments.append(segment)

    def _restart_at(self, offset: int) -> None:
        """Everything that is left lies before the log start offset."""
        for segment in reversed(self.segments):
            for path in segment.detach():
                self.disk.unlink(path)
        self.segments.clear()
        self.epochs.clear()
        self._add_empty(offset)

    def _base(self, at: int) -> int:
        return self.segments[at].base_offset

    # -- an orderly stop --------------------------------------------------------------------------------------------

    def _activate_believed(self) -> bool:
        try:
            self.segments[-1].activate()
        except BadBatchError:
            self.recovery_point = max(self.recovery_point, self._base(-1))
            return False
        return True

    # -- any other stop ---------------------------------------------------------------------------------------------

    def _recover(self) -> None:
        first = 0
        while first + 1 < len(self.segments) and self._base(first + 1) <= self.recovery_point:
            first += 1
        self.epochs.truncate_from_end(self._base(first))
        self.snapshots.remove(above=self._base(first))
        for at in range(first, len(self.segments)):
            bad = self._check(self.segments[at]) or self._check_gap(at)
            if bad is not None:
                self._cut(at, bad)
                break
        self.segments[-1].activate()

    def _check(self, segment: Segment) -> BadBatchError | None:
        """Verify every batch and index what is good; where the first bad one is."""
        index = BatchIndex(segment.base_offset, self.config.index_interval_bytes)
        size, next_offset = 0, segment.base_offset
        bad = None
        try:
            for position, header, _batch in scan_batches(segment.file, 0, segment.size):
                _check_order(header, position, next_offset, self.epochs.latest_epoch)
                if header.leader_epoch >= 0:
                    self.epochs.assign(header.leader_epoch, header.base_offset)
                size = position + header.batch_length + LOG_OVERHEAD
                index.note(header.last_offset, position, size - position, header.max_timestamp)
                next_offset = header.next_offset
        except BadBatchError as error:
            bad = error
        last = segment is self.segments[-1]
        if not last and bad is None:
            index.seal()
        segment.adopt(index, size if bad is not None else segment.size, next_offset)
        return bad

    def _check_gap(self, at: int) -> BadBatchError | None:
        """A segment that ends before the next begins lost its tail, unless compaction made the gap."""
        segment = self.segments[at]
        if at + 1 == len(self.segments):
            return None
        expected, found = segment.next_offset, self._base(at + 1)
        segment.next_offset = found
        if expected == found or self.config.is_compacted:
            return None
        segment.next_offset = expected
        return BadBatchError(segment.size, f"offsets {expected} to {found - 1} are missing")

    def _cut(self, at: int, bad: BadBatchError) -> None:
        """The log ends at the bad batch; what lies behind it is a torn tail or evidence of corruption."""
        segment, behind = self.segments[at], self.segments[at + 1 :]
        file_size = self.disk.size(segment.path(LOG_SUFFIX))
        end_offset = segment.next_offset
        is_corrupt = (
            end_offset < self.recovery_point
            or _has_valid_batch(segment.file, bad.position + 1, file_size, end_offset)
            or any(_has_valid_batch(later.file, 0, later.size, end_offset) for later in behind)
        )
        if is_corrupt:
            self._report(segment, bad.position, bad.why, self._keep_aside(segment, bad.position, file_size))
        for later in reversed(behind):
            self._remove_behind(later, is_corrupt)
        del self.segments[at + 1 :]
        if bad.position < file_size:
            file = self.disk.open_append(segment.path(LOG_SUFFIX))
            file.truncate(bad.position)
            file.fsync()
        self.disk.fsync_dir(self.directory)

    def _report(self, segment: Segment, position: int, why: str, aside: str | None) -> None:
        self.corruption = Corruption(segment.path(LOG_SUFFIX), position, segment.next_offset, why, aside)

    def _keep_aside(self, segment: Segment, position: int, file_size: int) -> str | None:
        if position >= file_size:
            return None
        path = segment.path(LOG_SUFFIX) + CORRUPT_SUFFIX
        self.disk.unlink(path)
        copy = self.disk.open_append(path)
        for start in range(position, file_size, BATCH_CHUNK_BYTES):
            copy.append([segment.file.pread(min(BATCH_CHUNK_BYTES, file_size - start), start)])
        copy.fsync()
        return path

    def _remove_behind(self, segment: Segment, is_corrupt: bool) -> None:
        self.cache.forget(segment)
        path = segment.path(LOG_SUFFIX)
        if is_corrupt:
            self.disk.rename(path, path + CORRUPT_SUFFIX)
        for kind in SUFFIXES:
            self.disk.unlink(segment.path(kind))


def _check_order(header: BatchHeader, position: int, next_offset: int, epoch: int) -> None:
    if header.base_offset < next_offset:
        raise BadBatchError(position, f"offset {header.base_offset} comes again after {next_offset - 1}")
    if 0 <= header.leader_epoch < epoch:
        raise BadBatchError(position, f"leader epoch {header.leader_epoch} comes again after {epoch}")


def _has_valid_batch(file: File, position: int, end: int, min_offset: int) -> bool:
    """True when a batch with a valid checksum begins anywhere in ``file[position:end]``."""
    overlap = b""
    while position < end:
        chunk = overlap + file.pread(min(BATCH_CHUNK_BYTES, end - position), position)
        start = position - len(overlap)
        if _finds_batch(chunk, file, start, end, min_offset):
            return True
        position = start + len(chunk)
        overlap = chunk[-(HEADER_SIZE - 1) :]
    return False


def _finds_batch(chunk: bytes, file: File, start: int, end: int, min_offset: int) -> bool:
    at = chunk.find(MAGIC, _MAGIC_POSITION)
    while at >= 0 and at - _MAGIC_POSITION + HEADER_SIZE <= len(chunk):
        header = parse_header(chunk, at - _MAGIC_POSITION)
        position = start + at - _MAGIC_POSITION
        size = header.batch_length + LOG_OVERHEAD
        if (
            HEADER_SIZE <= size <= end - position
            and min_offset <= header.base_offset < min_offset + _MAX_OFFSET_DISTANCE
        ):
            batch = file.pread(size, position)
            if len(batch) == size and crc_is_valid(batch, 0, header):
                return True
        at = chunk.find(MAGIC, at + 1)
    return False


def _note_first_append(segment: Segment) -> None:
    """The age of a loaded segment, for ``segment.ms``: what its first batch says."""
    if segment.size:
        for _position, header in scan_headers(segment.file, 0, segment.size):
            segment.first_append_ms = header.max_timestamp
            return


__all__ = ["CLEANED_SUFFIX", "CORRUPT_SUFFIX", "SNAPSHOT_SUFFIX", "SWAP_SUFFIX", "LoadedLog", "load_log"]
