"""Options that several verbs take, in the same words everywhere."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from minikafka.cli import completion
from minikafka.cli.command_config import OPTION, given_command_config

if TYPE_CHECKING:
    from minikafka.chaos.local_cluster import LocalCluster
    from minikafka.chaos.logins import Logins
    from minikafka.client import Security

Directory = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        help="Directory of the cluster.",
        show_default="$MINIKAFKA_DIR or ~/.minikafka/default",
        file_okay=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SERVERS_VARIABLE: Final = "MINIKAFKA_BOOTSTRAP_SERVERS"
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        help="Bootstrap servers, HOST:PORT[,HOST:PORT...].",
        show_default=f"${SERVERS_VARIABLE}, else the cluster of --dir, else 127.0.0.1:19092",
    ),
]
Groups = Annotated[
    list[str] | None, typer.Argument(metavar="[GROUP]...", show_default=False, autocompletion=completion.groups)
]
ADMIN_TIMEOUT_S: Final = 30.0
DAY_S: Final = 24 * 3600.0
"""Most that a verb waits; requests have room for 24 of them, in milliseconds, and none for ``inf``."""
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        help="Seconds to wait for the cluster.",
        min=0.1,
        max=DAY_S,
        show_default=f"{ADMIN_TIMEOUT_S:g}",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Broker setting; may be repeated."),
]


def cluster_directory(directory: Path | None) -> Path:
    """The directory that was named, or the default."""
    from minikafka.chaos.layout import default_directory

    return directory or default_directory()


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster that a verb talks to: its bootstrap servers, how to connect, the option that names both
    (``--dir X``), if any, the command that starts it, if that is known, and the files of its users, if it has some."""

    servers: str
    security: Security
    option: str = ""
    start: str = ""
    logins: Logins | None = None

    def command(self, words: str) -> str:
        """A command line for the same cluster, to be shown to the user."""
        return f"minikafka {words} {self.option}".rstrip()


def target(servers: str | None, directory: Path | None) -> Target:
    """The brokers that were named, or those of the local cluster; the default port if no directory is named either.

    What the environment names is another cluster than that of a directory on the command line.
    """
    from minikafka.chaos.layout import DEFAULT_BASE_PORT, DIRECTORY_VARIABLE, HOST, ClusterLayout
    from minikafka.chaos.local_cluster import LocalCluster

    by_directory = directory is not None and not servers
    if servers is None and not by_directory:
        servers = os.environ.get(SERVERS_VARIABLE)
    if servers:
        security, config_option = _command_config()
        _check_servers(servers)
        return Target(servers, security, f"-b {servers}{config_option}")
    chosen = cluster_directory(directory)
    is_named = directory is not None or bool(os.environ.get(DIRECTORY_VARIABLE))
    if is_named or ClusterLayout.exists(chosen):
        return local_target(LocalCluster.open(chosen), environment=not by_directory)
    security, config_option = _command_config()
    # Who says how to connect has a cluster already.
    start = "" if config_option else "minikafka cluster start"
    return Target(f"{HOST}:{DEFAULT_BASE_PORT}", security, config_option.strip(), start)


def _command_config(environment: bool = True) -> tuple[Security, str]:
    """How to connect, and the option that says so."""
    from minikafka.client.properties import security_of_file
    from minikafka.client.security import PLAIN

    path = given_command_config(environment)
    if path is None:
        return PLAIN, ""
    try:
        return security_of_file(path), f" {OPTION} {shlex.quote(str(path))}"
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=OPTION) from None


def local_target(cluster: LocalCluster, *, environment: bool = False) -> Target:
    """The brokers of a local cluster. ClusterError, at once, when all of its nodes are down: nobody would answer."""
    from minikafka.chaos.layout import ClusterError

    if not cluster.running():
        start = cluster.layout.command("cluster start")
        raise ClusterError(f"every node of the cluster in {cluster.layout.directory} is down; start it with: {start}")
    security, config_option = _command_config(environment)
    layout = cluster.layout
    if not config_option:
        security = layout.security
    logins = layout.logins if layout.secure else None
    return Target(cluster.bootstrap_servers, security, f"{layout.option}{config_option}".strip(), logins=logins)


def _check_servers(servers: str) -> None:
    from minikafka.client.connections import parse_bootstrap_servers

    try:
        parse_bootstrap_servers(servers)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--bootstrap-server") from None


def parse_assignments(assignments: list[str] | None, option: str = "--set") -> dict[str, str]:
    """``name=value`` strings as a mapping; `option` is named when one is wrong."""
    settings = {}
    for assignment in assignments or []:
        name, separator, value = assignment.partition("=")
        if not separator or not name.strip():
            raise typer.BadParameter(f"{assignment!r} is not NAME=VALUE", param_hint=option)
        settings[name.strip()] = value.strip()
    return settings
