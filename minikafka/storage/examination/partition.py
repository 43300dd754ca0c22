"""The files of one log: names, segments and their list, leader epochs, marks; then every batch, in one pass."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

from minikafka.model import CLUSTER_METADATA_TOPIC, NO_EPOCH, ZERO_TOPIC_ID, TopicPartition
from minikafka.records.batch import BatchHeader, Buffer
from minikafka.storage.aside import CORRUPT_SUFFIX
from minikafka.storage.damage import (
    REFETCH_FILE,
    TORN_FILE,
    has_topic_id,
    has_valid_batch,
    is_cut_off,
    read_refetch_mark,
)
from minikafka.storage.disk import Disk
from minikafka.storage.durable_end import DURABLE_END_FILE, parse_durable_end
from minikafka.storage.epochs import FILE_NAME as EPOCHS_FILE
from minikafka.storage.epochs import LeaderEpochCache, parse_epochs
from minikafka.storage.errors import BadBatchError
from minikafka.storage.examination.facts import DirectoryFacts
from minikafka.storage.examination.findings import Findings
from minikafka.storage.examination.producers import ProducerCheck
from minikafka.storage.examination.segment import SegmentExamination, Walk
from minikafka.storage.log_ends import LogKey, Noted
from minikafka.storage.meta import PARTITION_METADATA_FILE, read_topic_id
from minikafka.storage.segment_list import SEGMENTS_FILE, UNKNOWN, Rows, parse_segments
from minikafka.storage.segment_names import LOG_SUFFIX, SNAPSHOT_SUFFIX, SUFFIXES, file_name, offset_in
from minikafka.storage.small_file import read_small_file
from minikafka.storage.transaction_index import UNKNOWN_CHECKSUM

_KNOWN: Final = frozenset(
    (DURABLE_END_FILE, EPOCHS_FILE, PARTITION_METADATA_FILE, REFETCH_FILE, SEGMENTS_FILE, TORN_FILE)
)
_OF_THE_QUORUM: Final = ("quorum-state", "repair-in-progress", "new-voter", "older-copy")
_LEFT_OVER: Final = (".deleted", ".cleaned", ".swap", ".tmp")


class _Files(NamedTuple):
    """Segments by base offset with their sizes, and offsets of snapshots."""

    segments: dict[int, int]
    snapshots: list[int]


def examine_partition(
    disk: Disk, directory: str, tp: TopicPartition, facts: DirectoryFacts, findings: Findings, *, decodes: bool = False
) -> None:
    """Look at every file in a partition's directory. ``decodes``: at every record, too.

    FileNotFoundError when the directory goes away meanwhile.
    """
    _PartitionExamination(disk, directory, tp, facts, findings, decodes).run()


class _PartitionExamination:
    def __init__(
        self, disk: Disk, directory: str, tp: TopicPartition, facts: DirectoryFacts, findings: Findings, decodes: bool
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._tp = tp
        self._facts = facts
        self._findings = findings
        self._decodes = decodes
        self._recovery_point = facts.recovery_points.get(tp, 0)
        self._log_start = facts.log_starts.get(tp, 0)
        self._epochs: LeaderEpochCache | None = None
        self._wrong_epoch = False

    def run(self) -> None:
        self._findings.partitions += 1
        durable_end = self._durable_end()
        listed = self._listed()
        self._epochs = self._read_epochs()
        files = self._files()
        self._check_marks()
        if not files.segments:
            if not self._facts.is_running:
                self._findings.damage(self._directory, "no segment: the log is gone")
            return
        self._check_listed(listed, files.segments)
        end = self._walk(files, listed)
        if not self._facts.is_running:
            self._check_end(files, end, durable_end)

    # -- small files ------------------------------------------------------------------------------------------------

    def _files(self) -> _Files:
        segments: dict[int, int] = {}
        snapshots = []
        left_over = 0
        for name in self._disk.listdir(self._directory):
            path = f"{self._directory}/{name}"
            offsets = {
                suffix: offset_in(name, suffix) for suffix in (*SUFFIXES, SNAPSHOT_SUFFIX) if name.endswith(suffix)
            }
            if name.endswith(CORRUPT_SUFFIX):
                self._findings.note(path, "kept aside as evidence of damage; nothing reads it")
            elif name.endswith(_LEFT_OVER):
                left_over += 1
            elif self._disk.is_dir(path):
                self._findings.note(path, "a directory, which no log has; a start renames it")
            elif None in offsets.values():
                self._findings.note(path, "its name is no offset; a start renames it")
            elif (base := offsets.get(LOG_SUFFIX)) is not None:
                segments[base] = self._size(path)
            elif (offset := offsets.get(SNAPSHOT_SUFFIX)) is not None:
                snapshots.append(offset)
            elif not offsets and name not in _KNOWN and name not in _OF_THE_QUORUM:
                self._findings.note(path, "not a file of a log; nothing reads it")
        if left_over and not self._facts.is_running:
            what = "files left over from an unfinished step; a start finishes or removes them"
            self._findings.note(self._directory, f"{left_over} {what}")
        return _Files(dict(sorted(segments.items())), sorted(snapshots))

    def _size(self, path: str) -> int:
        try:
            return self._disk.size(path)
        except FileNotFoundError:
            if not self._facts.is_running:
                raise
            return 0

    def _check_marks(self) -> None:
        directory = self._directory
        mark = read_refetch_mark(self._disk, directory)
        if mark is not None:
            what = f"marked as damaged: {mark.why}; its node fetches it again from there"
            self._findings.damage(f"{directory}/{REFETCH_FILE}", what, offset=mark.offset)
        if self._disk.exists(f"{directory}/{TORN_FILE}"):
            what = "after a kill the log may lack its last write; its node does not claim it as whole"
            self._findings.note(f"{directory}/{TORN_FILE}", what)
        if self._topic_id() == ZERO_TOPIC_ID and not self._facts.is_running:
            path = f"{directory}/{PARTITION_METADATA_FILE}"
            what = "unreadable" if has_topic_id(self._disk, directory) else "missing"
            self._findings.damage(
                path, f"{what}: whose records these are is not known, and its node fetches them again"
            )

    def _topic_id(self) -> object:
        return read_topic_id(self._disk, self._directory)

    def _durable_end(self) -> int | None:
        path = f"{self._directory}/{DURABLE_END_FILE}"
        try:
            return parse_durable_end(read_small_file(self._disk, path))
        except FileNotFoundError:
            return None
        except ValueError as error:
            if not self._facts.is_running:
                self._findings.damage(path, f"unreadable ({error}): how far the log was synced is not known")
            return None

    def _listed(self) -> Rows:
        path = f"{self._directory}/{SEGMENTS_FILE}"
        try:
            return parse_segments(read_small_file(self._disk, path))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            self._findings.mended(path, f"unreadable ({error}); written again by the next flush")
            return {}

    def _read_epochs(self) -> LeaderEpochCache | None:
        path = f"{self._directory}/{EPOCHS_FILE}"
        try:
            return LeaderEpochCache(parse_epochs(read_small_file(self._disk, path)))
        except FileNotFoundError:
            return None
        except ValueError as error:
            self._findings.mended(path, f"unreadable ({error}); the epochs are read from the batches")
            return None

    def _check_listed(self, listed: Rows, segments: dict[int, int]) -> None:
        """A listed segment that is missing or too small is damage, unless the log starts after it anyway."""
        if self._facts.is_running:  # a segment is taken off the list before it goes
            again = self._listed()
            listed = {base: min(row, again[base]) for base, row in listed.items() if base in again}
        bounds = sorted({*listed, *segments})
        ends = dict(pairwise(bounds))
        for base, row in listed.items():
            path = f"{self._directory}/{file_name(base)}{LOG_SUFFIX}"
            if base in ends and ends[base] <= self._log_start:
                continue
            if base not in segments:
                if not (self._facts.is_running and self._disk.exists(path)):
                    self._findings.damage(path, "missing, and the list of segments has it", offset=base)
            elif segments[base] < row.size:
                self._findings.damage(path, f"{segments[base]} bytes; it had {row.size}", offset=base)

    # -- batches ----------------------------------------------------------------------------------------------------

    def _walk(self, files: _Files, listed: Rows) -> int:
        """Read all segments in order; the offset after the last batch that can be read."""
        bases = [*files.segments]
        facts = self._facts
        walk = Walk(bases[0])
        producers = ProducerCheck(
            self._disk,
            self._directory,
            files.snapshots,
            bases[0],
            self._log_start,
            self._findings,
            is_judged=not facts.is_running,
        )

        def on_batch(header: BatchHeader, batch: Buffer) -> None:
            self._check_epoch(header)
            producers.see(header, batch)

        for base, next_base in zip(bases, [*bases[1:], None], strict=True):
            self._findings.segments += 1
            segment = SegmentExamination(
                self._disk,
                self._directory,
                base,
                files.segments[base],
                next_base,
                self._findings,
                decodes=self._decodes,
            )
            judges = facts.was_clean or (next_base is not None and next_base < self._recovery_point)
            judges = judges and files.segments[base] > 0
            try:
                bad = segment.walk(walk, on_batch, producers.distrust, judges=judges)
            except FileNotFoundError:
                if not facts.is_running:
                    raise
                self._findings.note(segment.path, "went away while it was to be read")
                producers.distrust()
                continue
            if bad is not None:
                producers.distrust()
                self._tell_bad(segment, bad, walk, next_base)
            elif next_base is not None and walk.expected < next_base:
                producers.distrust()
                self._check_gap(segment, walk, next_base, listed)
            is_complete = producers.is_complete and not facts.first_dirty.get(self._tp)
            checksum = UNKNOWN_CHECKSUM if facts.is_running else listed.get(base, UNKNOWN).aborted
            aborted = producers.take_aborted()
            segment.compare_aborted(aborted, checksum, producers.log_start, is_complete=is_complete, judges=judges)
        producers.reach(walk.expected)
        if walk.first_gap is not None:
            first, last = walk.first_gap
            what = f"{walk.gaps} {'gap' if walk.gaps == 1 else 'gaps'}, the first of offsets {first} to {last}"
            self._tell_gaps(what)
        return walk.expected

    def _tell_gaps(self, what: str) -> None:
        if self._tp.topic == CLUSTER_METADATA_TOPIC:
            self._findings.damage(self._directory, f"{what}: records of the metadata quorum are missing")
        else:
            self._findings.note(self._directory, f"{what}; compaction leaves such gaps")

    def _check_epoch(self, header: BatchHeader) -> None:
        """No checksum covers a batch's epoch; the file is right below the recovery point, and after a clean stop."""
        if self._epochs is None or self._wrong_epoch:
            return
        if not (self._facts.was_clean or header.last_offset < self._recovery_point):
            return
        known = self._epochs.epoch_for(header.last_offset)
        if known not in (header.leader_epoch, NO_EPOCH):
            self._wrong_epoch = True  # what follows says the same
            what = f"offset {header.base_offset} is of epoch {known}, it says; the batch is of {header.leader_epoch}"
            self._findings.damage(f"{self._directory}/{EPOCHS_FILE}", what, offset=header.base_offset)

    def _tell_bad(self, segment: SegmentExamination, bad: BadBatchError, walk: Walk, next_base: int | None) -> None:
        """The end of what can be read of a segment: of the last one it may be a write that was under way."""
        at = {"position": bad.position, "offset": walk.expected}
        if next_base is None and self._facts.is_running:
            return
        noted = self._noted()
        must_reach = max(self._recovery_point, noted.end_offset if noted else 0)
        size = self._disk.size(segment.path)
        if (
            next_base is None
            and not self._facts.was_clean
            and walk.expected >= must_reach
            and self._is_torn(segment, bad.position, size, walk.expected)
        ):
            what = f"{size - bad.position} bytes of an unfinished write; a start cuts them off"
            self._findings.note(segment.path, what, **at)
            return
        self._findings.damage(segment.path, f"{bad.why}: nothing can be read from here on", **at)

    def _is_torn(self, segment: SegmentExamination, position: int, size: int, expected: int) -> bool:
        """As a start judges: nothing valid follows, and on the same boot the last write is there in part."""
        file = self._disk.open_read(segment.path)
        try:
            if has_valid_batch(file, position + 1, size, expected):
                return False
            return not self._facts.keeps_writes or is_cut_off(file, position, size, expected)
        except OSError:
            return False
        finally:
            file.close()

    def _check_gap(self, segment: SegmentExamination, walk: Walk, next_base: int, listed: Rows) -> None:
        """A segment that ends before the next begins lost its end, unless the cleaner may have taken it."""
        if next_base in listed or next_base <= self._recovery_point or self._facts.first_dirty.get(self._tp):
            walk.gaps += 1
            walk.first_gap = walk.first_gap or (walk.expected, next_base - 1)
            return
        if not self._facts.is_running:
            what = f"ends at offset {walk.expected - 1}, and the next segment begins at {next_base}"
            self._findings.damage(segment.path, what, offset=walk.expected)

    def _check_end(self, files: _Files, end: int, durable_end: int | None) -> None:
        """The log must have what is known to have been there."""
        facts, tp = self._facts, self._tp
        noted = self._noted()
        known = {"the recovery point": self._recovery_point, "its synced end": durable_end or 0}
        if facts.keeps_writes:
            known["the high watermark"] = facts.high_watermarks.get(tp, 0)
            known["its noted end"] = noted.end_offset if noted and facts.is_same_boot else 0
        what, least = max(known.items(), key=lambda each: each[1])
        if end < max(least, self._log_start):
            name = what if least >= self._log_start else "its start"
            message = f"ends at offset {end}, before {name} {max(least, self._log_start)}: records are missing"
            self._findings.damage(self._directory, message, offset=end)
        first = next(iter(files.segments))
        start = noted.start if noted and facts.is_same_boot else None
        if start is not None and first > max(start, self._log_start):
            self._findings.damage(self._directory, f"begins at offset {first}; it began at {start}", offset=first)

    def _noted(self) -> Noted | None:
        topic_id = read_topic_id(self._disk, self._directory)
        return self._facts.noted_ends.get(LogKey(topic_id, self._tp.partition))
