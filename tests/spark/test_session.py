"""How a session is started."""

from __future__ import annotations

import os
from pathlib import Path

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
