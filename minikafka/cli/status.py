"""``minikafka cluster status``: the nodes of a local cluster, or the brokers of any."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from minikafka.cli.cluster import open_cluster
from minikafka.cli.describing import PATIENCE_S
from minikafka.cli.held_back import HeldBack, held_back_for_long, sentence
from minikafka.cli.options import (
    ADMIN_TIMEOUT_S,
    SERVERS_VARIABLE,
    AsJson,
    Directory,
    Target,
    Timeout,
    cluster_directory,
    target,
)
from minikafka.cli.output import print_json, print_line, print_table, size
from minikafka.cli.run import run_with_admin
from minikafka.errors import KafkaError
from minikafka.model import TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from minikafka.chaos.cluster_status import ClusterStatus, NodeStatus
    from minikafka.chaos.local_cluster import LocalCluster
    from minikafka.client import Admin
    from minikafka.client.cluster import Cluster

PARTITIONS_NAMED: Final = 5
LISTENS_S: Final = 0.5
NODE_COLUMNS: Final = (
    "node",
    "state",
    "pid#",
    "client, replication,\ncontroller port",
    "rss#",
    "leads#",
    "under-\nreplicated#",
)
SHOW_UNDER_REPLICATED: Final = "topic describe --under-replicated"
SHOW_TRANSACTIONS: Final = "topic describe"
HEALTHY: Final = "healthy: every replica is in sync"
BROKER_COLUMNS: Final = ("broker", "address", "rack", "leads#", "under-\nreplicated#")


def status(
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "-b",
            help="Any cluster: HOST:PORT[,HOST:PORT...].",
            show_default=f"${SERVERS_VARIABLE}, else the cluster of --dir, else 127.0.0.1:19092",
        ),
    ] = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Show every node: process, ports, memory, leaderships, and partitions under-replicated or without a leader.

    With -b, or where none was started here but one listens on the default port: the brokers, as they describe it.
    Exit code: 0 when the cluster is healthy, else 1.
    """
    if bootstrap is None and directory is None:
        bootstrap = os.environ.get(SERVERS_VARIABLE) or _of_others()
    if bootstrap is not None:
        cluster_of = target(bootstrap, directory)
        run_with_admin(lambda admin: _brokers(admin, cluster_of, as_json), cluster_of, timeout)
        return
    from minikafka.chaos.cluster_status import cluster_status

    cluster = open_cluster(directory)
    seen = cluster_status(cluster)
    held = _ask_held_back(cluster, seen)
    if as_json:
        print_json(_as_json(cluster, seen, held))
    else:
        _print(cluster, seen, held)
    if not seen.healthy:
        raise typer.Exit(1)


def _of_others() -> str | None:
    """The default port, if no cluster was started from this machine's command line, but somebody listens there: the
    compose file's nodes, say."""
    from minikafka.chaos.layout import DEFAULT_BASE_PORT, DIRECTORY_VARIABLE, HOST, ClusterLayout

    if os.environ.get(DIRECTORY_VARIABLE) or ClusterLayout.exists(cluster_directory(None)):
        return None
    with suppress(OSError), socket.create_connection((HOST, DEFAULT_BASE_PORT), LISTENS_S):
        return f"{HOST}:{DEFAULT_BASE_PORT}"
    return None


# -- a local cluster ---------------------------------------------------------------------------------------------------


def _ask_held_back(cluster: LocalCluster, seen: ClusterStatus) -> list[HeldBack]:
    import asyncio

    from minikafka.client import Admin
    from minikafka.model import TopicPartition

    if seen.view is None or seen.controller_id is None:
        return []
    led = [
        TopicPartition(each.topic, each.partition) for each in seen.view.partitions if each not in seen.view.leaderless
    ]
    if not _has_transactions({tp.topic for tp in led}):
        return []

    async def ask() -> list[HeldBack]:
        async with (
            asyncio.timeout(PATIENCE_S),
            Admin(cluster.bootstrap_servers, security=cluster.layout.security) as admin,
        ):
            return await held_back_for_long(admin, led)

    with suppress(KafkaError, TimeoutError):
        return asyncio.run(ask())
    return []


def _has_transactions(topics: Collection[str]) -> bool:
    return TRANSACTION_STATE_TOPIC in topics


def _print(cluster: LocalCluster, seen: ClusterStatus, held: list[HeldBack]) -> None:
    from minikafka.chaos.cluster_status import losses_file
    from minikafka.chaos.probe import NOT_TOLD

    print_table(NODE_COLUMNS, map(_node_row, seen.nodes))
    if seen.controller_id is not None:
        print_line("* active controller")
    print_line(f"bootstrap.servers={cluster.bootstrap_servers}")
    for node in seen.nodes:
        if node.last_words is not None:
            print_line(f"node {node.node_id} ended: {node.last_words}")
            print_line(f"its log: {cluster.layout.log_file(node.node_id)}")
        if node.state == "paused":
            resume = cluster.layout.command(f"cluster resume {node.node_id}")
            print_line(f"node {node.node_id} is paused; resume it with: {resume}")
        if node.losses is None:
            path = losses_file(cluster, node.node_id)
            print_line(f"node {node.node_id} may report lost records, but {path} cannot be read")
        elif node.losses:
            print_line(f"node {node.node_id} reports lost records: {node.losses}")
            print_line(f"read {losses_file(cluster, node.node_id)}; remove it once you have dealt with the loss")
    if seen.view is None:
        start, logs = map(cluster.layout.command, ("cluster start", "cluster logs"))
        if running := ", ".join(str(node.node_id) for node in seen.nodes if node.state == "up"):
            waits = cluster.quorum_shortage()
            why = f": {waits}; start the others with: {start}" if waits else f", though up: {running}; see {logs}"
            refusals = (cluster.login_refusal(node.node_id) for node in seen.nodes if node.state == "up")
            print_line(next(filter(None, refusals), f"no node answers{why}"))
        else:
            print_line(f"no node answers; start the cluster with: {start}")
    elif seen.trouble == NOT_TOLD:
        print_line(f"the active controller is not told: {NOT_TOLD}")
    elif seen.controller_id is None:
        print_line(f"no active controller{f': {seen.trouble}' if seen.trouble else ''}")
        print_line("an election needs more than half of the voters; leaders and in-sync replicas are as last known")
    else:
        _print_leaderless([f"{each.topic}-{each.partition}" for each in seen.view.leaderless])
        under = sum(partition.under_replicated for partition in seen.view.partitions)
        _print_under_replicated(under, len(seen.view.partitions), cluster.layout.command(SHOW_UNDER_REPLICATED))
    if held:
        print_line(f"{sentence(held)}; see {cluster.layout.command(SHOW_TRANSACTIONS)}")
    if seen.healthy:
        print_line(HEALTHY)


def _print_leaderless(partitions: list[str]) -> None:
    if partitions:
        more = ", ..." if len(partitions) > PARTITIONS_NAMED else ""
        print_line(f"partitions without a leader: {len(partitions)} ({', '.join(partitions[:PARTITIONS_NAMED])}{more})")


def _print_under_replicated(count: int, partitions: int, show: str) -> None:
    if count:
        print_line(f"under-replicated: {count} of {partitions} partitions; see {show}")


def _node_row(node: NodeStatus) -> tuple[str, ...]:
    colour = {"up": "green", "paused": "yellow", "down": "red"}[node.state]
    state = node.state if node.live or node.state != "up" else "up, fenced"
    return (
        f"{node.node_id} *" if node.controller else str(node.node_id),
        f"[{colour}]{state}[/]",
        str(node.pid or "-"),
        f"{node.client_port} {node.replication_port} {node.controller_port}",
        size(node.rss_bytes) if node.pid else "-",
        str(node.leaders),
        _warned(node.under_replicated),
    )


def _as_json(cluster: LocalCluster, seen: ClusterStatus, held: list[HeldBack]) -> dict[str, object]:
    from dataclasses import asdict

    partitions = seen.view.partitions if seen.view else ()
    return {
        "dir": str(cluster.layout.directory),
        "cluster_id": cluster.layout.cluster_id,
        "bootstrap_servers": cluster.bootstrap_servers,
        "healthy": seen.healthy,
        "controller": seen.controller_id,
        "trouble": seen.trouble,
        "partitions": len(partitions),
        "under_replicated": sum(partition.under_replicated for partition in partitions),
        "leaderless": len(seen.view.leaderless) if seen.view else 0,
        "held_back": [_held_as_dict(each) for each in held],
        "nodes": [asdict(node) for node in seen.nodes],
    }


def _held_as_dict(each: HeldBack) -> dict[str, Any]:
    return {**each.partition._asdict(), "last_stable_offset": each.last_stable_offset, **each.as_dict()}


# -- any cluster -------------------------------------------------------------------------------------------------------


async def _brokers(admin: Admin, cluster_of: Target, as_json: bool) -> None:
    import asyncio

    from minikafka.cli.waiting import quorum_trouble
    from minikafka.model import TopicPartition

    cluster = await admin.describe_cluster()
    trouble = await quorum_trouble(admin)
    rows = list(_broker_rows(cluster))
    partitions = [(topic.name, at, each) for topic in cluster.topics.values() for at, each in topic.partitions.items()]
    leaderless = [f"{topic}-{at}" for topic, at, each in partitions if each.leader not in cluster.brokers]
    short = sum(len(each.in_sync_replicas) < len(each.replicas) for _, _, each in partitions)
    healthy = trouble is None and not leaderless and not short
    held: list[HeldBack] = []
    if trouble is None and _has_transactions(cluster.topics):
        led = [TopicPartition(topic, at) for topic, at, each in partitions if each.leader in cluster.brokers]
        with suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                held = await held_back_for_long(admin, led)
    if as_json:
        print_json(
            {
                "cluster_id": cluster.cluster_id,
                "healthy": healthy,
                "controller": cluster.controller_id if trouble is None else None,
                "partitions": len(partitions),
                "under_replicated": short,
                "leaderless": len(leaderless),
                "held_back": [_held_as_dict(each) for each in held],
                "brokers": rows,
            }
        )
    else:
        print_table(BROKER_COLUMNS, (_broker_cells(row, trouble is None) for row in rows))
        print_line(f"cluster {cluster.cluster_id}; * active controller" if trouble is None else trouble)
        _print_leaderless(leaderless)
        _print_under_replicated(short, len(partitions), cluster_of.command(SHOW_UNDER_REPLICATED))
        if held:
            print_line(f"{sentence(held)}; see {cluster_of.command(SHOW_TRANSACTIONS)}")
        if healthy:
            print_line(HEALTHY)
    if not healthy:
        raise typer.Exit(1)


def _broker_rows(cluster: Cluster) -> Iterable[dict[str, Any]]:
    partitions = [partition for topic in cluster.topics.values() for partition in topic.partitions.values()]
    for broker_id, endpoint in sorted(cluster.brokers.items()):
        led = [partition for partition in partitions if partition.leader == broker_id]
        yield {
            "broker_id": broker_id,
            "address": str(endpoint),
            "rack": cluster.racks.get(broker_id),
            "controller": broker_id == cluster.controller_id,
            "leaders": len(led),
            "under_replicated": sum(len(each.in_sync_replicas) < len(each.replicas) for each in led),
        }


def _broker_cells(row: dict[str, Any], has_controller: bool) -> tuple[str, ...]:
    return (
        f"{row['broker_id']} *" if row["controller"] and has_controller else str(row["broker_id"]),
        row["address"],
        row["rack"] or "-",
        str(row["leaders"]),
        _warned(row["under_replicated"]),
    )


def _warned(count: int) -> str:
    return f"[yellow]{count}[/]" if count else "0"
