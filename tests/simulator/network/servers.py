"""What listens: a port, and the connections that wait to be accepted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from simulator.loop import Process
from simulator.network.sockets import Address, Socket

if TYPE_CHECKING:
    from simulator.network.network import Network

Factory = Callable[[], asyncio.BaseProtocol]


class Server:
    """What ``create_server`` gives."""

    def __init__(
        self,
        network: Network,
        process: Process,
        factory: Factory,
        address: Address,
        *,
        is_serving: bool,
        backlog: int,
    ) -> None:
        self.process = process
        self.address = address
        self.is_serving = is_serving
        self._backlog = backlog
        self._waiting = 0
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

    @property
    def is_full(self) -> bool:
        """As many connections wait to be accepted as the kernel keeps: it lets another knock in vain."""
        return self._waiting >= self._backlog

    def accept(self, socket: Socket) -> None:
        """A connection was made; its protocol hears of it when the process next runs."""
        self._waiting += 1
        self.process.call_soon(self._begin, socket)

    def _begin(self, socket: Socket) -> None:
        self._waiting -= 1
        if self.is_serving and not self.process.is_out_of_descriptors:  # libuv accepts with a spare one, and closes
            socket.begin(self._factory())
        else:
            socket.abort()
