"""``minikafka cluster list`` and ``delete``: which clusters are on this machine, and how one goes."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minikafka.cli.cluster import open_cluster
from minikafka.cli.options import AsJson, Directory
from minikafka.cli.output import print_json, print_line, print_table

if TYPE_CHECKING:
    from minikafka.chaos.local_cluster import LocalCluster


def list_clusters(as_json: AsJson = False) -> None:
    """List the clusters of this machine: those with a running node, and those in ~/.minikafka and $MINIKAFKA_DIR."""
    rows = list(_rows())
    if as_json:
        print_json(rows)
    elif rows:
        cells = (
            (str(row["dir"]), f"{row['running']} of {row['nodes']}", str(row["bootstrap_servers"])) for row in rows
        )
        print_table(("directory", "running#", "bootstrap.servers"), cells)
    else:
        print_line("no clusters; create one with: minikafka cluster start")


def _rows() -> Iterator[dict[str, str | int]]:
    from minikafka.chaos.layout import ClusterError, ClusterLayout, default_directory
    from minikafka.chaos.local_cluster import LocalCluster, running_directories

    home = Path.home() / ".minikafka"
    kept = [default_directory(), *(sorted(home.iterdir()) if home.is_dir() else ())]
    for directory in sorted({path.expanduser().resolve() for path in (*kept, *running_directories())}):
        try:
            if ClusterLayout.exists(directory):
                yield _row(LocalCluster.open(directory))
        except ClusterError as error:
            sys.stderr.write(f"{error}\n")
        except PermissionError as error:  # of another user: the others are shown
            sys.stderr.write(f"{directory}: {error.strerror}\n")


def _row(cluster: LocalCluster) -> dict[str, str | int]:
    return {
        "dir": str(cluster.layout.directory),
        "nodes": len(cluster.node_ids),
        "running": len(cluster.running()),
        "bootstrap_servers": cluster.bootstrap_servers,
    }


def delete(
    directory: Directory = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a cluster: kill its nodes, remove its directory with all data."""
    cluster = open_cluster(directory)
    path = cluster.layout.directory
    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter("needed where nobody can be asked", param_hint="--yes")
        typer.confirm(f"Delete {path} with all data?", abort=True)
    cluster.kill_all()
    shutil.rmtree(path)
    print_line(f"deleted {path}")
