"""The log of a node: one line per event on stderr, key=value for people or JSON for machines."""

from __future__ import annotations

import errno
import logging
import os
import select
import time
import traceback
from typing import Final

from structlog.processors import JSONRenderer, format_exc_info

from minikafka.broker.loggers import root_logger
from minikafka.errors import KafkaError
from minikafka.event_log import BASE, for_people, processors, write_to

STANDARD_DESCRIPTORS: Final = range(3)
STANDARD_ERROR: Final = 2
PATIENCE_MS: Final = 100
"""Longest wait for a slow reader: a traceback may fill a pipe several times."""


class LogLines:
    """The node's log output. Lines may be lost, but the node goes on.

    The disk of the log may be full, and the reader of a pipe may be gone or stopped. A failed line neither ends the
    task that logs it nor blocks the loop for more than PATIENCE_MS (not at all while the reader is stopped). The next
    line that is written is preceded by the number of lost ones.
    """

    def __init__(self, descriptor: int = STANDARD_ERROR) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._lost = 0
        self._until_s = 0.0
        self._rest = b""  # of a line that went out in part: it is ended before another begins

    def write(self, text: str) -> int:
        """Write whole lines; returns the number of characters. Never raises. structlog holds a lock meanwhile."""
        lines = text.encode("utf-8", "backslashreplace")
        if self._lost:
            lines = b"lines lost, as the log could not be written: %d\n" % self._lost + lines
        self._until_s = time.monotonic() + (0 if self._lost else PATIENCE_MS / 1000)
        try:
            self._write(lines)
        except OSError:
            self._lost += text.count("\n")
        else:
            self._lost = 0
        return len(text)

    def flush(self) -> None:
        """Nothing is buffered."""

    def _write(self, lines: bytes) -> None:
        while self._rest:
            self._rest = self._rest[self._write_some(self._rest) :]
        written = 0
        while written < len(lines):
            try:
                written += self._write_some(lines[written:])
            except OSError:
                self._rest = b"\n" if written else b""
                raise

    def _write_some(self, data: bytes) -> int:
        """Write as much as a ready pipe takes without a pause."""
        if not self._poll.poll(max(0, round((self._until_s - time.monotonic()) * 1000))):
            raise BlockingIOError("nobody reads the log")
        return os.write(self._descriptor, data[: select.PIPE_BUF])


def keep_standard_descriptors() -> None:
    """Open missing standard descriptors on ``/dev/null``, before any other file is opened.

    Otherwise a partition's file could get such a number, and lines of the log would be written into it.
    """
    for descriptor in STANDARD_DESCRIPTORS:
        try:
            os.fstat(descriptor)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            opened = os.open(os.devnull, os.O_RDWR)
            assert opened == descriptor, "the lowest that is free"


def configure_logging(*, node_id: int, level: str = "info", as_json: bool = False) -> None:
    """Set the loggers of this process up: lines go to standard error, and have the node's id."""
    processors[:] = [
        root_logger,
        *BASE,
        *((format_exc_info, JSONRenderer()) if as_json else (for_people(colors=os.isatty(STANDARD_ERROR)),)),
    ]
    root_logger.configure(level)
    write_to(LogLines(), node=node_id)
    # It warns of each write to a connection whose peer has ended TLS: a client may have thousands. And it waits for who
    # reads the log.
    logging.getLogger("asyncio").setLevel(logging.ERROR)


def one_line(error: BaseException) -> str:
    """An exception as one readable line; without the name of the class where an error of our own has a code."""
    if isinstance(error, KafkaError):
        return str(error).replace("\n", " | ")
    return "".join(traceback.format_exception_only(error)).strip().replace("\n", " | ")
