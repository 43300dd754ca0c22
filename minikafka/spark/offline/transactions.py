"""What of a replica read_committed consumers get: found by a walk over the headers of its batches, and its markers.

As in a broker, records count up to the last stable offset, the first one of the transactions that are open at the end
of what is read; and batches of aborted transactions do not count. A transaction is open until its marker is read.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from typing import NamedTuple

from minikafka.records.batch import BatchHeader, crc_is_valid
from minikafka.records.control import ControlType, control_type
from minikafka.records.read import iter_records
from minikafka.spark.offline.directories import Replica, Segment
from minikafka.storage.damage import find_valid_batch
from minikafka.storage.disk import Disk, File
from minikafka.storage.errors import BadBatchError
from minikafka.storage.scan import scan_headers


class Aborted(NamedTuple):
    """A transaction by its producer, its first offset and its marker's offset."""

    producer_id: int
    first_offset: int
    marker_offset: int

    def has(self, header: BatchHeader) -> bool:
        """True for a batch with its records."""
        is_of_producer = header.is_transactional and header.producer_id == self.producer_id
        return is_of_producer and self.first_offset <= header.base_offset < self.marker_offset


class Ended(NamedTuple):
    """The last stable offset, and the aborted transactions below it, in the order of their markers.

    ``is_damaged``: some of the batches cannot be read, and what they began or ended is unknown.
    """

    last_stable_offset: int
    aborted: tuple[Aborted, ...]
    is_damaged: bool


def ended_transactions(disk: Disk, replica: Replica, end_offset: int) -> Ended:
    """Of a replica that is read up to ``end_offset``."""
    walk = _Walk(end_offset)
    for segment in replica.segments:
        if segment.base_offset < end_offset:
            with closing(disk.open_read(segment.path)) as file:
                walk.through(file, segment)
    return Ended(min(walk.open_since.values(), default=end_offset), tuple(walk.aborted), walk.is_damaged)


class _Walk:
    """Checksums are verified of batches that begin or end a transaction."""

    def __init__(self, end_offset: int) -> None:
        self._end_offset = end_offset
        self.open_since: dict[int, int] = {}  # by producer
        self.aborted: list[Aborted] = []
        self.is_damaged = False

    def through(self, file: File, segment: Segment) -> None:
        position: int | None = 0
        next_offset = segment.base_offset
        while position is not None and position < segment.size_bytes:
            try:
                for at, header in scan_headers(file, position, segment.size_bytes):
                    if header.base_offset >= self._end_offset:
                        return
                    if header.is_transactional:
                        self._take(file, at, header)
                    next_offset = header.next_offset
                return
            except BadBatchError as error:
                self.is_damaged = True
                position = find_valid_batch(file, error.position + 1, segment.size_bytes, next_offset)

    def _take(self, file: File, position: int, header: BatchHeader) -> None:
        producer_id = header.producer_id
        if header.is_control:
            marker = next(iter_records(_whole(file, position, header), 0, header), None)
            first_offset = self.open_since.pop(producer_id, None)
            is_abort = marker is not None and control_type(marker) is ControlType.ABORT
            if first_offset is not None and is_abort:
                self.aborted.append(Aborted(producer_id, first_offset, header.base_offset))
        elif producer_id not in self.open_since:
            _whole(file, position, header)
            self.open_since[producer_id] = header.base_offset


def _whole(file: File, position: int, header: BatchHeader) -> memoryview:
    batch = memoryview(file.pread(header.size_in_bytes, position))
    if not crc_is_valid(batch, 0, header):
        raise BadBatchError(position, "a batch fails its checksum")
    return batch


class AbortedRecords:
    """Whether batches are of aborted transactions."""

    def __init__(self, aborted: tuple[Aborted, ...]) -> None:
        self._by_producer: defaultdict[int, list[Aborted]] = defaultdict(list)
        for each in aborted:
            self._by_producer[each.producer_id].append(each)

    def have(self, header: BatchHeader) -> bool:
        """True for such a batch. Batches are asked for in the order of the log."""
        found = self._by_producer.get(header.producer_id, [])
        while found and found[0].marker_offset < header.base_offset:
            found.pop(0)
        return bool(found) and found[0].has(header)
