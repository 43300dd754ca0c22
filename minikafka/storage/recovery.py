"""A partition directory -> the segments and state of a log, after an orderly stop or a crash.

After an orderly stop the files are believed; only the ends of the segments are walked. After any other stop every
batch from the segment of the recovery point on is read and its checksum verified, and the indexes, leader epochs and
producer state that lie there are made again from the batches.

At the first bad batch there are two cases (reliability.md). *A torn tail*: a crash cut off what nobody was promised; it
is truncated. *Corruption*: anything else. What lies behind is kept aside in ``.corrupt`` files, the log ends before the
damage, and :class:`Corruption` tells the broker that this replica must be fetched again before it may count or lead.
How to tell one from the other depends on the stop:

* The machine lost power: a torn tail has nothing valid behind it and is not below the recovery point.
* The process was killed and the machine runs on (``was_killed``): the page cache has everything that was ever written.
  Only the last write of all may be there in part, so that the file ends in the middle of a batch. A batch that is there
  in its whole length, or not at the end of the last segment, is corruption; and so is whatever makes the log end below
  its checkpointed high watermark, or before its noted end (``log_ends``). A log that may have lost more than that tells
  is not claimed to be whole in the next registration (``torn-tail``), so that it goes on behind one that is: after an
  interrupted write, which a file that was cut looks like, and where no end is noted.
* The log noted how far it was synced (``durable_end``): damage below is corruption, anything else a torn tail. Such a
  log is verified as a whole at every start, also after an orderly stop, its offsets and epochs too.

Nothing that a directory holds keeps a log from being opened, but for a disk that refuses. A directory that has a file's
name is renamed; a segment that cannot be read is kept aside; one that is listed and missing is damage.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from minikafka.event_log import get_logger
from minikafka.model import NO_EPOCH
from minikafka.records.batch import LOG_OVERHEAD
from minikafka.storage.aside import CORRUPT_SUFFIX
from minikafka.storage.batch_index import BatchIndex
from minikafka.storage.closed import check_closed, check_listed, check_start, check_unlisted
from minikafka.storage.config import LogConfig
from minikafka.storage.damage import (
    DamageFound,
    has_topic_id,
    has_torn_mark,
    has_valid_batch,
    is_cut_off,
    keep_aside,
    write_torn_mark,
)
from minikafka.storage.disk import Disk
from minikafka.storage.durable_end import read_durable_end
from minikafka.storage.epochs import LeaderEpochCache
from minikafka.storage.errors import BadBatchError, Corruption
from minikafka.storage.evidence import EpochsContradictedError, Evidence
from minikafka.storage.impostors import drop_stray_segments, rename_impostors
from minikafka.storage.index import MAX_RELATIVE_OFFSET, DamagedIndexError
from minikafka.storage.last_stop import LastStop
from minikafka.storage.leftovers import log_files, remove_leftovers, with_transaction_index
from minikafka.storage.producer_state import ProducerState
from minikafka.storage.scan import in_place, scan_batches
from minikafka.storage.segment import Segment
from minikafka.storage.segment_cache import SegmentCache
from minikafka.storage.segment_list import SegmentList
from minikafka.storage.segment_names import LOG_SUFFIX, MAX_OFFSET, SUFFIXES, file_name
from minikafka.storage.segments import Segments
from minikafka.storage.snapshots import SnapshotFiles

logger = get_logger()


class LoadedLog(NamedTuple):
    """What a log starts from; the last segment is active."""

    segments: Segments
    epochs: LeaderEpochCache
    producers: ProducerState
    log_start_offset: int
    recovery_point: int
    corruption: Corruption | None
    was_torn: bool  # see damage.TORN_FILE
    is_believed: bool  # nothing was made anew: the files are as an orderly stop left them
    is_cleaned: bool  # offsets are missing in what was read
    segment_list: SegmentList


def load_log(disk: Disk, directory: str, config: LogConfig, cache: SegmentCache, last_stop: LastStop) -> LoadedLog:
    """Load a partition directory; OSError when the disk refuses."""
    return _Loader(disk, directory, config, cache, last_stop).load()


class _Loader:
    """One load; fields are shared by its steps."""

    def __init__(self, disk: Disk, directory: str, config: LogConfig, cache: SegmentCache, last_stop: LastStop) -> None:
        self.disk = disk
        self.directory = directory
        self.config = config
        self.cache = cache
        self.last_stop = last_stop
        self.log_start_offset = max(0, last_stop.log_start_offset or 0)
        self.recovery_point = max(0, last_stop.recovery_point)
        self.snapshots = SnapshotFiles(disk, directory)
        self.epochs = LeaderEpochCache()
        self.is_cleaned = False
        self.segments: list[Segment] = []
        self.producers = ProducerState()
        self.unindexed: list[Segment] = []  # their batches tell the aborted transactions

    def load(self) -> LoadedLog:
        rename_impostors(self.disk, self.directory)
        self.damage = DamageFound(self.disk, self.directory)
        self.durable_end = read_durable_end(self.disk, self.directory)
        self.evidence = Evidence(self.last_stop, self.recovery_point, self.durable_end)
        self.segment_list = SegmentList(self.disk, self.directory)
        remove_leftovers(self.disk, self.directory, self.segment_list)
        self._find_segments()
        check_listed(self.damage, self.segment_list, self.segments, self.log_start_offset)
        if self.segments and self.last_stop.noted is not None:
            check_start(self.damage, self.segments[0], self.log_start_offset, self.last_stop.noted.start)
        self.knows_epochs = self._load_epochs()
        if self.segments and not self.segment_list.was_readable and self.durable_end is None:
            check_unlisted(self.damage, self.segments, self.log_start_offset, self.recovery_point)
        may_believe = bool(self.segments) and self.last_stop.is_clean and not self.config.notes_durable_end
        is_believed = may_believe and self._activate_believed()
        if not self.segments:
            if self.last_stop.keeps_writes and has_topic_id(self.disk, self.directory):
                self.damage.mark(self._start(), "no file of the log is there")
            self._begin_anew()
        elif is_believed:
            check_closed(self.damage, self.segments[:-1])
        else:
            self._recover()
        self._check_end()
        if self._may_differ() and self.durable_end is None:
            write_torn_mark(self.disk, self.directory)
        while (damage := self._unreadable_headers()) is not None:
            is_believed = False
            self._cut(*damage)
            self.segments[-1].activate()
        return self._loaded(is_believed and not self.unindexed)

    def _may_differ(self) -> bool:
        """The other replicas may have more of it, or may have deleted what came back here."""
        has_unknown_end = self.last_stop.was_killed and self.last_stop.noted_end is None
        return has_unknown_end or self.last_stop.log_start_offset is None

    def _unreadable_headers(self) -> tuple[int, BadBatchError] | None:
        """Load the producers' state and the age of the log; which segment, and where, cannot be read for that."""
        segments = Segments(self.segments)
        end_offset = segments.active.next_offset
        log_start_offset = max(self.log_start_offset, segments[0].base_offset)
        self.snapshots.keep_before([*(segment.base_offset for segment in segments), end_offset], above=end_offset)
        try:
            self._find_aborted()
            indexing = [segment for segment in self.unindexed if segment in self.segments]
            for segment in indexing:
                segment.known_aborted.forget()
            self.producers = self.snapshots.load(segments, log_start_offset, end_offset, indexing=indexing)
            active = segments.active
            active.first_stamp_ms = self.config.jittered(active.first_timestamp(), active.path(LOG_SUFFIX))
        except BadBatchError:
            self.evidence.scanned_epoch = NO_EPOCH
            for at in range(len(self.segments)):
                if (bad := self._check(at)) is not None:
                    return at, bad
            raise
        return None

    def _find_aborted(self) -> None:
        """Load the aborted transactions of the active segment, unless its batches are to tell them."""
        active = self.segments[-1]
        if active in self.unindexed:
            return
        try:
            _ = active.aborted
        except DamagedIndexError as error:
            logger.warning("transaction index unreadable", path=self.directory, why=str(error), effect="made anew")
            self.unindexed.append(active)

    def _loaded(self, is_believed: bool) -> LoadedLog:
        segments = Segments(self.segments)
        end_offset = segments.active.next_offset
        log_start_offset = max(self.log_start_offset, segments[0].base_offset)
        self.epochs.truncate_from_end(end_offset)
        self.epochs.truncate_from_start(log_start_offset)
        recovery_point = min(self.recovery_point, end_offset)
        return LoadedLog(
            segments,
            self.epochs,
            self.producers,
            log_start_offset,
            recovery_point,
            self.damage.corruption,
            has_torn_mark(self.disk, self.directory),
            is_believed,
            self.is_cleaned,
            self.segment_list,
        )

    # -- segments ---------------------------------------------------------------------------------------------------

    def _find_segments(self) -> None:
        indexed = with_transaction_index(self.disk, self.directory)
        for base in log_files(self.disk, self.directory):
            size = self.disk.size(f"{self.directory}/{file_name(base)}{LOG_SUFFIX}")
            self.segments.append(self._segment(base, size))
            self.segments[-1].known_aborted.expect(self.segment_list.aborted_of(base), is_there=base in indexed)
        if self.last_stop.keeps_writes:
            listed = self.segment_list.durable
            drop_stray_segments(self.disk, self.segments, listed, self.recovery_point, self._may_begin_by())
        for segment, behind in pairwise(self.segments):
            segment.next_offset = behind.base_offset

    def _may_begin_by(self) -> int:
        """A log that is empty, and not listed, begins there at the latest: nothing of it goes before it has a list."""
        if not self.segment_list.was_readable:
            return self.log_start_offset
        if self.last_stop.was_killed and self.last_stop.noted_end is None:
            return MAX_OFFSET
        noted = self.last_stop.noted
        known = () if noted is None else (noted.end_offset, noted.start or 0)  # a log notes first that it begins anew
        return max(self.log_start_offset, self.recovery_point, *known)

    def _is_durable(self, base_offset: int) -> bool:
        """A flush has made durable that a segment begins there, and what lies before."""
        return base_offset in self.segment_list.durable or base_offset <= self.recovery_point

    def _segment(self, base_offset: int, size: int) -> Segment:
        return Segment(
            self.disk,
            self.directory,
            base_offset,
            cache=self.cache,
            index_interval_bytes=self.config.index_interval_bytes,
            size=size,
        )

    def _begin_anew(self) -> None:
        """The log holds nothing, and has no history: it begins at its start, if need be with a list that says so.

        Snapshots from before that have producers as they were before batches that are gone.
        """
        self.snapshots.remove(below=self.log_start_offset)
        if self.log_start_offset > 0:
            self.segment_list.remove([0])
        self.epochs.clear()
        self.epochs.store(self.disk, self.directory)
        segment = self._segment(self.log_start_offset, 0)
        segment.create()
        self.segments.append(segment)

    def _start(self) -> int:
        """Where the log starts, as an orderly stop records it."""
        entries = self.epochs.entries
        return max(self.log_start_offset, entries[0].start_offset if entries else 0)

    def _check_end(self) -> None:
        """The log must reach the recovery point; one that ends before its start begins anew there."""
        last = self.segments[-1]
        reaches = last.next_offset if self.last_stop.keeps_writes else max(last.next_offset, self.log_start_offset)
        if reaches < self.evidence.must_reach():
            self._report(last, last.size, f"records up to offset {self.evidence.must_reach()} are missing", None)
        if last.next_offset >= self.log_start_offset:
            return
        if self.last_stop.keeps_writes:  # the checkpoint is wrong, or the log was cut
            self._report(last, last.size, f"the log is to start at offset {self.log_start_offset}", None)
            self.log_start_offset = self.segments[0].base_offset
            return
        self.segment_list.remove(segment.base_offset for segment in self.segments)
        for segment in reversed(self.segments):
            for path in segment.detach():
                self.disk.unlink(path)
        self.segments.clear()
        self._begin_anew()

    # -- an orderly stop --------------------------------------------------------------------------------------------

    def _load_epochs(self) -> bool:
        """Read the epoch file; False when the batches must tell instead."""
        epochs = LeaderEpochCache.load(self.disk, self.directory)
        if epochs is not None:
            self.epochs = epochs
            self.evidence.recorded_epochs = LeaderEpochCache(epochs.entries)
        return epochs is not None or not any(segment.size for segment in self.segments)

    def _activate_believed(self) -> bool:
        if self.last_stop.log_start_offset is None:
            self.knows_epochs = self.knows_epochs and self._covers_start()
        if not self.knows_epochs:
            return False
        try:
            self.segments[-1].activate()
        except BadBatchError:
            return False
        self.knows_epochs = self._ends_in_latest_epoch()
        return self.knows_epochs and not self._ends_behind()

    def _ends_in_latest_epoch(self) -> bool:
        """False when the epoch file contradicts the last batch: a bit of it changed that no checksum protects."""
        last = self.segments[-1]
        self.epochs.truncate_from_end(last.next_offset)  # what was begun and never written
        return not last.size or last.index.resumed_epoch == self.epochs.latest_epoch

    def _ends_behind(self) -> bool:
        """True when the log seems to end behind where it ended: no checksum covers the offset of its last batch."""
        last = self.segments[-1]
        end = self._known_end(len(self.segments) - 1)
        return end is not None and last.base_offset <= end < last.next_offset

    # -- any other stop ---------------------------------------------------------------------------------------------

    def _recover(self) -> None:
        is_known = self.knows_epochs and self._covers_start() and not self.config.notes_durable_end
        try:
            self._recover_from(self.recovery_point if is_known else 0)
        except EpochsContradictedError as error:
            why, effect = str(error), "the batches tell them"
            logger.warning("leader epochs contradict the log", path=self.directory, why=why, effect=effect)
            self.evidence.scanned_epoch = NO_EPOCH
            self._recover_from(0)

    def _recover_from(self, from_offset: int) -> None:
        first = 0
        while first + 1 < len(self.segments) and self.segments[first + 1].base_offset < from_offset:
            first += 1  # where one begins at the recovery point, the indexes of the one before may not be written
        self.epochs.truncate_from_end(from_offset)  # the file is right below; compaction may have left less to see
        self.snapshots.remove(above=self.segments[first].base_offset)
        check_closed(self.damage, self.segments[:first])
        self.unindexed = self.segments[first:]
        for at in range(first, len(self.segments)):
            bad = self._check(at, from_offset) or self._check_gap(at)
            if bad is not None:
                self._cut(at, bad)
                break
        self.segments[-1].activate()

    def _covers_start(self) -> bool:
        """False when records came back whose epochs were forgotten: the log start was not recorded when they went."""
        start = max(self.log_start_offset, self.segments[0].base_offset)
        return self.recovery_point <= start or self.epochs.epoch_for(start) != NO_EPOCH

    def _check(self, at: int, known_end: int = 0) -> BadBatchError | None:
        """Verify every batch of a segment and index what is good; where the first bad one is.

        ``known_end``: see :meth:`Evidence.check`.
        """
        segment = self.segments[at]
        index = BatchIndex(segment.base_offset, self.config.index_interval_bytes)
        size, next_offset = 0, segment.base_offset
        bad = None
        batches = scan_batches(segment.file, 0, segment.size)
        try:
            for position, header in in_place(batches, segment.base_offset, self._known_end(at)):
                self.evidence.check(header, position, next_offset, known_end)
                if header.leader_epoch > self.epochs.latest_epoch:
                    self.epochs.assign(header.leader_epoch, header.base_offset)
                self.is_cleaned = self.is_cleaned or header.has_gap_from(next_offset)
                size = position + header.batch_length + LOG_OVERHEAD
                index.note(header.last_offset, position, size - position, header.max_timestamp)
                next_offset = header.next_offset
        except BadBatchError as error:
            bad = error
        segment.adopt(index, size, next_offset)
        return bad

    def _known_end(self, at: int) -> int | None:
        """See :meth:`Evidence.known_end`."""
        return self.evidence.known_end(self.segments[at + 1].base_offset if at + 1 < len(self.segments) else None)

    def _check_gap(self, at: int) -> BadBatchError | None:
        """A segment that ends before the next begins lost its tail, unless the cleaner may have taken it."""
        segment = self.segments[at]
        if at + 1 == len(self.segments):
            return None
        expected, found = segment.next_offset, self.segments[at + 1].base_offset
        if expected > found or (expected < found and not self._may_end_early(segment, found)):
            return BadBatchError(segment.size, f"offset {expected} should follow, but {found} does")
        self.is_cleaned = self.is_cleaned or expected < found
        segment.next_offset = found
        segment.deactivate()  # the next flush writes its indexes, and syncs them
        return None

    def _may_end_early(self, segment: Segment, found: int) -> bool:
        """The cleaner leaves gaps in what is durable only. A follower rolls behind a gap that no segment can span."""
        is_far = found - segment.base_offset > MAX_RELATIVE_OFFSET
        return self._is_durable(found) or (is_far and self.last_stop.keeps_writes)

    def _cut(self, at: int, bad: BadBatchError) -> None:
        """The log ends at the bad batch; what lies behind it is a torn tail or evidence of corruption."""
        segment, behind = self.segments[at], self.segments[at + 1 :]
        path = segment.path(LOG_SUFFIX)
        file_size = self.disk.size(path)
        is_corrupt = not self._is_torn(segment, bad, behind)
        if not is_corrupt and self.last_stop.was_killed:
            write_torn_mark(self.disk, self.directory)
        if is_corrupt:
            self._report(segment, bad.position, bad.why, keep_aside(self.disk, path, bad.position, file_size))
        self.segment_list.remove([later.base_offset for later in behind], shrinking=[segment.base_offset])
        for later in reversed(behind):
            self._remove_behind(later, is_corrupt)
        del self.segments[at + 1 :]
        if bad.position < file_size:
            file = self.disk.open_append(path)
            file.truncate(bad.position)
            file.fsync()
        self.unindexed.append(segment)
        self.disk.fsync_dir(self.directory)

    def _is_torn(self, segment: Segment, bad: BadBatchError, behind: list[Segment]) -> bool:
        """See the module."""
        if segment.next_offset < self.evidence.must_reach():
            return False
        if self.durable_end is not None:
            return True
        if self._goes_on(segment, bad.position + 1, behind):
            return False
        if not self.last_stop.keeps_writes:
            return True
        file_size = self.disk.size(segment.path(LOG_SUFFIX))
        is_last_write = not self.last_stop.is_clean and not behind
        return is_last_write and is_cut_off(segment.file, bad.position, file_size, segment.next_offset)

    def _goes_on(self, segment: Segment, position: int, behind: list[Segment]) -> bool:
        """True when a batch with a valid checksum lies behind the damage, in the same segment or a later one."""
        end_offset, file_size = segment.next_offset, self.disk.size(segment.path(LOG_SUFFIX))
        return has_valid_batch(segment.file, position, file_size, end_offset) or any(
            has_valid_batch(later.file, 0, later.size, end_offset) for later in behind
        )

    def _report(self, segment: Segment, position: int, why: str, aside: str | None) -> None:
        self.damage.mark(segment.next_offset, why, path=segment.path(LOG_SUFFIX), position=position, aside=aside)

    def _remove_behind(self, segment: Segment, is_corrupt: bool) -> None:
        self.cache.forget(segment)
        path = segment.path(LOG_SUFFIX)
        if is_corrupt:
            self.disk.rename(path, path + CORRUPT_SUFFIX)
        for kind in SUFFIXES:
            self.disk.unlink(segment.path(kind))
