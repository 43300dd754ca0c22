"""Columns of record headers: ``list<struct<key: string, value: binary>>`` <-> the bytes behind a record's value."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from minikafka.errors import ErrorCode, KafkaError
from minikafka.spark.columns.broken import check
from minikafka.spark.columns.joining import binary_array, joined, lengths, pack
from minikafka.spark.columns.schema import HEADERS_TYPE
from minikafka.spark.columns.slices import Slices, gather, read_slices
from minikafka.spark.columns.varints import Bytes, Ints


class EncodedHeaders(NamedTuple):
    """The encoded headers of each record, without their number."""

    counts: Ints
    sizes: Ints  # bytes
    encoded: Any  # binary array

    def slice(self, begin: int, end: int) -> EncodedHeaders:
        """Those of the rows from ``begin`` to before ``end``."""
        return EncodedHeaders(self.counts[begin:end], self.sizes[begin:end], self.encoded.slice(begin, end - begin))


def read_headers(data: Bytes, counts: Ints, begins: Ints, ends: Ints) -> Any:
    """The headers of all records, null for a record without headers: ``counts`` of them, from ``begins`` to ``ends``.

    A key that is not UTF-8 gets replacement characters, as in Java. Raises BrokenRecordError.
    """
    at = begins.copy()
    records = np.flatnonzero(counts)
    rounds: list[tuple[Ints, Slices, Slices]] = []  # the first header of all records, the second of those that have...
    while len(records):
        keys = read_slices(data, at[records], "header's key")
        check(keys.is_null, "a header has no key", records)
        values = read_slices(data, keys.ends, "header's value")
        check(values.ends > ends[records], "a header runs over the end of its record", records)
        at[records] = values.ends
        rounds.append((records, keys, values))
        records = records[counts[records] > len(rounds)]
    check(at != ends, "a record has a wrong length")
    is_bare = counts == 0
    if not rounds:
        return pa.nulls(len(counts), HEADERS_TYPE)
    order = np.argsort(np.concatenate([records for records, _, _ in rounds]), kind="stable")
    keys = _in_order([keys for _, keys, _ in rounds], order)
    values = _in_order([values for _, _, values in rounds], order)
    items = pa.StructArray.from_arrays(
        [_text(gather(data, keys)), gather(data, values)], fields=list(HEADERS_TYPE.value_type)
    )
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), items, type=HEADERS_TYPE, mask=pa.array(is_bare))


def _in_order(slices: list[Slices], order: Any) -> Slices:
    return Slices(*(np.concatenate(column)[order] for column in zip(*slices, strict=True)))


def _text(keys: Any) -> Any:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())


def encode_headers(headers: Any) -> EncodedHeaders:
    """The headers of all rows; a null row has none. KafkaError(INVALID_RECORD) for a header whose key is null."""
    counts = np.asarray(pc.list_value_length(headers).fill_null(0), np.int64)
    items = headers.flatten()
    keys, values = (pc.struct_field(items, name) for name in ("key", "value"))
    if keys.null_count:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a header's key is null; only its value may be")
    keys, values = keys.cast(pa.binary()), values.cast(pa.binary())
    parts = (pack([lengths(keys)]), keys, pack([lengths(values)]), values)
    encoded = joined(parts)
    bounds = np.concatenate([[0], np.cumsum(np.asarray(pc.binary_length(encoded), np.int64))])
    offsets = bounds[np.concatenate([[0], np.cumsum(counts)])]  # a row's headers are adjacent
    return EncodedHeaders(counts, np.diff(offsets), binary_array(offsets, encoded.buffers()[2]))
