"""Spark finds the formats by the names of top-level modules."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import pytest
from pyspark.sql.datasource import DataSource

FORMATS = {"pyspark_minikafka": "minikafka", "pyspark_minikafka_log": "minikafka-log"}

WITHOUT_THE_EXTRA = """
import sys
sys.modules["pyarrow"] = sys.modules["numpy"] = None  # importing them fails
import pyspark_minikafka, pyspark_minikafka_log
"""

WITHOUT_DELTALAKE = """
import sys
sys.modules["deltalake"] = None
from minikafka.spark import register, start_session
try:
    from minikafka.spark import read_lake
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize("module", FORMATS)
def test_the_modules_are_where_spark_looks(module: str) -> None:
    assert module in [found.name for found in iter_modules()]
    source = import_module(module).DefaultSource
    assert issubclass(source, DataSource)
    assert source.name() == FORMATS[module]


def test_without_the_extra_they_do_no_harm() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_THE_EXTRA], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_read_lake_is_where_the_others_are_and_says_what_it_needs() -> None:
    from minikafka.spark import read_lake
    from minikafka.spark.pipelines import archive

    assert read_lake is archive.read_lake
    done = subprocess.run([sys.executable, "-c", WITHOUT_DELTALAKE], capture_output=True, text=True)
    assert done.stdout == "read_lake needs deltalake; install it with: pip install 'minikafka[lake]'\n", done.stderr
