"""The header of a replayed record: ``minikafka.replay`` with the text ``REPLAY/POSITION/SOURCE``.

REPLAY is the id of the replay, SOURCE a partition (``orders-3@ID`` with the topic's id) or a file, POSITION the offset
or row in it. A record that was replayed before keeps its older marks.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from minikafka.spark.sink.origin import with_header

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MARK: Final = "minikafka.replay"


def replay_id(*parts: str) -> str:
    """The id of a replay: the same each time for the same sources."""
    return sha256("\0".join(parts).encode()).hexdigest()[:12]


def add_marks(headers: Any, replay: str, sources: Any, positions: Any) -> Any:
    """The headers (an array of lists, or nulls) with the mark of each row added at the end."""
    marks = pc.binary_join_element_wise(replay, positions.cast(pa.string()), sources, "/").cast(pa.binary())
    return with_header(headers, MARK, marks)


def marked(records: DataFrame, replay: str) -> DataFrame:
    """``(source, position)`` of a replay's records in a DataFrame with headers."""
    from pyspark.sql import functions as fn

    of_replay = fn.concat(fn.lit(replay), fn.lit("/"))
    marks = records.select(fn.explode("headers").alias("header")).filter(fn.col("header.key") == MARK)
    texts = marks.select(fn.col("header.value").cast("string").alias("mark")).filter(
        fn.col("mark").startswith(of_replay)
    )
    parts = fn.split("mark", "/", 3)
    return texts.select(parts[2].alias("source"), parts[1].cast("bigint").alias("position")).distinct()
