"""Topics archived into a lake while records flow in, brokers are killed, and the archiving driver is killed, at random.

Each time the driver gets SIGKILL at a random moment: while it starts, reads, writes, commits, or puts small files
together. Its successor is the same command. In the end the lake is read as any reader of Delta tables would read it,
and compared with what the producer was promised. LAKE=s3://bucket/lake archives into an object store. STANDALONE=1 lets
Spark write, on a standalone master with two workers.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from deltalake import DeltaTable

from benchmarks.clusters import create_topic, running_cluster, settled_view
from benchmarks.report import Figure, Run, Target, percentile
from benchmarks.standalone import standalone
from benchmarks.traffic import Traffic, flowing, safety
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.workload import record_id
from minikafka.client import Consumer
from minikafka.model import TopicPartition

SUMMARY = "topics to a lake, each offset once, under kills of drivers and brokers"
TOPIC: Final = "archived"
PARTITIONS: Final = 6
RATE: Final = 2_000
KILLS: Final = 20
SEED: Final = 20
_LIFE_MAX_S: Final = 8.0  # how long a driver lives at most after its first commit
_BROKER_IS_UP_S: Final = 12.0
_BROKER_IS_DOWN_S: Final = 3.0
_PATIENCE_S: Final = 240.0
_TICK_S: Final = 0.05


def run(run: Run) -> list[Figure]:
    """Twenty kills."""
    rng = random.Random(SEED)
    first_commits = []
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="minikafka-lake-"))
        cluster = stack.enter_context(running_cluster())
        lake = os.environ.get("LAKE", f"{directory}/lake")
        spark = ["--master", stack.enter_context(standalone(Path(directory)))] if "STANDALONE" in os.environ else []
        create_topic(cluster, TOPIC, partitions=PARTITIONS)
        with flowing(cluster, TOPIC, PARTITIONS, RATE) as traffic:
            with _broker_kills(cluster, traffic, rng) as killed:
                for number in range(run.times(KILLS)):
                    seconds = _archive_and_die(cluster, lake, spark, rng, is_early=number % 5 == 4)
                    traffic.mark("kill the driver")
                    run.say(
                        f"driver {number + 1}: {seconds:.1f} s, {_commits(lake)} commits, {len(killed)} brokers killed"
                    )
                    first_commits.append(seconds)
            settled_view(cluster)
        _archive(cluster, lake, "--per-commit", "1000000", *spark).wait(_PATIENCE_S)
        ends = asyncio.run(_ends(cluster))
        verdict = traffic.verdict()
        found = _Found(lake, ends, traffic)
    return [
        Figure("drivers killed", len(first_commits), note=f"and {len(killed)} brokers"),
        Figure("records in the topic", sum(ends.values()), note=f"{found.files} files, {found.commits} commits"),
        Figure("offsets missing in the lake", found.missing, "", Target("=", 0)),
        Figure("offsets in the lake more than once", found.doubled, "", Target("=", 0)),
        Figure("acknowledged records that are others in the lake", found.different, "", Target("=", 0)),
        Figure("life of a driver, median", percentile(first_commits, 0.5), "s", note="its start included"),
        *safety(verdict),
    ]


class _Found:
    """The lake, read as any reader would, against what should be there."""

    def __init__(self, lake: str, ends: dict[TopicPartition, int], traffic: Traffic) -> None:
        table = DeltaTable(lake)
        self.files, self.commits = len(table.file_uris()), table.version()
        seen: dict[int, Counter[int]] = defaultdict(Counter)
        ids: dict[tuple[str, int], str] = {}
        for row in table.to_pyarrow_table(columns=["partition", "offset", "key", "value"]).to_pylist():
            seen[row["partition"]][row["offset"]] += 1
            ids[f"{TOPIC}-{row['partition']}", row["offset"]] = record_id(row["key"].decode(), row["value"])
        self.doubled = sum(times > 1 for counts in seen.values() for times in counts.values())
        self.missing = sum(end - len(seen[tp.partition]) for tp, end in ends.items())
        self.different = sum(ids.get((name, offset)) != record for name, record, offset in traffic.acknowledged())


def _archive_and_die(
    cluster: LocalCluster, lake: str, spark: list[str], rng: random.Random, *, is_early: bool
) -> float:
    """Start a driver, kill it at a random moment after its first commit, or before; how long it lived."""
    began, before = time.monotonic(), _commits(lake)
    small = ("--follow", "--every", "0.2", "--per-commit", "4000", "--compact-at", "4")
    driver = _archive(cluster, lake, *small, *spark)
    try:
        if is_early:
            time.sleep(rng.uniform(0, 2 * _LIFE_MAX_S))
        else:
            while _commits(lake) == before and time.monotonic() - began < _PATIENCE_S:
                assert driver.poll() is None, f"the driver ended by itself with {driver.returncode}"
                time.sleep(_TICK_S)
            time.sleep(rng.uniform(0, _LIFE_MAX_S))
        assert driver.poll() is None, f"the driver ended by itself with {driver.returncode}"
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    return time.monotonic() - began


def _archive(cluster: LocalCluster, lake: str, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "minikafka", "pipeline", "archive", TOPIC, "--to", lake]
    command += ["-b", cluster.bootstrap_servers, *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _commits(lake: str) -> int:
    return DeltaTable(lake).version() if DeltaTable.is_deltatable(lake) else 0


@contextmanager
def _broker_kills(cluster: LocalCluster, traffic: Traffic, rng: random.Random) -> Iterator[list[int]]:
    """While the block lasts a broker is killed now and then, and comes back before the next one goes."""
    killed: list[int] = []
    finish = threading.Event()

    def kill() -> None:
        while not finish.wait(rng.uniform(0.5, 1.5) * _BROKER_IS_UP_S):
            node_id = rng.choice(cluster.node_ids)
            killed.append(node_id)
            traffic.mark(f"kill node {node_id}")
            cluster.kill(node_id)
            finish.wait(_BROKER_IS_DOWN_S)
            cluster.start_node(node_id, _PATIENCE_S)
            cluster.wait_in_sync(_PATIENCE_S)

    thread = threading.Thread(target=kill, name="broker-kills")
    thread.start()
    try:
        yield killed
    finally:
        finish.set()
        thread.join()


async def _ends(cluster: LocalCluster) -> dict[TopicPartition, int]:
    async with Consumer(cluster.bootstrap_servers) as consumer:
        return await consumer.end_offsets([TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)])
