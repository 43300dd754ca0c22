"""``minikafka cluster``: a cluster of background processes on this machine, and faults on demand."""

from __future__ import annotations

import time
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minikafka.cli.connecting import print_how_to_connect
from minikafka.cli.options import AsJson, Directory, Settings, cluster_directory, parse_assignments
from minikafka.cli.output import print_json, print_line, print_note

if TYPE_CHECKING:
    from minikafka.chaos.local_cluster import LocalCluster

app = typer.Typer(no_args_is_help=True, help="A cluster of background processes on this machine: start it, break it.")

Nodes = Annotated[list[int], typer.Argument(metavar="N...", help="Node ids, from 1.", show_default=False)]


@app.command()
def start(
    brokers: Annotated[
        int | None, typer.Option(help="Number of brokers of a new cluster.", show_default="3", min=1, max=99)
    ] = None,
    directory: Directory = None,
    base_port: Annotated[
        int | None, typer.Option(help="Client port of node 1 of a new cluster.", show_default="19092")
    ] = None,
    settings: Settings = None,
    metrics: Annotated[
        bool, typer.Option("--metrics", help="Serve /metrics and /readyz of a new cluster, 300 above the client ports.")
    ] = False,
    secure: Annotated[bool, typer.Option("--secure", help="TLS, passwords and ACLs for a new cluster.")] = False,
    as_json: AsJson = False,
) -> None:
    """Start a cluster; return when it is ready. An existing cluster keeps its ids, ports and data.

    Examples:

    [bold]minikafka cluster start[/]

    [bold]minikafka cluster start --brokers 5 --dir /tmp/five --base-port 29092 --set log.segment.bytes=1048576[/]
    """
    began = time.monotonic()
    assigned = parse_assignments(settings)
    chosen = cluster_directory(directory)
    cluster = _open_or_create(chosen, brokers, base_port, assigned, metrics=metrics, secure=secure)
    cluster.on_waiting = print_note
    try:
        started = cluster.start()
    except KeyboardInterrupt:
        print_note("interrupted: the nodes that were just started are killed")
        raise
    seconds = time.monotonic() - began
    if as_json:
        print_json(
            {
                "bootstrap_servers": cluster.bootstrap_servers,
                "dir": str(cluster.layout.directory),
                "cluster_id": cluster.layout.cluster_id,
                "nodes": cluster.node_ids,
                "started": started,
                "seconds": round(seconds, 3),
                "metrics": cluster.layout.metrics_urls,
                "client_properties": str(cluster.layout.client_properties_file) if cluster.layout.secure else None,
            }
        )
        return
    what = f"{len(started)} of {len(cluster.node_ids)} nodes started" if started else "all nodes are already running"
    print_line(f"{what}; ready after {seconds:.1f} s in {cluster.layout.directory}" if started else what)
    print_line(f"bootstrap.servers={cluster.bootstrap_servers}")
    if cluster.layout.secure:
        print_how_to_connect(cluster.layout)
    if urls := cluster.layout.metrics_urls:
        print_line(f"metrics: {' '.join(urls)}")
        if find_spec("prometheus_client") is None:
            print_line("prometheus-client is not installed; pip install 'minikafka[metrics]', and restart the nodes")


@app.command()
def stop(
    nodes: Annotated[
        list[int] | None, typer.Argument(metavar="[N]...", help="Node ids. Default: all.", show_default=False)
    ] = None,
    directory: Directory = None,
) -> None:
    """Stop nodes cleanly: leaderships move first, data stays."""
    cluster = open_cluster(directory)
    if nodes:
        for node_id in _each_once(nodes):
            cluster.check_node(node_id)
            if cluster.process(node_id) is None:
                print_line(f"node {node_id} was not running")
                continue
            was_stubborn = cluster.stop_node(node_id)
            print_line(
                f"stopped node {node_id}"
                + ("; it did not stop in time and was killed with SIGKILL" if was_stubborn else "")
            )
        return
    running = cluster.running()
    killed = cluster.stop()
    print_line(f"stopped {_names(running)}" if running else "no node was running")
    if killed:
        print_line(f"{_names(killed)} did not stop in time: killed with SIGKILL")


@app.command()
def kill(nodes: Nodes, directory: Directory = None) -> None:
    """Kill nodes with SIGKILL: no clean shutdown, no flush.

    Example, several at once: [bold]minikafka cluster kill 1 2 3[/]
    """
    nodes = _each_once(nodes)
    open_cluster(directory).kill(*nodes)
    print_line(f"killed {_names(nodes)}")


@app.command()
def pause(nodes: Nodes, directory: Directory = None) -> None:
    """Freeze nodes with SIGSTOP: their connections stay open, but they do not answer."""
    cluster, nodes = open_cluster(directory), _each_once(nodes)
    cluster.pause(*nodes)
    resume = cluster.layout.command(f"cluster resume {' '.join(map(str, nodes))}")
    print_line(f"paused {_names(nodes)}; resume with: {resume}")


@app.command()
def resume(nodes: Nodes, directory: Directory = None) -> None:
    """Resume paused nodes with SIGCONT."""
    nodes = _each_once(nodes)
    open_cluster(directory).resume(*nodes)
    print_line(f"resumed {_names(nodes)}")


@app.command()
def restart(nodes: Nodes, directory: Directory = None) -> None:
    """Restart nodes, one after the other; start those that are down."""
    cluster = open_cluster(directory)
    cluster.on_waiting = print_note
    for node_id in _each_once(nodes):
        try:
            cluster.restart(node_id)
        except KeyboardInterrupt:
            status = cluster.layout.command("cluster status")
            print_note(f"interrupted: node {node_id} may be down, or still starting; see {status}")
            raise
        waits = cluster.quorum_shortage()
        print_line(f"node {node_id} is up" + (f", but waits for others: {waits}" if waits else ""))


def open_cluster(directory: Path | None) -> LocalCluster:
    from minikafka.chaos.local_cluster import LocalCluster

    return LocalCluster.open(cluster_directory(directory))


def _open_or_create(
    directory: Path,
    brokers: int | None,
    base_port: int | None,
    settings: dict[str, str],
    *,
    metrics: bool,
    secure: bool,
) -> LocalCluster:
    from minikafka.chaos.authority import check_installed
    from minikafka.chaos.layout import DEFAULT_BASE_PORT, ClusterError, ClusterLayout
    from minikafka.chaos.local_cluster import LocalCluster

    if not ClusterLayout.exists(directory):
        if secure:
            check_installed()
        was_there = directory.expanduser().exists()
        created = LocalCluster.create(
            directory,
            brokers=brokers or 3,
            base_port=base_port or DEFAULT_BASE_PORT,
            settings=settings,
            metrics=metrics,
            secure=secure,
        )
        try:
            created.check()
        except BaseException:
            created.layout.discard()  # or the next attempt would be bound to what was wrong with this one
            if not was_there:
                created.layout.directory.rmdir()
            raise
        return created
    cluster = LocalCluster.open(directory)
    if brokers not in (None, len(cluster.node_ids)) or base_port not in (None, cluster.layout.base_port):
        raise ClusterError(
            f"{directory} holds a cluster of {len(cluster.node_ids)} brokers at port {cluster.layout.base_port}; "
            f"leave out --brokers and --base-port to start it, or choose another --dir"
        )
    if metrics and not cluster.layout.metrics:
        raise ClusterError(
            f"--metrics applies to a new cluster only; add metrics.listener=127.0.0.1:PORT to "
            f"{directory}/node-*/server.properties of this one, and restart its nodes"
        )
    if secure and not cluster.layout.secure:
        raise ClusterError(f"--secure applies to a new cluster only; {directory} holds another")
    if settings:
        raise ClusterError(
            f"--set applies to a new cluster only; edit {directory}/node-*/server.properties of this one"
        )
    return cluster


def _each_once(nodes: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(nodes))


def _names(nodes: Iterable[int]) -> str:
    ids = [str(node) for node in nodes]
    return f"node {ids[0]}" if len(ids) == 1 else f"nodes {', '.join(ids)}"
