"""Connections that a test may break: over a link that is cut or slow, with answers that are changed or come late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from minikafka.metrics.requests import ApiRequests
from minikafka.net.connection import Connection, FrameHandler, Shared
from minikafka.net.links import Links
from minikafka.net.outbox import Chunk, read_region, release
from minikafka.net.reply import PLAIN, Reply, size_of


@dataclass(frozen=True, slots=True)
class Treatment:
    """What happens to one answer. ``change`` gets its whole frame, empty for acks=0; None from it: the connection ends
    instead.

    ``is_dropped``: it never leaves, and later ones on its connection neither.
    """

    delay_ms: int = 0
    change: Callable[[bytes], bytes | None] | None = None
    is_dropped: bool = False


class HeldReply(Reply):
    """An answer that may have to wait, or is changed, before it leaves."""

    __slots__ = ("_held_chunks", "_is_answered", "_timer", "_treatment", "due_s", "not_before_s", "size")

    def __init__(self, connection: BreakableConnection, requests: ApiRequests | None) -> None:
        super().__init__(connection, requests)
        self._treatment, connection.treatment = connection.treatment, None
        self._timer: asyncio.TimerHandle | None = None
        self._held_chunks: Sequence[Chunk] = ()
        self._is_answered = False
        self.due_s: float | None = None
        """When its link lets it pass, where it has its place; None: not as the link is."""
        self.not_before_s = 0.0
        self.size = 0

    @property
    def is_answered(self) -> bool:
        return self._is_answered

    def send(self, chunks: Sequence[Chunk]) -> None:
        assert not self._is_answered, "a request was answered twice"
        self._is_answered = True
        self._cancel = None
        connection = self._connection
        if connection is None:
            super().send(chunks)
            return
        assert isinstance(connection, BreakableConnection)
        treatment = self._treatment
        if treatment is None and connection.links.are_whole:
            super().send(chunks)
            return
        if treatment is not None and (chunks or treatment.change is not None):
            if treatment.is_dropped:
                release(chunks)
                return
            self.not_before_s = asyncio.get_running_loop().time() + treatment.delay_ms / 1000
            if treatment.change is not None:
                changed = _changed(chunks, treatment.change)
                if changed is None:
                    connection.close()
                    return
                chunks = (changed,) if changed else ()
        self._held_chunks = chunks
        self.size = size_of(chunks)
        self.hold(sum(len(chunk) for chunk in chunks if isinstance(chunk, PLAIN)))
        connection.pass_on(self)

    def wait(self, timer: asyncio.TimerHandle | None) -> None:
        """``timer`` lets it pass, if anything but a change of the link does."""
        self._stop_waiting()
        self._timer = timer

    def pass_on(self) -> None:
        """Take its place in the connection's order."""
        self._stop_waiting()
        chunks, self._held_chunks = self._held_chunks, ()
        super().send(chunks)

    def abandon(self) -> None:
        connection = self._connection
        if isinstance(connection, BreakableConnection):
            connection.drop(self)
        super().abandon()
        if self._is_answered and not self.is_ready:
            self.pass_on()  # which lets go of files, without a connection

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class BreakableConnection(Connection):
    """A connection over a link, which hands over and answers what the link lets pass."""

    reply_type = HeldReply

    def __init__(
        self, handler: FrameHandler, *, listener: str, max_frame_bytes: int, shared: Shared, links: Links
    ) -> None:
        super().__init__(handler, listener=listener, max_frame_bytes=max_frame_bytes, shared=shared)
        self.links = links
        self._is_cut_in = False
        self._held: dict[HeldReply, None] = {}
        self.treatment: Treatment | None = None
        """Of the next answer."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.links.join(self)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        self.links.leave(self)
        super().connection_lost(exc)

    def on_link_changed(self) -> None:
        self._look()
        held, self._held = self._held, {}
        for reply in held:
            self.pass_on(reply)

    def hasten(self) -> None:
        for reply in tuple(self._held):
            reply.not_before_s = 0.0
            self._wait_for(reply)

    def pass_on(self, reply: HeldReply) -> None:
        """Send an answer when its link lets it pass."""
        self._look()  # by its answer a node may just have become known
        now_s = self._loop.time()
        link = self.links.of(self)
        reply.due_s = now_s if link is None else link.due_s(reply.size, self.opened_at_s, now_s)
        self._held[reply] = None
        self._wait_for(reply)

    def _wait_for(self, reply: HeldReply) -> None:
        if reply.due_s is None:
            reply.wait(None)
            return
        at_s = max(reply.due_s, reply.not_before_s)
        if at_s <= self._loop.time():
            self._pass(reply)
        else:
            reply.wait(self._loop.call_at(at_s, self._pass, reply))

    def _pass(self, reply: HeldReply) -> None:
        del self._held[reply]
        reply.pass_on()

    def drop(self, reply: HeldReply) -> None:
        """The connection is gone."""
        self._held.pop(reply, None)

    def _look(self) -> None:
        """Handle requests only while the link lets them arrive."""
        link = self.links.of(self)
        is_cut_in = link is not None and link.condition.is_cut_in
        if is_cut_in != self._is_cut_in:
            self._is_cut_in = is_cut_in
            if is_cut_in:
                self.suspend()
            else:
                self.resume()


def _changed(chunks: Sequence[Chunk], change: Callable[[bytes], bytes | None]) -> bytes | None:
    """The changed answer, in memory. None also when a file cannot be read, as without a change."""
    try:
        frame = b"".join([chunk if isinstance(chunk, PLAIN) else read_region(chunk) for chunk in chunks])
    except (OSError, EOFError):
        return None
    finally:
        release(chunks)
    return change(frame)
