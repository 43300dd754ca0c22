"""Columns of zigzag varints: 7 bits a byte, low bits first, small for numbers near 0 on either side.

Nearly all varints of a batch have one or two bytes: a few array operations for all rows. Each further byte takes
another round, for the rows that have it.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from minikafka.spark.columns.broken import BrokenRecordError

Bytes: TypeAlias = npt.NDArray[np.uint8]
Ints: TypeAlias = npt.NDArray[np.int64]

MAX_INT32_BYTES: Final = 5
MAX_INT64_BYTES: Final = 10


class Varints(NamedTuple):
    """The varints as read, still in zigzag form: so a negative length is an odd number."""

    zigzag: Ints  # bits of a uint64
    after: Ints  # the position behind each


def read_varints(data: Bytes, positions: Ints, max_bytes: int = MAX_INT32_BYTES) -> Varints:
    """The varint at each of ``positions``. Behind the end of ``data`` the last byte is read.

    Raises BrokenRecordError with the index of a varint of more than ``max_bytes``.
    """
    first = data.take(positions, mode="clip")
    if not len(first) or first.max() < 0x80:
        return Varints(first.astype(np.int64), positions + 1)
    goes_on = first >> 7
    after = positions + 1
    second = data.take(after, mode="clip") * goes_on
    zigzag = (first & 0x7F) | (second & 0x7F).astype(np.int64) << 7
    after += goes_on
    if second.max() < 0x80:
        return Varints(zigzag, after)
    rows = np.flatnonzero(second > 0x7F)
    for shift in range(14, 7 * max_bytes, 7):
        at = after[rows]
        lanes = data.take(at, mode="clip")
        zigzag[rows] |= (lanes & 0x7F).astype(np.int64) << shift
        after[rows] = at + 1
        rows = rows[lanes > 0x7F]
        if not len(rows):
            return Varints(zigzag, after)
    raise BrokenRecordError(int(rows[0]), f"a number has more than {max_bytes} bytes")


def signed(zigzag: Ints) -> Ints:
    """The decoded numbers."""
    return (zigzag.view(np.uint64) >> 1).view(np.int64) ^ -(zigzag & 1)


def to_zigzag(values: Ints) -> Ints:
    """The zigzag form (bits of a uint64)."""
    return (values << 1) ^ (values >> 63)


def varint_sizes(zigzag: Ints) -> Ints:
    """Size of each in bytes, 1 to 10."""
    bits = zigzag.view(np.uint64)
    largest = int(bits.max(initial=0))
    sizes = np.ones(len(zigzag), np.int64)
    for shift in range(7, 70, 7):
        if not largest >> shift:
            break
        sizes += bits >= np.uint64(1 << shift)
    return sizes


def varint_size(value: int) -> int:
    """Size of one number in bytes."""
    zigzag = value << 1 if value >= 0 else ~value << 1 | 1
    return max(1, -(-zigzag.bit_length() // 7))


def write_varints(out: Bytes, positions: Ints, zigzag: Ints, sizes: Ints) -> None:
    """Write each varint into ``out`` at its position; ``sizes`` are those of :func:`varint_sizes`."""
    longest = int(sizes.max(initial=0))
    if longest <= 1:
        out[positions] = zigzag
        return
    out[positions] = (zigzag & 0x7F) | (sizes > 1) << 7
    for index in range(1, longest):
        rows = np.flatnonzero(sizes > index)
        lanes = (zigzag[rows].view(np.uint64) >> np.uint64(7 * index)) & np.uint64(0x7F)
        out[positions[rows] + index] = lanes | (sizes[rows] > index + 1).astype(np.uint64) << np.uint64(7)
