"""Kafka Streams counts words, exactly once and at least once; applications, their state, and nodes are lost meanwhile.

``STREAMS_S=300 pytest -s tests/cluster/test_streams.py`` breaks things at random for so many seconds, with
``STREAMS_SEED`` (default: the time). Here: one of each.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster_applications import Faults
from cluster_counting import Counting, CountingAtLeastOnce, compiled_word_count
from live_cluster import StartCluster, eventually
from live_java import NotHereError

SECONDS = float(os.environ.get("STREAMS_S", 0))
SEED = int(os.environ.get("STREAMS_SEED", time.time()))
LINES_AT_ONCE = 1_000 if SECONDS else 100


@pytest.fixture(scope="package")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    try:
        return compiled_word_count(tmp_path_factory.mktemp("classes"))
    except NotHereError as error:
        pytest.skip(str(error))


@contextmanager
def running(counting: Counting) -> Iterator[Counting]:
    counting.tend()
    try:
        yield counting
    finally:
        counting.stop()


def break_at_random(counting: Counting) -> None:
    """For so many seconds; more lines each time."""
    faults = Faults(counting, SEED)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        faults.one()
        faults.wait()
        counting.write(LINES_AT_ONCE)
        print(f"seed {SEED}: {counting.lines} lines, {counting.starts} starts, {dict(faults.done)}")


@pytest.mark.spec("P1", "P3", "T23", "T40")
@pytest.mark.long
def test_each_word_is_counted_once_whatever_is_killed(
    class_path: str, start_cluster: StartCluster, tmp_path: Path
) -> None:
    cluster = start_cluster(group_min_session_timeout_ms="2000")
    with running(Counting(cluster, tmp_path, class_path, instances=2 if SECONDS else 1, seed=SEED)) as counting:
        faults = Faults(counting, SEED)
        counting.write(LINES_AT_ONCE)
        counting.wait_for_more()
        if not SECONDS:
            faults.kill_coordinator()
            counting.wait_for_more()
            counting.write(LINES_AT_ONCE)
            faults.kill_application()
        break_at_random(counting)
        counting.finish(60 + SECONDS)


@pytest.mark.long
def test_no_word_is_lost_at_least_once_and_what_was_counted_is_purged(
    class_path: str, start_cluster: StartCluster, tmp_path: Path
) -> None:
    """Stores are restored from their changelogs, or taken over from standbys."""
    cluster = start_cluster(group_min_session_timeout_ms="2000")
    with running(CountingAtLeastOnce(cluster, tmp_path, class_path, instances=2, seed=SEED)) as counting:
        faults = Faults(counting, SEED)
        counting.write(LINES_AT_ONCE)
        counting.wait_for_more()
        eventually(counting.has_standbys, "standby tasks")
        faults.kill_group_coordinator()
        counting.write(LINES_AT_ONCE)
        faults.kill_application()
        break_at_random(counting)
        counting.finish(60 + SECONDS)
