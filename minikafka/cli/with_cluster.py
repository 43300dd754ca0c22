"""``minikafka run``: a cluster for as long as a command runs, such as the tests of an application in any language."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Mapping
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final, Self

import typer

from minikafka.cli.command_config import VARIABLE as CONFIG_VARIABLE
from minikafka.cli.options import SERVERS_VARIABLE, Settings, parse_assignments
from minikafka.cli.output import print_note

if TYPE_CHECKING:
    from minikafka.chaos.layout import ClusterLayout

SERVERS: Final = "KAFKA_BOOTSTRAP_SERVERS"
PROPERTIES: Final = "KAFKA_CLIENT_PROPERTIES"
NOT_FOUND: Final = 127  # the shell's exit code
OF_SIGNALS: Final = 128  # it adds the signal's number
OF_ANOTHER: Final = {SERVERS_VARIABLE, CONFIG_VARIABLE, PROPERTIES}


class _NotBegunError(Exception):
    """There is no such command."""


def run(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="The command, with its arguments.", show_default=False)
    ],
    brokers: Annotated[int, typer.Option(help="Number of brokers.", min=1, max=99)] = 3,
    settings: Settings = None,
    secure: Annotated[bool, typer.Option("--secure", help="TLS, passwords and ACLs.")] = False,
) -> None:
    """Run a command beside a new cluster, and end with its exit code; the cluster ends with it.

    KAFKA_BOOTSTRAP_SERVERS has the bootstrap servers, KAFKA_CLIENT_PROPERTIES a file that says how to connect to a
    secure cluster. The command may break the cluster: minikafka cluster kill 1.
    After a failure the brokers' logs are kept, but not after Ctrl-C.

    Examples:

    [bold]minikafka run -- go test ./...[/]

    [bold]minikafka run --brokers 1 -- sh -c 'seq 10 | minikafka produce numbers'[/]
    """
    from minikafka.testing import MiniKafka

    kafka = MiniKafka(brokers, settings=parse_assignments(settings), secure=secure).start()
    logs = f"{kafka.cluster.layout.directory}/node-*/broker.log"
    try:
        status, interrupted = _finished(command, kafka.cluster.layout)
    except _NotBegunError as error:
        kafka.close()  # its logs have nothing to do with that
        print_note(str(error))
        raise typer.Exit(NOT_FOUND) from None
    except BaseException as error:
        kafka.close(error if isinstance(error, Exception) else None)
        raise
    if status and not interrupted:
        kafka.cluster.kill_all()
        print_note(f"{command[0]} ended with exit code {status}; the brokers' logs: {logs}")
    else:
        kafka.close()
    raise typer.Exit(status)


def _finished(command: list[str], layout: ClusterLayout) -> tuple[int, bool]:
    """Run the command; its exit code as a shell gives it, and whether somebody ended it by hand: nobody looks at logs
    then. _NotBegunError: it cannot be run.
    """
    with _PassingOn() as passing_on:
        try:
            process = subprocess.Popen(command, env=environment(layout, os.environ))
        except OSError as error:
            raise _NotBegunError(f"cannot run {shlex.quote(command[0])}: {error.strerror}") from error
        passing_on.begin(process)
        status = process.wait()
    by_hand = not passing_on.came.isdisjoint((signal.SIGINT, signal.SIGHUP))
    return (status if status >= 0 else OF_SIGNALS - status), by_hand


def environment(layout: ClusterLayout, outside: Mapping[str, str]) -> dict[str, str]:
    """What the command gets. Our verbs go by the directory, which tells them of nodes that are down, too; what may be
    set outside is of another cluster."""
    from minikafka.chaos.layout import DIRECTORY_VARIABLE

    told = {SERVERS: layout.bootstrap_servers, DIRECTORY_VARIABLE: str(layout.directory)}
    if layout.secure:
        told[PROPERTIES] = str(layout.client_properties_file)
    return {name: value for name, value in outside.items() if name not in OF_ANOTHER} | told


class _PassingOn:
    """Passes signals on to a command, which decides what one does. Ctrl-C in a terminal reaches it, as it reaches this
    process. Those that are ignored, as below ``nohup``, stay so for both."""

    def __init__(self) -> None:
        self.came: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._on_signal) for number in heard}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def begin(self, process: subprocess.Popen[bytes]) -> None:
        """This is the command. What came while it was begun may not have reached it."""
        self._process = process
        for number in sorted(self.came):
            process.send_signal(number)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.came.add(number)
        if self._process is not None and (number != signal.SIGINT or not _is_in_foreground()):
            self._process.send_signal(number)


def _is_in_foreground() -> bool:
    """True when Ctrl-C in this process's terminal, if it has one, reaches its whole group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)
