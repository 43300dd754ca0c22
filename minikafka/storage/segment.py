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
from minikafka.records.batch import Buffer
from minikafka.storage.aside import replace_file
from minikafka.storage.batch_index import BatchIndex
from minikafka.storage.disk import Disk, File
from minikafka.storage.errors import BadBatchError, is_passing
from minikafka.storage.index import DamagedIndexError, TimeEntry
from minikafka.storage.known_aborted import KnownAborted
from minikafka.storage.scan import scan_headers
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
from minikafka.storage.slice import MemorySlice
from minikafka.storage.tail import NEWEST_BYTES_MAX, Tail
from minikafka.storage.transaction_index import TransactionIndex
from minikafka.storage.verified import VerifiedBytes

StagedBatch = tuple[int, int, int]  # last offset, size in bytes, max timestamp (ms)


class Segment:
    """See the module. ``size`` and ``next_offset`` follow every append."""

    __slots__ = (
        "__weakref__",
        "_cache",
        "_disk",
        "_file",
        "_first_timestamp",
        "_index",
        "_index_interval_bytes",
        "_max_timestamp",
        "_suffix",
        "base_offset",
        "directory",
        "first_stamp_ms",
        "is_index_written",
        "known_aborted",
        "next_offset",
        "size",
        "tail",
        "verified",
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
        self.known_aborted = KnownAborted()
        self._disk = disk
        self._suffix = suffix
        self._cache = cache
        self._index_interval_bytes = index_interval_bytes
        self._file: File | None = None
        self._index: BatchIndex | None = None
        self._max_timestamp: TimeEntry | None = None  # outlives the index of a closed segment
        self._first_timestamp: int | None = None  # of a closed segment, once it was read
        self.tail: Tail | None = None  # None: closed
        self.verified = VerifiedBytes(size)

    def create(self) -> None:
        """Make an empty file and become active. Durable once the directory is synced."""
        self._file = self._disk.open_append(self.path(LOG_SUFFIX))
        self._index = BatchIndex(self.base_offset, self._index_interval_bytes)
        self.tail = Tail(self.next_offset)

    # -- files ------------------------------------------------------------------------------------------------------

    def path(self, kind: str) -> str:
        """Path of the ``.log``, ``.index`` or ``.timeindex`` file."""
        return f"{self.directory}/{file_name(self.base_offset)}{kind}{self._suffix}"

    @property
    def is_active(self) -> bool:
        """True while appends go here."""
        return self.tail is not None

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
        if self.tail is None:
            self._cache.touch(self)

    def cool(self) -> None:
        """Let go of the descriptor and the indexes, unless the segment is active."""
        if self.tail is None:
            self._file = None
            if self.is_index_written:
                self._index = None
                self.known_aborted.cool()

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
        self.tail = None
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
        file, index, tail = self._file, self._index, self.tail
        assert file is not None
        assert index is not None
        assert tail is not None
        end = file.append(buffers)
        position = self.size
        for last_offset, size, max_timestamp in batches:
            index.note(last_offset, position, size, max_timestamp)
            tail.add(last_offset, position)
            position += size
        is_small = position - self.size <= NEWEST_BYTES_MAX
        tail.newest = MemorySlice(self.next_offset, last_offset + 1, b"".join(buffers)) if is_small else None
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
        self.tail = None
        self.is_index_written = False
        self._cache.touch(self)

    def write_indexes(self) -> None:
        """Write the index files of a segment that is not active any more, in any thread."""
        index = self.index
        self._write_aborted()
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
            self.rebuild_index()
            next_offset = self.index.resume(self._file, self.size)
        self.next_offset = self.base_offset if next_offset is None else next_offset
        self.tail = Tail(self.next_offset)

    def reopen(self) -> None:
        """Open a closed segment for appending, without reading anything of it; :meth:`truncate` must follow."""
        if self.tail is None:
            self._file = self._disk.open_append(self.path(LOG_SUFFIX))
            self.tail = Tail(self.next_offset)
            self.is_index_written = True

    def copy(self, cache: SegmentCache) -> Segment:
        """The same segment with another cache, for another thread or back. One of the two may change, the other not."""
        twin = copy(self)
        twin.known_aborted = copy(self.known_aborted)
        twin._cache = cache
        return twin

    def share(self, cache: SegmentCache) -> None:
        """Have another cache from now on."""
        self._cache.forget(self)
        self._cache = cache

    def snapshot(self, cache: SegmentCache) -> Segment:
        """A copy to read in another thread while this one goes on."""
        twin = self.copy(cache)
        if self.tail is not None:
            twin._index, twin.known_aborted.index = deepcopy(self._index), deepcopy(self.known_aborted.index)
            twin.tail = Tail(self.next_offset)
        return twin

    def learn(self, copy: Segment, *, keeps_index: bool) -> None:
        """Keep what a :meth:`snapshot` came to know by reading."""
        self._max_timestamp = self._max_timestamp or copy._max_timestamp
        self.verified = self.verified.plus(copy.verified.begin, copy.verified.end)
        if self.tail is not None or copy.tail is not None:
            return  # what was copied while it was active may lack batches that it was closed with
        if copy._first_timestamp is not None:
            self._first_timestamp = copy._first_timestamp
        if keeps_index:
            self._file, self._index = self._file or copy._file, copy._index
            self._cache.touch(self)
        self.known_aborted.learn(copy.known_aborted)
        if copy.known_aborted.index is not None:
            self._cache.touch(self)

    def adopt(self, index: BatchIndex, size: int, next_offset: int) -> None:
        """Recovery read and checked the first ``size`` bytes and made ``index`` of them."""
        self._index = index
        self._max_timestamp = index.max_timestamp
        self.size = size
        self.next_offset = next_offset
        self.verified = self.verified._replace(trusted_from=0)

    def truncate(self, position: int, end_offset: int) -> int:
        """Cut an active segment to end at ``position``, durably; offsets from ``end_offset`` on are gone.

        The log's end from now on: where the last batch ends that is left, or would begin. A gap before ``end_offset``
        goes, too. It may be no cleaner's, but come from a batch whose offset went wrong at the leader. What belongs
        there is fetched again.
        """
        assert self._file is not None
        assert self.tail is not None
        self._file.truncate(position)
        self._file.fsync()
        self.size = position
        self.verified = self.verified.before(position)
        self.index.truncate(position, end_offset)
        self.known_aborted.truncate(end_offset)
        resumed = self.index.resume(self._file, position)
        reached = self.base_offset if resumed is None else resumed
        self.next_offset = reached
        self.tail = Tail(reached)
        return reached

    def clear(self) -> None:
        """Become active and empty, durably. The file is not read: it may be what is damaged."""
        if self.tail is None:
            self._cache.forget(self)
            self._file = self._disk.open_append(self.path(LOG_SUFFIX))
        self._index = BatchIndex(self.base_offset, self._index_interval_bytes)
        self.tail = Tail(self.base_offset)
        self.known_aborted.forget()
        self._disk.unlink(self.path(TRANSACTION_INDEX_SUFFIX))
        self.truncate(0, self.base_offset)

    # -- indexes ----------------------------------------------------------------------------------------------------

    @property
    def index(self) -> BatchIndex:
        """Both indexes, loaded or rebuilt when they are not in memory. BadBatchError when the file is damaged too."""
        if self._index is None:
            self._index = self._loaded_index()
            self.touch()
        return self._index

    @property
    def index_in_memory(self) -> BatchIndex | None:
        """The same, if nothing has to be read for it."""
        return self._index

    @property
    def max_timestamp(self) -> TimeEntry:
        """The largest timestamp (ms) and the last offset of its batch; timestamp -1 when there is none."""
        if self.tail is not None:
            return self.index.max_timestamp
        if self._max_timestamp is None:
            self._max_timestamp = self.index.max_timestamp
        return self._max_timestamp

    def has_in_tail(self, offset: int) -> bool:
        """True when ``offset`` is among the newest batches of an active segment, or behind them."""
        return self.tail is not None and offset >= self.tail.first_offset

    @property
    def knows_age(self) -> bool:
        """True when :attr:`max_timestamp` is in memory."""
        return self._max_timestamp is not None or self.tail is not None or self._index is not None

    def first_timestamp(self) -> int:
        """The largest timestamp (ms) of the first batch; -1 when there is none. BadBatchError when it is damaged."""
        if self.tail is None and self._first_timestamp is not None:
            return self._first_timestamp
        found = next(scan_headers(self.file, 0, self.size), None)
        timestamp = NO_TIMESTAMP if found is None else found[1].max_timestamp
        if self.tail is None:
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
        if not self.size:  # a cut leaves the files of what was here; no orderly stop writes those of an empty segment
            return BatchIndex(self.base_offset, self._index_interval_bytes)
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

    def rebuild_index(self) -> None:
        """Make the indexes anew from the file: those in memory mislead. BadBatchError when the file is damaged too."""
        self._index = self._rebuilt_index()

    def replace_index(self, index: BatchIndex) -> None:
        """The same, with indexes that were made meanwhile."""
        self._index = index

    def _rebuilt_index(self) -> BatchIndex:
        return BatchIndex.rebuild(self.base_offset, self._index_interval_bytes, self.file, self.size)

    # -- aborted transactions ---------------------------------------------------------------------------------------

    @property
    def aborted(self) -> TransactionIndex:
        """The aborted transactions whose markers are here, loaded if need be. DamagedIndexError for a wrong file."""
        known = self.known_aborted
        if known.index is None:
            known.index = known.checked(self._read_aborted()) if known.are_there else TransactionIndex()
            self.touch()
        return known.index

    def store_aborted(self) -> None:
        """Write what was made again in place of a damaged file, in any thread."""
        if self._disk.exists(self.path(LOG_SUFFIX)):  # else retention took it away meanwhile
            self._write_aborted()

    def _write_aborted(self) -> None:
        path = self.path(TRANSACTION_INDEX_SUFFIX)
        if self.known_aborted.are_there:
            replace_file(self._disk, path, self.aborted.encode())  # a torn one may look like one with fewer entries
        else:
            self._disk.unlink(path)  # of the time before a cut; an empty one would pass for damaged
        self.known_aborted.written()

    def _read_aborted(self) -> TransactionIndex:
        try:
            data = self._disk.read_bytes(self.path(TRANSACTION_INDEX_SUFFIX))
        except OSError as error:
            if is_passing(error):
                raise
            raise DamagedIndexError(str(error)) from error
        return TransactionIndex.decode(self.base_offset, self.next_offset, data)
