"""The records of a lake as a DataFrame: by Spark's own reader of Parquet, or by deltalake's access to an object store.

Spark reads ``s3a://`` only with Hadoop's jars for it (``org.apache.hadoop:hadoop-aws``). Without them each file is
read by a task in Python, which has the credentials of the executor's environment, as those of ``archive`` have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import dataset

from minikafka.spark.pipelines.archive.lake import DIVERGED, Lake
from minikafka.spark.pipelines.archive.places import is_local
from minikafka.spark.pipelines.archive.writing import files_of
from minikafka.spark.pipelines.running import PipelineError, literally, readable_errors

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ROWS_AT_ONCE: Final = 10_000


def read_lake(
    spark: SparkSession, directory: str | Path, topics: Sequence[str] = (), *, diverged: bool = False
) -> DataFrame:
    """The records of a lake, or of some of its topics, with the source's columns and ``date``.

    Records that were marked as diverged are left out, or with ``diverged`` they are there, with a column of that name.
    Raises PipelineError if there is no lake, or the topic is not in it.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    from minikafka.spark.pipelines.parts import rows_of

    lake = Lake.open(directory)
    files = lake.files(lake.chosen(topics))
    schema = from_arrow_schema(lake.arrow_schema())
    base = re.sub("^s3://", "s3a://", lake.location)  # Hadoop's name for it
    if not files:
        rows = spark.createDataFrame([], schema)
    elif is_local(base) or _has_file_system(spark, base):
        paths = [literally(f"{base}/{path}") for path in files]
        rows = spark.read.schema(schema).option("basePath", base).parquet(*paths)
    else:
        read = partial(read_file, lake=lake.location, columns=schema)
        rows = rows_of(spark, "minikafka-stored-files", files, read, schema)
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


def read_file(path: str, lake: str, columns: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of a lake's file. A column that is younger than the file is null."""
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(columns, timezone="UTC")
    hive = dataset.partitioning(pa.schema([schema.field("topic"), schema.field("date")]), flavor="hive")
    file = dataset.dataset(path, schema, filesystem=files_of(lake), format="parquet", partitioning=hive)
    yield from file.to_batches(batch_size=_ROWS_AT_ONCE, batch_readahead=1)
