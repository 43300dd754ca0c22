"""The system calls by which log data reaches a socket without passing through Python, over simulated files and sockets.

``net.outbox`` hands descriptors to ``os.sendfile``, ``os.pread`` and ``os.dup``, and so does ``net.liveness`` to poll.
While a :class:`Kernel` is :meth:`~Kernel.installed` those calls are its own: descriptors are numbers that stand for
simulated files and sockets, a call sends less than it was asked to, or nothing for now, as often as ``rng`` will.
"""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock
from weakref import WeakValueDictionary

from minikafka.net.outbox import SENDFILE_MIN_BYTES
from simulator.disk.files import MountedFile
from simulator.disk.paths import os_error
from simulator.loop import Process
from simulator.network.sockets import Socket

FIRST_DESCRIPTOR: Final = 1 << 20
PARTIAL_CHANCE: Final = 0.3
AGAIN_CHANCE: Final = 0.1


class Kernel:
    """Descriptors of all simulated processes: no number is used twice."""

    def __init__(self, rng: random.Random, *, sendfile_min_bytes: int = SENDFILE_MIN_BYTES) -> None:
        """``sendfile_min_bytes``: the size from which a region of a file goes out by sendfile."""
        self.sent_bytes = 0
        """By sendfile."""
        self._sendfile_min_bytes = sendfile_min_bytes
        self._rng = rng
        self._open: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._count = FIRST_DESCRIPTOR
        self._writers: dict[int, tuple[Socket, Callable[[], object]]] = {}
        self._woken: dict[Socket, None] = {}

    def describe(self, thing: object) -> int:
        """A new descriptor of a file or a socket, for as long as that is there."""
        self._count += 1
        self._open[self._count] = thing
        return self._count

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let production code call this kernel."""
        calls = SimpleNamespace(dup=self.dup, sendfile=self.sendfile, pread=self.pread)
        sockets = SimpleNamespace(socket=self.duplicate, MSG_MORE=socket.MSG_MORE)
        with (
            mock.patch("minikafka.net.outbox.os", calls),
            mock.patch("minikafka.net.outbox.socket", sockets),
            mock.patch("minikafka.net.outbox.SENDFILE_MIN_BYTES", self._sendfile_min_bytes),
            mock.patch("minikafka.net.connection.is_gone", self.is_gone),
            mock.patch.object(MountedFile, "kernel", self),
            mock.patch.object(Socket, "kernel", self),
            mock.patch.object(Process, "add_writer", self._add_writer, create=True),
            mock.patch.object(Process, "remove_writer", self._remove_writer, create=True),
        ):
            yield

    def forget(self, descriptor: int) -> None:
        """It was closed."""
        self._open.pop(descriptor, None)

    # -- system calls -------------------------------------------------------------------------------------------------

    def dup(self, descriptor: int) -> int:
        """OSError(EMFILE) where the process has none left."""
        end = self._socket(descriptor)
        if end.process.is_out_of_descriptors:
            raise os_error(errno.EMFILE, "dup")
        return self.describe(end)

    def duplicate(self, *, fileno: int) -> Duplicate:
        """What ``socket.socket(fileno=...)`` makes."""
        return Duplicate(self, fileno, self._socket(fileno))

    def sendfile(self, to: int, source: int, position: int, count: int) -> int:
        """BlockingIOError while the socket takes nothing; 0 at the end of the file."""
        end = self._socket(to)
        room = self._room(end, count)
        data = self._file(source).pread(room, position)
        end.push(data)
        self.sent_bytes += len(data)
        return len(data)

    def pread(self, source: int, count: int, position: int) -> bytes:
        """Fewer bytes only at the end of the file."""
        return self._file(source).pread(count, position)

    def send(self, end: Socket, data: bytes) -> int:
        """As many bytes as the socket takes."""
        room = self._room(end, len(data))
        end.push(data[:room])
        return room

    def is_gone(self, descriptor: int) -> bool:
        """The peer closed or reset the connection."""
        return self._socket(descriptor).has_ended

    def _add_writer(self, descriptor: int, callback: Callable[..., object], *args: object) -> None:
        end = self._socket(descriptor)
        end.on_room = partial(self._wake, end)
        self._writers[descriptor] = (end, partial(callback, *args))
        self._wake(end)

    def _remove_writer(self, descriptor: int) -> None:
        end, _callback = self._writers.pop(descriptor)
        end.on_room = lambda: None

    def _wake(self, end: Socket) -> None:
        """Call those who wait until the socket takes something: again and again, while it does."""
        if end.room > 0 and end not in self._woken:
            self._woken[end] = None
            end.process.call_soon(self._call, end)

    def _call(self, end: Socket) -> None:
        del self._woken[end]
        for watched, callback in list(self._writers.values()):
            if watched is end:
                callback()
                self._wake(end)

    def _room(self, end: Socket, count: int) -> int:
        if not end.is_open:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        room = min(count, end.room)
        if room <= 0 or self._rng.random() < AGAIN_CHANCE:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return self._rng.randrange(1, room + 1) if self._rng.random() < PARTIAL_CHANCE else room

    def _socket(self, descriptor: int) -> Socket:
        end = self._open.get(descriptor)
        if not isinstance(end, Socket):
            raise os_error(errno.EBADF, str(descriptor))
        return end

    def _file(self, descriptor: int) -> MountedFile:
        file = self._open.get(descriptor)
        if not isinstance(file, MountedFile):
            raise os_error(errno.EBADF, str(descriptor))
        return file


class Duplicate:
    """A second descriptor of a socket."""

    def __init__(self, kernel: Kernel, descriptor: int, end: Socket) -> None:
        self._kernel = kernel
        self._descriptor = descriptor
        self._end = end

    def setblocking(self, flag: bool) -> None:
        assert not flag

    def fileno(self) -> int:
        return self._descriptor

    def send(self, data: memoryview, _flags: int = 0) -> int:
        return self._kernel.send(self._end, bytes(data))

    def close(self) -> None:
        """The connection stays open for those who have another descriptor of it."""
        self._kernel.forget(self._descriptor)
