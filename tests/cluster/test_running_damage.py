"""Files go bad, or go away, under nodes that run. Nothing acknowledged is lost, and no node ends."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster_load import PARTITIONS, TOPIC, Load
from live_cluster import PATIENCE_S, controller_of, eventually, leader_of, wait_until_known
from live_wire import Wire

from minikafka.chaos.local_cluster import LocalCluster


@pytest.mark.spec("P1", "P5", "P6")
def test_bytes_that_a_running_leader_wrote_go_bad(cluster: LocalCluster, load: Load) -> None:
    """What a paused follower does not have yet is damaged at each other leader; it wakes up, and asks for it."""
    sleeper = 3
    load.wait_for_more()
    victims = {
        partition: leader
        for partition in range(PARTITIONS)
        if (leader := leader_of(cluster, TOPIC, partition)) != sleeper
    }
    segments = {
        partition: max((cluster.layout.data_directory(leader) / f"{TOPIC}-{partition}").glob("*.log"))
        for partition, leader in victims.items()
    }
    cluster.pause(sleeper)
    load.wait_for_more()  # the fetch that was out is answered with the first of them
    ends = {partition: segment.stat().st_size for partition, segment in segments.items()}
    load.wait_for_more()
    for partition, segment in segments.items():
        eventually(lambda segment=segment, partition=partition: segment.stat().st_size > ends[partition] + 1000, "more")
        flip(segment, ends[partition] + 500)
    cluster.resume(sleeper)
    for leader in victims.values():
        wait_for_line(cluster, leader, "replica damaged")
    load.wait_for_more()
    cluster.wait_in_sync(PATIENCE_S)
    load.finish()


def remove_active(directory: Path) -> None:
    max(directory.glob("*.log")).unlink()


def remove_files(directory: Path) -> None:
    for path in directory.iterdir():
        path.unlink()


TAKEN_AWAY: tuple[Callable[[Path], object], ...] = (shutil.rmtree, remove_active, remove_files)
assert len(TAKEN_AWAY) == PARTITIONS


@pytest.mark.spec("P1", "P5", "P6")
@pytest.mark.long
def test_files_of_leaders_are_taken_away_while_they_run(cluster: LocalCluster, load: Load) -> None:
    """Of each partition in another way, where it is led: the node hands over and fetches it again. No node ends."""
    load.wait_for_more()
    before = pids(cluster)
    for partition, take_away in enumerate(TAKEN_AWAY):
        leader = leader_of(cluster, TOPIC, partition)
        take_away(cluster.layout.data_directory(leader) / f"{TOPIC}-{partition}")
        wait_for_line(cluster, leader, "the log is whole again")
    load.wait_for_more()
    cluster.wait_in_sync(PATIENCE_S)
    assert pids(cluster) == before
    load.finish()


@pytest.mark.long
@pytest.mark.spec("P1", "P6")
def test_checkpoints_are_taken_away_while_a_node_runs(cluster: LocalCluster, load: Load) -> None:
    """They are written again; and without them a start looks at more."""
    load.wait_for_more()
    data = cluster.layout.data_directory(1)
    for path in data.glob("*-checkpoint"):
        path.unlink()
    eventually((data / "replication-offset-checkpoint").exists, "a checkpoint")
    for path in data.glob("*-checkpoint"):
        path.unlink()
    cluster.kill_all()
    cluster.start(PATIENCE_S)
    load.wait_for_more()
    load.finish()


@pytest.mark.spec("P1", "P5", "P6")
def test_the_metadata_log_of_the_running_controller_goes_bad(cluster: LocalCluster) -> None:
    """It is found when a voter that was away asks for it: the node begins anew and is repaired, another leads."""
    controller = controller_of(cluster)
    away = next(node_id for node_id in cluster.node_ids if node_id != controller)
    before = cluster.process(controller)
    cluster.kill(away)
    log = max((cluster.layout.data_directory(controller) / "__cluster_metadata-0").glob("*.log"))
    end = log.stat().st_size
    with Wire(cluster.layout.client_port(controller)) as wire:
        wire.create_topic("while-away", [[controller]])
    eventually(lambda: log.stat().st_size > end + 100, "its records")
    flip(log, end + 70)
    cluster.start(PATIENCE_S)
    wait_for_line(cluster, controller, "the metadata log is damaged")
    wait_until_known(cluster, "while-away", 1)
    after = cluster.process(controller)
    assert before is not None
    assert after is not None
    assert after.pid == before.pid, "it begins anew by itself"
    mark = log.parent / "repair-in-progress"
    eventually(lambda: not mark.exists(), "the repair")
    with Wire(cluster.layout.client_port(controller)) as wire:
        eventually(lambda: wire.has_topic("while-away"), "it to know the topic")
    assert cluster.layout.log_file(controller).read_text().count("started ") == 2


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1]))


def pids(cluster: LocalCluster) -> list[int | None]:
    processes = map(cluster.process, cluster.node_ids)
    return [None if process is None else process.pid for process in processes]


def wait_for_line(cluster: LocalCluster, node_id: int, line: str) -> None:
    eventually(lambda: line in cluster.layout.log_file(node_id).read_text(), f"node {node_id} to say: {line}")
