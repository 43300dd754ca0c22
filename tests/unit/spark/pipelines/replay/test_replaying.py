"""To which partitions a replay writes."""

from __future__ import annotations

from typing import cast

from pyspark.sql import DataFrame

from minikafka.spark.pipelines.replay.replaying import keeps_partitions
from minikafka.spark.pipelines.replay.sources import Source


def source(kind: str, partitions: int | None) -> Source:
    return Source("name", kind, cast(DataFrame, None), 1, partitions)


def test_a_lakes_records_keep_their_partition_where_there_are_as_many() -> None:
    assert keeps_partitions(source("lake", 3), 3, by_key=False)
    assert not keeps_partitions(source("lake", 3), 2, by_key=False)
    assert not keeps_partitions(source("lake", 3), 3, by_key=True)


def test_lines_of_consume_keep_theirs_unless_their_key_shall_decide() -> None:
    assert keeps_partitions(source("records", None), 1, by_key=False)
    assert not keeps_partitions(source("records", None), 1, by_key=True)


def test_rows_of_files_have_none_to_keep() -> None:
    assert not keeps_partitions(source("csv", None), 3, by_key=False)
