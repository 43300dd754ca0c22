"""Binary columns from slices of a buffer: Arrow copies, in C++."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from minikafka.spark.columns.broken import check
from minikafka.spark.columns.varints import Bytes, Ints, read_varints

Mask: TypeAlias = npt.NDArray[np.bool_]

MAX_BYTES: Final = 2**31 - 1  # of one Arrow binary array, whose offsets are int32


class Slices(NamedTuple):
    """Slices of a buffer, in order and without overlaps; some are nulls."""

    begins: Ints
    ends: Ints
    is_null: Mask


def read_slices(data: Bytes, positions: Ints, what: str) -> Slices:
    """The bytes behind a varint length (-1: null) at each of ``positions``. Raises BrokenRecordError."""
    lengths, begins = read_varints(data, positions)
    is_null = (lengths & 1).astype(np.bool_)
    check(is_null & (lengths != 1), f"a {what} has a negative length")
    return Slices(begins, begins + (lengths >> 1), is_null)


def gather(data: Bytes, slices: Slices, rows: Ints | None = None) -> Any:
    """The binary array of these slices of ``data``, all or those with the numbers ``rows``.

    The whole buffer becomes one array of slices and gaps in turn, of which every other element is taken.
    """
    begins, ends, is_null = slices
    count = len(begins)
    wanted = 2 * (np.arange(count, dtype=np.int32) if rows is None else rows.astype(np.int32))
    is_null = is_null if rows is None else is_null[rows]
    if is_null.all():
        return pa.nulls(len(wanted), pa.binary())
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = begins
    offsets[1::2] = ends
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    laid_over = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers, null_count=0)
    return laid_over.take(pa.array(wanted, mask=is_null if is_null.any() else None))
