"""``<offset>.snapshot``: the producer state of a log just before ``offset``, in Kafka's format, version 1.

::

    int16 version 1, uint32 CRC-32C of what follows, int32 count, then per producer:
    int64 producer_id, int16 epoch, int32 last_sequence, int64 last_offset, int32 offset_delta, int64 timestamp,
    int32 coordinator_epoch, int64 current_txn_first_offset

Written when a segment is rolled and when a log is closed. A producer has one row for each of its last five batches, the
oldest first: it may have as many in flight, and repeat them after a restart. Apache Kafka writes only the last (so it
takes the repetition of another for a gap), and of several rows it reads the last. A snapshot that a crash tore fails
its checksum; then an older one is taken and more of the log is replayed.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from struct import Struct

from crc32c import crc32c

from minikafka.model import NO_OFFSET, NO_SEQUENCE, NO_TIMESTAMP
from minikafka.records.batch import LOG_OVERHEAD, BatchHeader, Buffer, crc_is_valid
from minikafka.records.control import EndTxnMarker, parse_end_txn_marker
from minikafka.records.read import iter_records
from minikafka.storage.disk import Disk
from minikafka.storage.errors import BadBatchError
from minikafka.storage.positions import position_of
from minikafka.storage.producer_state import BATCHES_KEPT, ProducedBatch, ProducerEntry, ProducerState
from minikafka.storage.scan import scan_headers
from minikafka.storage.segment import Segment
from minikafka.storage.segment_names import SNAPSHOT_SUFFIX, file_name, offset_in
from minikafka.storage.segments import Segments
from minikafka.storage.small_file import UnreadableFileError, read_small_file
from minikafka.storage.transaction_index import AbortedTransaction

VERSION = 1

_PREFIX = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_INCREMENT_BITS = 0x7FFFFFFF
_NO_BATCH = ProducedBatch(NO_SEQUENCE, NO_SEQUENCE, NO_OFFSET, 0, NO_TIMESTAMP)


class DamagedSnapshotError(Exception):
    """Not a snapshot, or one that a crash tore."""


def encode_snapshot(state: ProducerState) -> bytes:
    """The content of a snapshot file."""
    rows = [row for entry in state.entries for row in _rows(entry)]
    body = b"".join(rows)
    count = len(rows).to_bytes(4, "big")
    return _PREFIX.pack(VERSION, crc32c(count + body), len(rows)) + body


def _rows(entry: ProducerEntry) -> list[bytes]:
    coordinator_epoch, first_offset = entry.coordinator_epoch, entry.current_txn_first_offset
    producer_id, epoch = entry.producer_id, entry.epoch
    *earlier, last = entry.batches or (_NO_BATCH,)
    return [
        _ENTRY.pack(producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, first_offset)
        for _, last_sequence, last_offset, delta, timestamp in (
            *earlier,
            last._replace(timestamp=entry.last_timestamp),
        )
    ]


def decode_snapshot(data: bytes) -> ProducerState:
    """The state in a snapshot file."""
    try:
        version, crc, count = _PREFIX.unpack_from(data)
    except struct.error as error:
        raise DamagedSnapshotError(str(error)) from error
    if version != VERSION or crc32c(data[6:]) != crc or len(data) != _PREFIX.size + count * _ENTRY.size:
        raise DamagedSnapshotError(f"version {version}, {count} entries in {len(data)} bytes, or a wrong checksum")
    state = ProducerState()
    for fields in _ENTRY.iter_unpack(data[_PREFIX.size :]):
        entry = _entry(*fields)
        earlier = state.get(entry.producer_id)
        if earlier is not None and earlier.epoch == entry.epoch:
            entry.batches = (*earlier.batches, *entry.batches)[-BATCHES_KEPT:]
        state.add(entry)
    state.restored()
    return state


def _entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    current_txn_first_offset: int,
) -> ProducerEntry:
    entry = ProducerEntry(producer_id, epoch)
    entry.last_timestamp = timestamp
    entry.coordinator_epoch = coordinator_epoch
    entry.current_txn_first_offset = current_txn_first_offset
    if last_offset != NO_OFFSET:
        first_sequence = (last_sequence - offset_delta) & _INCREMENT_BITS
        entry.add(ProducedBatch(first_sequence, last_sequence, last_offset, offset_delta, timestamp))
    return entry


def marker_in(batch: Buffer, header: BatchHeader) -> EndTxnMarker | None:
    """The transaction marker that a control batch holds; None for other control records."""
    for record in iter_records(batch, 0, header):
        return parse_end_txn_marker(record)
    return None


def replay(state: ProducerState, header: BatchHeader, batch: Buffer) -> AbortedTransaction | None:
    """Take over a batch that a leader accepted, from a fetch or from the log itself. The transaction that it aborts.

    Of a marker that the cleaner emptied nothing of the transaction is left, and it stays to tell the producer's epoch.
    """
    if not header.has_producer_id:
        return None
    if not header.is_control:
        state.append(header, header.base_offset)
    elif not header.record_count:
        state.enter_epoch(header)
    elif (marker := marker_in(batch, header)) is not None:
        return state.end_transaction(header, marker, header.last_offset)
    return None


class SnapshotFiles:
    """The snapshots in one partition directory."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory

    def take(self, state: ProducerState, offset: int) -> int:
        """Write what ``state`` is just before ``offset``; its size. A torn one is recognised, so it is not synced."""
        encoded = encode_snapshot(state)
        self.store(encoded, offset)
        return len(encoded)

    def store(self, encoded: bytes, offset: int) -> None:
        """Write what :func:`encode_snapshot` has made for ``offset``."""
        self._disk.write_bytes(self._path(offset), encoded)

    def missing_at(self, offset: int, segments: Sequence[Segment]) -> bytes | None:
        """A snapshot for ``offset``, where ``segments`` end, which are about to go. None if it is there.

        An older one would have producers as they were before their last batches, and refuse what comes next. None, too,
        if batches cannot be read.
        """
        if offset in self.offsets():
            return None
        try:
            return encode_snapshot(self.load(Segments(list(segments)), segments[0].base_offset, offset))
        except (BadBatchError, FileNotFoundError):  # the cleaner may have replaced them
            return None

    def offsets(self) -> list[int]:
        """For which offsets there are snapshots, ascending."""
        names = self._disk.listdir(self._directory)
        return sorted(offset for name in names if (offset := offset_in(name, SNAPSHOT_SUFFIX)) is not None)

    def remove(self, *, below: int = 0, above: int | None = None) -> None:
        """Remove snapshots for offsets below ``below`` and above ``above``."""
        for offset in self.offsets():
            if offset < below or (above is not None and offset > above):
                self._disk.unlink(self._path(offset))

    def keep_before(self, points: Collection[int], *, above: int | None = None) -> None:
        """Of each of these offsets keep the newest snapshot that is not behind it, and those behind all of them, up to
        ``above``; remove the others.

        For where segments begin: what the cleaner merged leaves one for each segment that was, for ever. So a load, and
        a cut, find the same as before.
        """
        offsets, last = self.offsets(), max(points)
        kept = {offsets[at - 1] for point in points if (at := bisect_right(offsets, point))}
        for offset in offsets:
            if (offset <= last and offset not in kept) or (above is not None and offset > above):
                self._disk.unlink(self._path(offset))

    def load(
        self, segments: Segments, log_start_offset: int, end_offset: int, *, indexing: Collection[Segment] = ()
    ) -> ProducerState:
        """The state just before ``end_offset``: the newest usable snapshot, then the batches behind it.

        The segments of ``indexing`` note their aborted transactions on the way, also those below the log start, which a
        kill may lower again; they must have forgotten theirs.
        """
        state, offset = self.newest(min([end_offset, *(segment.base_offset for segment in indexing)]))
        if offset == NO_OFFSET or _is_outdated(offset, segments):
            state, offset = ProducerState(), segments[0].base_offset if indexing else log_start_offset
        else:
            _look_for_open(state, segments, offset)
        offset = max(offset, segments[0].base_offset)  # below the log start, too: it may lie behind the snapshot
        for segment in segments.since(offset):
            if segment.base_offset < end_offset and segment.size:
                replay_segment(state, segment, offset, end_offset, is_indexing=segment in indexing)
        return state

    def newest(self, end_offset: int) -> tuple[ProducerState, int]:
        """The newest usable snapshot for ``end_offset`` or before, and its offset; nothing and -1 if there is none."""
        for offset in reversed(self.offsets()):
            if offset > end_offset:
                continue
            try:
                return decode_snapshot(read_small_file(self._disk, self._path(offset))), offset
            except FileNotFoundError:  # the cleaner, or retention, does not need it any more
                continue
            except (DamagedSnapshotError, UnreadableFileError):
                self._disk.unlink(self._path(offset))
        return ProducerState(), NO_OFFSET

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{file_name(offset)}{SNAPSHOT_SUFFIX}"


def _is_outdated(offset: int, segments: Segments) -> bool:
    """Retention took what followed a snapshot: the last batches of producers, which it would refuse to go on from, and
    maybe the ends of transactions (row T22). It is there where a power cut took the next one, or none could be made."""
    return offset < segments[0].base_offset


def _look_for_open(state: ProducerState, segments: Segments, end_offset: int) -> None:
    """Are there batches of the open transactions of a snapshot for ``end_offset``? If not, retention or the cleaner
    took them, and the cleaner may have taken their ends (row T26). Where that cannot be read, they stay open.

    Mostly a transaction begins where the snapshot says; one walk looks for all others.
    """
    with suppress(BadBatchError):
        open_ones = state.open_transactions
        moved = {producer: first for first, producer in open_ones if not _begins_at(first, producer, segments)}
        for header in _headers(segments, min(moved.values(), default=end_offset), end_offset):
            first = moved.get(header.producer_id)
            if first is not None and first <= header.base_offset and not header.is_control:
                state.reopen(header.producer_id, header.base_offset)
                del moved[header.producer_id]
                if not moved:
                    break
        for producer_id in moved:
            state.reopen(producer_id, NO_OFFSET)
    state.restored()


def _begins_at(offset: int, producer_id: int, segments: Segments) -> bool:
    header = next(_headers(segments, offset, offset + 1), None)
    return header is not None and header.base_offset == offset and header.producer_id == producer_id


def _headers(segments: Segments, start_offset: int, end_offset: int) -> Iterator[BatchHeader]:
    """Of the batches from the one of ``start_offset`` on that begin before ``end_offset``."""
    for segment in segments.since(start_offset):
        if segment.size and segment.base_offset < end_offset:
            for _position, header in scan_headers(segment.file, position_of(segment, start_offset), segment.size):
                if header.base_offset >= end_offset:
                    return
                yield header


def replay_segment(
    state: ProducerState, segment: Segment, start_offset: int, end_offset: int, *, is_indexing: bool = False
) -> None:
    """Take over the batches of ``segment`` in ``[start_offset, end_offset)``, and note aborted transactions in it.

    BadBatchError for one that is unreadable, and for an end of a transaction that was damaged.
    """
    file = segment.file
    for position, header in scan_headers(file, position_of(segment, start_offset), segment.size):
        if header.base_offset >= end_offset:
            return
        if header.has_producer_id:
            body = file.pread(header.batch_length + LOG_OVERHEAD, position) if header.is_control else b""
            if header.is_control and not crc_is_valid(body, 0, header):
                raise BadBatchError(position, "the end of a transaction fails its checksum")
            aborted = replay(state, header, body)
            if aborted is not None and is_indexing:
                segment.known_aborted.note(aborted)
