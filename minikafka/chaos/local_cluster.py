"""A cluster of broker processes on this machine, with operations on its nodes.

Detached processes, the default, outlive their starter. A later :class:`LocalCluster` for the same directory finds them
by their pid files. Other processes end with their starter, whatever ends it, and even if they are paused: so tests
leave no process behind.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from minikafka.chaos.forks import ForkedNode, fork_server, lifeline
from minikafka.chaos.last_words import begin_log, last_log_lines, last_words
from minikafka.chaos.layout import DEFAULT_BASE_PORT, ClusterError, ClusterLayout
from minikafka.chaos.managed import STOP_TIMEOUT_S, ManagedCluster, check_nobody_is_asked
from minikafka.chaos.observed import READY_TIMEOUT_S
from minikafka.chaos.ports import check_ports
from minikafka.chaos.processes import (
    RunningProcess,
    commands,
    look_up,
    search,
    send_signal,
    wait_until_gone,
    wait_until_stopped,
)
from minikafka.config import BrokerConfig, ConfigError, parse_properties

_SIGNAL_TIMEOUT_S: Final = 10.0
_WRONG_SETTINGS: Final = 2  # the exit code of a node (broker/run.py); its log has one line then


class LocalCluster(ManagedCluster):
    """The nodes of one layout as processes."""

    def __init__(self, layout: ClusterLayout, *, detached: bool = True) -> None:
        super().__init__(layout)
        self._lifeline = None if detached else lifeline()
        self._children: dict[int, ForkedNode] = {}

    @classmethod
    def create(
        cls,
        directory: Path,
        *,
        brokers: int = 3,
        base_port: int = DEFAULT_BASE_PORT,
        settings: dict[str, str] | None = None,
        detached: bool = True,
        metrics: bool = False,
        secure: bool = False,
    ) -> LocalCluster:
        """A new cluster in an empty or missing directory. No node is started."""
        layout = ClusterLayout.create(directory, brokers, base_port, settings or {}, metrics=metrics, secure=secure)
        return cls(layout, detached=detached)

    @classmethod
    def open(cls, directory: Path) -> LocalCluster:
        """The cluster in `directory`."""
        return cls(ClusterLayout.open(directory))

    # --- looking ---

    def process(self, node_id: int) -> RunningProcess | None:
        """The node's process, or None when it is down.

        Whatever runs must be seen, or nobody could stop it: also without its pid file, and beside that of an earlier
        process, when somebody runs the node in a terminal. A node without a log never ran.
        """
        words = ("minikafka.broker", str(self.layout.config_file(node_id)))
        child = self._children.get(node_id)
        if child is not None:
            child.poll()  # reaps it after its end
        try:
            pid = int(self.layout.pid_file(node_id).read_text())
        except (FileNotFoundError, PermissionError, ValueError) as error:
            never_ran = isinstance(error, FileNotFoundError) and not self.layout.log_file(node_id).exists()
            return None if never_ran else search(*words)
        is_ours = child is not None and child.pid == pid
        return look_up(pid, *words) or (None if is_ours else search(*words))

    def running(self) -> dict[int, RunningProcess]:
        """The processes of the nodes that are up or paused."""
        processes = ((node_id, self.process(node_id)) for node_id in self.node_ids)
        return {node_id: process for node_id, process in processes if process is not None}

    def remedy(self, command: str, call: str) -> str:
        """The command line, or the call: no command can start a node that ends with this process."""
        return self.layout.command(command) if self._lifeline is None else call

    # --- starting ---

    def add_node(self, timeout_s: float = READY_TIMEOUT_S) -> int:
        """Start one more node, a broker without a vote. Returns its id once it is a live member."""
        if self.quorum_shortage() is not None:
            raise ClusterError(
                f"no controller quorum to join; start the first nodes: {self.layout.command('cluster start')}"
            )
        before, self.layout = self.layout, self.layout.with_added_node()
        node_id = self.layout.node_ids[-1]
        try:
            check_ports(self.layout, node_id)
            self.layout.save()
            self.start_node(node_id, timeout_s)
        except BaseException:
            self._kill_started([node_id])
            self._forget(before, node_id)
            raise
        return node_id

    def remove_node(self, node_id: int) -> None:
        """Remove a node that is down and has no vote, and delete its directory."""
        self.check_node(node_id)
        if self.process(node_id) is not None:
            raise ClusterError(f"node {node_id} is up; stop it with: {self.layout.command(f'cluster stop {node_id}')}")
        self._forget(self.layout.without_node(node_id), node_id)

    def _forget(self, layout: ClusterLayout, node_id: int) -> None:
        self.layout = layout
        layout.save()
        shutil.rmtree(layout.node_directory(node_id), ignore_errors=True)

    def check_alive(self, node_id: int) -> None:
        """Raise ClusterError with the reason when a node that was started has ended."""
        child = self._children.get(node_id)
        if child is not None and child.poll() is not None:
            path = self.layout.log_file(node_id)
            if (words := last_words(self.layout, node_id)) is not None:
                is_wrong = child.returncode == _WRONG_SETTINGS
                more = f"its settings: {self.layout.config_file(node_id)}" if is_wrong else f"its log: {path}"
                raise ClusterError(f"node {node_id} ended: {words}\n{more}")
            raise ClusterError(
                f"node {node_id} ended with exit code {child.returncode}; the end of its log ({path}):\n"
                f"{last_log_lines(self.layout, node_id)}"
            )

    def _spawn(self, node_ids: Iterable[int], started: list[int]) -> None:
        """``started`` gets each that was down before it is started: Ctrl-C may come at any time."""
        with self._lock():
            self.layout.write_files()
            for node_id in self.node_ids:
                check_edited(self.layout, node_id)
            missing = [node_id for node_id in node_ids if self.process(node_id) is None]
            for node_id in missing:
                check_ports(self.layout, node_id)
            for node_id in missing:
                started.append(node_id)
                self._fork(node_id)

    def _kill_started(self, node_ids: Iterable[int]) -> None:
        for node_id in node_ids:
            child = self._children.get(node_id)
            if child is not None:
                child.kill()
                child.wait()
            elif (process := self.process(node_id)) is not None:  # Ctrl-C came between its start and its child
                send_signal(process, signal.SIGKILL)
                wait_until_gone(process, _SIGNAL_TIMEOUT_S)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with self.layout.lock_file.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _fork(self, node_id: int) -> None:
        begin_log(self.layout, node_id)
        self._children.pop(node_id, None)  # Ctrl-C may come before the new one is known: whatever runs is searched then
        try:
            child = fork_server().start(
                [
                    "--config",
                    str(self.layout.config_file(node_id)),
                    *([] if self._lifeline is None else ["--until-eof"]),
                ],
                directory=self.layout.node_directory(node_id),
                log=self.layout.log_file(node_id),
                environment={name: value for name, value in os.environ.items() if not name.startswith("MINIKAFKA_")},
                lifeline=self._lifeline,
            )
        except BrokenPipeError as error:
            raise ClusterError(f"node {node_id} was not started: {error}") from None
        self._children[node_id] = child
        unfinished = self.layout.pid_file(node_id).with_suffix(".tmp")
        unfinished.write_text(f"{child.pid}\n")
        os.replace(unfinished, self.layout.pid_file(node_id))

    # --- breaking and mending ---

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> list[int]:
        """Stop every node by SIGTERM. Returns the nodes that were killed because they did not end in time."""
        return self._stop(self.running(), timeout_s)

    def stop_node(self, node_id: int, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Stop one node by SIGTERM. True when it was killed because it did not end in time."""
        return bool(self._stop({node_id: self._running(node_id)}, timeout_s))

    def kill_all(self) -> None:
        """Kill every node that is up, also those that a verb has added meanwhile."""
        with suppress(ClusterError):  # a test may have removed the files
            self.layout = ClusterLayout.open(self.layout.directory)
        super().kill_all()

    def kill(self, *node_ids: int) -> None:
        """SIGKILL to all of them, then wait until they are gone."""
        processes = [self._running(node_id) for node_id in node_ids]
        for process in processes:
            send_signal(process, signal.SIGKILL)
        for process in processes:
            if not wait_until_gone(process, _SIGNAL_TIMEOUT_S):
                raise ClusterError(f"process {process.pid} survived SIGKILL for {_SIGNAL_TIMEOUT_S:g} s")
        self.running()  # reaps those that are children

    def pause(self, *node_ids: int) -> None:
        """SIGSTOP: the process answers nothing, and does not see time pass. Returns once all threads are stopped."""
        for process in self._signal_each(node_ids, signal.SIGSTOP):
            if not wait_until_stopped(process, _SIGNAL_TIMEOUT_S):
                raise ClusterError(f"process {process.pid} ignored SIGSTOP for {_SIGNAL_TIMEOUT_S:g} s")

    def resume(self, *node_ids: int) -> None:
        """SIGCONT: a paused node goes on as if nothing had happened."""
        self._signal_each(node_ids, signal.SIGCONT)

    def _signal_each(self, node_ids: Iterable[int], number: signal.Signals) -> list[RunningProcess]:
        processes = [self._running(node_id) for node_id in node_ids]
        for process in processes:
            send_signal(process, number)
        return processes

    def _stop(self, processes: dict[int, RunningProcess], timeout_s: float) -> list[int]:
        for process in processes.values():
            send_signal(process, signal.SIGTERM)
            send_signal(process, signal.SIGCONT)  # a paused one does not get it
        deadline = time.monotonic() + timeout_s
        stubborn = [
            node_id
            for node_id, process in processes.items()
            if not wait_until_gone(process, max(0.0, deadline - time.monotonic()))
        ]
        if stubborn:
            self.kill(*(self.running().keys() & stubborn))
        self.running()
        return stubborn

    def _running(self, node_id: int) -> RunningProcess:
        self.check_node(node_id)
        process = self.process(node_id)
        if process is None:
            raise self._down(node_id)
        return process


def check_edited(layout: ClusterLayout, node_id: int) -> None:
    """Raise ClusterError for a node whose file has settings by which it would write to the files of another cluster, of
    which this is a copy, or by which nobody here would find it ready."""
    file = layout.config_file(node_id)
    try:
        given = parse_properties(file.read_text(encoding="utf-8-sig"))
        config = BrokerConfig(given)
    except (ConfigError, UnicodeDecodeError):
        return  # the node says what is wrong
    if not layout.secure:
        try:
            check_nobody_is_asked(config)
        except ClusterError as error:
            raise ClusterError(f"{file}: {error}") from None
    for path in given.get("log.dirs", "").split(","):
        other = Path(path.strip()).parent.parent
        if other.resolve() != layout.directory and ClusterLayout.exists(other):
            files = "node-*/server.properties" + (" and security/*.properties" if layout.secure else "")
            raise ClusterError(
                f"{file} names the data of the cluster in {other}, of which this is a copy; "
                f"write {layout.directory} in its place, in all {files}"
            )


def running_directories() -> list[Path]:
    """The directories of clusters with a running node, of any user."""
    found: dict[Path, None] = {}
    for command in commands():
        _, is_node, rest = command.partition(" -m minikafka.broker --config ")
        path = Path(rest.partition(" --set ")[0].removesuffix(" --until-eof"))
        if is_node and path.name == "server.properties":
            found[path.parent.parent] = None
    return list(found)
