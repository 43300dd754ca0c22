"""Walks over the batches of a segment file, in order.

Two walks: over headers only, which skips the bodies of large batches, and over whole batches with their checksums.
Both raise :class:`BadBatchError` at the first position where no batch can begin or the batch is cut off; a caller
decides whether that is a torn tail, an index gone wrong, or damage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
from minikafka.storage.index import MAX_RELATIVE_OFFSET

HEADER_CHUNK_BYTES = 64 * 1024
BATCH_CHUNK_BYTES = 1024 * 1024
WALK_CHUNK_BYTES = 8 * 1024
"""For a walk from an index entry, which ends soon."""


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


def check_place(position: int, header: BatchHeader, expected: int, end_offset: int) -> None:
    """A batch begins at ``expected`` or behind, and ends by ``end_offset``. No checksum covers its base offset."""
    if header.base_offset < expected or header.next_offset > end_offset:
        raise BadBatchError(position, f"offset {header.base_offset}, which is not between {expected} and {end_offset}")


def check_behind(file: File, position: int, size: int, expected: int) -> None:
    """BadBatchError when the batch at ``position`` begins before ``expected``: an offset in front of it went up.

    That batch is looked at for this only. ``size``: where the file ends, and maybe no batch follows.
    """
    try:
        _position, behind = next(scan_headers(file, position, size, HEADER_SIZE), (position, None))
    except BadBatchError:
        return  # what is wrong there says nothing of what lies before
    if behind is not None and behind.base_offset < expected:
        raise BadBatchError(position, f"offset {behind.base_offset} comes again after {expected - 1}")


def boundary_before(file: File, begin: int, size: int, limit: int, *, min_one_batch: bool) -> int:
    """The last end of a batch up to ``limit``, walking from ``begin``; there, or behind the first batch, if none is."""
    end = begin
    for position, header in scan_headers(file, begin, size, WALK_CHUNK_BYTES):
        end = position + header.batch_length + LOG_OVERHEAD
        if end > limit:
            return end if position == begin and min_one_batch else position
    return end


def in_place(
    batches: Iterable[tuple[int, BatchHeader, memoryview]], base_offset: int, known_end: int | None
) -> Iterator[tuple[int, BatchHeader]]:
    """Batches from the beginning of a segment, as far as they are where they belong; BadBatchError behind them.

    An offset that went up is noticed by the batch behind it, which seems to come again: what lies behind a gap is wrong
    then. Behind the last one nothing comes: it may not lie across ``known_end``, where one of them ended once.
    """
    held: tuple[int, BatchHeader] | None = None  # whose successor was not seen yet
    expected, end_offset = base_offset, base_offset + MAX_RELATIVE_OFFSET + 1
    is_behind_gap = False
    try:
        for position, header, _batch in batches:
            if is_behind_gap and held is not None and header.base_offset < expected:
                position, held = held[0], None
                raise BadBatchError(position, f"offset {header.base_offset} comes behind it, and not {expected}")
            limit = known_end if known_end is not None and expected < known_end else end_offset
            check_place(position, header, expected, limit)
            if held is not None:
                yield held
            is_behind_gap = header.base_offset > expected
            held, expected = (position, header), header.next_offset
    except BadBatchError:
        if held is not None:
            yield held
        raise
    if held is not None:
        yield held


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
