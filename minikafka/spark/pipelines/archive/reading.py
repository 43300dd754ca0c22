"""A lake as a DataFrame: exactly the committed records, at any time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from minikafka.spark.pipelines.archive.state import local_directory, read_identity, read_manifest
from minikafka.spark.pipelines.running import PipelineError, literally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA: Final = (
    "key BINARY, value BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, topic STRING, date STRING"
)


def read_lake(spark: SparkSession, directory: str | Path, topics: Sequence[str] = ()) -> DataFrame:
    """The records of a lake, or of some of its topics, with the source's columns and ``date``.

    Raises PipelineError if there is no lake, or the topic is not in it.
    """
    path = local_directory(directory)
    known = read_identity(path).topic_ids
    if unknown := sorted(set(topics) - known.keys()):
        raise PipelineError(f"{path} holds no topic {', '.join(unknown)}; it is the lake of {', '.join(sorted(known))}")
    files = read_manifest(path).files.values()
    paths = [literally(str(path / file.path)) for file in files if not topics or file.topic in topics]
    if not paths:
        return spark.createDataFrame([], SCHEMA)
    return spark.read.schema(SCHEMA).option("basePath", str(path)).parquet(*paths)
