"""How a session is started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from minikafka.spark.java import spark_java_home
from minikafka.spark.shared_classes import archive_path


def test_java_starts_with_the_classes_that_were_prepared(spark: SparkSession) -> None:
    home = spark_java_home(os.environ)
    if home is None or not archive_path(home).is_file():
        pytest.skip("none were prepared: `minikafka pipeline prepare`")
    assert spark.sparkContext._gateway is not None
    java = spark.sparkContext._gateway.jvm.java.lang.ProcessHandle.current().pid()

    assert str(archive_path(home)) in Path(f"/proc/{java}/maps").read_text()


def test_the_environment_is_left_as_it_was(spark: SparkSession) -> None:
    assert "minikafka" not in os.environ.get("JAVA_HOME", "")


def test_workers_import_the_installed_pyspark(spark: SparkSession) -> None:
    """And not the zip in SPARK_HOME, which each of them would compile anew."""

    def where(_: Iterator[int]) -> Iterator[str]:
        import py4j
        import pyspark

        yield pyspark.__file__
        yield py4j.__file__

    found = spark.sparkContext.parallelize([0], 1).mapPartitions(where).collect()

    assert found[0] == pyspark.__file__
    assert Path(found[1]).is_relative_to(Path(pyspark.__file__).parents[1])
