"""Rows that a function reads from parts, with a task for each part. Spark's own ``mapInArrow`` needs pandas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

Read = Callable[[Any], Iterator[pa.RecordBatch]]


def rows_of(spark: SparkSession, name: str, parts: Sequence[Any], read: Read, schema: StructType) -> DataFrame:
    """The rows of all parts. ``read`` and the parts are sent to the tasks; ``name`` is shown in Spark's plans."""

    class Parts(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> StructType:
            return schema

        def reader(self, schema: StructType) -> DataSourceReader:
            return _Reader(parts, read)

    spark.dataSource.register(Parts)
    return spark.read.format(name).load()


@dataclass
class _Reader(DataSourceReader):
    parts: Sequence[Any]
    read_part: Read

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(part) for part in self.parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.read_part(partition.value)
