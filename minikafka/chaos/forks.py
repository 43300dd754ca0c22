"""Nodes as processes, forked by one that has imported their code: ``minikafka.broker.fork_server``.

There is one server for this process, started with the first node, and it ends with this process.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from minikafka.chaos.processes import look_up

_POLL_INTERVAL_S: Final = 0.005
_NOT_STANDARD: Final = 3
_ARGUMENTS: Final = ("-P", "-m", "minikafka.broker.fork_server")
"""-P: a module in the present directory, which may be named as one of Python's own, is not imported."""
_TITLE_ROOM: Final = {"MINIKAFKA_TITLE_ROOM": " " * 4096}
"""A process can change its command line only within the room of the first one and of its environment."""


class ForkedNode:
    """A node's process, as :class:`subprocess.Popen` has them; ``returncode`` is known once it was polled."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self._server = server
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, or the negative number of a signal; None while it runs. A process that ended is reaped."""
        if self.returncode is None:
            self.returncode = self._server.status(self.pid)
        return self.returncode

    def kill(self) -> None:
        """SIGKILL, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        while (code := self.poll()) is None:
            time.sleep(_POLL_INTERVAL_S)
        return code


class ForkServer:
    """The process that forks, and the pipes to it.

    The pipes are not buffered: a buffer has a lock, which a thread may hold while another one forks this process.
    """

    def __init__(self, lifelines: Iterable[int] = ()) -> None:
        self._turn = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, *_ARGUMENTS],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=list(lifelines),
            process_group=0,  # what a terminal sends to this process does not reach it
            env=os.environ | _TITLE_ROOM,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._number = 0

    def start(
        self, arguments: Sequence[str], *, directory: Path, log: Path, environment: dict[str, str], lifeline: int | None
    ) -> ForkedNode:
        """Start ``python -m minikafka.broker ARGUMENTS``. Raises BrokenPipeError when the server has ended.

        One with a ``lifeline`` has that as its standard input, and ends with it. It is in a process group of its own,
        in this session, so that it ends even if it is stopped: the server ends, and the kernel sends SIGHUP and SIGCONT
        to the stopped processes of an orphaned group.
        """
        request = {
            "arguments": list(arguments),
            "directory": str(directory),
            "log": str(log),
            "environment": environment,
            "stdin": lifeline,
            "session": lifeline is None,
        }
        try:
            return ForkedNode(self, self._ask(request)["pid"])
        except BaseException:  # Ctrl-C: whoever started it is about to remove what the node is about to open
            self.status(self._process.pid)  # any question will do: the node's answer comes before the one to this
            raise

    def status(self, pid: int) -> int | None:
        """See :meth:`ForkedNode.poll`. Without the server nobody knows how a process ended: as if killed."""
        try:
            status: int | None = self._ask({"wait": pid})["status"]
        except OSError:
            return -signal.SIGKILL if look_up(pid) is None else None
        return status

    def is_alive(self) -> bool:
        """False once the process has ended."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the process; nodes go on, except those that end with this process."""
        self._requests.close()
        for line in self._answers:
            self._undo(json.loads(line))
        self._answers.close()
        self._process.wait()

    def let_go(self) -> None:
        """Close the pipes of a child of the process that started the server."""
        self._turn = threading.Lock()  # another thread may have held it
        self._requests.close()
        self._answers.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._turn:
            if self._requests.closed:  # in a child of this process, or at its end
                raise BrokenPipeError("the process that forks nodes is not this process's to ask")
            self._number += 1
            rest = memoryview(json.dumps(request | {"number": self._number}).encode() + b"\n")
            with suppress(BrokenPipeError):  # then there is no answer
                while rest:
                    rest = rest[self._requests.write(rest) :]
            for line in self._answers:
                answer: dict[str, Any] = json.loads(line)
                if answer["number"] == self._number:
                    return answer
                self._undo(answer)
        command = " ".join(["python", *_ARGUMENTS])
        raise BrokenPipeError(f"`{command}` has ended; standard error has its reason")

    @staticmethod
    def _undo(answer: dict[str, Any]) -> None:
        """Whoever asked was interrupted before this answer: nobody knows the node that was started."""
        if "pid" in answer:
            os.kill(answer["pid"], signal.SIGKILL)


class _OfThisProcess:
    """The server, made when it is needed, and again if it was killed."""

    def __init__(self) -> None:
        self._server: ForkServer | None = None
        self._lifelines: list[int] = []  # of this process and those that it descends from
        self._write_end: int | None = None
        self._turn = threading.Lock()
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._belong_to_parent)

    def get(self) -> ForkServer:
        self.lifeline()  # which it must have
        with self._turn:
            if self._server is None or not self._server.is_alive():
                self._server = ForkServer(self._lifelines)
            return self._server

    def lifeline(self) -> int:
        with self._turn:
            if self._write_end is None:
                pipe = os.pipe()
                # Not in the place of a standard descriptor that is closed here: the server has others there.
                read_end, self._write_end = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _NOT_STANDARD) for end in pipe)
                for end in pipe:
                    os.close(end)
                self._lifelines.append(read_end)
            return self._lifelines[-1]

    def close(self) -> None:
        if self._server is not None:
            with suppress(KeyboardInterrupt):  # at the end of this process, which is no place for a traceback
                self._server.close()

    def _belong_to_parent(self) -> None:
        """A child of this process must not keep the server or nodes alive, nor ask it: it has its own."""
        if self._server is not None:
            self._server.let_go()
        if self._write_end is not None:
            os.close(self._write_end)
        self._server = self._write_end = None
        self._turn = threading.Lock()


_of_this_process: Final = _OfThisProcess()


def fork_server() -> ForkServer:
    """The server of this process."""
    return _of_this_process.get()


def lifeline() -> int:
    """A pipe that ends with this process. Children use it, too, for nodes that are to end with this process."""
    return _of_this_process.lifeline()
