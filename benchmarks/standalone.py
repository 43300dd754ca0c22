"""Spark's standalone master and two workers on 127.0.0.1, from the scripts of PySpark."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

from minikafka.spark.java import spark_java_home

WORKERS: Final = 2
_STARTS_S: Final = 300.0  # three Javas, on a machine that is busy
_TICK_S: Final = 0.5
_FAST: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@contextmanager
def standalone(directory: Path) -> Iterator[str]:
    """Its URL, once all workers are there."""
    port, page = _free_port(), _free_port()
    url = f"spark://127.0.0.1:{port}"
    where = ("--host", "127.0.0.1", "--webui-port")
    with ExitStack() as stack:
        _start(stack, directory, "master.Master", *where, str(page), "--port", str(port))
        for number in range(WORKERS):
            work = ("--work-dir", str(directory / f"work-{number}"), "--cores", "1", "--memory", "1g")
            _start(stack, directory, "worker.Worker", *where, "0", *work, url)
        deadline = time.monotonic() + _STARTS_S
        while _workers(page) < WORKERS:
            assert time.monotonic() < deadline, f"Spark's master has no {WORKERS} workers within {_STARTS_S:g} s"
            time.sleep(_TICK_S)
        yield url


def _start(stack: ExitStack, directory: Path, what: str, *options: str) -> None:
    command = [str(Path(sys.executable).with_name("spark-class")), f"org.apache.spark.deploy.{what}", *options]
    home = spark_java_home(os.environ)
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_DAEMON_JAVA_OPTS": _FAST}
    environment |= {"JAVA_HOME": str(home)} if home else {}
    with (directory / f"{what}.log").open("ab") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    stack.callback(process.wait)
    stack.callback(process.terminate)  # a worker ends its executors, which SIGKILL would leave


def _workers(page: int) -> int:
    try:
        with urlopen(f"http://127.0.0.1:{page}/json/") as answer:
            workers = json.load(answer)["workers"]
    except (URLError, ConnectionError):
        return 0
    return sum(worker["state"] == "ALIVE" for worker in workers)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
