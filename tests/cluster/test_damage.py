"""All nodes are killed, and then files go bad: in each partition the leader's. Nothing acknowledged is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster_load import PARTITIONS, TOPIC, Load
from live_cluster import PATIENCE_S, StartCluster, eventually, leader_of
from live_wire import Wire

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.records.batch import iter_batches
from minikafka.storage.disk import OsDisk
from minikafka.storage.segment_list import SegmentList


def flip_last_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def empty(path: Path) -> None:
    path.write_bytes(b"")


DAMAGES: tuple[tuple[tuple[str, Callable[[Path], object]], ...], ...] = (
    (("partition.metadata", empty), ("{segment}", flip_last_byte), ("{segment}", Path.unlink)),
    (("partition.metadata", Path.unlink), ("{segment}", cut), ("", shutil.rmtree)),
)
"""What is done to a file, or to the directory: to each partition something else."""


@pytest.mark.spec("P1", "P5", "P6")
@pytest.mark.parametrize(
    "damages", [DAMAGES[0], pytest.param(DAMAGES[1], marks=pytest.mark.long)], ids=("some", "other")
)
def test_a_damaged_replica_of_each_partition_costs_nothing(
    cluster: LocalCluster, load: Load, damages: tuple[tuple[str, Callable[[Path], object]], ...]
) -> None:
    """Rows 1 and 2 of issue 11. Each node has one that is damaged, and the others' whole copies of it."""
    load.wait_for_more()
    leaders = {partition: leader_of(cluster, TOPIC, partition) for partition in range(PARTITIONS)}
    cluster.kill_all()
    for (partition, leader), (file, damage) in zip(leaders.items(), damages, strict=True):
        directory = cluster.layout.data_directory(leader) / f"{TOPIC}-{partition}"
        damage(directory / file.format(segment=max(path.name for path in directory.glob("*.log"))))
    cluster.start(PATIENCE_S)
    cluster.wait_in_sync(PATIENCE_S)
    load.wait_for_more()
    load.finish()


@pytest.mark.spec("P1", "P5")
def test_segments_that_are_missing_as_a_whole_cost_nothing(start_cluster: StartCluster) -> None:
    """Findings 2 and 3: the first one, one in the middle, and the end of one, of each partition where it is led."""
    cluster = start_cluster(log_segment_bytes="20000")
    load = Load(cluster, rate=2000, batch_size=5000)
    try:
        leaders = {partition: leader_of(cluster, TOPIC, partition) for partition in range(PARTITIONS)}
        directories = [
            cluster.layout.data_directory(leader) / f"{TOPIC}-{partition}" for partition, leader in leaders.items()
        ]
        eventually(lambda: all(len(listed(directory)) > 3 for directory in directories), "four segments, and listed")
        cluster.kill_all()
        for directory, at in zip(directories, (0, 1, 1), strict=True):
            base = listed(directory)[at]
            if directory is directories[-1]:
                cut_between_batches(directory / f"{base:020d}.log")
                continue
            for path in directory.glob(f"{base:020d}.*"):
                path.unlink()
        cluster.start(PATIENCE_S)
        cluster.wait_in_sync(PATIENCE_S)
        load.wait_for_more()
        load.finish()
    finally:
        load.abandon()


def cut_between_two_batches(path: Path) -> None:
    data = path.read_bytes()
    starts = [position for position, _header in iter_batches(data)]
    path.write_bytes(data[: starts[len(starts) // 2]])


@pytest.mark.spec("P1", "P5")
def test_logs_that_lost_their_last_records_whole_cost_nothing(start_cluster: StartCluster) -> None:
    """Of each partition where it is led, before any checkpoint: the file it wrote last is cut, emptied, or removed."""
    cluster = start_cluster(log_segment_bytes="20000", replica_high_watermark_checkpoint_interval_ms="3600000")
    load = Load(cluster, rate=2000, batch_size=5000)
    try:
        leaders = {partition: leader_of(cluster, TOPIC, partition) for partition in range(PARTITIONS)}
        directories = [
            cluster.layout.data_directory(leader) / f"{TOPIC}-{partition}" for partition, leader in leaders.items()
        ]
        eventually(lambda: all(len(segments(directory)) > 1 for directory in directories), "two segments")
        cluster.kill_all()
        for directory, damage in zip(directories, (cut_between_two_batches, empty, Path.unlink), strict=True):
            damage(segments(directory)[-1])
        cluster.start(PATIENCE_S)
        cluster.wait_in_sync(PATIENCE_S)
        load.wait_for_more()
        load.finish()
    finally:
        load.abandon()


def segments(directory: Path) -> list[Path]:
    """Those that hold something, oldest first."""
    return sorted(path for path in directory.glob("*.log") if path.stat().st_size)


def cut_between_batches(path: Path) -> None:
    *_, (last, _header) = iter_batches(path.read_bytes())
    os.truncate(path, last)


def listed(directory: Path) -> list[int]:
    return sorted(SegmentList(OsDisk(), str(directory)).durable)


@pytest.mark.spec("P5", "P6")
def test_an_only_voter_whose_metadata_log_has_a_flipped_bit_says_what_to_do(start_cluster: StartCluster) -> None:
    """Row 26 of issue 11: nobody can repair it. It ran on, never led, and said that it fetched the log again."""
    cluster = start_cluster(1)
    with Wire(cluster.layout.client_port(1)) as wire:
        wire.create_topic("orders", [[1]])
    cluster.kill_all()
    directory = cluster.layout.data_directory(1) / "__cluster_metadata-0"
    path = directory / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    for _ in range(2):  # also when a supervisor starts it again
        refused = subprocess.run(
            [sys.executable, "-m", "minikafka.broker", "--config", str(cluster.layout.config_file(1))],
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert refused.returncode == 1
        said = (refused.stdout + refused.stderr).decode()
        assert "Traceback" not in said
        (line,) = [line for line in said.splitlines() if "[critical" in line]
        for part in ("only voter is damaged", f"Restore {directory} from a backup", "needs-refetch", "start the node"):
            assert part in line
        assert "StorageFailure" not in line, "it is for people"
    (aside,) = directory.glob("*.corrupt")
    assert path.read_bytes() + aside.read_bytes() == data, "nothing is thrown away"
    for name in ("needs-refetch", "repair-in-progress"):  # as it says
        (directory / name).unlink(missing_ok=True)
    cluster.start(PATIENCE_S)
    with Wire(cluster.layout.client_port(1)) as wire:
        wire.create_topic("after", [[1]])
