"""Walks over the batches of a segment file, in order.

Two walks: over headers only, which skips the bodies of large batches, and over whole batches with their checksums.
Both raise :class:`BadBatchError` at the first position where no batch can begin or the batch is cut off; a caller
decides whether that is a torn tail, an index gone wrong, or damage.
"""

from __future__ import annotations

from collections.abc import Iterator

from minikafka.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MIN_BATCH_LENGTH,
    BatchHeader,
    crc_is_valid,
    parse_header,
)
from minikafka.storage.disk import File
from minikafka.storage.errors import BadBatchError

HEADER_CHUNK_BYTES = 64 * 1024
BATCH_CHUNK_BYTES = 1024 * 1024


def scan_headers(
    file: File, position: int, end: int, chunk_bytes: int = HEADER_CHUNK_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch in ``file[position:end]``; ``position`` must be where a batch begins."""
    chunk = b""
    chunk_start = position
    while position < end:
        at = position - chunk_start
        if at + HEADER_SIZE > len(chunk):
            chunk = file.pread(min(chunk_bytes, end - position), position)
            chunk_start, at = position, 0
        header = _checked_header(chunk, at, position, end)
        yield position, header
        position += header.batch_length + LOG_OVERHEAD


def scan_batches(
    file: File, position: int, end: int, chunk_bytes: int = BATCH_CHUNK_BYTES, *, check_crcs: bool = True
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, batch) of each batch in ``file[position:end]``, checksums verified unless told otherwise."""
    chunk = memoryview(b"")
    chunk_start = position
    while position < end:
        at = position - chunk_start
        if at + HEADER_SIZE > len(chunk):
            chunk = memoryview(file.pread(min(chunk_bytes, end - position), position))
            chunk_start, at = position, 0
        header = _checked_header(chunk, at, position, end)
        size = header.batch_length + LOG_OVERHEAD
        if at + size > len(chunk):
            chunk = memoryview(file.pread(min(max(chunk_bytes, size), end - position), position))
            chunk_start, at = position, 0
        if len(chunk) - at < size:
            raise BadBatchError(position, "a batch is cut off")
        if check_crcs and not crc_is_valid(chunk, at, header):
            raise BadBatchError(position, "a batch fails its checksum")
        yield position, header, chunk[at : at + size]
        position += size


def _checked_header(chunk: bytes | memoryview, at: int, position: int, end: int) -> BatchHeader:
    if len(chunk) - at < HEADER_SIZE:
        raise BadBatchError(position, "a batch header is cut off")
    header = parse_header(chunk, at)
    if header.magic != MAGIC or header.batch_length < MIN_BATCH_LENGTH:
        raise BadBatchError(position, f"no batch begins (batch_length {header.batch_length}, magic {header.magic})")
    if position + header.batch_length + LOG_OVERHEAD > end:
        raise BadBatchError(position, "a batch is cut off")
    if header.last_offset_delta < 0 or header.base_offset < 0:
        raise BadBatchError(position, "a batch has negative offsets")
    return header
