"""How a session is started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from minikafka.spark.java import spark_java_home
from minikafka.spark.session import names_in_defaults
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
    assert "log4j2" not in os.environ.get("SPARK_SUBMIT_OPTS", "")


def test_java_gets_our_options_without_those_of_settings_and_files_being_replaced(spark: SparkSession) -> None:
    assert spark.sparkContext._gateway is not None
    arguments = spark.sparkContext._gateway.jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()

    assert "log4j2" not in spark.sparkContext.getConf().get("spark.driver.extraJavaOptions", "")
    assert "-Xss8m" in list(arguments.getInputArguments())


def test_settings_in_the_defaults_of_the_user_are_known(tmp_path: Path) -> None:
    text = "# spark.ui.port 1\nspark.driver.memory  8g\n spark.a=b\nspark.c:d\n\nspark.driver.extraJavaOptions -Da=b\n"
    (tmp_path / "spark-defaults.conf").write_text(text)

    found = names_in_defaults({"SPARK_CONF_DIR": str(tmp_path)})

    assert found == {"spark.driver.memory", "spark.a", "spark.c", "spark.driver.extraJavaOptions"}
    assert names_in_defaults({"SPARK_CONF_DIR": str(tmp_path / "missing")}) == set()


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
