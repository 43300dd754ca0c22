"""Kafka Streams with ``exactly_once_v2`` counts words; applications, their state, and nodes are lost meanwhile.

``STREAMS_S=300 pytest -s tests/cluster/test_streams.py`` breaks things at random for so many seconds, with
``STREAMS_SEED`` (default: the time). Here: one of each.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_applications import Faults
from cluster_counting import Counting, NotHereError, compiled
from live_cluster import StartCluster

SECONDS = float(os.environ.get("STREAMS_S", 0))
SEED = int(os.environ.get("STREAMS_SEED", time.time()))
LINES_AT_ONCE = 1_000 if SECONDS else 100


@pytest.fixture(scope="session")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    try:
        return compiled(tmp_path_factory.mktemp("classes"))
    except NotHereError as error:
        pytest.skip(str(error))


@pytest.fixture
def counting(class_path: str, start_cluster: StartCluster, tmp_path: Path) -> Iterator[Counting]:
    cluster = start_cluster(group_min_session_timeout_ms="2000")
    counting = Counting(cluster, tmp_path, class_path, instances=2 if SECONDS else 1, seed=SEED)
    counting.tend()
    yield counting
    counting.stop()


@pytest.mark.spec("P1", "P3", "T23", "T40")
def test_each_word_is_counted_once_whatever_is_killed(counting: Counting) -> None:
    faults = Faults(counting, SEED)
    counting.write(LINES_AT_ONCE)
    counting.wait_for_more()
    if not SECONDS:
        faults.kill_coordinator()
        counting.wait_for_more()
        counting.write(LINES_AT_ONCE)
        faults.kill_application()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        faults.one()
        faults.wait()
        counting.write(LINES_AT_ONCE)
        print(f"seed {SEED}: {counting.lines} lines, {counting.starts} starts, {dict(faults.done)}")
    counting.finish(60 + SECONDS)
