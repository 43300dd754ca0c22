"""Two log directories on each of three real nodes: one fails under load, replicas move and the mover is killed."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from cluster_load import PARTITIONS, TOPIC, Load
from live_cluster import PATIENCE_S, StartCluster, eventually, partition_view

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.client import Admin
from minikafka.model import TopicPartition

WHERE = TopicPartition(TOPIC, 0)


@pytest.fixture
def cluster(start_cluster: StartCluster) -> LocalCluster:
    return start_cluster(
        log_dirs="first,second",
        log_segment_bytes="200000",
        replica_alter_log_dirs_io_max_bytes_per_second="400000",
    )


def holders(cluster: LocalCluster, node_id: int, tp: TopicPartition) -> list[Path]:
    """Everything on a node that has to do with a partition."""
    return sorted(cluster.layout.node_directory(node_id).glob(f"*/{tp}*"))


def link_data(cluster: LocalCluster) -> None:
    """``data`` of each node shows the replicas of both directories, for :func:`assert_replicas_equal`."""
    for node_id in cluster.node_ids:
        data = cluster.layout.data_directory(node_id)
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()
        for index in range(PARTITIONS):
            tp = TopicPartition(TOPIC, index)
            (found,) = holders(cluster, node_id, tp)
            (data / str(tp)).symlink_to(found)


async def move(cluster: LocalCluster, node_id: int, path: Path) -> None:
    async with Admin(cluster.bootstrap_servers) as admin:
        outcomes = await admin.alter_replica_log_dirs(node_id, {WHERE: str(path)})
    assert outcomes == {WHERE: None}


@pytest.mark.spec("A5", "P1", "R22")
def test_a_replica_moves_under_load_though_its_node_is_killed(cluster: LocalCluster, load: Load) -> None:
    load.wait_for_more()
    (before,) = holders(cluster, 1, WHERE)
    target = before.parent.with_name("second" if before.parent.name == "first" else "first")
    asyncio.run(move(cluster, 1, target))
    eventually(lambda: list(target.glob(f"{WHERE}*")), "the copy to begin")
    cluster.kill(1)
    cluster.start_node(1, PATIENCE_S)
    eventually(lambda: holders(cluster, 1, WHERE) == [target / str(WHERE)], "the move to be completed")
    load.wait_for_more()
    link_data(cluster)
    load.finish()


@pytest.mark.spec("R12", "P1", "E3")
def test_a_directory_that_fails_costs_nothing_that_was_acknowledged(cluster: LocalCluster, load: Load) -> None:
    """Its files are replaced by one that cannot be opened: the next segment of any log in it cannot be made."""
    home = cluster.layout.node_directory(1)
    lost = home / "second"
    there = [path.name for path in lost.glob(f"{TOPIC}-*")]
    assert there, "at least one partition of three is in the second directory"
    lost.rename(home / "away")
    lost.write_text("not a directory")
    for name in there:
        index = int(name.rpartition("-")[2])
        eventually(
            lambda index=index: 1 not in partition_view(cluster, TOPIC, index).in_sync_replicas,  # type: ignore[misc]
            "node 1 to be out of the ISR",
        )
    load.wait_for_more()
    assert cluster.process(1) is not None
    elsewhere = [index for index in range(PARTITIONS) if f"{TOPIC}-{index}" not in there]
    assert all(1 in partition_view(cluster, TOPIC, index).in_sync_replicas for index in elsewhere)
    cluster.kill(1)
    lost.unlink()
    (home / "away").rename(lost)
    cluster.start_node(1, PATIENCE_S)
    cluster.wait_in_sync(PATIENCE_S)
    load.wait_for_more()
    link_data(cluster)
    load.finish()


@pytest.mark.spec("R12", "P1", "P5")
def test_a_directory_that_is_not_mounted_waits_for_its_file_system(cluster: LocalCluster, load: Load) -> None:
    """An empty mount point is not made anew. Once it is said that the disk was replaced, it is."""
    home = cluster.layout.node_directory(1)
    second = home / "second"
    there = [path.name for path in second.glob(f"{TOPIC}-*")]
    assert there, "at least one partition of three is in the second directory"
    cluster.kill(1)
    second.rename(home / "away")
    second.mkdir()
    cluster.start_node(1, PATIENCE_S)
    said = cluster.layout.log_file(1).read_text()
    assert "second is empty and held log directory" in said
    load.wait_for_more()
    assert [path.name for path in second.iterdir()] == [".lock"]
    for name in there:
        assert not (home / "first" / name).exists(), "it is not made anew elsewhere"
        index = int(name.rpartition("-")[2])
        assert 1 not in partition_view(cluster, TOPIC, index).in_sync_replicas
    cluster.kill(1)
    shutil.rmtree(second)
    (home / "away").rename(second)
    cluster.start_node(1, PATIENCE_S)
    cluster.wait_in_sync(PATIENCE_S)
    load.wait_for_more()
    cluster.kill(1)
    shutil.rmtree(second)
    second.mkdir()
    (second / "replaced").touch()
    cluster.start_node(1, PATIENCE_S)
    cluster.wait_in_sync(PATIENCE_S)
    link_data(cluster)
    load.finish()
