"""Record batches -> records, for those who look inside: consumers, the metadata log, group offsets, compaction.

Pure Python by measurement (``benchmarks/records.py``): a borrowed C decoder would save about half of the time
of a large batch, and cost every broker 30 ms and 4 MB at start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NoReturn, overload

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Compression
from minikafka.records.batch import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    TIMESTAMP_TYPE_FLAG,
    BatchHeader,
    Buffer,
    parse_header,
)
from minikafka.records.compression import decompress
from minikafka.records.record import HEADER_KEY_ERRORS, Header, Record

MAX_DECOMPRESSED_BYTES: Final = 100 * 1024 * 1024  # of one batch; as much as a whole request may bring

HEADERS_MADE: Final = 100
"""With a record. Of one that has more, they are :class:`ManyHeaders`."""

HEADERS_LOOKED_AT: Final = 10
"""Of a record whose headers are not wanted. A few KB of zstd hold one with millions of them, of two bytes each."""

_MAX_VARINT_SHIFT: Final = 63
_new_tuple: Final = tuple.__new__  # a NamedTuple without its Python-level constructor: half the time


class ManyHeaders(Sequence[Header]):
    """The headers of a record that has very many. Each is made when it is asked for; here are only their bytes.

    4,000,000 of two bytes each, which are 3 KB of zstd, took 390 MB. Equal to a tuple of the same headers. Whoever goes
    through them gets a KafkaError(CORRUPT_MESSAGE) where they cannot be read.
    """

    __slots__ = ("_batch", "_count", "_data")

    def __init__(self, data: bytes, count: int, batch: BatchHeader) -> None:
        """``data``: the headers one behind the other. ``batch``: theirs, for errors."""
        self._data = data
        self._count = count
        self._batch = batch

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Header]:
        left, position = self._count, 0
        while left:
            made, position = _made(self._data, position, min(left, HEADERS_MADE), self._batch)
            left -= len(made)
            yield from made
        if position != len(self._data):
            corrupt(self._batch, "the headers of a record are not as long as it says")

    @overload
    def __getitem__(self, index: int) -> Header: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Header, ...]: ...

    def __getitem__(self, index: int | slice) -> Header | tuple[Header, ...]:
        if isinstance(index, int):
            return next(islice(self, range(self._count)[index], None))
        start, stop, step = index.indices(self._count)
        return tuple(islice(self, start, stop, step)) if step > 0 else tuple(self)[index]

    def __add__(self, other: Sequence[Header]) -> tuple[Header, ...]:
        """As of a tuple; an application may add one of its own to those of a record."""
        return (*self, *other)

    def __radd__(self, other: Sequence[Header]) -> tuple[Header, ...]:
        return (*other, *self)

    def __reversed__(self) -> Iterator[Header]:
        return reversed(tuple(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple | ManyHeaders):
            return NotImplemented
        return len(self) == len(other) and all(ours == theirs for ours, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{self._count} headers, the first: {self[0]!r}>"


def iter_records(
    buffer: Buffer,
    position: int = 0,
    header: BatchHeader | None = None,
    *,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
    with_headers: bool = True,
) -> Iterator[Record]:
    """The records of the batch at ``position``, all of which must be in the buffer. Its CRC is not checked.

    Keys and values are copies, so the buffer may be reused. KafkaError(CORRUPT_MESSAGE) for bytes that are not
    ``record_count`` records, MESSAGE_TOO_LARGE if more than ``max_bytes`` would come out of decompression.
    ``with_headers``: without, records have none, and what is wrong behind the first few of one is not noticed.
    """
    if header is None:
        header = parse_header(buffer, position)
    return _decode_records(read_body(buffer, position, header, max_bytes), header, with_headers)


def read_body(buffer: Buffer, position: int, header: BatchHeader, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """The encoded records of a batch, decompressed; errors as for :func:`iter_records`."""
    stored = memoryview(buffer)[position + HEADER_SIZE : position + header.size_in_bytes]
    if header.attributes & COMPRESSION_MASK == Compression.NONE:
        return bytes(stored)
    return decompress(header.compression, stored, max_bytes)


def _decode_records(data: bytes, header: BatchHeader, with_headers: bool) -> Iterator[Record]:
    """One pass, with varints of one and two bytes inlined: a call costs as much as the rest of the field.

    Lengths stay in zigzag form: even is twice the length, odd is negative (and 1, the only legal one, is null).
    Slices that run over the end come out short, and then either the next index or the check of ``end`` fails.
    """
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_FLAG else None
    position = 0
    try:
        for _ in range(header.record_count):
            size = data[position]
            position += 1
            if size > 127:
                if (byte := data[position]) < 128:
                    size = size & 127 | byte << 7
                    position += 1
                else:
                    size, position = finish_varint(data, size, position, header)
            end = position + (size >> 1)

            delta = data[position + 1]
            position += 2
            if delta > 127:
                if (byte := data[position]) < 128:
                    delta = delta & 127 | byte << 7
                    position += 1
                else:
                    delta, position = finish_varint(data, delta, position, header)
            timestamp = base_timestamp + ((delta >> 1) ^ -(delta & 1)) if append_time is None else append_time

            delta = data[position]
            position += 1
            if delta > 127:
                if (byte := data[position]) < 128:
                    delta = delta & 127 | byte << 7
                    position += 1
                else:
                    delta, position = finish_varint(data, delta, position, header)
            offset = base_offset + ((delta >> 1) ^ -(delta & 1))

            size = data[position]
            position += 1
            if size > 127:
                if (byte := data[position]) < 128:
                    size = size & 127 | byte << 7
                    position += 1
                else:
                    size, position = finish_varint(data, size, position, header)
            key = None
            if not size & 1:
                start = position
                position += size >> 1
                key = data[start:position]
            elif size != 1:
                corrupt(header, "a key has a negative length")

            size = data[position]
            position += 1
            if size > 127:
                if (byte := data[position]) < 128:
                    size = size & 127 | byte << 7
                    position += 1
                else:
                    size, position = finish_varint(data, size, position, header)
            value = None
            if not size & 1:
                start = position
                position += size >> 1
                value = data[start:position]
            elif size != 1:
                corrupt(header, "a value has a negative length")

            headers: Sequence[Header] = ()
            if data[position]:
                if with_headers:
                    headers, position = _decode_headers(data, position, end, header)
                else:
                    position = _skip_headers(data, position, end, header)
            else:
                position += 1
            if position != end:
                corrupt(header, f"the record at offset {offset} is not as long as it says")
            yield _new_tuple(Record, (offset, timestamp, key, value, headers))
        if position != len(data):
            corrupt(header, f"{len(data) - position} bytes follow the last of {header.record_count} records")
    except IndexError:
        corrupt(header, "a record runs over the end of the batch")


def _decode_headers(data: bytes, position: int, end: int, header: BatchHeader) -> tuple[Sequence[Header], int]:
    count, position = _decode_length(data, position, header)
    if count > HEADERS_MADE:
        if 2 * count > end - position:
            corrupt(header, f"{count} headers in {end - position} bytes")
        return ManyHeaders(data[position:end], count, header), end
    headers, position = _made(data, position, count, header)
    return tuple(headers), position


def _made(data: bytes, position: int, count: int, header: BatchHeader) -> tuple[list[Header], int]:
    headers: list[Header] = []
    try:
        for _ in range(count):
            size, position = _decode_length(data, position, header)
            name = data[position : position + size].decode("utf-8", HEADER_KEY_ERRORS)
            position += size
            if data[position] == 1:
                headers.append((name, None))
                position += 1
                continue
            size, position = _decode_length(data, position, header)
            headers.append((name, data[position : position + size]))
            position += size
    except IndexError:
        corrupt(header, "the headers of a record run over its end")
    return headers, position


def _skip_headers(data: bytes, position: int, end: int, header: BatchHeader) -> int:
    """Where they end; the end of the record, if there are many."""
    count, position = _decode_length(data, position, header)
    for _ in range(min(count, HEADERS_LOOKED_AT)):
        size, position = _decode_length(data, position, header)
        position += size
        if data[position] == 1:
            position += 1
            continue
        size, position = _decode_length(data, position, header)
        position += size
    return position if count <= HEADERS_LOOKED_AT else max(position, end)  # never back


def _decode_length(data: bytes, position: int, header: BatchHeader) -> tuple[int, int]:
    size = data[position]
    position += 1
    if size > 127:
        size, position = finish_varint(data, size, position, header)
    if size & 1:
        corrupt(header, "a record header has a negative length")
    return size >> 1, position


def finish_varint(data: bytes, value: int, position: int, header: BatchHeader) -> tuple[int, int]:
    """The varint, still zigzag, that began with the byte ``value`` and goes on at ``position``; the position after."""
    value &= 0x7F
    shift = 7
    while (byte := data[position]) > 127:
        value |= (byte & 0x7F) << shift
        shift += 7
        position += 1
        if shift > _MAX_VARINT_SHIFT:
            corrupt(header, "a varint is longer than 10 bytes")
    return value | byte << shift, position + 1


def corrupt(header: BatchHeader, what: str) -> NoReturn:
    """Raise KafkaError(CORRUPT_MESSAGE) for a batch whose records are not what its header says."""
    raise KafkaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"the batch of {header.record_count} records at offset {header.base_offset} cannot be read: {what}",
    )
