"""A Python data source that does nothing: it hands one ready batch to Spark again and again.

What it reaches is what a source in Python can reach at all; the rest is Spark's, which takes the rows out of a socket
and out of Arrow one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from benchmarks.spark_jobs import PARTITIONS
from minikafka.spark.columns.schema import ARROW_SCHEMA, SOURCE_SCHEMA, TIMESTAMP_TYPE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BATCH_BYTES: Final = 4 * 1024 * 1024
_BATCH_ROWS: Final = 20_000


def ready_rows(spark: SparkSession, size: int, rows: int) -> DataFrame:
    """As many rows with values of ``size`` bytes, in the columns of ``format("minikafka")``."""
    spark.dataSource.register(_ReadySource)
    return spark.read.format(_ReadySource.name()).option("size", size).option("rows", rows // PARTITIONS).load()


class _ReadySource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> Any:
        return SOURCE_SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        return _ReadyReader(int(self.options["size"]), int(self.options["rows"]))


class _ReadyReader(DataSourceReader):
    def __init__(self, size: int, rows: int) -> None:
        self._size, self._rows = size, rows  # of a partition

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = _batch(min(_BATCH_ROWS, _BATCH_BYTES // self._size, self._rows), self._size)
        for begin in range(0, self._rows, batch.num_rows):
            yield batch.slice(0, self._rows - begin)


def _batch(rows: int, size: int) -> pa.RecordBatch:
    places = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * size)
    values = pa.Array.from_buffers(pa.binary(), rows, [None, places, pa.py_buffer(bytes(rows * size))])
    zeros, numbers = pa.array(np.zeros(rows, np.int32)), pa.array(np.arange(rows))
    topic = pa.repeat("of-ready", rows)
    columns = [pa.nulls(rows, pa.binary()), values, topic, zeros, numbers, numbers.cast(TIMESTAMP_TYPE), zeros]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)
