"""``minikafka cluster add``, ``drain`` and ``remove``: brokers that come and go while a cluster runs."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from minikafka.cli.cluster import open_cluster
from minikafka.cli.options import ADMIN_TIMEOUT_S, Directory, Target, local_target, target
from minikafka.cli.output import print_line
from minikafka.cli.run import run_with_admin
from minikafka.cli.waiting import quorum_trouble

if TYPE_CHECKING:
    from minikafka.chaos.local_cluster import LocalCluster
    from minikafka.client import Admin

FENCING_TIMEOUT_S: Final = 15.0
RETRY_S: Final = 0.1

Node = Annotated[int, typer.Argument(metavar="N", help="Node id.", show_default=False)]
Elsewhere = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        help="Any cluster: HOST:PORT[,HOST:PORT...].",
        show_default="the local cluster of --dir",
    ),
]
"""A cluster of other machines is named on the command line only: what the environment names is not taken apart."""


def add(directory: Directory = None) -> None:
    """Add a broker to the running cluster.

    It has no vote in the controller quorum. It gets replicas of new topics; [bold]minikafka reassign --generate[/]
    proposes a plan to move existing ones to it.
    """
    began = time.monotonic()
    cluster = open_cluster(directory)
    node_id = cluster.add_node()
    print_line(f"node {node_id} joined after {time.monotonic() - began:.1f} s")
    print_line(f"bootstrap.servers={cluster.bootstrap_servers}")


def drain(
    node: Node,
    throttle: Annotated[
        int | None,
        typer.Option(
            metavar="BYTES/S",
            min=1,
            help="Throttle, in bytes per second, from and to each broker.",
            show_default="none",
        ),
    ] = None,
    bootstrap: Elsewhere = None,
    directory: Directory = None,
) -> None:
    """Move all replicas off a node, to the nodes with the fewest. The node keeps running.

    Example:

    [bold]minikafka cluster drain 4[/]

    [bold]minikafka cluster remove 4[/]
    """
    if bootstrap is not None:
        cluster_of = target(bootstrap, None)
        run_with_admin(partial(_drain_elsewhere, cluster_of, node, throttle), cluster_of, ADMIN_TIMEOUT_S)
        return
    cluster = open_cluster(directory)
    cluster.check_node(node)
    cluster_of = local_target(cluster)
    what = "remove" if node not in cluster.layout.voter_ids else "stop"
    take_out = f"take it out with: {cluster.layout.command(f'cluster {what} {node}')}"
    run_with_admin(partial(_drain, cluster_of, node, throttle, take_out), cluster_of, ADMIN_TIMEOUT_S)


def remove(node: Node, bootstrap: Elsewhere = None, directory: Directory = None) -> None:
    """Remove a node added before: stop it, unregister it, delete its directory. It must hold no replicas.

    With -b: unregister it. Stop it before, and delete its directories yourself.
    """
    if bootstrap is not None:
        cluster_of = target(bootstrap, None)
        run_with_admin(partial(_forget, cluster_of, node), cluster_of, ADMIN_TIMEOUT_S)
        print_line(f"node {node} is not registered any more")
        return
    cluster = open_cluster(directory)
    cluster.check_node(node)
    cluster.layout.without_node(node)  # raises for one that must stay
    run_with_admin(partial(_leave, cluster, node), local_target(cluster), ADMIN_TIMEOUT_S)
    print_line(f"removed node {node}")


async def _drain_elsewhere(cluster_of: Target, node: int, throttle: int | None, admin: Admin) -> None:
    cluster, quorum = await admin.describe_cluster(), await admin.describe_quorum()
    held = {
        broker for topic in cluster.topics.values() for each in topic.partitions.values() for broker in each.replicas
    }
    if node not in (known := {*quorum.voters, *cluster.brokers, *held}):
        names = ", ".join(map(str, sorted(known)))
        raise _error(f"node {node} not found; the nodes of this cluster are {names}")
    remove = f", then: {cluster_of.command(f'cluster remove {node}')}" if node not in quorum.voters else ""
    await _drain(cluster_of, node, throttle, f"stop it{remove}", admin)


async def _drain(cluster_of: Target, node: int, throttle: int | None, take_out: str, admin: Admin) -> None:
    from minikafka.cli.reassign import follow_to_end
    from minikafka.cli.reassign_view import print_cleared
    from minikafka.client.reassigning.tool import Reassigner

    if (trouble := await quorum_trouble(admin)) is not None:
        raise _error(f"node {node} cannot be drained: {trouble}")
    tool = Reassigner(admin)
    plan = await tool.drain(node)
    if plan:
        print_line(f"moving {_replicas(len(plan))} off node {node}")
        begun = await tool.execute(plan, throttle=throttle)
        await follow_to_end(tool, begun, cluster_of.command("reassign --list"))
        if begun.throttle.brokers:
            print_cleared(await tool.clear_throttles(plan))
    left = await tool.drain(node)
    if left:
        raise _error(f"node {node} still has {_replicas(len(left))}; drain it again")
    print_line(f"node {node} has no replicas; {take_out}")


async def _leave(cluster: LocalCluster, node: int, admin: Admin) -> None:
    await _check_empty(local_target(cluster), node, admin)
    if cluster.process(node) is not None:
        cluster.stop_node(node)
    await _unregister(node, admin)
    cluster.remove_node(node)


async def _forget(cluster_of: Target, node: int, admin: Admin) -> None:
    if node in (await admin.describe_quorum()).voters:
        raise _error(f"node {node} votes in the controller quorum, whose members do not change")
    await _check_empty(cluster_of, node, admin)
    await _unregister(node, admin)


async def _check_empty(cluster_of: Target, node: int, admin: Admin) -> None:
    topics = (await admin.describe_cluster()).topics.values()
    count = sum(node in partition.replicas for topic in topics for partition in topic.partitions.values())
    if count:
        drain = cluster_of.command(f"cluster drain {node}")
        raise _error(f"node {node} has {_replicas(count)}; move them first: {drain}")


async def _unregister(node: int, admin: Admin) -> None:
    import asyncio

    from minikafka.errors import ErrorCode, KafkaError

    deadline = time.monotonic() + FENCING_TIMEOUT_S
    while True:
        try:
            await admin.unregister_broker(node)
            break
        except KafkaError as error:
            if error.code is ErrorCode.BROKER_ID_NOT_REGISTERED:
                break
            # Until the controller has noticed that its process is gone.
            if error.code is not ErrorCode.INVALID_REQUEST or time.monotonic() > deadline:
                raise
        await asyncio.sleep(RETRY_S)


def _replicas(count: int) -> str:
    return "1 replica" if count == 1 else f"{count} replicas"


def _error(message: str) -> Exception:
    from minikafka.chaos.layout import ClusterError

    return ClusterError(message)
