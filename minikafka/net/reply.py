"""The place of one request's answer in its connection's order, with the memory that it holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from minikafka.metrics.requests import ApiRequests
from minikafka.net.outbox import SENDFILE_CHUNK_BYTES, Chunk

if TYPE_CHECKING:
    from minikafka.net.connection import Connection

WAITING_BYTES: Final = 1024
"""What a request that waits holds at least: itself, its place, and what it waits in."""
FILE_BYTES_PER_COST: Final = 16
"""What sending a file costs the turn (``net.turns``): 200 KB take about as long as the request that asks for them."""
PLAIN: Final = (bytes, bytearray, memoryview)


class Reply:
    """Answered once by :meth:`send` or :meth:`skip`, unless the connection ends first."""

    __slots__ = ("_cancel", "_chunks", "_connection", "began_s", "held", "in_files", "is_ready", "requests")

    def __init__(self, connection: Connection, requests: ApiRequests | None) -> None:
        """``requests`` counts it when its answer leaves; None: it is not counted."""
        self.requests = requests
        self.began_s = connection.last_active_s
        self._connection: Connection | None = connection
        self._chunks: Sequence[Chunk] = ()
        self._cancel: Callable[[], object] | None = None
        self.is_ready = False
        self.held = WAITING_BYTES  # bytes, for the connection's account
        self.in_files = 0  # of these, what takes no memory

    @property
    def is_answered(self) -> bool:
        """True after :meth:`send`."""
        return self.is_ready

    def hold(self, size: int, cancel: Callable[[], object] | None = None) -> None:
        """The request holds ``size`` more bytes until its answer. ``cancel``: see :meth:`cancel_with_connection`."""
        if self._connection is not None and not self.is_ready:
            self.held += size
            self._connection.replies_held += size
            if cancel is not None:
                self._cancel = cancel
        elif cancel is not None:
            self.cancel_with_connection(cancel)

    def cancel_with_connection(self, cancel: Callable[[], object]) -> None:
        """Call ``cancel`` if the connection ends before the answer: no client waits for it any more."""
        if self._connection is None:
            cancel()
        elif not self.is_ready:
            self._cancel = cancel

    def send(self, chunks: Sequence[Chunk]) -> None:
        """Answer with ``chunks``, size prefix included. Exactly once; after the connection is gone it is a no-op."""
        assert not self.is_ready, "a request was answered twice"
        self.is_ready = True
        self._chunks = chunks
        self._cancel = None
        connection = self._connection
        if connection is None:
            self._release()
            return
        held = 0
        for chunk in chunks:
            if isinstance(chunk, PLAIN):
                held += len(chunk)
            else:
                held += chunk.size
                self.in_files += chunk.size
        connection.replies_held += held - self.held
        if self.in_files:
            connection.replies_in_files += self.in_files
            connection.spend(min(self.in_files, SENDFILE_CHUNK_BYTES) // FILE_BYTES_PER_COST)
        self.held = held
        connection.schedule_flush()

    def skip(self) -> None:
        """The request gets no answer (produce with acks=0)."""
        self.send(())

    def take(self) -> Sequence[Chunk]:
        """The chunks to send. The connection calls it once, in order."""
        self._connection = None
        return self._chunks

    def abandon(self) -> None:
        """The connection is gone: drop any answer."""
        self._connection = None
        if self.is_ready:
            self._release()
        elif self._cancel is not None:
            cancel, self._cancel = self._cancel, None
            cancel()

    def _release(self) -> None:
        for chunk in self._chunks:
            if not isinstance(chunk, PLAIN):
                chunk.release()
        self._chunks = ()


def size_of(chunks: Sequence[Chunk]) -> int:
    """Bytes of an answer."""
    return sum(len(chunk) if isinstance(chunk, PLAIN) else chunk.size for chunk in chunks)
