"""``minikafka broker``: one broker in the foreground."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from minikafka.cli.options import Settings, parse_assignments


def broker(
    config: Annotated[
        Path,
        typer.Option(
            "--config", help="Settings, in a .properties or TOML file.", exists=True, dir_okay=False, readable=True
        ),
    ],
    settings: Settings = None,
) -> None:
    """Run one broker in the foreground; Ctrl-C or SIGTERM stops it.

    Example:

    [bold]minikafka broker --config server.properties --set log.retention.hours=24[/]
    """
    # -P: a module in the present directory, which may be named as one of Python's own, is not imported.
    # The whole path is how `minikafka cluster status` knows the nodes of a cluster.
    arguments = ["-P", "-m", "minikafka.broker", "--config", str(config.resolve())]
    for name, value in parse_assignments(settings).items():
        arguments += ["--set", f"{name}={value}"]
    # The process becomes the broker, so that none of the command line's memory stays with it.
    os.execv(sys.executable, [sys.executable, *arguments])
