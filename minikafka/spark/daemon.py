"""PySpark's daemon, which forks its Python workers, without the page of traceback for a worker that Spark hung up on.

Spark does so whenever it has seen enough, as in ``show()`` or ``limit(5)``. What the worker had still to say is lost on
nobody; PySpark prints a BrokenPipeError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark import daemon

if TYPE_CHECKING:
    from socket import socket

_work: Final = daemon.worker
_FAILED: Final = 1  # the worker is not used again


def worker(sock: socket, authenticated: bool) -> int:
    """A task's part of a forked process; its exit code, 0 when the process can be used again."""
    try:
        return _work(sock, authenticated)
    except BrokenPipeError:
        return _FAILED


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
