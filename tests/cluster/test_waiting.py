"""What the command line says while a cluster cannot serve it, and at last."""

from __future__ import annotations

import pytest
from cluster_cli import CommandLine
from live_cluster import StartCluster, eventually

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.client import Admin
from minikafka.errors import ErrorCode, KafkaError


@pytest.fixture
def cluster(start_cluster: StartCluster) -> LocalCluster:
    return start_cluster(3)


def says(cluster: LocalCluster, *words: str, given: bytes | None = None) -> str:
    return CommandLine(cluster.layout.directory)(*words, fails=True, given=given).decode()


async def test_a_lost_quorum_is_named_while_it_is_waited_for_and_at_last(cluster: LocalCluster) -> None:
    async with Admin(cluster.bootstrap_servers) as admin:
        quorum = await admin.describe_quorum()
        assert quorum.leader_id in quorum.voters
        assert quorum.voters.keys() == {1, 2, 3}
        controller = quorum.leader_id
        survivor = next(node for node in cluster.node_ids if node != controller)
        lost = sorted({1, 2, 3} - {survivor})
        cluster.kill(*lost)
        with pytest.raises(KafkaError) as raised:
            await admin.describe_quorum()
    assert raised.value.code is ErrorCode.NOT_CONTROLLER
    nobody = f"node {survivor} has no contact to nodes {lost[0]}, {lost[1]}"
    *waiting, last = says(cluster, "topic", "create", "orders", "--timeout", "8").splitlines()
    assert waiting[-1].startswith("waiting: the metadata quorum")  # what it sees may change before that
    assert waiting[-1].endswith(nobody)
    assert last.endswith(nobody)
    given = says(cluster, "produce", "orders", "--timeout", "8", given=b"one\n").splitlines()
    assert [line for line in given if line.startswith("waiting: ")]
    assert given[-1].endswith(nobody)
    status = CommandLine(cluster.layout.directory).run("cluster", "status").stdout.decode()
    (told,) = [line for line in status.splitlines() if line.startswith("no active controller: the metadata quorum")]
    assert told.endswith(nobody)
    for verb in ("topic list", "topic describe", "reassign --list"):
        shown = CommandLine(cluster.layout.directory).run(*verb.split()).stderr.decode()
        assert shown.splitlines()[-1].startswith("may be outdated: the metadata quorum"), verb
        assert nobody in shown, verb
    assert nobody in says(cluster, "cluster", "drain", str(survivor))
    log = cluster.layout.log_file(survivor).read_text()
    eventually(lambda: "no controller" in cluster.layout.log_file(survivor).read_text(), "a warning")
    assert log.count("follows the metadata quorum's leader") <= 3


async def test_an_isr_that_is_too_small_is_named(cluster: LocalCluster) -> None:
    async with Admin(cluster.bootstrap_servers) as admin:
        await admin.create_topic("orders", partitions=1, replication_factor=3, configs={"min.insync.replicas": "3"})
    view = cluster.view()
    assert view is not None
    cluster.kill(next(node for node in cluster.node_ids if node != view.controller_id))
    said = says(cluster, "produce", "orders", "--timeout", "9", given=b"one\n").splitlines()
    assert "is smaller than min.insync.replicas 3" in said[0]
    assert said[-1].count("min.insync.replicas") == 1
    minikafka = CommandLine(cluster.layout.directory)
    minikafka("produce", "orders", "--acks", "1", given=b"one\n")
    unread = minikafka.run("consume", "orders", "--from-beginning", "--timeout", "6")
    assert unread.stdout == b""  # nothing is committed
    assert "is smaller than min.insync.replicas 3" in unread.stderr.decode().splitlines()[0]


async def test_a_partition_without_a_leader_is_named(cluster: LocalCluster) -> None:
    async with Admin(cluster.bootstrap_servers) as admin:
        await admin.create_topic("orders", partitions=1, replication_factor=1)
        leader = cluster.leader_of("orders")
        cluster.kill(leader)
        eventually(lambda: (view := cluster.view()) is not None and view.leaderless, "the loss to be known")
    said = says(cluster, "produce", "orders", "--timeout", "8", given=b"one\n").splitlines()
    assert said[0] == "waiting: topic 'orders': no leader of partition 0"
    assert said[-1].endswith("topic 'orders': no leader of partition 0")
