"""The program ``minikafka`` in processes forked by one that has loaded it, which saves half a second of CPU each."""

from __future__ import annotations

import atexit
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Final, NoReturn

PATIENCE_S: Final = 120
LOADED: Final = (
    *("minikafka.cli.main", "minikafka.client", "minikafka.chaos.local_cluster"),
    *("minikafka.spark.pipelines.running", "rich.traceback"),
)


def run_program(
    words: list[str], environment: Mapping[str, str] = os.environ, given: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    """``minikafka WORDS``, once it has ended."""
    with tempfile.TemporaryDirectory() as directory:
        stdin, stdout, stderr = streams = [Path(directory) / name for name in ("stdin", "stdout", "stderr")]
        stdin.write_bytes(given or b"")
        code = _server().run(words, environment, streams)
        return subprocess.CompletedProcess(["minikafka", *words], code, stdout.read_bytes(), stderr.read_bytes())


class _Server:
    """The process that forks, one program at a time, and what it is asked and answers: lines of JSON."""

    def __init__(self) -> None:
        self._lock = Lock()
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, __file__], stdin=pipe, stdout=pipe, text=True)
        atexit.register(self._process.communicate)

    def run(self, words: list[str], environment: Mapping[str, str], streams: list[Path]) -> int:
        """The program's exit code."""
        asked = {
            "words": words,
            "environment": dict(environment),
            "directory": str(Path.cwd()),
            "streams": list(map(str, streams)),
        }
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        assert answer, "the process that forks programs has ended"
        return int(answer)


@cache
def _server() -> _Server:
    return _Server()


def _serve() -> None:
    """Fork for each line, until there are no more."""
    sys.path[0] = str(Path(__file__).parents[1])  # where the package is: not the folder of the tests
    for module in LOADED:
        __import__(module)
    _make_verbs_once()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _become_program(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _make_verbs_once() -> None:
    """And not in each program, which would take more than half of its CPU time."""
    from typer import main as typer_main

    from minikafka.cli.main import app

    command: Any = typer_main.get_command(app)
    command.commands["topic"].commands["list"].make_context("list", [])  # loads what parsing needs
    typer_main.get_command = lambda _app: command


def _become_program(asked: dict[str, list[str]]) -> NoReturn:
    code = 1
    try:
        for number, path in enumerate(asked["streams"]):
            opened = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT)
            os.dup2(opened, number)
            os.close(opened)
        for number, mode in enumerate("rww"):
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, ("stdin", "stdout", "stderr")[number], stream)
        os.chdir(str(asked["directory"]))
        os.environ.clear()
        os.environ.update(asked["environment"])
        signal.alarm(PATIENCE_S)
        sys.argv = ["minikafka", *asked["words"]]
        runpy.run_module("minikafka", run_name="__main__")
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
