"""Both indexes of one segment, and the rule for entries.

As in Kafka, a batch gets an entry when more than ``interval_bytes`` (``index.interval.bytes``) follow the last entry.
The time index gets the largest timestamp so far at the same time, and once more when the segment is sealed.
:meth:`BatchIndex.note` serves appends, loading and rebuilding.
"""

from __future__ import annotations

from minikafka.model import NO_EPOCH, NO_TIMESTAMP
from minikafka.records.batch import LOG_OVERHEAD, Buffer
from minikafka.storage.disk import File
from minikafka.storage.errors import BadBatchError
from minikafka.storage.index import (
    MAX_RELATIVE_OFFSET,
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    DamagedIndexError,
    OffsetIndex,
    TimeEntry,
    TimeIndex,
)
from minikafka.storage.scan import check_place, scan_headers


class BatchIndex:
    """The offset index, the time index and the largest timestamp of a segment.

    ``bytes_with_next``: of the larger index file with one more entry, and of the time index with that of :meth:`seal`;
    a field, since every append asks for it. ``resumed_epoch``: leader epoch of the last batch that :meth:`resume` read;
    -1 without one.
    """

    __slots__ = (
        "_bytes_since_entry",
        "base_offset",
        "bytes_with_next",
        "interval_bytes",
        "max_timestamp",
        "offsets",
        "resumed_epoch",
        "times",
    )

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.base_offset = base_offset
        self.interval_bytes = interval_bytes
        self.offsets = OffsetIndex(base_offset)
        self.times = TimeIndex(base_offset)
        self.max_timestamp = TimeEntry(NO_TIMESTAMP, base_offset)
        self.resumed_epoch = NO_EPOCH
        self._bytes_since_entry = 0
        self._grown()

    @classmethod
    def decode(cls, base_offset: int, interval_bytes: int, offsets: Buffer, times: Buffer, log_size: int) -> BatchIndex:
        """From the content of the two files of a sealed segment; DamagedIndexError when they cannot be its indexes."""
        index = cls(base_offset, interval_bytes)
        index.offsets = OffsetIndex.decode(base_offset, offsets, log_size)
        index.times = TimeIndex.decode(base_offset, times)
        if log_size and index.times.last is None:
            raise DamagedIndexError("no timestamp for a segment that has records")
        index.max_timestamp = index.times.last or index.max_timestamp
        index._grown()
        return index

    @classmethod
    def rebuild(cls, base_offset: int, interval_bytes: int, file: File, log_size: int) -> BatchIndex:
        """From the batch headers; BadBatchError when the file itself is damaged."""
        index = cls(base_offset, interval_bytes)
        expected, end_offset = base_offset, base_offset + MAX_RELATIVE_OFFSET + 1
        for position, header in scan_headers(file, 0, log_size):
            check_place(position, header, expected, end_offset)
            expected = header.next_offset
            index.note(header.last_offset, position, header.batch_length + LOG_OVERHEAD, header.max_timestamp)
        return index

    @classmethod
    def rebuild_before(
        cls, offset: int, base_offset: int, interval_bytes: int, file: File, log_size: int, next_offset: int
    ) -> tuple[BatchIndex, int, int, BadBatchError | None]:
        """The same for batches that end before ``offset``: index, position and offset of their end, any damage."""
        index, end_offset = cls(base_offset, interval_bytes), base_offset
        try:
            for position, header in scan_headers(file, 0, log_size):
                check_place(position, header, end_offset, next_offset)
                if header.last_offset >= offset:
                    return index, position, min(offset, header.base_offset), None
                index.note(header.last_offset, position, header.batch_length + LOG_OVERHEAD, header.max_timestamp)
                end_offset = header.next_offset
        except BadBatchError as error:
            return index, error.position, end_offset, error
        return index, log_size, offset, None

    def position_before(self, offset: int) -> int:
        """Where to begin to look for ``offset``."""
        entry = self.offsets.lookup(offset)
        return 0 if entry is None else entry.position

    def note(self, last_offset: int, position: int, size: int, max_timestamp: int) -> None:
        """A batch of ``size`` bytes at ``position``."""
        if max_timestamp > self.max_timestamp[0]:
            self.max_timestamp = TimeEntry(max_timestamp, last_offset)
        if self._bytes_since_entry > self.interval_bytes:
            self.offsets.append(last_offset, position)
            self.times.maybe_append(*self.max_timestamp)
            self._grown()
            self._bytes_since_entry = 0
        self._bytes_since_entry += size

    def resume(self, file: File, log_size: int) -> int | None:
        """Note the batches after the last entry again; returns the offset after the last batch (None without one).

        BadBatchError when the file is damaged there, DamagedIndexError when the last entry does not point at its batch.
        """
        entry = self.offsets.last
        self._bytes_since_entry = 0
        self.max_timestamp = self.times.last or TimeEntry(NO_TIMESTAMP, self.base_offset)
        self.resumed_epoch = NO_EPOCH
        next_offset = None
        expected, end_offset = self.base_offset, self.base_offset + MAX_RELATIVE_OFFSET + 1
        for position, header in scan_headers(file, 0 if entry is None else entry.position, log_size):
            check_place(position, header, expected, end_offset)
            size = header.batch_length + LOG_OVERHEAD
            if entry is not None and position == entry.position:
                if header.last_offset != entry.offset:
                    raise DamagedIndexError(f"the entry for offset {entry.offset} points at {header.last_offset}")
                self._bytes_since_entry = size
            else:
                self.note(header.last_offset, position, size, header.max_timestamp)
            next_offset = expected = header.next_offset
            self.resumed_epoch = header.leader_epoch
        return next_offset

    def truncate(self, position: int, end_offset: int) -> None:
        """Forget batches from ``position`` and offsets from ``end_offset`` on; :meth:`resume` must follow."""
        self.offsets.truncate(position)
        self.times.truncate(end_offset)
        self._grown()

    def seal(self) -> None:
        """The segment ends here: its largest timestamp is always the last entry of the time index."""
        if self.max_timestamp.timestamp > NO_TIMESTAMP:
            self.times.maybe_append(*self.max_timestamp)

    def _grown(self) -> None:
        self.bytes_with_next = max(
            (len(self.offsets) + 1) * OFFSET_ENTRY_BYTES, (len(self.times) + 2) * TIME_ENTRY_BYTES
        )
