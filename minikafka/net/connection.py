"""One accepted connection: frames parsed in place, replies sent in the order of their requests.

The handler sees each frame as a view of the receive buffer, valid only until ``on_read_event_end`` returns; what it
wants to keep it copies (a log append does not: it writes the view to the file within the event). A reply may be sent
at once or much later; the connection holds later ones back until the earlier are there, as Kafka clients expect.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol, cast

import structlog

from minikafka.net.outbox import Chunk, Outbox
from minikafka.wire.framing import FrameError, ReceiveBuffer

log = structlog.get_logger(__name__)

MAX_REPLIES_IN_FLIGHT: Final = 1_000
MAX_PENDING_BYTES: Final = 4 * 1024 * 1024
RESUME_POLL_S: Final = 0.05


class FrameHandler(Protocol):
    """Whoever answers the frames of one listener."""

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        """Handle one request. Raising FrameError (or WireError) closes the connection."""
        ...

    def on_read_event_end(self) -> None:
        """All frames of one read event were handed over; views of them die when this returns."""
        ...

    def on_connection_made(self, connection: Connection) -> None: ...
    def on_connection_lost(self, connection: Connection) -> None: ...


class Reply:
    """The place of one request's answer in its connection's order."""

    __slots__ = ("_chunks", "_connection", "is_ready")

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection | None = connection
        self._chunks: Sequence[Chunk] = ()
        self.is_ready = False

    def send(self, chunks: Sequence[Chunk]) -> None:
        """Answer with ``chunks``, size prefix included. Exactly once; after the connection is gone it is a no-op."""
        assert not self.is_ready, "a request was answered twice"
        self.is_ready = True
        self._chunks = chunks
        if self._connection is None:
            self._release()
        else:
            self._connection.schedule_flush()

    def skip(self) -> None:
        """The request gets no answer (produce with acks=0)."""
        self.send(())

    def take(self) -> Sequence[Chunk]:
        """What to send; the connection calls it once, in order."""
        self._connection = None
        return self._chunks

    def abandon(self) -> None:
        """The connection is gone: whatever comes, or came, is dropped."""
        self._connection = None
        if self.is_ready:
            self._release()

    def _release(self) -> None:
        for chunk in self._chunks:
            if not isinstance(chunk, (bytes, bytearray, memoryview)):
                chunk.release()
        self._chunks = ()


class Connection(asyncio.BufferedProtocol):
    """Server side of one TCP connection. ``principal`` is the node id once the peer proved the cluster secret."""

    def __init__(self, handler: FrameHandler, *, listener: str, max_frame_bytes: int) -> None:
        self._handler = handler
        self.listener = listener
        self.principal: int | None = None
        self.session: object | None = None  # what the handler keeps per connection
        self.peer_host = ""
        self._buffer = ReceiveBuffer(max_frame_bytes)
        self._replies: deque[Reply] = deque()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self._flush_scheduled = False
        self._reading_paused = False
        self._writing_paused = False
        self._resume_timer: asyncio.TimerHandle | None = None
        self.opened_at_s = self.last_active_s = self._loop.time()
        self.partial_since_s: float | None = None  # when the frame that is still incomplete began

    # -- asyncio callbacks ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's is one, but not by inheritance
        self._outbox = Outbox(transport, self._on_output_error)
        peer = transport.get_extra_info("peername")
        self.peer_host = str(peer[0]) if isinstance(peer, tuple) and peer else ""
        self._handler.on_connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._resume_timer is not None:
            self._resume_timer.cancel()
            self._resume_timer = None
        if self._outbox is not None:
            self._outbox.close()
            self._outbox = None  # it refers back to us: all our memory would stay until a full garbage collection
        for reply in self._replies:
            reply.abandon()
        self._replies.clear()
        self._handler.on_connection_lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.writable(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self._buffer.received(nbytes)
        self._hand_over_frames()
        self._maybe_pause_reading()

    def _hand_over_frames(self) -> None:
        """Handle the frames that are there, unless too many answers are owed: the rest waits in the buffer."""
        completed = False
        replies = self._replies
        try:
            while len(replies) < MAX_REPLIES_IN_FLIGHT and (frame := self._buffer.next_frame()) is not None:
                completed = True
                self._handler.on_frame(self, frame)
                if self._transport is None or self._transport.is_closing():
                    break
        except FrameError as error:
            self.close(str(error))
        except BaseException:
            self.close()  # a bug: better no connection than no answer
            raise
        finally:
            self._handler.on_read_event_end()
        self.last_active_s = self._loop.time()
        if not len(self._buffer):
            self.partial_since_s = None
        elif completed or self.partial_since_s is None:
            self.partial_since_s = self.last_active_s

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._maybe_pause_reading()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._maybe_resume_reading()

    # -- replies ----------------------------------------------------------------------------------------------------

    def open_reply(self) -> Reply:
        """Take the next place in the order of answers."""
        reply = Reply(self)
        self._replies.append(reply)
        return reply

    def schedule_flush(self) -> None:
        """Send what is ready once the current event is over: one write for everything that became ready in it."""
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def close(self, why: str = "") -> None:
        """Close at once; ``why`` is logged when the peer is at fault."""
        if self._transport is None:
            return
        if why:
            log.info("connection closed", listener=self.listener, peer=self.peer_host, why=why)
        if self._outbox is not None:
            self._outbox.close()
        self._transport.abort()

    def close_after_replies(self) -> None:
        """Close once the replies that are ready have left."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    @property
    def is_idle(self) -> bool:
        """Nothing is asked, nothing is owed."""
        return not self._replies and self.partial_since_s is None

    def _flush(self) -> None:
        self._flush_scheduled = False
        if self._outbox is None or self._transport is None:
            return
        chunks: list[Chunk] = []
        replies = self._replies
        while replies and replies[0].is_ready:
            chunks.extend(replies.popleft().take())
        if chunks:
            self._outbox.write(chunks)
        if self._reading_paused:
            self._maybe_resume_reading()
        else:
            self._maybe_pause_reading()

    def _overloaded(self) -> bool:
        return (
            self._writing_paused
            or len(self._replies) >= MAX_REPLIES_IN_FLIGHT
            or (self._outbox is not None and self._outbox.pending_bytes > MAX_PENDING_BYTES)
        )

    def _maybe_pause_reading(self) -> None:
        if not self._reading_paused and self._transport is not None and self._overloaded():
            self._reading_paused = True
            self.partial_since_s = None  # the peer cannot complete what is not read
            self._transport.pause_reading()
            self._poll_resume()

    def _maybe_resume_reading(self) -> None:
        if not self._reading_paused or self._transport is None or self._transport.is_closing():
            return
        if not self._overloaded():
            self._hand_over_frames()
        if self._overloaded():
            self._poll_resume()
            return
        self._reading_paused = False
        self._transport.resume_reading()

    def _poll_resume(self) -> None:
        # The outbox drains outside the transport's own flow control, so the way back is also polled.
        if self._resume_timer is not None:
            self._resume_timer.cancel()
        self._resume_timer = self._loop.call_later(RESUME_POLL_S, self._maybe_resume_reading)

    def _on_output_error(self, error: Exception) -> None:
        self.close("" if isinstance(error, ConnectionError) else f"output failed: {error}")
