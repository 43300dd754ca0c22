"""The header by which a replayed record is known: ``minikafka.replay`` with the text ``REPLAY/POSITION/SOURCE``.

REPLAY is the id of the replay; SOURCE a partition (``orders-3@ID``, the topic's id) or a file, POSITION the offset or
the row in it. A record that was replayed before keeps its older marks.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MARK: Final = "minikafka.replay"
HEADERS_TYPE: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def replay_id(*parts: str) -> str:
    """An id for what is replayed, the same each time."""
    return sha256("\0".join(parts).encode()).hexdigest()[:12]


def add_marks(headers: Any, replay: str, sources: Any, positions: Any) -> Any:
    """The headers (an array of lists, null for none) with the mark of each row as the last."""
    marks = pc.binary_join_element_wise(replay, positions.cast(pa.string()), sources, "/").cast(pa.binary())
    lengths = pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths + 1)])
    given = pc.list_flatten(headers)
    keys = pa.concat_arrays([given.field("key"), pa.repeat(pa.scalar(MARK), len(marks))])
    values = pa.concat_arrays([given.field("value"), marks])
    order = np.empty(int(offsets[-1]), np.int64)
    is_mark = np.zeros(len(order), np.bool_)
    is_mark[offsets[1:] - 1] = True
    order[~is_mark] = np.arange(len(given))
    order[is_mark] = len(given) + np.arange(len(marks))
    both = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), both.take(pa.array(order)), type=HEADERS_TYPE)


def marked(records: DataFrame, replay: str) -> DataFrame:
    """``(source, position)`` of the records, read with headers, that a replay has written."""
    from pyspark.sql import functions as fn

    of_replay = fn.concat(fn.lit(replay), fn.lit("/"))
    marks = records.select(fn.explode("headers").alias("header")).filter(fn.col("header.key") == MARK)
    texts = marks.select(fn.col("header.value").cast("string").alias("mark")).filter(
        fn.col("mark").startswith(of_replay)
    )
    parts = fn.split("mark", "/", 3)
    return texts.select(parts[2].alias("source"), parts[1].cast("bigint").alias("position")).distinct()
