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


@pytest.mark.parametrize("module", FORMATS)
def test_the_modules_are_where_spark_looks(module: str) -> None:
    assert module in [found.name for found in iter_modules()]
    source = import_module(module).DefaultSource
    assert issubclass(source, DataSource)
    assert source.name() == FORMATS[module]


def test_without_the_extra_they_do_no_harm() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_THE_EXTRA], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
