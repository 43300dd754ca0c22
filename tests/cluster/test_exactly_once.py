"""Consume, transform, produce, exactly once: applications and nodes are killed, and each record is copied once.

``EXACTLY_ONCE_S=300 pytest -s tests/cluster/test_exactly_once.py`` breaks things at random for so many seconds, with
``EXACTLY_ONCE_SEED`` (default: the time) and ``EXACTLY_ONCE_CLIENT`` (confluent-kafka, aiokafka or kafka-python);
``EXACTLY_ONCE_JAVA``, a class path of Kafka's tools, has Kafka's own ``TransactionalMessageCopier`` do the work. Here:
one of each.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_applications import Faults
from cluster_copying import Copying, java_copier, python_copier
from live_cluster import StartCluster

SECONDS = float(os.environ.get("EXACTLY_ONCE_S", 0))
SEED = int(os.environ.get("EXACTLY_ONCE_SEED", time.time()))
CLIENT = os.environ.get("EXACTLY_ONCE_CLIENT", "confluent-kafka")
CLASS_PATH = os.environ.get("EXACTLY_ONCE_JAVA")
RECORDS = int(SECONDS * 1_400) or 1_000
RECORDS_PER_TRANSACTION = 100 if SECONDS else 20


@pytest.fixture
def copying(start_cluster: StartCluster, tmp_path: Path) -> Iterator[Copying]:
    cluster = start_cluster(group_min_session_timeout_ms="2000")  # the partitions of a dead copier are handed on soon
    per = RECORDS_PER_TRANSACTION
    command = java_copier(CLASS_PATH, per) if CLASS_PATH else python_copier(CLIENT, per, abort_every=10)
    copying = Copying(cluster, tmp_path, RECORDS, command, copiers=2)
    yield copying
    copying.stop()


@pytest.mark.spec("P1", "P3", "T23", "T40")
def test_each_record_is_copied_once_whatever_is_killed(copying: Copying) -> None:
    faults = Faults(copying, SEED)
    if not SECONDS:
        for act in (faults.kill_application, faults.kill_coordinator):  # who leads a part of the output, too
            copying.wait_for_more()
            act()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and copying.committed() < RECORDS:
        faults.one()
        faults.wait()
        print(f"seed {SEED}: {copying.committed()} of {RECORDS}, {copying.starts} starts, {dict(faults.done)}")
    copying.finish(60 + 2 * SECONDS)
