"""One ``.log`` file with its indexes: by offset, by time, and of aborted transactions.

A segment is *active* while it is the last of its log: its file stays open for appending, its indexes are in memory
only, and a :class:`Tail` remembers its newest batches. Sealing writes the indexes; from then on the segment is
*closed* and keeps neither descriptor nor index unless it was read recently (:class:`SegmentCache`). Index files are
thus exact in size, and may be missing or stale for an active segment: recovery rebuilds them.

Positions are bytes into the file. ``next_offset`` is the offset after the last batch; for a closed segment it is the
base offset of the one behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import copy, deepcopy

from minikafka.model import NO_TIMESTAMP
from minikafka.records.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, Buffer
from minikafka.storage.aside import replace_file
from minikafka.storage.batch_index import BatchIndex
from minikafka.storage.disk import Disk, File
from minikafka.storage.errors import BadBatchError, is_passing
from minikafka.storage.index import DamagedIndexError, TimeEntry
from minikafka.storage.scan import (
    WALK_CHUNK_BYTES,
    boundary_before,
    check_behind,
    check_place,
    scan_batches,
    scan_headers,
)
from minikafka.storage.segment_cache import SegmentCache
from minikafka.storage.segment_names import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
from minikafka.storage.tail import Tail
from minikafka.storage.transaction_index import AbortedTransaction, TransactionIndex

StagedBatch = tuple[int, int, int]  # last offset, size in bytes, max timestamp (ms)


def _union(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """Both ranges if they touch, else the other."""
    touch = other[0] <= one[1] and one[0] <= other[1]
    return (min(one[0], other[0]), max(one[1], other[1])) if touch else other


class Segment:
    """See the module. ``size`` and ``next_offset`` follow every append."""

    __slots__ = (
        "__weakref__",
        "_aborted",
        "_cache",
        "_disk",
        "_file",
        "_first_timestamp",
        "_index",
        "_index_interval_bytes",
        "_max_timestamp",
        "_suffix",
        "_tail",
        "_trusted_from",
        "_verified",
        "base_offset",
        "directory",
        "first_stamp_ms",
        "has_aborted",
        "is_index_written",
        "next_offset",
        "size",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        *,
        cache: SegmentCache,
        index_interval_bytes: int,
        size: int = 0,
        next_offset: int | None = None,
        suffix: str = "",
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        self.next_offset = base_offset if next_offset is None else next_offset
        self.is_index_written = True
        self.first_stamp_ms: int | None = None  # from which its age counts, see LogConfig.jittered
        self.has_aborted = False  # there is an index of aborted transactions, in memory or in a file
        self._disk = disk
        self._suffix = suffix
        self._cache = cache
        self._index_interval_bytes = index_interval_bytes
        self._file: File | None = None
        self._index: BatchIndex | None = None
        self._aborted: TransactionIndex | None = None
        self._max_timestamp: TimeEntry | None = None  # outlives the index of a closed segment
        self._first_timestamp: int | None = None  # of a closed segment, once it was read
        self._tail: Tail | None = None
        self._trusted_from = size  # what follows was checked by this process when it was appended
        self._verified = (0, 0)  # what of the rest was read and checked since

    def create(self) -> None:
        """Make an empty file and become active. Durable once the directory is synced."""
        self._file = self._disk.open_append(self.path(LOG_SUFFIX))
        self._index = BatchIndex(self.base_offset, self._index_interval_bytes)
        self._tail = Tail(self.next_offset)

    # -- files ------------------------------------------------------------------------------------------------------

    def path(self, kind: str) -> str:
        """Path of the ``.log``, ``.index`` or ``.timeindex`` file."""
        return f"{self.directory}/{file_name(self.base_offset)}{kind}{self._suffix}"

    @property
    def is_active(self) -> bool:
        """True while appends go here."""
        return self._tail is not None

    @property
    def file(self) -> File:
        """The open log file. Hold it as long as a slice of it is in use; never close it."""
        file = self._file
        if file is None:
            file = self._file = self._disk.open_read(self.path(LOG_SUFFIX))
            self._cache.touch(self)
        return file

    @property
    def open_file(self) -> File | None:
        """The log file if it is open."""
        return self._file

    def touch(self) -> None:
        """Keep this closed segment warm: it is being read."""
        if self._tail is None:
            self._cache.touch(self)

    def cool(self) -> None:
        """Let go of the descriptor and the indexes, unless the segment is active."""
        if self._tail is None:
            self._file = None
            if self.is_index_written:
                self._index = self._aborted = None

    def rename(self, suffix: str) -> None:
        """Give every file of a closed segment another last suffix (``.swap``, ``.deleted`` or none).

        After an OSError the segment has its name still, and the same may be done again: what has the new one keeps it.
        """
        self.cool()
        former, before = self._suffix, [self.path(kind) for kind in SUFFIXES]
        self._suffix = suffix
        try:
            for kind, path in zip(SUFFIXES, before, strict=True):
                if self._disk.exists(path):
                    self._disk.rename(path, self.path(kind))
        except OSError:
            self._suffix = former
            raise

    def remove(self, *suffixes: str) -> None:
        """Unlink every file of a segment that is nobody's, whichever of these last suffixes it has."""
        for suffix in suffixes:
            for kind in SUFFIXES:
                self._disk.unlink(f"{self.directory}/{file_name(self.base_offset)}{kind}{suffix}")

    def abandon(self) -> None:
        """The log is closed or offline: let go of everything."""
        self._tail = None
        self._cache.forget(self)
        self.cool()

    def detach(self) -> list[str]:
        """Take the segment out of service, renamed to ``.deleted``; the paths to unlink, now or later.

        Slices in flight keep the file's content alive.
        """
        self.abandon()
        self.rename(DELETED_SUFFIX)
        return [self.path(kind) for kind in SUFFIXES]

    # -- appending --------------------------------------------------------------------------------------------------

    def append(self, buffers: Sequence[Buffer], batches: Sequence[StagedBatch]) -> int:
        """Write ``buffers``, which hold ``batches``, with one system call. OSError leaves the state as it was.

        Where the file ends now: not at :attr:`size` if it was cut under this process.
        """
        file, index, tail = self._file, self._index, self._tail
        assert file is not None
        assert index is not None
        assert tail is not None
        end = file.append(buffers)
        position = self.size
        for last_offset, size, max_timestamp in batches:
            index.note(last_offset, position, size, max_timestamp)
            tail.add(last_offset, position)
            position += size
        self.size = position
        self.next_offset = last_offset + 1
        return end

    def drop_unnoted(self) -> None:
        """Cut off what a write left that was refused half-way, if the disk lets us."""
        file = self._file
        assert file is not None
        with suppress(OSError):
            if file.size() > self.size:
                file.truncate(self.size)

    def seal(self) -> None:
        """Stop being active and write the indexes."""
        self.deactivate()
        self.write_indexes()

    def deactivate(self) -> None:
        """Stop being active. The indexes stay in memory until :meth:`write_indexes`."""
        index = self.index
        index.seal()
        self._max_timestamp = index.max_timestamp
        self._first_timestamp = None  # it may have been cut, and written anew
        self._tail = None
        self.is_index_written = False
        self._cache.touch(self)

    def write_indexes(self) -> None:
        """Write the index files of a segment that is not active any more, in any thread."""
        index, path = self.index, self.path(TRANSACTION_INDEX_SUFFIX)
        if self.has_aborted:
            replace_file(self._disk, path, self.aborted.encode())  # a torn one may look like one with fewer entries
        else:
            self._disk.unlink(path)  # of the time before a cut
        self._disk.write_bytes(self.path(OFFSET_INDEX_SUFFIX), index.offsets.encode())
        self._disk.write_bytes(self.path(TIME_INDEX_SUFFIX), index.times.encode())
        self.is_index_written = True

    def activate(self) -> None:
        """Open for appending and learn where the segment ends. BadBatchError when a batch there is damaged."""
        self._cache.forget(self)
        self._file = self._disk.open_append(self.path(LOG_SUFFIX))
        self.is_index_written = True
        try:
            next_offset = self.index.resume(self._file, self.size)
        except (BadBatchError, DamagedIndexError):
            self._index = self._rebuilt_index()
            next_offset = self._index.resume(self._file, self.size)
        self.next_offset = self.base_offset if next_offset is None else next_offset
        self._tail = Tail(self.next_offset)

    def reopen(self) -> None:
        """Open a closed segment for appending, without reading anything of it; :meth:`truncate` must follow."""
        if self._tail is None:
            self._file = self._disk.open_append(self.path(LOG_SUFFIX))
            self._tail = Tail(self.next_offset)
            self.is_index_written = True

    def copy(self, cache: SegmentCache) -> Segment:
        """The same segment with another cache, for another thread or back. One of the two may change, the other not."""
        twin = copy(self)
        twin._cache = cache
        return twin

    def share(self, cache: SegmentCache) -> None:
        """Have another cache from now on."""
        self._cache.forget(self)
        self._cache = cache

    def snapshot(self, cache: SegmentCache) -> Segment:
        """A copy to read in another thread while this one goes on."""
        twin = self.copy(cache)
        if self._tail is not None:
            twin._index, twin._aborted = deepcopy(self._index), deepcopy(self._aborted)
            twin._tail = Tail(self.next_offset)
        return twin

    def learn(self, copy: Segment, *, keeps_index: bool) -> None:
        """Keep what a :meth:`snapshot` came to know by reading."""
        self._max_timestamp = self._max_timestamp or copy._max_timestamp
        if self._tail is None and copy._first_timestamp is not None:
            self._first_timestamp = copy._first_timestamp
        self._verified = _union(self._verified, copy._verified)
        if keeps_index and self._tail is None:
            self._file, self._index = self._file or copy._file, copy._index
            self._cache.touch(self)
        if copy._aborted is not None and self._tail is None:
            self._aborted = copy._aborted
            self._cache.touch(self)

    def adopt(self, index: BatchIndex, size: int, next_offset: int) -> None:
        """Recovery read and checked the first ``size`` bytes and made ``index`` of them."""
        self._index = index
        self._max_timestamp = index.max_timestamp
        self.size = size
        self.next_offset = next_offset
        self._trusted_from = 0

    def truncate(self, position: int, end_offset: int) -> int:
        """Cut an active segment to end at ``position``, durably; offsets from ``end_offset`` on are gone.

        The log's end from now on: where the last batch ends that is left, or would begin. A gap before ``end_offset``
        goes, too. It may be no cleaner's, but come from a batch whose offset went wrong at the leader. What belongs
        there is fetched again.
        """
        assert self._file is not None
        assert self._tail is not None
        self._file.truncate(position)
        self._file.fsync()
        self.size = position
        self._trusted_from = min(self._trusted_from, position)
        self._verified = (self._verified[0], min(self._verified[1], position))
        self.index.truncate(position, end_offset)
        if self.has_aborted:
            self.aborted.truncate(end_offset)
            self.has_aborted = len(self.aborted) > 0
        resumed = self.index.resume(self._file, position)
        reached = self.base_offset if resumed is None else resumed
        self.next_offset = reached
        self._tail = Tail(reached)
        return reached

    def clear(self) -> None:
        """Become active and empty, durably. The file is not read: it may be what is damaged."""
        if self._tail is None:
            self._cache.forget(self)
            self._file = self._disk.open_append(self.path(LOG_SUFFIX))
        self._index = BatchIndex(self.base_offset, self._index_interval_bytes)
        self._tail = Tail(self.base_offset)
        self.forget_aborted()
        self._disk.unlink(self.path(TRANSACTION_INDEX_SUFFIX))
        self.truncate(0, self.base_offset)

    # -- finding batches --------------------------------------------------------------------------------------------

    def position_of(self, offset: int) -> int:
        """Position of the first batch that ends at or after ``offset``; ``size`` when there is none."""
        tail = self._tail
        if tail is not None and offset >= tail.first_offset:
            return tail.position_of(offset, self.size)
        found = self.find(offset)
        return self.size if found is None else found[0]

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """(position, header) of the first batch that ends at or after ``offset``, read from the file."""
        if offset >= self.next_offset:
            return None
        try:
            return self._walk_to(offset)
        except (BadBatchError, DamagedIndexError):
            self._index = self._rebuilt_index()
            return self._walk_to(offset)

    def bounds(self, offset: int, max_bytes: int, max_offset: int, *, min_one_batch: bool) -> tuple[int, int]:
        """(begin, end) positions of the whole batches to read from ``offset`` on.

        They end at or before ``max_offset`` and hold at most ``max_bytes``, or one larger batch when
        ``min_one_batch``.
        """
        begin = self.position_of(offset)
        end = self.size if max_offset >= self.next_offset else self.position_of(max_offset)
        if begin >= end:
            return begin, begin
        if begin + max_bytes < end:
            end = self._boundary(begin, begin + max_bytes, min_one_batch)
        return begin, end

    def end_before(self, position: int) -> int:
        """The offset after the batch that ends at ``position``, or one in the gap behind it; no batch is asked itself.

        The newest batches are known. Elsewhere the next one tells, whose header is read. Where that cannot be, the end
        of the segment is all that is known.
        """
        if position >= self.size:
            return self.next_offset
        known = -1 if self._tail is None else self._tail.end_before(position)
        if known >= 0:
            return known
        try:
            _position, behind = next(scan_headers(self.file, position, self.size, HEADER_SIZE))
        except (BadBatchError, OSError):  # whoever reads on finds out
            return self.next_offset
        return min(behind.base_offset, self.next_offset)

    def boundary(self, offset: int) -> tuple[int, int, BadBatchError | None]:
        """(position, end offset) of the batches before ``offset``, and the damage if they end before their time."""
        try:
            found = self._walk_to(offset, offset - 1)
        except (BadBatchError, DamagedIndexError):
            self._index, position, end_offset, damage = BatchIndex.rebuild_before(
                offset, self.base_offset, self._index_interval_bytes, self.file, self.size, self.next_offset
            )
            return position, end_offset, damage
        return (self.size, offset, None) if found is None else (found[0], min(offset, found[1].base_offset), None)

    def floor(self, offset: int) -> int:
        """An offset at or before :meth:`boundary`'s, from memory alone."""
        if self._tail is not None and offset > self._tail.first_offset:
            return self._tail.begin_of(offset)
        entry = None if self._index is None else self._index.offsets.lookup(offset - 1)
        return self.base_offset if entry is None else entry.offset + 1

    def estimate_position(self, offset: int) -> int:
        """About where ``offset`` is, from memory alone: without an index, as if all records were of one size."""
        tail = self._tail
        if tail is not None and offset >= tail.first_offset:
            return tail.position_of(offset, self.size)
        if offset >= self.next_offset:
            return self.size
        if self._index is None:
            return max(0, offset - self.base_offset) * self.size // (self.next_offset - self.base_offset)
        entry = self._index.offsets.lookup(offset)
        return 0 if entry is None else entry.position

    def is_verified(self, begin: int, end: int) -> bool:
        """True when this process has seen that every batch in ``[begin, end)`` is as it was appended."""
        end = min(end, self._trusted_from)
        low, high = self._verified
        return begin >= end or (low <= begin and end <= high)

    def verify(self, begin: int, end: int) -> None:
        """BadBatchError unless every batch in ``[begin, end)`` is as it was appended. Each byte is checked once."""
        if self.is_verified(begin, end):
            return
        end = min(end, self._trusted_from)
        expected = self.base_offset
        for position, header, _batch in scan_batches(self.file, begin, end):
            check_place(position, header, expected, self.next_offset)
            expected = header.next_offset
        check_behind(self.file, end, self.size, expected)
        self._verified = _union(self._verified, (begin, end))

    def has_in_tail(self, offset: int) -> bool:
        """True when ``offset`` is among the newest batches of an active segment, or behind them."""
        return self._tail is not None and offset >= self._tail.first_offset

    def is_warm(self, offset: int, max_bytes: int) -> bool:
        """True when so many bytes from ``offset`` on can be read without a checksum, from indexes in memory."""
        if self.has_in_tail(offset):
            return True
        if self._index is None or self._file is None:
            return False
        if self._trusted_from == 0:
            return True
        entry = self._hint(offset)
        if not self.is_verified(entry, entry + 1):
            return False
        begin = self.position_of(offset)
        return self.is_verified(begin, min(begin + max_bytes, self.size))

    def warm(self, offset: int, max_bytes: int) -> bool:
        """Make it so, up to the end of a batch; False when there is no batch at or behind ``offset``."""
        found = self.find(offset)
        if found is None:
            return False
        begin = end = self._hint(offset)
        expected = self.base_offset
        for position, header, _batch in scan_batches(self.file, begin, self._trusted_from):
            check_place(position, header, expected, self.next_offset)
            expected = header.next_offset
            end = position + header.batch_length + LOG_OVERHEAD
            if end >= found[0] + max_bytes:
                break
        check_behind(self.file, end, self.size, expected)
        self._verified = _union(self._verified, (begin, end))
        return True

    def _hint(self, offset: int) -> int:
        """Where the walk to ``offset`` begins."""
        entry = self.index.offsets.lookup(offset)
        return 0 if entry is None else entry.position

    def _walk_to(self, offset: int, from_offset: int | None = None) -> tuple[int, BatchHeader] | None:
        entry = self.index.offsets.lookup(offset if from_offset is None else from_offset)
        start, expected = (0 if entry is None else entry.position), self.base_offset
        for position, header in scan_headers(self.file, start, self.size, WALK_CHUNK_BYTES):
            check_place(position, header, expected, self.next_offset)
            last_offset, expected = header.last_offset, header.next_offset
            if entry is not None and position == start and last_offset != entry.offset:
                raise DamagedIndexError(f"the entry for offset {entry.offset} points at {last_offset}")
            if last_offset >= offset:
                return position, header
        return None

    def _boundary(self, begin: int, limit: int, min_one_batch: bool) -> int:
        """The last known batch boundary in ``(begin, limit]``, else the end of the first batch or ``begin``."""
        tail = self._tail
        first_end = -1 if tail is None else tail.boundary_after(begin, self.size)
        if tail is not None and first_end >= 0:
            known = tail.boundary_at_or_before(limit)
            return known if known > begin else first_end if min_one_batch else begin
        known = self.index.offsets.boundary_at_or_before(limit)
        if known > begin:
            return known
        return boundary_before(self.file, begin, self.size, limit, min_one_batch=min_one_batch)

    # -- indexes ----------------------------------------------------------------------------------------------------

    @property
    def index(self) -> BatchIndex:
        """Both indexes, loaded or rebuilt when they are not in memory. BadBatchError when the file is damaged too."""
        if self._index is None:
            self._index = self._loaded_index()
            self.touch()
        return self._index

    @property
    def max_timestamp(self) -> TimeEntry:
        """The largest timestamp (ms) and the last offset of its batch; timestamp -1 when there is none."""
        if self._tail is not None:
            return self.index.max_timestamp
        if self._max_timestamp is None:
            self._max_timestamp = self.index.max_timestamp
        return self._max_timestamp

    @property
    def knows_age(self) -> bool:
        """True when :attr:`max_timestamp` is in memory."""
        return self._max_timestamp is not None or self._tail is not None or self._index is not None

    def first_timestamp(self) -> int:
        """The largest timestamp (ms) of the first batch; -1 when there is none. BadBatchError when it is damaged."""
        if self._tail is None and self._first_timestamp is not None:
            return self._first_timestamp
        found = next(scan_headers(self.file, 0, self.size), None)
        timestamp = NO_TIMESTAMP if found is None else found[1].max_timestamp
        if self._tail is None:
            self._first_timestamp = timestamp
        return timestamp

    @property
    def knows_first_timestamp(self) -> bool:
        """True when :meth:`first_timestamp` of a closed segment is in memory."""
        return self._first_timestamp is not None

    @property
    def index_interval_bytes(self) -> int:
        """``index.interval.bytes`` of the log."""
        return self._index_interval_bytes

    @index_interval_bytes.setter
    def index_interval_bytes(self, value: int) -> None:
        self._index_interval_bytes = value
        if self._index is not None:
            self._index.interval_bytes = value

    def _loaded_index(self) -> BatchIndex:
        try:
            offsets = self._disk.read_bytes(self.path(OFFSET_INDEX_SUFFIX))
            times = self._disk.read_bytes(self.path(TIME_INDEX_SUFFIX))
            return BatchIndex.decode(self.base_offset, self._index_interval_bytes, offsets, times, self.size)
        except DamagedIndexError:
            return self._rebuilt_index()
        except OSError as error:
            if is_passing(error):
                raise
            return self._rebuilt_index()

    def _rebuilt_index(self) -> BatchIndex:
        return BatchIndex.rebuild(self.base_offset, self._index_interval_bytes, self.file, self.size)

    # -- aborted transactions ---------------------------------------------------------------------------------------

    @property
    def aborted(self) -> TransactionIndex:
        """The aborted transactions whose markers are here, loaded if need be. DamagedIndexError for a wrong file."""
        if self._aborted is None:
            self._aborted = self._loaded_aborted() if self.has_aborted else TransactionIndex()
            self.touch()
        return self._aborted

    @property
    def aborted_in_memory(self) -> TransactionIndex | None:
        """The same, if nothing has to be read for it."""
        return self._aborted

    def note_aborted(self, aborted: AbortedTransaction) -> None:
        """A marker that was, or will be, appended."""
        self.aborted.append(aborted)
        self.has_aborted = True

    def forget_aborted(self) -> None:
        """Whatever is known is wrong: the batches tell."""
        self._aborted, self.has_aborted = None, False

    def store_aborted(self) -> None:
        """Write what was made again in place of a damaged file, in any thread."""
        index = self.aborted
        self.has_aborted = True
        if self._disk.exists(self.path(LOG_SUFFIX)):  # else retention took it away meanwhile
            replace_file(self._disk, self.path(TRANSACTION_INDEX_SUFFIX), index.encode())

    def _loaded_aborted(self) -> TransactionIndex:
        try:
            data = self._disk.read_bytes(self.path(TRANSACTION_INDEX_SUFFIX))
        except OSError as error:
            if is_passing(error):
                raise
            raise DamagedIndexError(str(error)) from error
        return TransactionIndex.decode(self.base_offset, self.next_offset, data)
