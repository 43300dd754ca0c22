"""Accepts connections for one named listener and keeps them within bounds."""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from minikafka.model import Endpoint
from minikafka.net.addresses import Addresses, too_many_of
from minikafka.net.arrivals import Arrivals
from minikafka.net.budget import Budget
from minikafka.net.connection import Connection, FrameHandler, Shared
from minikafka.net.duplicates import Duplicates
from minikafka.net.encrypted import EncryptedConnection
from minikafka.net.tasks import TaskOwner
from minikafka.net.turns import Turns
from minikafka.wire.framing import ReceiveBuffer

SWEEP_INTERVAL_S: Final = 5.0
DUPLICATES: Final = 64
BIND_PATIENCE_S: Final = 2.0
RELIEF_INTERVAL_S: Final = 1.0
STALL_S: Final = 5.0
"""Who holds memory that others wait for has so long to complete a frame, or to take some of its answers. A frame that
comes so fast that it will be complete before its deadline may take longer, as long as some of it comes."""
CROWD: Final = 100
CROWD_STALL_S: Final = 1.0
"""The same while more than so many wait: most of these complete nothing, or all would have been served by then."""


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """Bounds of one listener: count, bytes, seconds."""

    max_connections: int
    max_frame_bytes: int
    idle_timeout_s: float = 600.0
    frame_deadline_s: float = 30.0
    asks_who: bool = False
    """Whoever connects is to prove who it is. When the listener is full, a newcomer takes the place of the oldest that
    has not: so strangers cannot keep the cluster's own nodes out, nor its users."""
    held_bytes: int = 64 << 20
    """What all connections together may hold beyond their allowances (``Budget``)."""


class Listener:
    """A listening socket and the connections accepted on it."""

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        handler: FrameHandler,
        limits: ListenerLimits,
        duplicates: Duplicates | None = None,
        connection_type: Callable[..., Connection] | None = None,
        tls: tuple[Callable[[], ssl.SSLContext], TaskOwner] | None = None,
        addresses: Addresses | None = None,
    ) -> None:
        """``duplicates``: the share of descriptors for sendfile; None: a small one of its own. ``tls``: who connects
        shakes hands by what it gives then, in tasks of that owner. ``addresses``: those of clients; None: any number of
        connections may come from one."""
        self.name = name
        self.endpoint = endpoint
        self._handler = handler
        self._limits = limits
        self._connection_type = connection_type or (Connection if tls is None else EncryptedConnection)
        self._duplicates = duplicates or Duplicates(DUPLICATES)
        self._shared: Shared | None = None
        self._tls = tls
        self._addresses = addresses or Addresses()
        self._arrivals: Arrivals | None = None
        self._moved: dict[Connection, tuple[int, float]] = {}  # moved bytes, and the time of the last move
        self._relief_timer: asyncio.TimerHandle | None = None
        self._connections: dict[Connection, None] = {}  # an ordered set, oldest first
        self._strangers: dict[Connection, None] = {}  # of these, who had proved nothing when last looked at
        self.accepted = 0
        self._server: asyncio.Server | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def connection_count(self) -> int:
        """Open connections."""
        return len(self._connections)

    def limit_connections(self, most: int) -> None:
        """Another bound, for who comes from now on."""
        self._limits = replace(self._limits, max_connections=most)

    @property
    def arriving_count(self) -> int:
        """Connections under a TLS handshake."""
        return len(self._arrivals) if self._arrivals is not None else 0

    @property
    def failed_handshakes(self) -> int:
        """TLS handshakes that ended with an error, or took too long, since the start."""
        return self._arrivals.failed if self._arrivals is not None else 0

    @property
    def held_bytes(self) -> int:
        """Memory that they hold beyond their allowances."""
        return self.shared.budget.held

    async def start(self) -> None:
        """Bind and accept."""
        await self.bind()
        await self.serve()

    async def bind(self) -> None:
        """Bind the address without accepting yet. Port 0 becomes the assigned port.

        OSError naming the address when it is taken.
        """
        accept: Callable[[], asyncio.BaseProtocol] = self._accept
        if self._tls is not None:
            self._arrivals = Arrivals(self.name, *self._tls, self.shared, self._accept, self._has_room, self._addresses)
            accept = self._arrivals.new
        self._server = await bind(self.name, self.endpoint, accept)
        self.endpoint = Endpoint(self.endpoint.host, self._server.sockets[0].getsockname()[1])

    async def serve(self) -> None:
        """Accept connections from now on."""
        assert self._server is not None, "bind comes first"
        await self._server.start_serving()
        loop = asyncio.get_running_loop()
        self._sweep_timer = loop.call_later(SWEEP_INTERVAL_S, self._sweep)
        self._relief_timer = loop.call_later(RELIEF_INTERVAL_S, self._relieve)

    async def close(self) -> None:
        """Stop accepting and close every connection, also one that was accepted just now."""
        self._is_closed = True
        for timer in (self._sweep_timer, self._relief_timer):
            if timer is not None:
                timer.cancel()
        if self._server is not None:
            self._server.close()
        if self._arrivals is not None:
            self._arrivals.close()
        for connection in tuple(self._connections):
            connection.close()
        await asyncio.sleep(0)

    def _accept(self) -> Connection:
        largest = self._limits.max_frame_bytes
        return self._connection_type(_Tracked(self), listener=self.name, max_frame_bytes=largest, shared=self.shared)

    def _has_room(self) -> bool:
        """For one more that is on its way in; whoever is in is counted again, and may then take another's place."""
        taken = 0 if self._limits.asks_who else len(self._connections)
        return not self._is_closed and taken + self.arriving_count < self._limits.max_connections

    @property
    def shared(self) -> Shared:
        """Shared objects of its connections."""
        if self._shared is None:
            limits = self._limits
            budget = Budget(limits.held_bytes, limits.max_frame_bytes + ReceiveBuffer.LARGE_SIZE)
            self._shared = Shared(budget, Turns(asyncio.get_running_loop()), self._duplicates)
        return self._shared

    def _turn_out_a_stranger(self) -> bool:
        """Close the oldest connection that has not proved who it is; False when there is none."""
        while self._strangers:
            stranger = next(iter(self._strangers))
            del self._strangers[stranger]
            if not stranger.is_stranger:
                continue  # and it will not be one again
            del self._connections[stranger]
            self._addresses.leave(stranger.peer_host)
            self._handler.on_connection_lost(stranger)
            stranger.close("new connections wait, and this one is not authenticated")
            return True
        return False

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        limits = self._limits
        for connection in tuple(self._connections):
            partial_since_s = connection.partial_since_s
            if connection.is_deserted:
                connection.close()
            elif partial_since_s is not None and now_s - partial_since_s > limits.frame_deadline_s:
                connection.close(f"a frame was not completed within {limits.frame_deadline_s:.0f} s")
            elif connection.note_moved(now_s):
                continue
            elif connection.is_idle:
                connection.trim()
                if now_s - connection.last_active_s > limits.idle_timeout_s:
                    owed = f", and {connection.owed_bytes} bytes of answers unread" if connection.owed_bytes else ""
                    connection.close(f"idle for {limits.idle_timeout_s:.0f} s{owed}")
        self._sweep_timer = loop.call_later(SWEEP_INTERVAL_S, self._sweep)

    def _relieve(self) -> None:
        """While memory is tight: close connections that hold some and make no progress."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        budget = self.shared.budget
        patience_s = STALL_S if budget.waiting_count <= CROWD else CROWD_STALL_S
        moved: dict[Connection, tuple[int, float]] = {}
        for holder in budget.by_size() if budget.is_tight else ():
            assert isinstance(holder, Connection)
            holder.trim()
            before, since_s = self._moved.get(holder, (-1, now_s))
            moved[holder] = (holder.moved_bytes, since_s if before == holder.moved_bytes else now_s)
            stalled_since_s = moved[holder][1]
            if not (holder.owed_bytes or holder.is_in_time(now_s, self._limits.frame_deadline_s)):
                stalled_since_s = holder.partial_since_s or now_s
            if budget.is_tight and now_s - stalled_since_s > patience_s:
                slow = f"it was too slow for {patience_s:.0f} s"
                holder.close(f"others wait for its memory (queued.max.request.bytes), and {slow}")
        self._moved = moved
        self._relief_timer = loop.call_later(RELIEF_INTERVAL_S, self._relieve)


async def bind(name: str, endpoint: Endpoint, accept: Callable[[], asyncio.BaseProtocol]) -> asyncio.Server:
    """Bind an address; connections are refused until the server serves. OSError naming the address if it is taken."""
    loop = asyncio.get_running_loop()
    give_up_s = loop.time() + BIND_PATIENCE_S
    while True:
        try:
            return await loop.create_server(accept, endpoint.host, endpoint.port, backlog=512, start_serving=False)
        except OSError as error:
            # The port of a process that was killed a moment ago may not be free yet.
            if error.errno != errno.EADDRINUSE or loop.time() >= give_up_s:
                why = f"listener {name} cannot bind {endpoint}: {error.strerror}"
                raise OSError(error.errno, why) from error
            await asyncio.sleep(0.05)


class _Tracked:
    """The listener's handler, with the set of connections kept beside it."""

    __slots__ = ("_listener", "on_frame", "on_read_event_end")

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.on_frame = listener._handler.on_frame
        self.on_read_event_end = listener._handler.on_read_event_end

    def on_connection_made(self, connection: Connection) -> None:
        listener, host = self._listener, connection.peer_host
        if listener._arrivals is not None:
            if not listener._arrivals.arrive(connection):
                connection.close()
                return
        elif not listener._addresses.enter(host):
            connection.close(too_many_of(listener._addresses, host))
            return
        if listener._is_closed:
            listener._addresses.leave(host)
            connection.close()
            return
        if len(listener._connections) >= listener._limits.max_connections and not listener._turn_out_a_stranger():
            listener._addresses.leave(host)
            connection.close(f"more than {listener._limits.max_connections} connections; raise max.connections")
            return
        listener._connections[connection] = None
        if listener._limits.asks_who:
            listener._strangers[connection] = None
        listener.accepted += 1
        listener._handler.on_connection_made(connection)

    def on_connection_lost(self, connection: Connection) -> None:
        listener = self._listener
        if connection in listener._connections:
            del listener._connections[connection]
            listener._strangers.pop(connection, None)
            listener._addresses.leave(connection.peer_host)
            listener._handler.on_connection_lost(connection)
