"""The records of a lake as a DataFrame: by Spark's own reader of Parquet, or by deltalake's access to an object store.

Spark reads ``s3a://`` only with Hadoop's jars for it (``org.apache.hadoop:hadoop-aws``). Without them each file is a
task of a source in Python, which has the credentials of the executor's environment, as those of ``archive`` have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from minikafka.spark.pipelines.archive.lake import DIVERGED, Lake, StoredFile
from minikafka.spark.pipelines.archive.places import is_local
from minikafka.spark.pipelines.archive.writing import files_of
from minikafka.spark.pipelines.running import PipelineError, literally, readable_errors

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

_ROWS_AT_ONCE: Final = 10_000


def read_lake(
    spark: SparkSession, directory: str | Path, topics: Sequence[str] = (), *, diverged: bool = False
) -> DataFrame:
    """The records of a lake, or of some of its topics, with the source's columns and ``date``.

    Records that were marked as diverged are left out, or with ``diverged`` they are there, with a column of that name.
    Raises PipelineError if there is no lake, or the topic is not in it.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    lake = Lake.open(directory)
    files = lake.files(lake.chosen(topics))
    schema = from_arrow_schema(lake.arrow_schema())
    base = re.sub("^s3://", "s3a://", lake.location)  # Hadoop's name for it
    if not files:
        rows = spark.createDataFrame([], schema)
    elif is_local(base) or _has_file_system(spark, base):
        paths = [literally(f"{base}/{file.path}") for file in files]
        rows = spark.read.schema(schema).option("basePath", base).parquet(*paths)
    else:
        spark.dataSource.register(StoredFiles)
        options = {"lake": lake.location, "files": json.dumps(files), "columns": schema.json()}
        rows = spark.read.format(StoredFiles.name()).options(**options).load()
    if DIVERGED not in rows.columns or diverged:
        return rows
    return rows.where(f"{DIVERGED} IS NULL").drop(DIVERGED)


def _has_file_system(spark: SparkSession, url: str) -> bool:
    context: Any = spark.sparkContext
    of_hadoop, scheme = context._jvm.org.apache.hadoop.fs.FileSystem, url.partition("://")[0]
    try:
        with readable_errors():
            of_hadoop.getFileSystemClass(scheme, context._jsc.hadoopConfiguration())
    except PipelineError:
        return False
    return True


class StoredFiles(DataSource):
    """``spark.read.format(...)`` with the options ``lake``, ``files`` and ``columns`` (the last two: JSON)."""

    @classmethod
    def name(cls) -> str:
        """The name for Spark."""
        return "minikafka-stored-files"

    def schema(self) -> StructType:
        """The columns of the lake."""
        return StructType.fromJson(json.loads(self.options["columns"]))

    def reader(self, schema: StructType) -> StoredFilesReader:
        """Called on the driver."""
        files = [StoredFile(*fields) for fields in json.loads(self.options["files"])]
        return StoredFilesReader(self.options["lake"], files, schema)


@dataclass
class _Task(InputPartition):
    file: StoredFile


class StoredFilesReader(DataSourceReader):
    """Made on the driver, and sent to the tasks."""

    def __init__(self, lake: str, files: Sequence[StoredFile], schema: StructType) -> None:
        self._lake = lake
        self._files = files
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """A task for each file."""
        return [_Task(file) for file in self._files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a file. A column that is younger than the file is null."""
        from pyspark.sql.pandas.types import to_arrow_schema

        assert isinstance(partition, _Task)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        path, topic, date = partition.file
        fixed = {"topic": topic, "date": date}
        with files_of(self._lake).open_input_file(path) as file:
            for batch in parquet.ParquetFile(file).iter_batches(_ROWS_AT_ONCE):
                found = dict(zip(batch.schema.names, batch.columns, strict=True))
                columns = [
                    found[field.name].cast(field.type)
                    if field.name in found
                    else pa.repeat(pa.scalar(fixed.get(field.name), field.type), batch.num_rows)
                    for field in schema
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
