"""Damaged segment files: tell a torn tail from corruption, keep the bytes, mark the replica.

The mark is the file ``needs-refetch`` in the partition directory: a restart does not make a damaged replica whole.
"""

from __future__ import annotations

from crc32c import crc32c

from minikafka.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    crc_is_valid,
    parse_header,
)
from minikafka.storage.aside import CORRUPT_SUFFIX, replace_file
from minikafka.storage.disk import Disk, File
from minikafka.storage.errors import Corruption
from minikafka.storage.meta import PARTITION_METADATA_FILE
from minikafka.storage.scan import BATCH_CHUNK_BYTES
from minikafka.storage.segment_names import LOG_SUFFIX, MAX_OFFSET, file_name
from minikafka.storage.small_file import read_small_file

REFETCH_FILE = "needs-refetch"
TORN_FILE = "torn-tail"
"""Mark of a log that does not count as whole until its node has registered without it. After a kill its last write is
incomplete (interrupted, or the file was cut), or its noted end or its log start is unknown."""

_MAGIC_POSITION = 16
_MAX_OFFSET_DISTANCE = 2**31  # how far behind the damage a batch is still believed to belong to the segment


def has_valid_batch(file: File, position: int, end: int, min_offset: int) -> bool:
    """True when a batch with a valid checksum, at ``min_offset`` or later, begins anywhere in ``[position, end)``."""
    return find_valid_batch(file, position, end, min_offset) is not None


def find_valid_batch(file: File, position: int, end: int, min_offset: int) -> int | None:
    """Position of the first such batch, or None."""
    overlap = b""
    while position < end:
        chunk = overlap + file.pread(min(BATCH_CHUNK_BYTES, end - position), position)
        start = position - len(overlap)
        if (found := _find_batch(chunk, file, start, end, min_offset)) is not None:
            return found
        position = start + len(chunk)
        overlap = chunk[-(HEADER_SIZE - 1) :]
    return None


def _find_batch(chunk: bytes, file: File, start: int, end: int, min_offset: int) -> int | None:
    at = chunk.find(MAGIC, _MAGIC_POSITION)
    while at >= 0 and at - _MAGIC_POSITION + HEADER_SIZE <= len(chunk):
        header = parse_header(chunk, at - _MAGIC_POSITION)
        position = start + at - _MAGIC_POSITION
        size = header.batch_length + LOG_OVERHEAD
        is_near = min_offset <= header.base_offset < min_offset + _MAX_OFFSET_DISTANCE
        if is_near and HEADER_SIZE <= size <= end - position:
            batch = file.pread(size, position)
            if len(batch) == size and crc_is_valid(batch, 0, header):
                return position
        at = chunk.find(MAGIC, at + 1)
    return None


def is_cut_off(file: File, position: int, end: int, min_offset: int) -> bool:
    """True when the bytes in ``[position, end)`` are an incomplete batch, as an interrupted write leaves it.

    False when the batch has its full length, also if only its length field is damaged.
    """
    head = file.pread(min(HEADER_SIZE, end - position), position)
    if len(head) > _MAGIC_POSITION and head[_MAGIC_POSITION] != MAGIC:
        return False
    if len(head) < HEADER_SIZE:
        return True
    header = parse_header(head, 0)
    if header.base_offset < min_offset or header.batch_length + LOG_OVERHEAD <= end - position:
        return False
    crc = 0
    for start in range(position + ATTRIBUTES_POSITION, end, BATCH_CHUNK_BYTES):
        crc = crc32c(file.pread(min(BATCH_CHUNK_BYTES, end - start), start), crc)
    return crc != header.crc


def keep_aside(disk: Disk, path: str, position: int, file_size: int) -> str | None:
    """Copy ``path`` from ``position`` on to a ``.corrupt`` file, durably; its path."""
    if position >= file_size:
        return None
    source, target = disk.open_read(path), path + CORRUPT_SUFFIX
    disk.unlink(target)
    copy = disk.open_append(target)
    for start in range(position, file_size, BATCH_CHUNK_BYTES):
        copy.append([source.pread(min(BATCH_CHUNK_BYTES, file_size - start), start)])
    copy.fsync()
    return target


class DamageFound:
    """Damage that a load finds in a partition directory. The first one in the log counts, and is marked."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.disk = disk
        self.directory = directory
        self.corruption = read_refetch_mark(disk, directory)

    def mark(
        self, offset: int, why: str, *, path: str | None = None, position: int = 0, aside: str | None = None
    ) -> None:
        """Mark, durably: the log is intact below ``offset`` only, and must be fetched again from there on."""
        if self.corruption is None or offset < self.corruption.offset:
            path = path or f"{self.directory}/{file_name(offset)}{LOG_SUFFIX}"
            self.corruption = Corruption(path, position, offset, why, aside)
            write_refetch_mark(self.disk, self.directory, self.corruption)


def has_topic_id(disk: Disk, directory: str) -> bool:
    """The partition was created here, with a segment: the file with its topic id is written last."""
    return disk.exists(f"{directory}/{PARTITION_METADATA_FILE}")


def write_torn_mark(disk: Disk, directory: str) -> None:
    """See :data:`TORN_FILE`. Not durable: a power cut is recognised by other signs."""
    disk.write_bytes(f"{directory}/{TORN_FILE}", b"")


def has_torn_mark(disk: Disk, directory: str) -> bool:
    """See :data:`TORN_FILE`."""
    return disk.exists(f"{directory}/{TORN_FILE}")


def remove_torn_mark(disk: Disk, directory: str) -> None:
    """The node has registered without claiming the log."""
    disk.unlink(f"{directory}/{TORN_FILE}")


def unidentified(directory: str) -> Corruption:
    """Damage from offset 0: the log's topic id is unreadable, so its records may be another topic's."""
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    return Corruption(path, 0, 0, "the topic id of the log cannot be read", None)


def write_refetch_mark(disk: Disk, directory: str, corruption: Corruption) -> None:
    """Record durably that the replica in ``directory`` is not whole below its end."""
    replace_file(disk, f"{directory}/{REFETCH_FILE}", f"{corruption.offset}\n{corruption}\n".encode())


def read_refetch_mark(disk: Disk, directory: str) -> Corruption | None:
    """Damage that an earlier start or read found, and that is not mended yet."""
    path = f"{directory}/{REFETCH_FILE}"
    try:
        offset, _, why = read_small_file(disk, path).decode().partition("\n")
        if not 0 <= int(offset) <= MAX_OFFSET:
            raise ValueError(f"{offset} is no offset")
        return Corruption(path, 0, int(offset), why.strip(), None)
    except FileNotFoundError:
        return None
    except ValueError:
        return Corruption(path, 0, 0, "the mark itself is damaged", None)


def remove_refetch_mark(disk: Disk, directory: str) -> None:
    """The replica is whole again."""
    disk.unlink(f"{directory}/{REFETCH_FILE}")
    disk.fsync_dir(directory)
