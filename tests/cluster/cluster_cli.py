"""The command line as a program of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner
from command_line import COMMAND
from live_program import run_program

from minikafka.cli import main


def take_ctrl_c() -> None:
    """A job in the background of a shell, as tests may be, ignores it, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class CommandLine:
    """``minikafka ... --dir DIRECTORY``, but without the directory for ``log dump``, which takes files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self, *arguments: str, fails: bool = False, given: bytes | None = None) -> bytes:
        """What it prints; to stderr, where it is expected to fail."""
        finished = self.run(*arguments, given=given)
        assert (finished.returncode != 0) == fails, finished.stderr.decode() or finished.stdout.decode()
        return finished.stderr if fails else finished.stdout

    def run(self, *arguments: str, given: bytes | None = None, at: bool = True) -> subprocess.CompletedProcess[bytes]:
        """What became of it, whatever that is; ``at`` the directory."""
        where = [] if arguments[0] == "log" or not at else ["--dir", str(self.directory)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MINIKAFKA_")}
        return run_program([*arguments, *where], environment | {"COLUMNS": "200"}, given)


class Printed(NamedTuple):
    """What a verb wrote."""

    stdout: bytes
    stderr: bytes


class QuickCommandLine(CommandLine):
    """The same in this process: the verbs without the half second that a new interpreter takes.

    ``consume`` watches whether somebody reads what it prints, and ``produce`` its input: they are programs here, too.
    """

    def __call__(self, *arguments: str, fails: bool = False, given: bytes | None = None) -> bytes:
        if arguments[0] in ("consume", "produce"):
            return super().__call__(*arguments, fails=fails, given=given)
        printed = self.run_quickly(*arguments, fails=fails, given=given)
        return printed.stderr if fails else printed.stdout

    def run_quickly(self, *arguments: str, fails: bool = False, given: bytes | None = None) -> Printed:
        """All that it prints, where it ends as expected."""
        where = [] if arguments[0] == "log" else ["--dir", str(self.directory)]
        result = CliRunner().invoke(COMMAND, [*arguments, *where], input=given, env={"COLUMNS": "200"})
        said = result.stderr
        if isinstance(result.exception, Exception):
            assert main._is_expected(result.exception), result.exception
            said += f"minikafka: {result.exception}\n"
        assert (result.exit_code != 0) == fails, said or result.stdout
        return Printed(result.stdout.encode(), said.encode())
