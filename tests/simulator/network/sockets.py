"""The two ends of a connection, and the transports by which protocols see them."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from functools import partial
from socket import IPPROTO_TCP, TCP_KEEPCNT, TCP_KEEPIDLE, TCP_KEEPINTVL
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from simulator.loop import Process
from simulator.network.links import Pipe

if TYPE_CHECKING:
    from simulator.kernel import Kernel
    from simulator.network.network import Network

KERNEL_BUFFER_BYTES: Final = 256 * 1024
"""What may be under way in one direction before a transport's own buffer fills."""
WRITE_HIGH_BYTES: Final = 64 * 1024
SPLIT_CHANCE: Final = 0.03

Address = tuple[str, int]


class Socket:
    """One end of a connection."""

    peer: Socket
    kernel: ClassVar[Kernel | None] = None
    """By which the socket has descriptors."""

    def __init__(self, network: Network, process: Process, name: Address, peer_name: Address, out: Pipe) -> None:
        self.process = process
        self.name = name
        self.peer_name = peer_name
        self.transport = SimulatedTransport(self)
        self.is_open = True
        self.is_reading = True
        self.on_room: Callable[[], None] = lambda: None
        """The kernel takes more again."""
        self._network = network
        self._out = out
        out.on_timeout = self.time_out
        self._protocol: asyncio.BaseProtocol | None = None
        self._inbound = bytearray()
        self._end: Exception | bool | None = False  # what connection_lost will be told once all is read; False: no end
        self._has_delivery = False
        self._waiting = bytearray()  # in the process, because the kernel takes no more
        self._under_way = 0  # in the kernels: the peer's process did not read it yet
        self._descriptor: int | None = None
        self.write_high = WRITE_HIGH_BYTES
        self._is_writing_paused = False
        self._is_closing = False
        self._is_silent = False
        self._missed = False  # bytes came while the machine had no power
        self._options: dict[int, int] = {}
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
        if self.buffered > self.write_high and not self._is_writing_paused and self._protocol is not None:
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
    def room(self) -> int:
        """Bytes that the kernel would take now of somebody who writes past the transport."""
        return 0 if self._waiting else KERNEL_BUFFER_BYTES - self._under_way

    def push(self, data: bytes) -> None:
        """Hand so much to the kernel, past the transport."""
        assert len(data) <= self.room
        self._waiting += data
        self._push()

    @property
    def has_ended(self) -> bool:
        """The peer sends no more, or the connection is gone."""
        return self._end is not False or not self.is_open

    def descriptor(self) -> int:
        """A number by which the kernel knows it."""
        assert self.kernel is not None
        if self._descriptor is None:
            self._descriptor = self.kernel.describe(self)
        return self._descriptor

    @property
    def buffered(self) -> int:
        """Bytes written that the kernel did not take yet."""
        return len(self._waiting)

    def _taken(self, count: int) -> None:
        """The peer's process read that many bytes."""
        self._under_way -= count
        if self._waiting and self.is_open:
            self.process.call_soon(self._on_writable)
        self.on_room()

    def _on_writable(self) -> None:
        if not self.is_open:
            return
        self._push()
        if self._is_writing_paused and self.buffered <= self.write_high // 4:
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

    def time_out(self) -> None:
        """What was written is not acknowledged: the kernel ends this side, and the other does not learn of it."""
        self._shut(TimeoutError(errno.ETIMEDOUT, "connection timed out"))

    def die(self, *, is_silent: bool) -> None:
        """The process is gone, with what waited in it: its machine ends the connection, if it has power."""
        self.is_open = False
        self._is_silent = is_silent
        self._waiting.clear()
        if not is_silent:
            self._hang_up()
        elif (idle_s := self.peer._options.get(TCP_KEEPIDLE)) is not None:
            self._network.simulator.after(idle_s, self._answer_probe)

    def _answer_probe(self, _: object) -> None:
        """The peer's kernel asks whether the connection is still there."""
        if not self.peer.is_open:
            return
        if self._is_silent:
            options = self.peer._options
            wait_s = options[TCP_KEEPINTVL] * options[TCP_KEEPCNT]
            self._network.simulator.after(wait_s, self._stay_silent_to_probes)
        else:
            self._reset()

    def _stay_silent_to_probes(self, _: object) -> None:
        if self._is_silent:
            self.peer.time_out()
        elif self.peer.is_open:
            self._reset()

    def set_option(self, level: int, option: int, value: int) -> None:
        """As ``setsockopt``; some are known here."""
        if level == IPPROTO_TCP:
            self._options[option] = value

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
            if not self._missed:
                self._network.simulator.after(self._network.timeout_s, self._stay_silent)
            self._missed = True
        else:
            self._reset()

    def _stay_silent(self, _: object) -> None:
        if self._is_silent:
            self.peer.time_out()

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

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "socket" and self._socket.kernel is not None:
            return SimpleNamespace(fileno=self._socket.descriptor, setsockopt=self._socket.set_option)
        return super().get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._socket.send(bytes(data))

    def get_write_buffer_size(self) -> int:
        return self._socket.buffered

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """By itself it pauses where uvloop does."""
        assert low is None, "nobody asks for that"
        self._socket.write_high = WRITE_HIGH_BYTES if high is None else high

    def is_closing(self) -> bool:
        return self._socket.is_closing

    def can_write_eof(self) -> bool:
        return False

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
