"""The brokers of a test as threads of its process: under its debugger, in its coverage, where no process may start.

Each has an event loop of its own, and logs to its own file. To kill one is to end it without a handover, a sync or a
clean mark, between two turns of its loop; only a process can be killed at any instruction. A paused one holds its loop:
sockets stay open, and nothing is answered. They share the process's descriptors, its interpreter lock, and its loggers:
those of the test's clients, too, so the brokers' level and format are not set. A process that is forked meanwhile has
none of them; it must end as those of ``multiprocessing`` do, by ``os._exit``: uvloop does not survive the end of its
interpreter.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final
from weakref import WeakSet

import uvloop

from minikafka.broker.credentials import credentials_of
from minikafka.broker.logs import LogLines
from minikafka.broker.node import Node
from minikafka.broker.run import CANNOT_RUN, START_AGAIN, make_node, serve, why
from minikafka.chaos.last_words import begin_log, last_log_lines, last_words
from minikafka.chaos.layout import ClusterError, ClusterLayout
from minikafka.chaos.managed import STOP_TIMEOUT_S, ManagedCluster
from minikafka.chaos.ports import check_ports
from minikafka.config import BrokerConfig, parse_properties
from minikafka.config.node import CONTROLLER, REPLICATION
from minikafka.event_log import get_logger, write_to

log = get_logger()

_END_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.05
_USUAL_LIMIT: Final = 1_024
_FILES: Final = 40
"""Descriptors of a broker, and twice as many as it has when it is ready: topics and clients come."""
_FILES_OF_PEER: Final = 2


class _LogFile(LogLines):
    """A node's log. It is closed when nothing is left of the node that could write to it."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        super().__init__(self._file)

    def __del__(self) -> None:
        os.close(self._file)


class _Pause:
    """One pause of a loop."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self._is_over = threading.Event()

    def hold(self) -> None:
        """In the loop."""
        self.has_begun.set()
        self._is_over.wait()

    def end(self) -> None:
        """Let the loop go on."""
        self._is_over.set()


class NodeThread:
    """One node, from its start to its end."""

    def __init__(self, config: BrokerConfig, lines: LogLines) -> None:
        self._config = config
        self._lines = lines
        self._turn = threading.Lock()  # of what other threads tell the node; it may have no loop yet
        self._loop: asyncio.AbstractEventLoop | None = None
        self._node: Node | None = None
        self._pause: _Pause | None = None
        self._is_to_stop = self._is_to_abort = False
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"minikafka-node-{config.node_id}", daemon=True)

    def start(self) -> None:
        """Begin; it ends with the process at the latest."""
        _of_process.add(self)
        self._thread.start()

    @property
    def is_up(self) -> bool:
        """It has not ended, by itself or otherwise."""
        return self._thread.is_alive() and not self._has_ended.is_set()

    @property
    def paused(self) -> bool:
        """Its loop is held."""
        return self._pause is not None

    def pause(self) -> bool:
        """Hold its loop. False when that is not so after a while."""
        with self._turn:
            if self._pause is None:
                self._pause = _Pause()
                if self._loop is not None:
                    self._loop.call_soon_threadsafe(self._pause.hold)
            pause = self._pause
        deadline = time.monotonic() + _END_TIMEOUT_S
        while not pause.has_begun.wait(_POLL_S):
            if not self.is_up or time.monotonic() > deadline:
                self.resume()
                return False
        return True

    def resume(self) -> None:
        """Let its loop go on."""
        with self._turn:
            if self._pause is not None:
                self._pause.end()
                self._pause = None

    def begin_stop(self) -> None:
        """Have it hand over what it leads, sync, and end."""
        self._is_to_stop = True
        self._begin_end()

    def begin_kill(self) -> None:
        """Have it end without any of that."""
        self._is_to_abort = True
        self._begin_end()

    @property
    def ports(self) -> dict[str, int]:
        """Those that it listens on, by the names of listeners; none while it is not up."""
        return {} if self._node is None else {each.name: each.endpoint.port for each in self._node.listeners}

    def _begin_end(self) -> None:
        if not self.is_up:  # or is another process's, whose loop nobody else may touch
            return
        with self._turn:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._end_if_told)
        self.resume()

    def _end_if_told(self) -> None:
        """In the loop."""
        if self._node is None:
            return
        if self._is_to_abort:
            self._node.abort()
        elif self._is_to_stop:
            self._node.stopped.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for its end. False when it has not."""
        # Not by the thread's own join: before Python 3.13 one that is interrupted takes the thread for ended.
        return not self.is_up or self._has_ended.wait(timeout_s)

    def _run(self) -> None:
        write_to(self._lines, node=self._config.node_id)
        try:
            # Who started it may have been interrupted before this began, and have removed its files.
            while not self._is_to_abort and self._run_once() == START_AGAIN:
                pass
        except BaseException as error:
            said, bug = (why(error), None) if isinstance(error, CANNOT_RUN) else (repr(error), error)
            log.critical("cannot run", why=said, exc_info=bug)
        finally:
            self._has_ended.set()

    def _run_once(self) -> int:
        # PYTHONASYNCIODEBUG is for the loops of the application, and puts what a loop is slow with into its log.
        with asyncio.Runner(debug=False, loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(self._serve())

    async def _serve(self) -> int:
        node = make_node(self._config, credentials_of(self._config))
        with self._turn:
            self._loop, self._node = asyncio.get_running_loop(), node
            self._end_if_told()
            if self._pause is not None:
                self._loop.call_soon(self._pause.hold)
        try:
            return await serve(node)
        finally:
            with self._turn:
                self._loop = self._node = None
            await asyncio.to_thread(node.threads.join)  # it must write nothing once it has ended


_of_process: Final[WeakSet[NodeThread]] = WeakSet()


def _leave_to_parent() -> None:
    """In a process that was forked from this one. It has the same descriptors, but no thread for the nodes: who is
    connected to one would not see its end, as long as this process lives.
    """
    ports = [item for node in _of_process for item in node.ports.items()]
    listening = {port for _, port in ports}
    of_nodes = {port for name, port in ports if name in (REPLICATION, CONTROLLER)}
    for descriptor in map(int, os.listdir("/dev/fd") if ports else ()):
        with suppress(OSError):
            local, remote = _ports_of(descriptor)
            if remote is not None and (local in listening or remote in of_nodes):
                os.close(descriptor)


def _ports_of(descriptor: int) -> tuple[int, int | None]:
    """Of a TCP socket: its own, and the other end's; 0 of one that listens, None without one. OSError: it is none."""
    end = socket.socket(fileno=descriptor)
    try:
        if end.family != socket.AF_INET:
            raise OSError(errno.EAFNOSUPPORT, "another kind of socket")
        local: int = end.getsockname()[1]
        if end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return local, 0
        try:
            return local, end.getpeername()[1]
        except OSError:
            return local, None
    finally:
        end.detach()


os.register_at_fork(after_in_child=_leave_to_parent)


def _kill_forgotten() -> None:
    forgotten = [node for node in _of_process if node.is_up]
    for node in forgotten:
        node.begin_kill()
    for node in forgotten:
        node.join(_END_TIMEOUT_S)


# Executors, which nodes have, end by this, too, and before ``atexit``: what is registered later comes first.
threading._register_atexit(_kill_forgotten)  # type: ignore[attr-defined]


class ThreadCluster(ManagedCluster):
    """The nodes of one layout as threads."""

    def __init__(self, layout: ClusterLayout) -> None:
        super().__init__(layout)
        self._nodes: dict[int, NodeThread] = {}

    @classmethod
    def create(
        cls, directory: Path, *, brokers: int, base_port: int, settings: dict[str, str], secure: bool = False
    ) -> ThreadCluster:
        """A new cluster in an empty or missing directory. No node is started."""
        return cls(ClusterLayout.create(directory, brokers, base_port, settings, secure=secure))

    def check(self) -> None:
        """Also whether this process may open as many files as its brokers need."""
        super().check()
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        brokers, is_open = len(self.node_ids), len(os.listdir("/dev/fd"))
        needed = is_open + brokers * (_FILES + _FILES_OF_PEER * brokers)
        if soft != resource.RLIM_INFINITY and soft < needed:
            raise ClusterError(
                f"{brokers} brokers in this process need {needed:,} file descriptors, and its limit is {soft:,}: raise "
                f"it (`ulimit -n {_USUAL_LIMIT}`), or start fewer brokers"
            )

    # --- looking ---

    def running(self) -> dict[int, NodeThread]:
        """The nodes that are up or paused."""
        return {node_id: node for node_id, node in self._nodes.items() if node.is_up}

    def remedy(self, command: str, call: str) -> str:
        """The call: no command reaches a node in this process."""
        return call

    def check_alive(self, node_id: int) -> None:
        """Raise ClusterError with the reason when a node that was started has ended."""
        node = self._nodes.get(node_id)
        if node is not None and not node.is_up:
            words = last_words(self.layout, node_id) or last_log_lines(self.layout, node_id)
            raise ClusterError(f"node {node_id} ended: {words}\nits log: {self.layout.log_file(node_id)}")

    # --- starting and ending ---

    def _spawn(self, node_ids: Iterable[int], started: list[int]) -> None:
        self.layout.write_files()
        missing = [node_id for node_id in node_ids if node_id not in self.running()]
        for node_id in missing:
            check_ports(self.layout, node_id)
        for node_id in missing:
            begin_log(self.layout, node_id)
            config = BrokerConfig(parse_properties(self.layout.config_file(node_id).read_text()))
            started.append(node_id)
            node = NodeThread(config, _LogFile(self.layout.log_file(node_id)))
            self._nodes[node_id] = node  # before it begins: the time of a test, or Ctrl-C, may end this at any point
            node.start()

    def _kill_started(self, node_ids: Iterable[int]) -> None:
        self._join({node_id: self._nodes[node_id] for node_id in node_ids if node_id in self._nodes})

    def kill_all(self) -> None:
        """Kill every node that is up, or is about to be: who started it was interrupted before its thread began."""
        self._join(self._nodes)

    def kill(self, *node_ids: int) -> None:
        """End all of them as if killed, and wait until they have ended."""
        self._join({node_id: self._running(node_id) for node_id in node_ids})

    def stop_node(self, node_id: int, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Stop one node in order. True when it was killed because it did not end in time."""
        node = self._running(node_id)
        node.begin_stop()
        if node.join(timeout_s):
            return False
        self._join({node_id: node})
        return True

    def _join(self, nodes: dict[int, NodeThread]) -> None:
        for node in nodes.values():
            node.begin_kill()
        for node_id, node in nodes.items():
            if not node.join(_END_TIMEOUT_S):
                raise ClusterError(f"node {node_id} has not ended within {_END_TIMEOUT_S:g} s of being killed")

    # --- breaking and mending ---

    def pause(self, *node_ids: int) -> None:
        """Hold their loops, until they are resumed."""
        for node_id in node_ids:
            if not self._running(node_id).pause():
                raise ClusterError(f"node {node_id} could not be paused: its loop does not come to it")

    def resume(self, *node_ids: int) -> None:
        """Paused nodes go on as if nothing had happened."""
        for node_id in node_ids:
            self._running(node_id).resume()

    def _running(self, node_id: int) -> NodeThread:
        self.check_node(node_id)
        node = self.running().get(node_id)
        if node is None:
            raise self._down(node_id)
        return node
