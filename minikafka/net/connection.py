"""One accepted connection: frames parsed in place, replies sent in the order of their requests.

The handler gets each frame as a view of the receive buffer, valid until ``on_read_event_end`` returns. It copies what
it keeps (a log append writes the view to the file within the event). A reply may come at once or much later. The
connection holds back later replies until earlier ones are ready, as Kafka clients expect. A node tells answers apart by
their ids, and makes calls that share a connection: none of them waits for another (``keeps_order``).

A connection is read from unless (:meth:`Connection._is_held_up`)

- it is *owed* enough: MAX_REPLIES_IN_FLIGHT requests, or MAX_HELD_BYTES of waiting requests, ready answers and unsent
  bytes;
- all connections of the listener hold too much, and it needs more than its own allowance (``budget``);
- it *stands in line*: this turn of the loop has handled enough (``turns``);
- it is *suspended*: a thread examines a request, and later requests must wait for it.

Bytes that have arrived wait in the receive buffer, and are handled before the socket is read again. What is more where
they are encrypted is in ``encrypted``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import ClassVar, Final, Protocol, cast

from minikafka.metrics.requests import ApiRequests
from minikafka.model import ANONYMOUS
from minikafka.net.budget import Budget
from minikafka.net.closings import Closings
from minikafka.net.duplicates import Duplicates
from minikafka.net.liveness import WITH_CALLERS, is_gone, keep_alive
from minikafka.net.outbox import Chunk, Outbox
from minikafka.net.reply import WAITING_BYTES, Reply
from minikafka.net.turns import HALF_TURN, REQUEST_COST, Turns
from minikafka.wire.framing import FrameError, ReceiveBuffer

MAX_REPLIES_IN_FLIGHT: Final = 1_000
MAX_HELD_BYTES: Final = 4 * 1024 * 1024
"""For one peer: requests that wait, answers that are ready behind them, and what it has not taken yet."""


class FrameHandler(Protocol):
    """Handler of the frames of one listener."""

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        """Handle one request. Raising FrameError (or WireError) closes the connection."""
        ...

    def on_read_event_end(self) -> None:
        """All frames of one read event were handled. Their views are invalid once this returns."""
        ...

    def on_connection_made(self, connection: Connection) -> None: ...
    def on_connection_lost(self, connection: Connection) -> None: ...


class Shared:
    """Shared objects of the connections of one listener. Strangers have turns of their own: a thousand of them keep no
    user waiting."""

    __slots__ = ("budget", "closings", "duplicates", "strangers", "turns")

    def __init__(self, budget: Budget, turns: Turns, duplicates: Duplicates) -> None:
        self.budget = budget
        self.turns = turns
        self.strangers = Turns(asyncio.get_running_loop())
        self.duplicates = duplicates
        self.closings = Closings()


class Connection(asyncio.BufferedProtocol):
    """Server side of one TCP connection.

    ``principal`` is the node id once the peer proved the cluster secret, ``user`` the name of a client once it proved
    that it is.
    """

    reply_type: ClassVar[type[Reply]] = Reply
    stalled_bytes: ClassVar[int] = 0
    """What its transport holds, and does not tell, while the peer takes nothing."""

    def __init__(self, handler: FrameHandler, *, listener: str, max_frame_bytes: int, shared: Shared) -> None:
        self._handler = handler
        self.listener = listener
        self.principal: int | None = None
        self.user = ANONYMOUS
        self.keeps_order = True  # of requests, among their answers
        self.session: object | None = None  # state of the handler
        self.peer_host = ""
        self.replies_held = 0  # bytes; each reply adds its own
        self.replies_in_files = 0  # of these, what takes no memory
        self._max_frame_bytes = max_frame_bytes
        self._buffer = ReceiveBuffer(max_frame_bytes)
        self._replies: deque[Reply] = deque()
        self._loop = asyncio.get_running_loop()
        self._shared = shared
        self._budget, self._turns = shared.budget, shared.turns
        self._wanted = 0  # bytes beyond the allowance when it goes on, as the budget knows them
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self._flush_scheduled = False
        self._reading_paused = False
        self._writing_paused = False
        self._in_line = False
        self._suspended = 0  # how many ask for it
        self._unmuting: asyncio.TimerHandle | None = None
        self._received_bytes = 0
        self._moved_before = 0
        self.opened_at_s = self.last_active_s = self._loop.time()
        self.partial_since_s: float | None = None  # begin of the incomplete frame
        self._received_until_then = 0

    # -- asyncio callbacks ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's is one, but not by inheritance
        shared = self._shared
        self._outbox = Outbox(
            transport,
            self._on_output_error,
            on_sent=self._on_sent,
            duplicates=shared.duplicates,
            turns=shared.turns,
        )
        peer = transport.get_extra_info("peername")
        self.peer_host = str(peer[0]) if isinstance(peer, tuple) and peer else ""
        sock = transport.get_extra_info("socket")
        if sock is not None:
            keep_alive(sock, WITH_CALLERS)
        self._budget.join(self)
        self._handler.on_connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._outbox is not None:
            self._outbox.close()
            self._outbox = None  # it refers back to us: our memory would stay until a full garbage collection
        self._buffer.discard()
        self._budget.forget(self)
        if self._unmuting is not None:
            self._unmuting.cancel()  # it refers to us
        replies, self._replies = self._replies, deque()
        for reply in replies:
            reply.abandon()
        self._handler.on_connection_lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.writable(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self._received_bytes += nbytes
        self._buffer.received(nbytes)
        self._hand_over_frames()
        self._settle()

    def _hand_over_frames(self) -> None:
        """Handle the complete frames, until too much is owed or the turn is over. The rest waits in the buffer."""
        completed = False
        replies, turns = self._replies, self._turns
        next_frame, on_frame = self._buffer.next_frame, self._handler.on_frame
        self.last_active_s = self._loop.time()
        try:
            while (
                turns.left > 0
                and not self._suspended
                and len(replies) < MAX_REPLIES_IN_FLIGHT
                and self.replies_held <= MAX_HELD_BYTES
                and (frame := next_frame()) is not None
            ):
                completed = True
                turns.left -= REQUEST_COST + len(frame)
                on_frame(self, frame)
        except FrameError as error:
            self.close(str(error))
        except BaseException:
            self.close()  # a bug: better no connection than no answer
            raise
        finally:
            self._handler.on_read_event_end()
            if turns.left < HALF_TURN:
                turns.on_spent()
        if not len(self._buffer):
            self.partial_since_s = None
        elif completed or self.partial_since_s is None:
            self.partial_since_s = self.last_active_s
            self._received_until_then = self._received_bytes

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._settle()

    def resume_writing(self) -> None:
        self._writing_paused = False
        if self._outbox is not None:
            self._outbox.resume()
        self._go_on()

    # -- replies ----------------------------------------------------------------------------------------------------

    def open_reply(self, requests: ApiRequests | None = None) -> Reply:
        """Take the next place in the order of answers; ``requests`` counts it when its answer leaves."""
        reply = self.reply_type(self, requests)
        self._replies.append(reply)
        self.replies_held += WAITING_BYTES
        return reply

    def spend(self, cost: int) -> None:
        """Charge the turn with the cost of the present request beyond its bytes (see ``turns``)."""
        self._turns.left -= cost
        self._turns.on_spent()

    async def wait_for_turn(self) -> None:
        """Wait in the line of all connections for a turn of the loop."""
        await self._turns.wait()

    def suspend(self) -> None:
        """Handle no further request until :meth:`resume`: the present one must come before them."""
        self._suspended += 1

    def resume(self) -> None:
        """The request is handled: go on with the later ones."""
        self._suspended -= 1
        assert self._suspended >= 0
        self._go_on()

    def mute(self, delay_s: float) -> None:
        """Handle no further request for so long."""
        if self._transport is None:
            return
        if self._unmuting is None:
            self.suspend()
        elif self._unmuting.when() >= self._loop.time() + delay_s:
            return
        else:
            self._unmuting.cancel()
        self._unmuting = self._loop.call_later(delay_s, self._unmute)

    def _unmute(self) -> None:
        self._unmuting = None
        self.resume()

    def schedule_flush(self) -> None:
        """Send ready replies at the end of the current event, in one write."""
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def close(self, why: str = "") -> None:
        """Close at once; ``why`` is logged when the peer is at fault."""
        if self._transport is None:
            return
        self._note(why)
        if self._outbox is not None:
            self._outbox.close()
        self._buffer.discard()  # before others hear that there is room
        self._budget.forget(self)
        self._end(self._transport)

    def _end(self, transport: asyncio.Transport) -> None:
        transport.abort()

    def _note(self, why: str) -> None:
        if why and self._transport is not None:
            self._shared.closings.note(self._loop.time(), self.listener, self.peer_host, why)

    def limit_frames(self, size_max: int | None) -> None:
        """Take no larger frames from now on; None: as large ones as the listener takes. It is among the strangers from
        now on if it is one (``is_stranger``), or among the users."""
        self._buffer.size_max = self._max_frame_bytes if size_max is None else size_max
        self._turns = self._shared.strangers if self.is_stranger else self._shared.turns

    def close_after_replies(self, why: str = "") -> None:
        """Close once the replies that are ready have left; ``why`` is logged when the peer is at fault."""
        self._note(why)
        self._flush()
        self._buffer.discard()  # later requests are not handled
        if self._transport is not None:
            self._end_after_replies(self._transport)

    def _end_after_replies(self, transport: asyncio.Transport) -> None:
        transport.close()

    def _flush(self) -> None:
        self._flush_scheduled = False
        if self._outbox is None or self._transport is None:
            return
        chunks: list[Chunk] = []
        held = in_files = alike = 0
        requests, began_s = None, 0.0
        replies = self._replies if self.keeps_order or len(self._replies) == 1 else self._take_ready()
        now_s = self._loop.time()
        while replies and replies[0].is_ready:
            reply = replies.popleft()
            if reply.requests is not requests or reply.began_s != began_s:
                if requests is not None:
                    requests.note(round((now_s - began_s) * 1000), alike)
                requests, began_s, alike = reply.requests, reply.began_s, 0
            alike += 1
            held += reply.held
            in_files += reply.in_files
            chunks += reply.take()
        if requests is not None:
            requests.note(round((now_s - began_s) * 1000), alike)
        self.replies_held -= held
        self.replies_in_files -= in_files
        outbox = self._outbox
        if chunks:
            outbox.write(chunks)
        if self._reading_paused or self._wanted or outbox.queued_bytes:  # otherwise nothing was held back
            self._go_on()

    def _take_ready(self) -> deque[Reply]:
        ready = deque(reply for reply in self._replies if reply.is_ready)
        waiting = [reply for reply in self._replies if not reply.is_ready]
        self._replies.clear()
        self._replies.extend(waiting)
        return ready

    def _on_output_error(self, error: Exception) -> None:
        self.close("" if isinstance(error, ConnectionError) else f"output failed: {error}")

    def _on_sent(self) -> None:
        if self._reading_paused:
            self._go_on()

    # -- how its listener sees it -----------------------------------------------------------------------------------

    @property
    def is_stranger(self) -> bool:
        """True until it has proved which node or which user it is."""
        return self.principal is None and self.user == ANONYMOUS

    @property
    def certificate(self) -> bytes | None:
        """What the client has shown in its TLS handshake, and was found good, in DER."""
        return None

    @property
    def is_idle(self) -> bool:
        """True when no request is pending: then only moving bytes keep it from being closed."""
        return not self._replies and self.partial_since_s is None

    @property
    def read_bytes_max(self) -> int:
        """Of its socket at once, if encrypted: twice its receive buffer, as the last record is not whole."""
        return 2 * self._buffer.capacity

    @property
    def owed_bytes(self) -> int:
        """Bytes that its peer has not taken yet."""
        return 0 if self._outbox is None else self._outbox.pending_bytes

    @property
    def moved_bytes(self) -> int:
        """Bytes received and sent so far. While it grows, a transfer is under way."""
        outbox = self._outbox
        return self._received_bytes + (0 if outbox is None else outbox.accepted_bytes - outbox.pending_bytes)

    def is_in_time(self, now_s: float, deadline_s: float) -> bool:
        """True when its frame comes fast enough to be complete within ``deadline_s``. What came before it was read from
        does not count: a frame that is nearly complete holds memory as well."""
        if self.partial_since_s is None:
            return True
        received = self._received_bytes - self._received_until_then
        return received * deadline_s >= self._buffer.frame_size * (now_s - self.partial_since_s)

    def note_moved(self, now_s: float) -> bool:
        """True when bytes moved since the last call: a peer that takes an answer is not idle."""
        moved = self.moved_bytes
        if moved == self._moved_before:
            return False
        self._moved_before = moved
        self.last_active_s = now_s
        return True

    @property
    def is_deserted(self) -> bool:
        """True when the peer is gone and no read would tell: reading is paused while answers are pending."""
        transport = self._transport
        if transport is None or not self._reading_paused or not (self._replies or self.owed_bytes):
            return False
        sock = transport.get_extra_info("socket")
        return sock is not None and is_gone(sock.fileno())

    # -- reading or not ---------------------------------------------------------------------------------------------

    def on_room(self) -> None:
        """There is memory for it again (``Budget``)."""
        self._loop.call_soon(self._go_on)

    def on_less_allowed(self) -> None:
        """There are more connections (``Budget``)."""
        if self._transport is not None and not self._transport.is_closing() and self._is_held_up():
            self._pause_reading()

    def trim(self) -> None:
        """Shrink the receive buffer, unless something waits in it: others wait for memory, or the peer rests."""
        if self._buffer.capacity > ReceiveBuffer.COMFORTABLE_SIZE:
            self._buffer.trim()
        self._settle()

    def give_up(self) -> None:
        """The hard limit is exceeded, and this connection has the most (``Budget``)."""
        self.close(f"it holds the most memory, of {self._budget.held} bytes in all connections")

    def _is_held_up(self) -> bool:
        held = self.replies_held
        outbox = self._outbox
        if outbox is not None:  # the transport holds little, unless it reports much
            held += outbox.pending_bytes + self.stalled_bytes if self._writing_paused else outbox.queued_bytes
        buffer, allowance = self._buffer, self._budget.allowance
        buffer.comfortable_size = min(allowance, ReceiveBuffer.COMFORTABLE_SIZE)
        wanted = held + buffer.wanted(allowance) - allowance
        if wanted > 0 or self._wanted:
            wanted = self._report(held - self.replies_in_files - (outbox.in_files if outbox is not None else 0))
        return (
            self._writing_paused
            or held > MAX_HELD_BYTES
            or len(self._replies) >= MAX_REPLIES_IN_FLIGHT
            or self._in_line
            or self._suspended > 0
            or (wanted > 0 and not self._budget.may_go_on(self, wanted, wanted + buffer.needed - buffer.capacity))
        )

    def _report(self, held: int) -> int:
        """Report the memory beyond the allowance to the budget, without an empty buffer while others wait. How much it
        will be when this connection goes on; 0: none."""
        if self._budget.is_tight:
            self._buffer.trim()
        allowed = self._budget.allowance - held
        self._wanted = max(0, self._buffer.wanted(self._budget.allowance) - allowed)
        self._budget.report(self, max(0, self._buffer.capacity - allowed), self._wanted)
        return self._wanted

    def _settle(self) -> None:
        """Resume or pause reading, by the present state."""
        outbox = self._outbox
        if (
            self.replies_held + self._buffer.needed <= self._budget.allowance
            and len(self._replies) < MAX_REPLIES_IN_FLIGHT
            and self._turns.left > 0
            and outbox is not None
            and not (outbox.queued_bytes or self._wanted or self._writing_paused)
            and not (self._reading_paused or self._in_line or self._suspended)
        ):
            return  # the usual case: reading goes on
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._turns.left <= 0 or self._buffer.must_grow_much:
            self._stand_in_line()
        if not self._is_held_up():
            if self._reading_paused:
                self._reading_paused = False
                transport.resume_reading()
        else:
            self._pause_reading()

    def _pause_reading(self) -> None:
        if self._transport is not None and not self._reading_paused:
            self._reading_paused = True
            self.partial_since_s = None  # the peer cannot complete an unread frame
            self._stop_reading(self._transport)

    def _stop_reading(self, transport: asyncio.Transport) -> None:
        transport.pause_reading()

    def _stand_in_line(self) -> None:
        if not self._in_line:
            self._in_line = True
            self._turns.stand_in_line(self._take_turn)

    def _go_on(self) -> None:
        """Answers left, or memory became free: handle waiting frames if nothing holds them up any more."""
        if self._reading_paused and self._transport is not None and not self._transport.is_closing():
            if self._is_held_up():
                return
            self._hand_over_frames()
        self._settle()

    def _take_turn(self) -> None:
        self._in_line = False
        if self._buffer.must_grow_much and not self._is_held_up():
            self.spend(self._buffer.grow())  # if bytes are copied after all, 64 MiB take 30 ms
        self._go_on()
