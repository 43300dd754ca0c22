"""A node whose log cannot be written: what it cannot say ends nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import IO

import pytest
from cluster_load import Load
from live_cluster import PATIENCE_S, controller_of

from minikafka.chaos.local_cluster import LocalCluster

Output = Callable[[], IO[bytes]]


def to_a_full_disk() -> IO[bytes]:
    return open("/dev/full", "wb", buffering=0)


def to_nobody() -> IO[bytes]:
    reading, writing = os.pipe()
    os.close(reading)
    return os.fdopen(writing, "wb", buffering=0)


@pytest.mark.spec("P6")
@pytest.mark.parametrize("output", [to_a_full_disk, pytest.param(to_nobody, marks=pytest.mark.long)])
def test_a_node_that_cannot_write_its_log_serves_and_stops(cluster: LocalCluster, load: Load, output: Output) -> None:
    """It leads, follows, votes, and ends in an orderly way: each of these is an event that it cannot say."""
    node_id = controller_of(cluster)
    cluster.kill(node_id)
    words = [sys.executable, "-m", "minikafka.broker", "--config", str(cluster.layout.config_file(node_id))]
    with output() as lines:
        process = subprocess.Popen(words, stdout=lines, stderr=lines)
    try:
        cluster.layout.pid_file(node_id).write_text(f"{process.pid}\n")
        cluster.wait_in_sync(PATIENCE_S)
        cluster.kill(controller_of(cluster))
        load.wait_for_more()
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
    cluster.start(PATIENCE_S)
    load.finish()
