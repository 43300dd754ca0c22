"""How long a partition takes no writes when its leader is killed, stops, or stands still.

A bare client writes one record after the other with ``acks=all``, and asks who leads after each that was not taken.
What counts is the longest pause between two records that were. Both clusters have their own default settings; a broker
that is not heard of is given up by its session time-out.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from statistics import median
from typing import Final, TypeVar

from benchmarks.bare import BareClient
from benchmarks.beside.sides import OURS, Side
from benchmarks.beside.turns import both_sides
from benchmarks.report import Compared, Figure, Run, Target, percentile
from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode

T = TypeVar("T")

SUMMARY = "how long a partition takes no writes: leader killed, stopped, paused; beside Apache Kafka"
PARTITION: Final = 0
TIMES: Final = {"killed (kill -9)": (50, 5), "stopped (SIGTERM)": (10, 3), "paused (SIGSTOP)": (10, 3)}
"""Ours and theirs: a JVM takes long to start."""
QUIET_S: Final = 0.5
_ANSWER_S: Final = 0.1
"""A leader that has not answered by then is asked for anew."""
_TICK_S: Final = 0.002
_PATIENCE_S: Final = 120.0


def run(run: Run) -> list[Figure]:
    """One after the other; a cluster is whole before each."""
    pauses: dict[str, dict[str, list[float]]] = {}
    with both_sides(run) as sides:
        for side in sides:
            with side.topic(3, partitions=1) as topic:
                for what, times in TIMES.items():
                    count = run.times(times[side.name != OURS])
                    pauses.setdefault(what, {})[side.name] = [_pause_s(side, topic, what) for _ in range(count)]
                    run.say(f"{side.name}, {what}: {_said(pauses[what][side.name])}")
    return [figure for what, of in pauses.items() for figure in _figures(what, *of.values())]


def _figures(what: str, theirs: list[float], ours: list[float]) -> list[Figure]:
    limit: Target | None
    session_s = BrokerConfig({}).broker_session_timeout_ms / 1000
    note = f"{_said(ours)} against {_said(theirs)}"
    compared = Compared(median(ours), median(theirs), "s")
    if what.startswith("paused"):
        limit = Target("<", session_s + 0.5)
        return [Figure(f"leader {what}: our longest pause", max(ours), "s", limit, note, compared)]
    limit = Target("<", 0.1) if what.startswith("killed") else None
    slowest = percentile(ours, 0.99)
    return [Figure(f"leader {what}: our p99 to their median", slowest / median(theirs), "", limit, note, compared)]


def _said(pauses: list[float]) -> str:
    return f"{median(pauses):.3f} s ({min(pauses):.3f} to {max(pauses):.3f}, {len(pauses)} times)"


def _pause_s(side: Side, topic: str, what: str) -> float:
    """Longest pause between two records around the fault."""
    side.wait_until_whole(topic)
    ports = {node_id: side.nodes.client_port(node_id) for node_id in side.nodes.pids}
    with _Writer(ports, topic) as writer:
        time.sleep(QUIET_S)
        leader = writer.leader
        mend = _break(side, leader, what)
        try:
            writer.wait_for_another(leader)
            time.sleep(QUIET_S)
        finally:
            mend()
    return writer.longest_s


def _break(side: Side, node_id: int, what: str) -> Callable[[], None]:
    """Do it; how to mend it."""
    pid = side.nodes.pids[node_id]
    if what.startswith("paused"):
        os.kill(pid, signal.SIGSTOP)
        return lambda: os.kill(pid, signal.SIGCONT)
    side.nodes.end(node_id, signal.SIGKILL if what.startswith("killed") else signal.SIGTERM)
    return lambda: side.nodes.start_node(node_id)


class _Writer:
    """Writes in a thread for as long as the block lasts."""

    def __init__(self, ports: dict[int, int], topic: str) -> None:
        self._ports = ports
        self._topic = topic
        self._clients: dict[int, BareClient] = {}
        self._asked = list(ports)
        self._thread = threading.Thread(target=self._write, name="writer")
        self._ended = threading.Event()
        self._acknowledged = threading.Event()
        self.leader = -1  # whoever took the last record
        self.longest_s = 0.0

    def __enter__(self) -> _Writer:
        self._thread.start()
        assert self._acknowledged.wait(_PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def wait_for_another(self, leader: int) -> None:
        """Until another node has taken a record."""
        give_up_s = time.monotonic() + _PATIENCE_S
        while self.leader == leader:
            assert time.monotonic() < give_up_s, f"nobody took over from node {leader}"
            time.sleep(_TICK_S)

    def _write(self) -> None:
        last_s, leader = 0.0, -1
        while not self._ended.is_set():
            if leader < 0:
                leader = self._found_leader()
            if self._was_taken(leader):
                now_s = time.monotonic()
                if last_s:
                    self.longest_s = max(self.longest_s, now_s - last_s)
                last_s, self.leader = now_s, leader
                self._acknowledged.set()
            else:
                leader = -1
            time.sleep(_TICK_S)
        for client in self._clients.values():
            client.socket.close()

    def _found_leader(self) -> int:
        """As the node says whose turn it is; -1 without an answer."""
        self._asked.append(self._asked.pop(0))
        return self._ask(self._asked[0], lambda client: client.leader_of(self._topic, PARTITION), -1)

    def _was_taken(self, leader: int) -> bool:
        if leader not in self._ports:
            return False
        return self._ask(leader, lambda client: client.produce(self._topic, PARTITION) == ErrorCode.NONE, False)

    def _ask(self, node_id: int, question: Callable[[BareClient], T], otherwise: T) -> T:
        """Over its connection, which ends when it breaks, or there is no answer."""
        try:
            if node_id not in self._clients:
                self._clients[node_id] = BareClient(self._ports[node_id], _ANSWER_S)
            return question(self._clients[node_id])
        except (OSError, EOFError):
            if (client := self._clients.pop(node_id, None)) is not None:
                client.socket.close()
            return otherwise
