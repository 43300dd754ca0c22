"""A header with the origin of a record, the row of its batch: so a reader finds records that were written twice.

Spark repeats a failed task, and the micro-batch during which the driver died. The sink then writes the rows again (at
least once). With the option ``deduplicationHeaders`` the last header of each record is ``minikafka.origin`` with the
text ``QUERY/BATCH/TASK/SEQUENCE``:

- QUERY: the id of the streaming query, from its checkpoint; a random id for a batch job;
- BATCH: the id of the micro-batch, 0 in a batch job;
- TASK: the number of the task, from 0;
- SEQUENCE: the number of the row in that task, from 0.

A repeated batch has the same rows, in the same order if only the source decides the order: then a row has the same
origin again. After a shuffle the order may differ. So :func:`deduplicated` drops a record only if origin, key and value
are equal. It never loses a row; of a batch that was repeated in another order, duplicates may stay.
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
    """The common part of the origin of a task's rows."""

    query_id: str
    batch_id: int
    task: int

    def add_to(self, headers: Any | None, first_sequence: int, row_count: int) -> Any:
        """The headers (an array of lists, or None) with an origin for each row, numbered from ``first_sequence``."""
        numbers = pa.array(np.arange(first_sequence, first_sequence + row_count)).cast(pa.string())
        common = f"{self.query_id}/{self.batch_id}/{self.task}/"
        values = pc.binary_join_element_wise(common, numbers, "").cast(pa.binary())
        return with_header(headers, ORIGIN_HEADER, values)


def with_header(headers: Any | None, name: str, values: Any) -> Any:
    """The headers (an array of lists, or None) with one header added at the end of each row."""
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
    """The records of a DataFrame without the repetitions of a sink. All other records stay.

    ``df`` was read with ``includeHeaders`` and still has the columns key, value, topic, partition, offset and headers.
    A stream remembers records for ``within``, by the clock of its batches and not by the records' timestamps: no record
    is dropped as too late. A repetition after that time stays. A watermark of your own belongs behind this step; Spark
    refuses it before.
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
    """The origin of a record, by its column ``headers``; without one, its unique topic, partition and offset."""
    from pyspark.sql import functions

    named = functions.filter("headers", lambda header: header["key"] == ORIGIN_HEADER)
    written = functions.get(functions.reverse(named), functions.lit(0))["value"].cast("string")
    own = functions.concat_ws("/", functions.lit("at"), "partition", "offset")
    return functions.coalesce(written, own)
