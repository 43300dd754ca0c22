"""What is done about a damaged segment file: tell a torn tail from corruption, keep the bytes, mark the replica.

The mark is the file ``needs-refetch`` in the partition directory: a restart does not make a damaged replica whole.
"""

from __future__ import annotations

from minikafka.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, crc_is_valid, parse_header
from minikafka.storage.disk import Disk, File
from minikafka.storage.errors import Corruption
from minikafka.storage.scan import BATCH_CHUNK_BYTES

CORRUPT_SUFFIX = ".corrupt"
REFETCH_FILE = "needs-refetch"

_MAGIC_POSITION = 16
_MAX_OFFSET_DISTANCE = 2**31  # how far behind the damage a batch is still believed to belong to the segment


def has_valid_batch(file: File, position: int, end: int, min_offset: int) -> bool:
    """True when a batch with a valid checksum, at ``min_offset`` or later, begins anywhere in ``[position, end)``."""
    return find_valid_batch(file, position, end, min_offset) is not None


def find_valid_batch(file: File, position: int, end: int, min_offset: int) -> int | None:
    """Where the first such batch begins."""
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


def write_refetch_mark(disk: Disk, directory: str, corruption: Corruption) -> None:
    """Record durably that the replica in ``directory`` is not whole below its end."""
    disk.write_atomic(f"{directory}/{REFETCH_FILE}", f"{corruption.offset}\n{corruption}\n".encode())


def read_refetch_mark(disk: Disk, directory: str) -> Corruption | None:
    """What an earlier start or read found and nobody mended yet."""
    path = f"{directory}/{REFETCH_FILE}"
    try:
        offset, _, why = disk.read_bytes(path).decode().partition("\n")
        return Corruption(path, 0, int(offset), why.strip(), None)
    except FileNotFoundError:
        return None
    except ValueError:
        return Corruption(path, 0, 0, "the mark itself is damaged", None)


def remove_refetch_mark(disk: Disk, directory: str) -> None:
    """The replica is whole again."""
    disk.unlink(f"{directory}/{REFETCH_FILE}")
    disk.fsync_dir(directory)
