"""Unsent bytes of a connection, sent in order with few system calls and copies.

Small replies are joined and handed to the transport in one write. A region of a file that is large enough goes
out with ``sendfile`` on a duplicate of the socket, so that log data never passes through Python. The two never
interleave: sendfile starts only when the transport has nothing left to send, and while a region is under way
everything later waits behind it here.

Duplicates are counted (:class:`~minikafka.net.duplicates.Duplicates`). Without one a large region is read and handed
to the transport in pieces, each when the one before is nearly sent.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from minikafka.net.duplicates import Duplicates
from minikafka.net.turns import Turns

SENDFILE_MIN_BYTES = 32 * 1024
SENDFILE_CHUNK_BYTES = 4 * 1024 * 1024  # bytes that one call may copy before other connections get their turn
PIECE_BYTES = 32 * 1024  # without sendfile: TLS has some four of them while its peer takes nothing
_CUT = "the log file ended inside a region that was being sent"


@runtime_checkable
class FileRegion(Protocol):
    """A range of bytes in an open file. It stays readable until it is released."""

    @property
    def position(self) -> int: ...
    @property
    def size(self) -> int: ...
    def fileno(self) -> int | None:
        """The descriptor to send from, or None where there is no real file."""
        ...

    def read(self) -> bytes: ...
    def release(self) -> None: ...


Chunk = bytes | bytearray | memoryview | FileRegion


class _RegionInFlight:
    __slots__ = ("position", "region", "remaining")

    def __init__(self, region: FileRegion) -> None:
        self.region = region
        self.position = region.position
        self.remaining = region.size

    def advance(self, count: int) -> bool:
        """So many more bytes were sent. True when all are; then the file is released."""
        self.position += count
        self.remaining -= count
        if self.remaining == 0:
            self.region.release()
        return self.remaining == 0


class Outbox:
    """Ordered output of one transport.

    ``on_error`` is called at most once, when the peer or a file failed; ``on_sent`` whenever queued bytes left.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        on_error: Callable[[Exception], None],
        *,
        on_sent: Callable[[], None] = lambda: None,
        duplicates: Duplicates | None = None,
        turns: Turns | None = None,
    ) -> None:
        """``duplicates``: the share of descriptors for sendfile; None: no sendfile. ``turns``: of all connections, for
        what is sent without; None: its own."""
        self._transport = transport
        self._on_error = on_error
        self._on_sent = on_sent
        self._duplicates = duplicates
        self._turns = turns or Turns(asyncio.get_running_loop())
        self._is_in_line = False  # for a turn to send more
        self._queue: deque[memoryview | _RegionInFlight] = deque()
        self._raw: socket.socket | None = None
        self._waiting = False
        self._closed = False
        self._is_reading = False  # the queue goes through the transport, because there is no duplicate for it
        self._is_encrypted = transport.get_extra_info("sslcontext") is not None
        self.queued_bytes = 0
        self.in_files = 0  # of these, what takes no memory
        self.accepted_bytes = 0

    def write(self, chunks: Sequence[Chunk]) -> None:
        """Send ``chunks`` after everything written before. Regions are released once sent."""
        if self._closed:
            release(chunks)
            return
        plain: list[bytes | bytearray | memoryview] = []
        for index, chunk in enumerate(chunks):
            if isinstance(chunk, (bytes, bytearray, memoryview)):
                plain.append(chunk)
            elif chunk.size >= SENDFILE_MIN_BYTES and chunk.fileno() is not None:
                self._flush_plain(plain, more=True)
                plain = []
                self.in_files += chunk.size
                self._enqueue(_RegionInFlight(chunk), chunk.size)
            else:
                try:
                    plain.append(read_region(chunk))
                except (OSError, EOFError) as error:
                    release(chunks[index:])
                    self._fail(error)
                    return
                chunk.release()
        self._flush_plain(plain, more=False)
        if self._queue and not self._waiting and not self._is_reading:
            self._begin()

    @property
    def pending_bytes(self) -> int:
        """Bytes accepted and not yet taken by the kernel."""
        return self.queued_bytes + self._transport.get_write_buffer_size()

    def resume(self) -> None:
        """The transport has room again."""
        if self._is_reading and not self._is_in_line:
            self._pump_pieces()

    def close(self) -> None:
        """Drop what is unsent and release its files."""
        if self._closed:
            return
        self._closed = True
        self._stop_waiting()
        for item in self._queue:
            if isinstance(item, _RegionInFlight):
                item.region.release()
        self._queue.clear()
        self.queued_bytes = self.in_files = 0
        self.give_back()

    def give_back(self) -> None:
        """Close the duplicate of the socket; nothing may be under way on it."""
        if self._raw is not None:
            assert self._duplicates is not None
            raw, self._raw = self._raw, None
            raw.close()
            self._duplicates.forget(self)

    def _fail(self, error: Exception) -> None:
        self.close()
        self._on_error(error)

    def _flush_plain(self, plain: list[bytes | bytearray | memoryview], *, more: bool) -> None:
        if not plain:
            return
        joined = plain[0] if len(plain) == 1 else b"".join(plain)
        # Of what TLS is given at once it does not tell how much the peer has not taken.
        if more or self._queue or (self._is_encrypted and len(joined) > PIECE_BYTES):
            self._enqueue(memoryview(joined), len(joined))
        else:
            self.accepted_bytes += len(joined)
            self._transport.write(joined)

    def _enqueue(self, item: memoryview | _RegionInFlight, size: int) -> None:
        self._queue.append(item)
        self.queued_bytes += size
        self.accepted_bytes += size

    def _begin(self) -> None:
        """Choose the way to send the queued chunks."""
        if not self._transport.get_write_buffer_size() and self._duplicate():
            self._pump()
        else:
            self._is_reading = True
            # Who stops before the transport pauses is never told that there is room. uvloop's TLS takes four pieces.
            self._transport.set_write_buffer_limits(high=PIECE_BYTES // 2)
            self._pump_pieces()

    # -- sendfile ---------------------------------------------------------------------------------------------------

    def _duplicate(self) -> bool:
        """Have a duplicate of the socket: an event loop refuses a second watcher on a transport's own descriptor."""
        duplicates = self._duplicates
        if duplicates is None:
            return False
        if self._raw is not None:
            duplicates.use(self)
            return True
        wrapped = self._transport.get_extra_info("socket")
        if wrapped is None or self._is_encrypted or not duplicates.use(self):
            return False
        try:
            self._raw = socket.socket(fileno=os.dup(wrapped.fileno()))
        except OSError:  # out of descriptors nevertheless
            duplicates.forget(self)
            return False
        self._raw.setblocking(False)
        return True

    def _pump(self) -> None:
        raw, duplicates = self._raw, self._duplicates
        assert raw is not None
        assert duplicates is not None
        budget = SENDFILE_CHUNK_BYTES
        try:
            while self._queue:
                if budget <= 0:
                    self._wait_writable()
                    return
                budget -= self._send_head(raw)
        except (BlockingIOError, InterruptedError):
            self._wait_writable()
            return
        except (OSError, EOFError) as error:
            self._fail(error)
            return
        self._stop_waiting()
        duplicates.rest(self)

    def _pump_when_writable(self) -> None:
        self._pump()
        self._on_sent()

    def _send_head(self, raw: socket.socket) -> int:
        item = self._queue[0]
        if isinstance(item, memoryview):
            sent = raw.send(item, socket.MSG_MORE if len(self._queue) > 1 else 0)
            self._queue[0] = item[sent:]
            done = sent == len(item)
        else:
            source = item.region.fileno()
            assert source is not None
            sent = os.sendfile(raw.fileno(), source, item.position, min(item.remaining, SENDFILE_CHUNK_BYTES))
            if sent == 0:
                raise EOFError(_CUT)
            self.in_files -= sent
            done = item.advance(sent)
        self.queued_bytes -= sent
        if done:
            self._queue.popleft()
        return sent

    def _wait_writable(self) -> None:
        if not self._waiting:
            assert self._raw is not None
            self._waiting = True
            asyncio.get_running_loop().add_writer(self._raw.fileno(), self._pump_when_writable)

    def _stop_waiting(self) -> None:
        if self._waiting:
            assert self._raw is not None
            self._waiting = False
            asyncio.get_running_loop().remove_writer(self._raw.fileno())

    # -- without a duplicate ----------------------------------------------------------------------------------------

    def _pump_pieces(self) -> None:
        """Keep the transport's buffer filled, but not with more than a piece; :meth:`resume` continues.

        TLS encrypts a piece at once, and the kernel takes megabytes of a connection: after each the others have theirs.
        """
        turns = self._turns
        try:
            while self._queue and self._transport.get_write_buffer_size() < PIECE_BYTES:
                if turns.left <= 0:
                    self._stand_in_line()
                    return
                piece = self._next_piece()
                turns.left -= len(piece)
                turns.on_spent()
                self._transport.write(piece)
                if self._queue and len(piece) == PIECE_BYTES:
                    self._stand_in_line()
                    return
        except (OSError, EOFError) as error:
            self._fail(error)
            return
        if not self._queue:
            self._is_reading = False

    def _stand_in_line(self) -> None:
        self._is_in_line = True
        self._turns.stand_in_line(self._take_turn)

    def _take_turn(self) -> None:
        self._is_in_line = False
        self.resume()
        self._on_sent()

    def _next_piece(self) -> bytes | memoryview:
        item = self._queue[0]
        if isinstance(item, memoryview):
            part, rest = item[:PIECE_BYTES], item[PIECE_BYTES:]
            if rest:
                self._queue[0] = rest
            else:
                self._queue.popleft()
            self.queued_bytes -= len(part)
            return part
        source = item.region.fileno()
        assert source is not None
        piece = os.pread(source, min(item.remaining, PIECE_BYTES), item.position)
        if not piece:
            raise EOFError(_CUT)
        self.in_files -= len(piece)
        if item.advance(len(piece)):
            self._queue.popleft()
        self.queued_bytes -= len(piece)
        return piece


def read_region(region: FileRegion) -> bytes:
    """All of it. OSError; EOFError when the file ends inside it."""
    data = region.read()
    if len(data) != region.size:
        raise EOFError(_CUT)
    return data


def release(chunks: Sequence[Chunk]) -> None:
    """Let go of the files."""
    for chunk in chunks:
        if not isinstance(chunk, (bytes, bytearray, memoryview)):
            chunk.release()
