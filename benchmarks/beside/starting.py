"""Three formatted nodes: from their start to the answer that names all of them; what they take when they are idle."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from benchmarks.apache_kafka import ApacheKafka, NotHereError, class_path
from benchmarks.beside.sides import Side, of_apache_kafka, of_cluster
from benchmarks.beside.turns import Found, Turn
from benchmarks.clusters import BROKERS
from benchmarks.report import Figure, Run, Target
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.ports import free_base_port

SUMMARY = "start-up, memory and idle CPU of three nodes, beside Apache Kafka"
STARTS: Final = 3
SETTLED_S: Final = 5.0
IDLE_S: Final = 20.0
_PATIENCE_S: Final = 120.0
_TICK_S: Final = 0.02


def run(run: Run) -> list[Figure]:
    """By turns: each starts, is left alone, and ends before the other starts."""
    try:
        jars = class_path()
    except NotHereError as error:
        run.say(f"not compared: {error}")
        return []
    found = Found([], [])
    with tempfile.TemporaryDirectory(prefix="minikafka-bench-") as directory:
        theirs = ApacheKafka(Path(directory) / "theirs", jars, {})
        theirs.start()  # formats
        theirs.kill_all()
        ours = LocalCluster.create(
            Path(directory) / "ours", brokers=BROKERS, base_port=free_base_port(BROKERS), detached=False
        )
        for _ in range(run.times(STARTS)):
            found.theirs.append(_turn(run, of_apache_kafka(theirs), theirs.start_formatted, theirs.kill_all))
            found.ours.append(_turn(run, of_cluster(ours), lambda: ours.start(_PATIENCE_S), ours.kill_all))
    return [
        found.figure("start of three nodes", "s", Target("<", 0.1)),
        found.figure("memory (RSS) of three idle nodes", "mb"),
        found.figure("CPU of three idle nodes", "cores"),
    ]


def _turn(run: Run, side: Side, start: Callable[[], object], end: Callable[[], None]) -> Turn:
    idle_s = IDLE_S / 5 if run.quick else IDLE_S
    began = time.monotonic()
    try:
        start()
        _wait_for_all(side.connecting)
        ready_s = time.monotonic() - began
        time.sleep(SETTLED_S)
        before, began = side.cpu_seconds(), time.monotonic()
        time.sleep(idle_s)
        cores = (side.cpu_seconds() - before) / (time.monotonic() - began)
        run.say(f"{side.name}: ready after {ready_s:.2f} s, {side.rss_mb():.0f} MB, {cores:.3f} cores")
        return {"s": ready_s, "mb": side.rss_mb(), "cores": cores}
    finally:
        end()


def _wait_for_all(connecting: dict[str, Any]) -> None:
    """Until a client is told of all nodes. (Ours have looked after that themselves before, which takes its time.)"""
    admin = AdminClient(connecting | {"log_level": 0, "reconnect.backoff.max.ms": 100})
    give_up_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < give_up_s:
        with suppress(KafkaException):
            if len(admin.list_topics(timeout=2).brokers) == BROKERS:
                return
        time.sleep(_TICK_S)
    raise TimeoutError(f"not all of {BROKERS} nodes are there after {_PATIENCE_S:g} s")
