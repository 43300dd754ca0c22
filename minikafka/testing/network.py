"""An in-memory TCP between simulated processes: it delays, splits, holds back and resets, and never reorders.

Machines are known by name (``host``). What one writes arrives at the other after the delay of the directed link
between the two, now and then in pieces. :meth:`Network.cut` a link and what is under way on it waits, as
unacknowledged segments do, until :meth:`Network.mend`; cut only one direction for the partitions that are hardest to
reason about. A killed process ends its connections. A machine without power says nothing: its peers learn of it when
it is back and they write, or have written. Connecting to a port where nobody listens is refused; to a machine without
power it hangs.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from minikafka.testing.loop import Process, Simulator

KERNEL_BUFFER_BYTES: Final = 256 * 1024
"""What may be under way in one direction before a transport's own buffer fills."""
WRITE_HIGH_BYTES: Final = 64 * 1024
SPLIT_CHANCE: Final = 0.03
RETRANSMISSION_S: Final = 0.25
LOOPBACK_S: Final = 20e-6
EPHEMERAL_PORT: Final = 32_768

Address = tuple[str, int]
Factory = Callable[[], asyncio.BaseProtocol]


@dataclass(slots=True)
class Link:
    """One direction between two machines: seconds of delay, and whether it is cut."""

    delay_min_s: float = 50e-6
    delay_max_s: float = 500e-6
    is_cut: bool = False


class Network:
    """All machines, what listens on them, and the links between them."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self._links: dict[tuple[str, str], Link] = {}
        self._stuck: dict[tuple[str, str], dict[Pipe, None]] = {}
        self._servers: dict[Address, Server] = {}
        self._sockets: dict[Process, dict[Socket, None]] = {}
        self._powerless: dict[str, list[Socket]] = {}
        self._ports = EPHEMERAL_PORT

    def process(self, host: str) -> Process:
        """A new process on the machine ``host``, which has power from now on."""
        process = Process(self.simulator, host, self._connect, self._listen)  # type: ignore[abstract]  # the rest is unused
        process.on_kill(lambda: self._on_kill(process))
        self._sockets[process] = {}
        for silent in self._powerless.pop(host, ()):
            silent.answer_retransmission()
        return process

    def processes(self) -> list[Process]:
        """All processes that live."""
        return list(self._sockets)

    # -- faults -----------------------------------------------------------------------------------------------------

    def link(self, source: str, target: str) -> Link:
        """The link from one machine to another, to change its delays."""
        return self._links.setdefault((source, target), Link())

    def cut(self, source: str, target: str) -> None:
        """Let nothing pass from ``source`` to ``target`` any more; the other way is another link."""
        self.link(source, target).is_cut = True

    def mend(self, source: str, target: str) -> None:
        """Let everything pass again; what waited is sent again within a while."""
        self.link(source, target).is_cut = False
        for pipe in self._stuck.pop((source, target), ()):
            self.simulator.after(RETRANSMISSION_S * self.simulator.rng.random(), pipe.retransmit)

    def mend_all(self) -> None:
        """Mend every link."""
        for pair in [pair for pair, link in self._links.items() if link.is_cut]:
            self.mend(*pair)

    def lose_power(self, host: str) -> None:
        """The machine is off: it neither answers nor refuses, until a process is started on it. Kill those it has."""
        self._powerless.setdefault(host, [])

    # -- what the parts below ask -------------------------------------------------------------------------------------

    def delay_s(self, source: str, target: str) -> float:
        """A delay for the next thing on that link."""
        if source == target:
            return LOOPBACK_S
        link = self.link(source, target)
        return link.delay_min_s + (link.delay_max_s - link.delay_min_s) * self.simulator.rng.random()

    def hold(self, pipe: Pipe) -> None:
        """The pipe met a link that is cut."""
        self._stuck.setdefault((pipe.source, pipe.target), {})[pipe] = None

    def open(self, socket: Socket) -> None:
        """Remember a socket, so that it ends with its process."""
        self._sockets[socket.process][socket] = None

    def closed(self, socket: Socket) -> None:
        """Forget a socket."""
        self._sockets[socket.process].pop(socket, None)

    def forget(self, server: Server) -> None:
        """A server closed."""
        self._servers.pop(server.address, None)

    # -- what processes ask -------------------------------------------------------------------------------------------

    async def _connect(
        self, process: Process, factory: Factory, host: str, port: int
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Raises ConnectionRefusedError where nobody listens; waits as long as it is let where nothing answers."""
        there, back = Pipe(self, process.host, host), Pipe(self, host, process.host)
        answered: asyncio.Future[Socket | None] = process.create_future()
        self._ports += 1
        name: Address = (process.host, self._ports)

        def answer(socket: Socket | None) -> None:
            if answered.done() or not process.is_alive:
                if socket is not None:
                    socket.abort()
            else:
                answered.set_result(socket)

        def knock() -> None:
            if host in self._powerless:
                return
            server = self._servers.get((host, port))
            if server is None or not server.is_serving:
                back.send(lambda: answer(None))
                return
            near = Socket(self, process, name, server.address, there)
            far = Socket(self, server.process, server.address, name, back)
            near.peer, far.peer = far, near
            back.send(lambda: answer(near))
            server.accept(far)

        there.send(knock)
        try:
            socket = await answered
        except asyncio.CancelledError:
            if not answered.cancelled() and (late := answered.result()) is not None:
                late.abort()
            raise
        if socket is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"connection to {host}:{port} refused")
        protocol = factory()
        socket.begin(protocol)
        return socket.transport, protocol

    def _listen(self, process: Process, factory: Factory, host: str, port: int, is_serving: bool) -> Server:
        if port == 0:
            self._ports += 1
            port = self._ports
        if (host, port) in self._servers:
            raise OSError(errno.EADDRINUSE, f"address {host}:{port} is in use")
        server = self._servers[host, port] = Server(self, process, factory, (host, port), is_serving)
        return server

    def _on_kill(self, process: Process) -> None:
        for server in [server for server in self._servers.values() if server.process is process]:
            self.forget(server)
        sockets = self._sockets.pop(process)
        silent = self._powerless.get(process.host)
        for socket in sockets:
            socket.die(is_silent=silent is not None)
        if silent is not None:
            silent.extend(sockets)


class Pipe:
    """One direction of a connection: things that happen at the other end, in order, after the link's delay."""

    __slots__ = ("_last", "_network", "_queue", "_unsent", "source", "target")

    def __init__(self, network: Network, source: str, target: str) -> None:
        self.source = source
        self.target = target
        self._network = network
        self._queue: deque[Callable[[], None]] = deque()
        self._unsent = 0  # how many of the queue met a link that was cut
        self._last = 0.0

    def send(self, act: Callable[[], None]) -> None:
        """Let ``act`` happen at the other end."""
        simulator = self._network.simulator
        self._queue.append(act)
        self._last = max(self._last + 1e-9, simulator.now + self._network.delay_s(self.source, self.target))
        simulator.at(self._last, self._arrive)

    def retransmit(self, _: object = None) -> None:
        """The link is mended: what waited arrives."""
        while self._unsent and not self._network.link(self.source, self.target).is_cut:
            self._unsent -= 1
            self._queue.popleft()()
        if self._unsent:
            self._network.hold(self)

    def _arrive(self, _: object) -> None:
        if self._unsent or self._network.link(self.source, self.target).is_cut:
            self._unsent += 1
            self._network.hold(self)
        else:
            self._queue.popleft()()


class Server:
    """What ``create_server`` gives."""

    def __init__(
        self, network: Network, process: Process, factory: Factory, address: Address, is_serving: bool
    ) -> None:
        self.process = process
        self.address = address
        self.is_serving = is_serving
        self._network = network
        self._factory = factory

    @property
    def sockets(self) -> tuple[Server, ...]:
        """Itself, for :meth:`getsockname`."""
        return (self,)

    def getsockname(self) -> Address:
        """The address that it listens on."""
        return self.address

    async def start_serving(self) -> None:
        """Accept from now on."""
        self.is_serving = True

    def close(self) -> None:
        """Accept no more, and free the address."""
        self.is_serving = False
        self._network.forget(self)

    async def wait_closed(self) -> None:
        """Nothing is left to wait for."""

    def accept(self, socket: Socket) -> None:
        """A connection was made; its protocol hears of it when the process next runs."""
        self.process.call_soon(self._begin, socket)

    def _begin(self, socket: Socket) -> None:
        if self.is_serving:
            socket.begin(self._factory())
        else:
            socket.abort()


class Socket:
    """One end of a connection."""

    peer: Socket

    def __init__(self, network: Network, process: Process, name: Address, peer_name: Address, out: Pipe) -> None:
        self.process = process
        self.name = name
        self.peer_name = peer_name
        self.transport = SimulatedTransport(self)
        self.is_open = True
        self.is_reading = True
        self._network = network
        self._out = out
        self._protocol: asyncio.BaseProtocol | None = None
        self._inbound = bytearray()
        self._end: Exception | bool | None = False  # what connection_lost will be told once all is read; False: no end
        self._has_delivery = False
        self._waiting = bytearray()  # in the process, because the kernel takes no more
        self._under_way = 0  # in the kernels: the peer's process did not read it yet
        self._is_writing_paused = False
        self._is_closing = False
        self._is_silent = False
        self._missed = False  # bytes came while the machine had no power
        if process.is_alive:
            network.open(self)
        else:
            self.is_open = False

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """Tell the protocol that it is connected, then hand over what is there already."""
        self._protocol = protocol
        protocol.connection_made(self.transport)
        self._want_delivery()

    # -- sending ------------------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Write: as much as the kernel takes is on its way, the rest waits in the process."""
        if not self.is_open or self._is_closing:
            return
        self._waiting += data
        self._push()
        if self.buffered > WRITE_HIGH_BYTES and not self._is_writing_paused and self._protocol is not None:
            self._is_writing_paused = True
            cast(asyncio.Protocol, self._protocol).pause_writing()

    def _push(self) -> None:
        rng = self._network.simulator.rng
        while self._waiting and self._under_way < KERNEL_BUFFER_BYTES:
            size = min(len(self._waiting), KERNEL_BUFFER_BYTES - self._under_way)
            if size > 1 and rng.random() < SPLIT_CHANCE:
                size = rng.randrange(1, size)
            data = bytes(self._waiting[:size])
            del self._waiting[:size]
            self._under_way += size
            self._out.send(partial(self.peer.receive, data))

    @property
    def buffered(self) -> int:
        """Bytes written that the kernel did not take yet."""
        return len(self._waiting)

    def _taken(self, count: int) -> None:
        """The peer's process read that many bytes."""
        self._under_way -= count
        if self._waiting and self.is_open:
            self.process.call_soon(self._on_writable)

    def _on_writable(self) -> None:
        if not self.is_open:
            return
        self._push()
        if self._is_writing_paused and self.buffered < WRITE_HIGH_BYTES // 4:
            self._is_writing_paused = False
            cast(asyncio.Protocol, self._protocol).resume_writing()
        if self._is_closing and not self._waiting:
            self._end_orderly()

    # -- ending -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Orderly: what was written arrives, then the end."""
        if self.is_open and self.process.is_alive:
            self._is_closing = True
            if not self._waiting:
                self._end_orderly()

    def _end_orderly(self) -> None:
        if self._shut(None):
            self._hang_up()

    def abort(self) -> None:
        """At once; the peer is told with a reset."""
        if self._shut(None):
            self._reset()

    def die(self, *, is_silent: bool) -> None:
        """The process is gone, with what waited in it: its machine ends the connection, if it has power."""
        self.is_open = False
        self._is_silent = is_silent
        self._waiting.clear()
        if not is_silent:
            self._hang_up()

    def answer_retransmission(self) -> None:
        """The machine has power again and does not know this connection: a peer that sends again hears so."""
        self._is_silent = False
        if self._missed:
            self._reset()

    def _hang_up(self) -> None:
        """The kernel's way: an end, or a reset where something that arrived was not read."""
        if self._inbound:
            self._reset()
        else:
            self._out.send(lambda: self.peer.receive_end(None))

    def _reset(self) -> None:
        reset = ConnectionResetError(errno.ECONNRESET, "connection reset by peer")
        self._out.send(lambda: self.peer.receive_end(reset))

    @property
    def is_closing(self) -> bool:
        """True once nothing more can be written."""
        return self._is_closing or not self.is_open

    def _shut(self, error: Exception | None) -> bool:
        if not self.is_open or not self.process.is_alive:
            return False
        self.is_open = False
        self._waiting.clear()
        self._network.closed(self)
        if self._protocol is not None:
            self.process.call_soon(self._protocol.connection_lost, error)
        return True

    # -- receiving ----------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Bytes arrived at this machine."""
        if self.is_open:
            self._inbound += data
            self._want_delivery()
        elif self._is_silent:
            self._missed = True
        else:
            self._reset()

    def receive_end(self, error: Exception | None) -> None:
        """The peer sends no more; a reset also discards what was not read."""
        if self.is_open and self._end is False:
            self._end = error
            if error is not None:
                self._inbound.clear()
            self._want_delivery()

    def resume_reading(self) -> None:
        """Hand over what arrived meanwhile."""
        self.is_reading = True
        self._want_delivery()

    def _want_delivery(self) -> None:
        if not self._has_delivery and self._protocol is not None and (self._inbound or self._end is not False):
            self._has_delivery = True
            self.process.call_soon(self._deliver)

    def _deliver(self) -> None:
        """One read event, as an event loop does per iteration."""
        self._has_delivery = False
        if not self.is_open:
            return
        if self._inbound:
            if not self.is_reading:
                return
            self._read(cast(Any, self._protocol))
            self._want_delivery()
        elif not isinstance(self._end, bool):
            error = self._end
            if error is None and cast(asyncio.Protocol, self._protocol).eof_received():
                return
            self._shut(error)

    def _read(self, protocol: Any) -> None:
        inbound = self._inbound
        if isinstance(protocol, asyncio.BufferedProtocol):
            buffer: Any = protocol.get_buffer(len(inbound))
            count = min(len(buffer), len(inbound))
            buffer[:count] = inbound[:count]
            del inbound[:count]
            self.peer._taken(count)
            protocol.buffer_updated(count)
        else:
            data = bytes(inbound)
            inbound.clear()
            self.peer._taken(len(data))
            protocol.data_received(data)


class SimulatedTransport(asyncio.Transport):
    """What a protocol writes to."""

    def __init__(self, socket: Socket) -> None:
        super().__init__({"peername": socket.peer_name, "sockname": socket.name})
        self._socket = socket

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._socket.send(bytes(data))

    def get_write_buffer_size(self) -> int:
        return self._socket.buffered

    def is_closing(self) -> bool:
        return self._socket.is_closing

    def close(self) -> None:
        self._socket.close()

    def abort(self) -> None:
        self._socket.abort()

    def pause_reading(self) -> None:
        self._socket.is_reading = False

    def resume_reading(self) -> None:
        self._socket.resume_reading()

    def is_reading(self) -> bool:
        return self._socket.is_reading
