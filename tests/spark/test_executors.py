"""Executors and Python workers that die: what they were reading is read again, and nothing twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest
from confluent_kafka import Producer

from minikafka.chaos.local_cluster import LocalCluster

SCRIPT = Path(__file__).with_name("killed_executors.py")
COUNT = 9_000  # in each partition


@pytest.mark.long
def test_each_offset_is_read_once_whoever_is_killed(cluster: LocalCluster, created: str, tmp_path: Path) -> None:
    """On a Spark of its own with two executors, each a process; in a batch and in a stream."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "queue.buffering.max.messages": 200_000})
    for number in range(3 * COUNT):
        producer.produce(created, str(number), partition=number % 3)
    assert producer.flush(60) == 0
    command = [sys.executable, str(SCRIPT), cluster.bootstrap_servers, created, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, _first_and_last(done.stderr)
    killed = json.loads(done.stdout.splitlines()[-1])
    for how in ("batch", "stream"):
        assert {"executor", "worker"} == set(killed[how])
        rows = pyarrow.parquet.read_table(tmp_path / how, columns=["partition", "offset"])
        found = sorted(zip(*(column.to_pylist() for column in rows.columns), strict=True))
        assert found == [(partition, offset) for partition in range(3) for offset in range(COUNT)]


def _first_and_last(lines: str, size: int = 6000) -> str:
    """Spark says much after the error that ended it."""
    return lines if len(lines) <= 2 * size else f"{lines[:size]}\n...\n{lines[-size:]}"
