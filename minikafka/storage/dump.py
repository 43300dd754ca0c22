"""What the files of a partition directory hold, for ``minikafka log dump`` and for tests. Reads only.

Every function takes the path of one file. A damaged segment is told batch by batch up to the damage, and then where it
is; nothing is repaired here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from minikafka.errors import KafkaError
from minikafka.model import NO_TIMESTAMP
from minikafka.records.batch import LOG_OVERHEAD, BatchHeader, crc_is_valid
from minikafka.records.control import EndTxnMarker
from minikafka.records.read import iter_records
from minikafka.records.record import Record
from minikafka.storage.disk import Disk
from minikafka.storage.errors import BadBatchError
from minikafka.storage.index import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    OffsetEntry,
    OffsetIndex,
    TimeEntry,
    TimeIndex,
)
from minikafka.storage.producer_state import ProducerEntry
from minikafka.storage.scan import scan_headers
from minikafka.storage.segment_names import LOG_SUFFIX, MAX_OFFSET, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX
from minikafka.storage.snapshots import decode_snapshot, marker_in
from minikafka.storage.transaction_index import TransactionIndex


class DumpedBatch(NamedTuple):
    """A batch of a segment: where it is, its header, its bytes, and whether its checksum holds."""

    position: int
    header: BatchHeader
    data: bytes
    is_valid: bool

    def records(self) -> Iterator[Record]:
        """Its records; KafkaError(CORRUPT_MESSAGE) if they cannot be read."""
        return iter_records(self.data, 0, self.header)

    def marker(self) -> EndTxnMarker | None:
        """The end of a transaction that it is; None for any other batch, and one without a record that can be read."""
        try:
            return marker_in(self.data, self.header) if self.header.is_control else None
        except KafkaError:
            return None


class Damage(NamedTuple):
    """No further batch can be read from this position on."""

    position: int
    why: str


def base_offset_of(path: str) -> int:
    """The base offset that a segment's or index's file name spells; ValueError for another name."""
    name = path.rsplit("/", 1)[-1]
    try:
        return int(name.split(".")[0])
    except ValueError:
        raise ValueError(f"the name must begin with the base offset, as 00000000000000000000; it is {name}") from None


def dump_log(disk: Disk, path: str) -> Iterator[DumpedBatch | Damage]:
    """Each batch of a ``.log`` file in order; a :class:`Damage` last, if the file does not end with a whole batch."""
    file, size = disk.open_read(path), disk.size(path)
    try:
        for position, header in scan_headers(file, 0, size):
            data = file.pread(header.batch_length + LOG_OVERHEAD, position)
            yield DumpedBatch(position, header, data, crc_is_valid(data, 0, header))
    except BadBatchError as error:
        yield Damage(error.position, error.why)


def dump_offset_index(disk: Disk, path: str) -> list[OffsetEntry]:
    """The entries of an ``.index`` file; DamagedIndexError when it cannot be one."""
    log_path = path.removesuffix(OFFSET_INDEX_SUFFIX) + LOG_SUFFIX
    size = disk.size(log_path) if disk.exists(log_path) else 2**31
    data = _without_padding(disk.read_bytes(path), OFFSET_ENTRY_BYTES)
    index = OffsetIndex.decode(base_offset_of(path), data, size)
    return [index[at] for at in range(len(index))]


def dump_time_index(disk: Disk, path: str) -> list[TimeEntry]:
    """The entries of a ``.timeindex`` file; DamagedIndexError when it cannot be one."""
    index = TimeIndex.decode(base_offset_of(path), _without_padding(disk.read_bytes(path), TIME_ENTRY_BYTES))
    return [index[at] for at in range(len(index))]


def _without_padding(data: bytes, entry_bytes: int) -> bytes:
    """Apache Kafka allocates the index of an active segment in full, and zeros follow its last entry."""
    return data[: -(-len(data.rstrip(b"\0")) // entry_bytes) * entry_bytes]


def dump_transaction_index(disk: Disk, path: str) -> TransactionIndex:
    """The entries of a ``.txnindex`` file; DamagedIndexError when it cannot be one."""
    return TransactionIndex.decode(base_offset_of(path), MAX_OFFSET, disk.read_bytes(path))


def dump_producers(disk: Disk, path: str) -> list[ProducerEntry]:
    """The producers in a ``.snapshot`` file; DamagedSnapshotError when it cannot be one."""
    return decode_snapshot(disk.read_bytes(path)).entries


def index_problems(disk: Disk, log_path: str) -> list[str]:
    """What the indexes beside a ``.log`` file say that the batches do not, one sentence each."""
    stem = log_path.removesuffix(LOG_SUFFIX)
    offsets = dump_offset_index(disk, stem + OFFSET_INDEX_SUFFIX)
    check = IndexCheck(offsets, dump_time_index(disk, stem + TIME_INDEX_SUFFIX))
    for batch in dump_log(disk, log_path):
        if isinstance(batch, DumpedBatch):
            check.see(batch.position, batch.header)
    return [*check.offset_problems(), *check.time_problems()]


class IndexCheck:
    """Compares both indexes of a segment with its batches, which are seen one after the other."""

    def __init__(self, offsets: Iterable[OffsetEntry], times: Iterable[TimeEntry]) -> None:
        self._by_position = {entry.position: entry.offset for entry in offsets}
        self._by_offset = {entry.offset: entry.timestamp for entry in times if entry.timestamp != NO_TIMESTAMP}
        self._offset_problems: list[str] = []
        self._time_problems: list[str] = []

    def see(self, position: int, header: BatchHeader) -> None:
        """The next batch."""
        offset = self._by_position.pop(position, header.last_offset)
        if offset != header.last_offset:
            self._offset_problems.append(
                _offset_problem(offset, position, f"a batch that ends at {header.last_offset}")
            )
        timestamp = self._by_offset.pop(header.last_offset, header.max_timestamp)
        if timestamp != header.max_timestamp:
            found = f"the largest is {header.max_timestamp}"
            self._time_problems.append(_time_problem(timestamp, header.last_offset, found))

    def offset_problems(self) -> list[str]:
        """After the last batch: what is wrong with the ``.index`` file, one sentence each."""
        rest = [_offset_problem(offset, position, "no batch") for position, offset in self._by_position.items()]
        return self._offset_problems + rest

    def time_problems(self) -> list[str]:
        """The same of the ``.timeindex`` file."""
        rest = [_time_problem(timestamp, offset, "no batch ends") for offset, timestamp in self._by_offset.items()]
        return self._time_problems + rest


def _offset_problem(offset: int, position: int, found: str) -> str:
    return f"the index puts offset {offset} at byte {position}, where there is {found}"


def _time_problem(timestamp: int, offset: int, found: str) -> str:
    return f"the time index puts timestamp {timestamp} at offset {offset}, where {found}"
