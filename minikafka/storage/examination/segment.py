"""The batches of one segment, one after the other, and the indexes beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from minikafka.errors import KafkaError
from minikafka.records.batch import LOG_OVERHEAD, BatchHeader, Buffer, crc_is_valid
from minikafka.records.read import iter_records
from minikafka.storage.disk import Disk
from minikafka.storage.dump import IndexCheck, dump_offset_index, dump_time_index, dump_transaction_index
from minikafka.storage.errors import BadBatchError, is_passing
from minikafka.storage.examination.findings import Findings
from minikafka.storage.index import MAX_RELATIVE_OFFSET, DamagedIndexError, OffsetEntry, TimeEntry
from minikafka.storage.scan import scan_batches
from minikafka.storage.segment_names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
from minikafka.storage.transaction_index import UNKNOWN_CHECKSUM, AbortedTransaction, TransactionIndex

PROBLEMS_NAMED = 3
"""Of one index: more of them say the same."""


@dataclass(slots=True)
class Walk:
    """What the batches so far say; the same for all segments of a log."""

    expected: int
    """Offset that follows."""
    epoch: int = -1
    gaps: int = 0
    first_gap: tuple[int, int] | None = None


class SegmentExamination:
    """One segment. ``on_batch`` gets every batch with a valid checksum, ``on_gap`` is told of missing offsets."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        size: int,
        next_base: int | None,
        findings: Findings,
        *,
        decodes: bool,
    ) -> None:
        self._disk = disk
        self._stem = f"{directory}/{file_name(base_offset)}"
        self.path = self._stem + LOG_SUFFIX
        self.base_offset = base_offset
        self._size = size
        self._limit = base_offset + MAX_RELATIVE_OFFSET + 1 if next_base is None else next_base
        self._findings = findings
        self._decodes = decodes

    def walk(
        self, walk: Walk, on_batch: Callable[[BatchHeader, Buffer], None], on_gap: Callable[[], None], *, judges: bool
    ) -> BadBatchError | None:
        """Read all batches; where no further one can begin, and why. ``judges``: the indexes must be right."""
        try:
            file = self._disk.open_read(self.path)
        except OSError as error:
            return self._unreadable(error)
        check = self._index_check() if judges else None
        bad: BadBatchError | None = None
        walk.expected = max(walk.expected, self.base_offset)
        try:
            for position, header, batch in scan_batches(file, 0, self._size, check_crcs=False):
                self._findings.batches += 1
                self._findings.read(header.batch_length + LOG_OVERHEAD)
                if check is not None:
                    check.see(position, header)
                if not self._is_sound(position, header, batch, walk, on_gap):
                    on_gap()
                else:
                    on_batch(header, batch)
                walk.expected = max(walk.expected, min(header.next_offset, self._limit))
        except BadBatchError as error:
            bad = error
        except OSError as error:
            bad = self._unreadable(error)
        finally:
            file.close()
        if check is not None and bad is None:
            self._tell(self._stem + OFFSET_INDEX_SUFFIX, check.offset_problems())
            self._tell(self._stem + TIME_INDEX_SUFFIX, check.time_problems())
        return bad

    def _unreadable(self, error: OSError) -> BadBatchError:
        """As damage from the beginning; raises what says nothing of the file."""
        if isinstance(error, FileNotFoundError | PermissionError) or is_passing(error):
            raise error
        return BadBatchError(0, f"the file cannot be read ({error})")

    def compare_aborted(
        self, expected: list[AbortedTransaction], checksum: int, log_start: int, *, is_complete: bool, judges: bool
    ) -> None:
        """The index of aborted transactions, against those that the batches tell. Only ``judges`` when it must be.

        ``checksum``: of the list of segments. A transaction from before ``log_start`` may be there or not, or begin
        later.
        """
        path = self._stem + TRANSACTION_INDEX_SUFFIX
        try:
            said = dump_transaction_index(self._disk, path) if self._disk.exists(path) else TransactionIndex()
        except (DamagedIndexError, OSError) as error:
            self._tell_unreadable(path, error)
            return
        if judges and checksum not in (UNKNOWN_CHECKSUM, said.checksum):
            self._findings.mended(path, "not the one that was written; made again from the batches")
            return
        if not (judges and is_complete):
            return
        older = {(entry.producer_id, entry.last_offset) for entry in expected if entry.first_offset < log_start}
        ours = {entry[:3] for entry in expected if entry.first_offset >= log_start}
        theirs = {entry[:3] for entry in said if (entry.producer_id, entry.last_offset) not in older}
        for producer_id, first, last in sorted(ours - theirs)[:PROBLEMS_NAMED]:
            what = f"the aborted transaction of producer {producer_id}, offsets {first} to {last}, is not in it"
            self._findings.damage(path, f"{what}: readers of committed records get its records")
        for producer_id, first, last in sorted(theirs - ours)[:PROBLEMS_NAMED]:
            what = f"no transaction of producer {producer_id}, offsets {first} to {last}, was aborted"
            self._findings.damage(path, f"{what}: readers of committed records do not get its records")

    def _is_sound(
        self, position: int, header: BatchHeader, batch: Buffer, walk: Walk, on_gap: Callable[[], None]
    ) -> bool:
        """Say what is wrong with a batch: its checksum, its place, its epoch."""
        at = {"position": position, "offset": header.base_offset}
        if not crc_is_valid(batch, 0, header):
            self._findings.damage(self.path, "wrong checksum", **at)
            return False
        if header.base_offset < walk.expected:
            self._findings.damage(self.path, f"offset {header.base_offset} comes again after {walk.expected - 1}", **at)
            return False
        if header.next_offset > self._limit:
            self._findings.damage(
                self.path, f"offsets up to {header.last_offset}; the segment ends at {self._limit - 1}", **at
            )
            return False
        if header.base_offset > walk.expected:
            walk.gaps += 1
            walk.first_gap = walk.first_gap or (walk.expected, header.base_offset - 1)
            on_gap()
        if header.leader_epoch < walk.epoch:
            self._findings.damage(self.path, f"leader epoch {header.leader_epoch} comes again after {walk.epoch}", **at)
        walk.epoch = max(walk.epoch, header.leader_epoch)
        return not self._decodes or self._can_be_read(position, header, batch)

    def _can_be_read(self, position: int, header: BatchHeader, batch: Buffer) -> bool:
        try:
            for record in iter_records(batch, 0, header):
                if not header.base_offset <= record.offset <= header.last_offset:
                    raise ValueError(f"record {record.offset} is outside of its batch")
                for _header in record.headers:
                    pass  # each can be read
        except (KafkaError, ValueError) as error:
            what = f"records cannot be read: {getattr(error, 'message', error)}"
            self._findings.damage(self.path, what, position=position, offset=header.base_offset)
            return False
        return True

    def _index_check(self) -> IndexCheck:
        offsets: list[OffsetEntry] = []
        times: list[TimeEntry] = []
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            path = self._stem + suffix
            try:
                if suffix == OFFSET_INDEX_SUFFIX:
                    offsets = dump_offset_index(self._disk, path)
                else:
                    times = dump_time_index(self._disk, path)
            except (DamagedIndexError, OSError) as error:
                self._tell_unreadable(path, error)
        return IndexCheck(offsets, times)

    def _tell_unreadable(self, path: str, error: DamagedIndexError | OSError) -> None:
        if isinstance(error, PermissionError) or (isinstance(error, OSError) and is_passing(error)):
            raise error
        what = "missing" if isinstance(error, FileNotFoundError) else f"unreadable ({error})"
        self._findings.mended(path, f"{what}; made again from the batches")

    def _tell(self, path: str, problems: list[str]) -> None:
        for problem in problems[:PROBLEMS_NAMED]:
            self._findings.damage(path, problem)
        if len(problems) > PROBLEMS_NAMED:
            self._findings.damage(path, f"and {len(problems) - PROBLEMS_NAMED} more entries like these")
