"""Binary columns joined element by element; Arrow copies, in C++."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from minikafka.spark.columns.varints import Ints, to_zigzag, varint_sizes, write_varints


def lengths(column: Any) -> Ints:
    """The length of each element of a binary array, -1 for a null, as in a record."""
    return np.asarray(pc.binary_length(column).fill_null(-1), np.int64)


def binary_array(offsets: Ints, data: Any) -> Any:
    """The slices of a buffer between these offsets; None for an empty buffer."""
    places = pa.py_buffer(offsets.astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, places, data or pa.py_buffer(b"")], null_count=0)


def pack(numbers: Sequence[Ints]) -> Any:
    """A binary array whose elements are the varints of a number of each column, one behind the other."""
    zigzags = [to_zigzag(column) for column in numbers]
    sizes = [varint_sizes(zigzag) for zigzag in zigzags]
    offsets = np.zeros(len(zigzags[0]) + 1, np.int64)
    np.cumsum(sum(sizes), out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    positions = offsets[:-1]
    for zigzag, size in zip(zigzags, sizes, strict=True):
        write_varints(data, positions, zigzag, size)
        positions = positions + size
    return binary_array(offsets, pa.py_buffer(data))


def joined(columns: Sequence[Any]) -> Any:
    """Binary arrays joined row by row; a null counts as empty, a scalar is repeated in every row. Less than 2 GiB."""
    filled = [
        column.fill_null(b"") if isinstance(column, pa.Array) and column.null_count else column for column in columns
    ]
    return pc.binary_join_element_wise(*filled, b"")
