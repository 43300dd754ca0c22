"""Starts a Spark session with minikafka's data sources, on this machine or on a cluster."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

from minikafka.spark.java import INSTALLED_PYSPARK, spark_java_home
from minikafka.spark.shared_classes import sharing_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MASTER: Final = "local[2]"
_SUBMIT_OPTIONS: Final = "SPARK_SUBMIT_OPTS"  # Java takes them before the options of settings and files, which stay

_SETTINGS: Final[dict[str, str]] = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
}
_LOCAL_SETTINGS: Final[dict[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.python.daemon.module": "minikafka.spark.daemon",
    "spark.sql.shuffle.partitions": "4",
}


_SETTING: Final = re.compile(r"^[ \t]*(spark\.[^\s=:]+)", re.MULTILINE)
_STACK: Final = "-Xss8m"
"""Stack for Spark's check of the error of an interrupted batch: its pattern recurses for every character."""


def start_session(name: str, *, master: str = LOCAL_MASTER, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session that reads and writes ``format("minikafka")`` and reads ``format("minikafka-log")``.

    Our defaults suit a laptop: no web pages, four shuffle partitions, 1 GiB for the driver, only errors on stderr.
    Spark's settings in ``settings`` and in the user's ``spark-defaults.conf`` override them. Raises NoJavaError
    without a usable Java.
    """
    from pyspark.sql import SparkSession

    from minikafka.spark import register

    home = spark_java_home(os.environ)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise the workers take the first python3 of PATH
    is_local = master.startswith("local")
    ours = _SETTINGS | (_LOCAL_SETTINGS if is_local else {})
    of_user = names_in_defaults(os.environ)
    chosen = {key: value for key, value in ours.items() if key not in of_user} | dict(settings or {})
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with _for_java(home, _java_options(home, master)):
        spark = builder.getOrCreate()
    _say_errors_once()
    register(spark)
    return spark


def names_in_defaults(environment: Mapping[str, str]) -> set[str]:
    """The names of the settings in the user's ``spark-defaults.conf``. A builder's settings would override them."""
    from pyspark.find_spark_home import _find_spark_home

    directory = environment.get("SPARK_CONF_DIR") or os.path.join(_find_spark_home(), "conf")
    try:
        text = Path(directory, "spark-defaults.conf").read_text(errors="replace")
    except OSError:
        return set()
    return set(_SETTING.findall(text))


def _java_options(home: Path | None, master: str) -> str:
    """The options of the driver's Java: log configuration, stack size, archive of classes, PySpark of the workers."""
    options = [f"-Dlog4j2.configurationFile={_log_configuration()}", _STACK]
    if home is not None:
        options += sharing_options(home)
    if _workers_have_our_pyspark(master):
        options.append(INSTALLED_PYSPARK)
    return " ".join(f'"{option}"' for option in options)


def _workers_have_our_pyspark(master: str) -> bool:
    """True when all Python processes run our Python, and PySpark is installed in its site-packages."""
    import pyspark

    is_in_driver = master == "local" or master.startswith("local[")
    is_installed = Path(pyspark.__file__).parents[1] == Path(sysconfig.get_path("purelib"))
    return is_in_driver and is_installed and os.environ["PYSPARK_PYTHON"] == sys.executable


@contextmanager
def _for_java(home: Path | None, options: str) -> Iterator[None]:
    """Set ``JAVA_HOME`` and add ``options`` to the user's Java options, for the block only: other programs that the
    caller starts keep their Java."""
    before = {name: os.environ.get(name) for name in ("JAVA_HOME", _SUBMIT_OPTIONS)}
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    os.environ[_SUBMIT_OPTIONS] = f"{options} {before[_SUBMIT_OPTIONS] or ''}".strip()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is not None:
                os.environ[name] = value
            else:
                os.environ.pop(name, None)


def _say_errors_once() -> None:
    """Silence PySpark's logger of query errors: it repeats an exception on stderr, as a page of JSON."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _log_configuration() -> str:
    """The path of the JVM's log configuration: errors only."""
    with resources.as_file(resources.files("minikafka.spark") / "log4j2.properties") as path:
        return str(path)
