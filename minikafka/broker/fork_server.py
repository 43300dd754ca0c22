"""``python -m minikafka.broker.fork_server``: starts nodes by forking a process that has imported their code.

A node's start is mostly imports; three nodes, and each one that is started again, share them. What starts a cluster
asks on standard input, one JSON object per line, and gets one per line on standard output:

* ``{"arguments": [...], "directory": PATH, "log": PATH, "environment": {...}, "stdin": FD or null, "session": BOOL}``
  starts ``python -m minikafka.broker ARGUMENTS``; the answer is ``{"pid": N}``, once it is known by that command line
* ``{"wait": PID}`` reaps it; the answer is ``{"status": exit code, negative signal, or null while it runs}``

Each has a ``number``, which the answer repeats: who asked may have been interrupted before it read the last one.

The server ends when standard input does. Nodes go on, unless their own standard input ends with its starter.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
from typing import Any, Final, NoReturn

from setproctitle import getproctitle, setproctitle

from minikafka.broker.__main__ import main as run_broker
from minikafka.broker.__main__ import prepare

_INHERITED_MAX: Final = 64
"""More descriptors than a process has that has only imported something."""


def serve() -> None:
    """Answer until there are no more requests, or nobody is there to read the answer."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # what its starter blocks, nodes do not
    prepare()
    importlib.import_module("minikafka.broker.run")
    gc.collect()
    getproctitle()  # finds its room, as long as the environment is in its place
    gc.freeze()  # so that a node's collections do not copy what it shares with this process
    for line in sys.stdin.buffer:
        request = json.loads(line)
        answer = {"status": _status(request["wait"])} if "wait" in request else {"pid": _fork(request)}
        try:
            os.write(1, json.dumps(answer | {"number": request["number"]}).encode() + b"\n")
        except BrokenPipeError:
            return


def _status(pid: int) -> int | None:
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # reaped for who was interrupted before it read the answer
        return -signal.SIGKILL
    return os.waitstatus_to_exitcode(status) if ended else None


def _fork(request: dict[str, Any]) -> int:
    begun, ready = os.pipe()
    pid = os.fork()
    if not pid:
        _become_node(request, ready)
    os.close(ready)
    os.read(begun, 1)  # ends when the node closes its end, or has ended
    os.close(begun)
    return pid


def _become_node(request: dict[str, Any], ready: int) -> NoReturn:
    """What exec does for a process of its own: session, descriptors, directory, environment, command line."""
    if request["session"]:
        os.setsid()
    else:
        os.setpgid(0, 0)
    try:
        log = os.open(request["log"], os.O_WRONLY | os.O_APPEND)
    except FileNotFoundError:  # who asked was interrupted twice meanwhile, and has removed its files
        os._exit(1)
    given = os.open(os.devnull, os.O_RDONLY) if request["stdin"] is None else request["stdin"]
    for source, target in ((given, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    arguments: list[str] = request["arguments"]
    sys.orig_argv[1:] = ["-m", "minikafka.broker", *arguments]  # with which it may begin anew
    setproctitle(" ".join([sys.executable, *sys.orig_argv[1:]]))
    os.close(ready)
    os.closerange(3, _INHERITED_MAX)
    sys.exit(run_broker(arguments))


if __name__ == "__main__":
    serve()
