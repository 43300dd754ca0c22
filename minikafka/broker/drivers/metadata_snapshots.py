"""Snapshots of the cluster's metadata (KIP-630): files ``<offset>-<epoch>.checkpoint`` next to the metadata log.

Each has the image just below its offset, as record batches, so a tool for segments can dump it. As in Kafka it begins
with a SnapshotHeader and ends with a SnapshotFooter, offsets run from 0 without a gap, and all batches have the
snapshot's epoch. So a file that was cut (even between two batches) or emptied is not whole. The header has the
snapshot's id, so a wrong file name is noticed.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from minikafka.errors import KafkaError
from minikafka.event_log import get_logger
from minikafka.model import NO_EPOCH, OffsetAndEpoch
from minikafka.raft import Snapshot
from minikafka.records.batch import BatchHeader, crc_is_valid, iter_batches
from minikafka.records.build import build_batch
from minikafka.records.control import (
    ControlType,
    build_snapshot_footer,
    build_snapshot_header,
    control_type,
    parse_snapshot_header,
)
from minikafka.records.read import iter_records
from minikafka.records.record import Record
from minikafka.storage.disk import Disk
from minikafka.storage.errors import is_passing

log = get_logger()

RECORDS_PER_BATCH: Final = 1_000
DAMAGED_SUFFIX: Final = ".damaged"
_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class DamagedSnapshotError(Exception):
    """The file is not a whole snapshot, has another snapshot's name, or cannot be read."""


class MetadataSnapshots:
    """The snapshots in ``directory``. Every method raises OSError when the disk refuses."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory

    def put_damaged_aside(self) -> None:
        """Check each snapshot, and rename damaged or misnamed ones."""
        for snapshot in self.found():
            try:
                check_snapshot(self._content(snapshot.snapshot_id), snapshot.snapshot_id)
            except DamagedSnapshotError as error:
                path = self._path(snapshot.snapshot_id)
                log.error("a metadata snapshot is damaged and put aside", path=path, why=str(error))
                self._disk.rename(path, path + DAMAGED_SUFFIX)

    def found(self) -> list[Snapshot]:
        """All snapshots by their file names, oldest first."""
        found = []
        for name in sorted(self._disk.listdir(self._directory)):
            match = _NAME.fullmatch(name)
            if match is not None:
                snapshot_id = OffsetAndEpoch(int(match[1]), int(match[2]))
                found.append(Snapshot(snapshot_id, self._disk.size(f"{self._directory}/{name}")))
        return found

    def load(self, snapshot_id: OffsetAndEpoch) -> list[bytes]:
        """The record values of a snapshot. DamagedSnapshotError when they cannot be read."""
        return decode_snapshot(self._content(snapshot_id), snapshot_id)

    def _content(self, snapshot_id: OffsetAndEpoch) -> bytes:
        with _damage():
            return self._disk.read_bytes(self._path(snapshot_id))

    def store(self, snapshot_id: OffsetAndEpoch, data: bytes) -> None:
        """Keep a snapshot, durably; in any thread.

        One that does not fit is not begun: it would take the room of the records, whose refusal ends the node.
        """
        if len(data) > self._disk.space(self._directory).usable:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._disk.write_atomic(self._path(snapshot_id), data)

    def read(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        """A part of the file, in any thread. DamagedSnapshotError, before the first part, if the file is damaged."""
        if position == 0:
            content = self._content(snapshot_id)
            check_snapshot(content, snapshot_id)
            return content[:max_bytes]
        with _damage():
            file = self._disk.open_read(self._path(snapshot_id))
            try:
                return file.pread(max_bytes, position)
            finally:
                file.close()

    def remove(self, *, below: int) -> None:
        """Delete snapshots of smaller offsets."""
        for snapshot in self.found():
            if snapshot.snapshot_id.offset < below:
                self._disk.unlink(self._path(snapshot.snapshot_id))

    def _path(self, snapshot_id: OffsetAndEpoch) -> str:
        return f"{self._directory}/{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}.checkpoint"


@contextmanager
def _damage() -> Iterator[None]:
    """An unreadable file counts as damaged, except for a shortage of the process."""
    try:
        yield
    except OSError as error:
        if is_passing(error):
            raise
        raise DamagedSnapshotError(str(error)) from error


def encode_snapshot(snapshot_id: OffsetAndEpoch, values: Sequence[bytes], now_ms: int) -> bytes:
    """The content of a snapshot file with these record values."""
    data = build_snapshot_header(snapshot_id, timestamp=now_ms)
    for start in range(0, len(values), RECORDS_PER_BATCH):
        records = [Record(0, now_ms, None, value) for value in values[start : start + RECORDS_PER_BATCH]]
        data += build_batch(records, base_offset=1 + start, leader_epoch=snapshot_id.epoch)
    return bytes(data + build_snapshot_footer(snapshot_id, timestamp=now_ms, base_offset=1 + len(values)))


def decode_snapshot(data: bytes, snapshot_id: OffsetAndEpoch) -> list[bytes]:
    """The inverse; DamagedSnapshotError unless ``data`` is exactly that snapshot."""
    values: list[bytes] = []
    for position, header in check_snapshot(data, snapshot_id):
        values += [record.value for record in iter_records(data, position, header) if record.value is not None]
    return values


def check_snapshot(data: bytes, snapshot_id: OffsetAndEpoch) -> list[tuple[int, BatchHeader]]:
    """Where its metadata records are, by position and header of their batches; DamagedSnapshotError as above.

    Snapshots were once written without header and footer, and without an epoch. What they hold is checked all the same;
    that one of them was cut between two batches is not noticed.
    """
    batches = []
    kind = None
    try:
        first = next(iter_batches(data), None)
        if first is not None and not first[1].is_control and first[1].leader_epoch == NO_EPOCH:
            return list(_sound_batches(data, NO_EPOCH))
        for position, header in _sound_batches(data, snapshot_id.epoch):
            if kind is ControlType.SNAPSHOT_FOOTER:
                raise DamagedSnapshotError("something follows the footer")
            if header.is_control:
                kind = _check_control(next(iter_records(data, position, header)), header, snapshot_id)
            elif header.base_offset == 0:
                raise DamagedSnapshotError("it does not begin with a header")
            else:
                batches.append((position, header))
    except (ValueError, KafkaError) as error:
        raise DamagedSnapshotError(str(error)) from error
    if kind is not ControlType.SNAPSHOT_FOOTER:
        raise DamagedSnapshotError("it does not end with a footer")
    return batches


def _sound_batches(data: bytes, epoch: int) -> Iterator[tuple[int, BatchHeader]]:
    next_offset, end = 0, 0
    for position, header in iter_batches(data):
        if not crc_is_valid(data, position, header):
            raise DamagedSnapshotError(f"the batch at offset {header.base_offset} has a wrong checksum")
        if (header.base_offset, header.leader_epoch) != (next_offset, epoch):
            raise DamagedSnapshotError(
                f"the batch at offset {next_offset} is of offset {header.base_offset} and epoch {header.leader_epoch}, "
                f"not of epoch {epoch}"
            )
        yield position, header
        next_offset, end = header.next_offset, position + header.size_in_bytes
    if end != len(data):
        raise DamagedSnapshotError(f"{len(data) - end} bytes behind the last whole batch")


def _check_control(record: Record, header: BatchHeader, snapshot_id: OffsetAndEpoch) -> ControlType:
    kind = control_type(record)
    if header.base_offset == 0:
        named = parse_snapshot_header(record)
        if named != snapshot_id:
            raise DamagedSnapshotError(f"its name says {snapshot_id}, its header {named or kind.name}")
    elif kind is not ControlType.SNAPSHOT_FOOTER:
        raise DamagedSnapshotError(f"a control record {kind.name} is in its middle")
    return kind
