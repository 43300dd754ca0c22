"""The machines, what listens on them, what is between them, and what is done to all of it."""

from __future__ import annotations

import asyncio
import errno
import os
from functools import partial
from socket import EAI_AGAIN, gaierror
from typing import Final

from simulator.loop import Process, Simulator
from simulator.network.links import Link, Pipe
from simulator.network.servers import Factory, Server
from simulator.network.sockets import Address, Socket

RETRANSMISSION_S: Final = 0.25
RETRANSMISSION_TIMEOUT_S: Final = 924.6
FIRST_RETRY_S: Final = 1.0
"""Until a connection that a full backlog did not take is tried again; twice that the next time."""
BACKLOG_MAX: Final = 4096
LOOPBACK_S: Final = 20e-6
EPHEMERAL_PORT: Final = 32_768


class Network:
    """All machines, what listens on them, and the links between them.

    ``timeout_s`` after which a kernel gives up what is not acknowledged; ``backlog_max`` connections that it keeps at
    most for a process to accept (Linux: ``tcp_retries2``, ``somaxconn``).
    """

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self.timeout_s = RETRANSMISSION_TIMEOUT_S
        self.backlog_max = BACKLOG_MAX
        self.lost_resolvers: set[str] = set()
        """Machines on which no name can be looked up, for now."""
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
        """Raises ConnectionRefusedError where nobody listens; waits as long as it is let where nothing answers.

        socket.gaierror where the name cannot be looked up, OSError(EMFILE) where no descriptor is left.
        """
        await process.run_in_executor(None, self._look_up, process.host)
        if process.is_out_of_descriptors:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
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

        def knock(wait_s: float = FIRST_RETRY_S) -> None:
            if host in self._powerless:
                return
            server = self._servers.get((host, port))
            if server is None or not server.is_serving:
                back.send(lambda: answer(None))
                return
            if server.is_full and not answered.done():
                self.simulator.after(wait_s, lambda _: there.send(partial(knock, 2 * wait_s)))
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

    def _look_up(self, from_host: str) -> None:
        if from_host in self.lost_resolvers:
            raise gaierror(EAI_AGAIN, "Temporary failure in name resolution")

    def _listen(
        self, process: Process, factory: Factory, host: str, port: int, is_serving: bool, backlog: int
    ) -> Server:
        if port == 0:
            self._ports += 1
            port = self._ports
        if (host, port) in self._servers:
            raise OSError(errno.EADDRINUSE, f"address {host}:{port} is in use")
        backlog = min(backlog, self.backlog_max)
        server = Server(self, process, factory, (host, port), is_serving=is_serving, backlog=backlog)
        self._servers[host, port] = server
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
