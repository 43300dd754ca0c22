"""Three nodes, from ``minikafka cluster start`` to its return: all answer, all are members, there is a controller."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.clusters import BROKERS, broker_cpu
from benchmarks.machine import adopt_cpu_seconds
from benchmarks.report import Figure, Run, Target
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.ports import free_base_port

SUMMARY = "three nodes, from the command to ready"
PROGRAM = Path(sys.executable).with_name("minikafka")


def run(run: Run) -> list[Figure]:
    """Ten new clusters, one after the other."""
    _start_once()  # reads the files from the disk and compiles what was not compiled yet
    seconds = []
    for _ in range(run.times(10)):
        seconds.append(_start_once())
        run.say(f"ready after {seconds[-1]:.2f} s")
    return [
        Figure(
            "cluster start to ready, median", median(seconds), "s", Target("<", 2.0), f"{len(seconds)} new clusters"
        ),
        Figure("cluster start to ready, slowest", max(seconds), "s"),
    ]


def _start_once() -> float:
    with tempfile.TemporaryDirectory(prefix="minikafka-bench-") as parent:
        directory = Path(parent) / "cluster"
        base_port = free_base_port(BROKERS)
        command = [str(PROGRAM), "cluster", "start", "--dir", str(directory), "--base-port", str(base_port)]
        began = time.monotonic()
        try:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            return time.monotonic() - began
        finally:
            cluster = LocalCluster.open(directory)
            adopt_cpu_seconds(sum(broker_cpu(cluster).values()))
            cluster.kill_all()
