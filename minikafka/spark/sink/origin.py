"""A header that says which row of which batch a record is, so that a reader can tell one that was written twice.

Spark repeats a task that failed, and a micro-batch that was under way when the driver died; the sink then writes
again what it had written (at least once). With the option ``deduplicationHeaders`` each record bears, as the last of
its headers, ``minikafka.origin`` with the text ``QUERY/BATCH/TASK/SEQUENCE``:

- QUERY: the id of the streaming query, which its checkpoint keeps; of a batch job a random id;
- BATCH: the id of the micro-batch, 0 in a batch job;
- TASK: which part of the rows, from 0;
- SEQUENCE: the how-many-eth row of that task, from 0.

A repeated batch has the same rows, and in the same order when nothing but the order of the source decides it: then the
same row has the same origin. After a shuffle the order may differ. So :func:`deduplicated` takes records for the same
only if origin, key and value are equal: no row is ever lost; of a batch repeated in another order duplicates may stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from minikafka.spark.columns.schema import HEADERS_TYPE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ORIGIN_HEADER: Final = "minikafka.origin"


class Origin(NamedTuple):
    """What all rows of a task have in common."""

    query_id: str
    batch_id: int
    task: int

    def add_to(self, headers: Any | None, first_sequence: int, row_count: int) -> Any:
        """The headers (an array of lists, or None for none) with one more for each row, numbered from
        ``first_sequence``."""
        numbers = pa.array(np.arange(first_sequence, first_sequence + row_count)).cast(pa.string())
        common = f"{self.query_id}/{self.batch_id}/{self.task}/"
        values = pc.binary_join_element_wise(common, numbers, "").cast(pa.binary())
        return with_header(headers, ORIGIN_HEADER, values)


def with_header(headers: Any | None, name: str, values: Any) -> Any:
    """The headers (an array of lists, or None for none) with one more for each row, as its last."""
    row_count = len(values)
    keys = pa.repeat(pa.scalar(name), row_count)
    added = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    if headers is None:
        return _lists(np.arange(row_count + 1), added)
    lengths = pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths + 1)])
    last = offsets[1:] - 1
    given = headers.flatten()
    order = np.empty(len(given) + row_count, np.int64)
    is_given = np.ones(len(order), np.bool_)
    is_given[last] = False
    order[is_given] = np.arange(len(given))
    order[last] = len(given) + np.arange(row_count)
    return _lists(offsets, pa.concat_arrays([given, added]).take(pa.array(order)))


def _lists(offsets: Any, items: Any) -> Any:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, type=HEADERS_TYPE)


def deduplicated(df: DataFrame, *, within: str = "1 hour") -> DataFrame:
    """The records of a DataFrame without those that a sink wrote twice; others are all kept.

    ``df`` was read with ``includeHeaders`` and has its columns still: key, value, topic, partition, offset, headers. A
    stream remembers for ``within`` what it has read, by the clock of its batches rather than by the records' own
    timestamps: no record, however old, is too late and dropped. One written again later than that is kept. A watermark
    of your own belongs behind this step; Spark refuses it before.
    """
    from pyspark.sql import functions

    missing = {"key", "value", "topic", "partition", "offset", "headers"} - set(df.columns)
    if missing:
        needed = ", ".join(sorted(missing))
        raise ValueError(f"to find duplicates, these columns are needed too: {needed} (read with includeHeaders=true)")
    marked = df.withColumn(_ORIGIN, origin()).withColumn(_CONTENT, functions.xxhash64("key", "value"))
    same = ["topic", _ORIGIN, _CONTENT]
    if df.isStreaming:
        timed = marked.withColumn(_READ_AT, functions.current_timestamp()).withWatermark(_READ_AT, within)
        kept = timed.dropDuplicatesWithinWatermark(same)
    else:
        kept = marked.dropDuplicates(same)
    return kept.drop(_ORIGIN, _CONTENT, _READ_AT)


_ORIGIN: Final = "__minikafka_origin"
_CONTENT: Final = "__minikafka_content"
_READ_AT: Final = "__minikafka_read_at"


def origin() -> Column:
    """The origin of a record, by its column ``headers``; where none was written, its own place, which is unique."""
    from pyspark.sql import functions

    named = functions.filter("headers", lambda header: header["key"] == ORIGIN_HEADER)
    written = functions.get(functions.reverse(named), functions.lit(0))["value"].cast("string")
    own = functions.concat_ws("/", functions.lit("at"), "partition", "offset")
    return functions.coalesce(written, own)
