"""PySpark's daemon, which forks its Python workers, without a traceback for each closed connection.

Spark closes the connection to a worker as soon as it has enough rows, in ``show()`` or ``limit(5)`` for example.
PySpark's own daemon then prints a page of BrokenPipeError. This one prints nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark import daemon

if TYPE_CHECKING:
    from socket import socket

_work: Final = daemon.worker
_FAILED: Final = 1  # the worker is not used again


def worker(sock: socket, authenticated: bool) -> int:
    """Run tasks in a forked process. Returns its exit code: 0 if the process is usable for another task."""
    try:
        return _work(sock, authenticated)
    except BrokenPipeError:
        return _FAILED


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
