"""From the SIGKILL of a group coordinator's node until every member goes on, as librdkafka's consumers live through it.

Three members read records that flow, and commit what they have read, one commit after the other. The gap of a kill ends
when each has had a commit acknowledged that it asked for after the kill. Before it commits, a member asks for its
committed offsets: none may be lower than what it was acknowledged. The node comes back, and leads again what it led.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks.clusters import create_topic, running_cluster, settled_view
from benchmarks.failover import KILLS, SETTINGS, is_balanced
from benchmarks.producer_gap import RECONNECT_MAX_MS
from benchmarks.report import Figure, Run, Target, percentile
from benchmarks.traffic import flowing
from minikafka.chaos.local_cluster import LocalCluster

SUMMARY = "from the SIGKILL of a group coordinator's node until every member goes on"
TOPIC: Final = "failover"
PARTITIONS: Final = 6
MEMBERS: Final = 3
RATE: Final = 500
_UNDISTURBED_S: Final = 1.0
_DOWN_S: Final = 2.0
_PATIENCE_S: Final = 60.0


class Member:
    """Reads and commits until it is told to stop."""

    def __init__(self, servers: str, group: str, protocol: str) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": RECONNECT_MAX_MS,
            "log_level": 0,
        }
        self.committed_at = 0.0  # when the last commit was asked for that was acknowledged
        self.went_back: list[str] = []
        self._acknowledged: dict[int, int] = {}
        self._consumer = Consumer(settings)
        self._consumer.subscribe([TOPIC], on_revoke=lambda *_: self._acknowledged.clear())
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """And leave the group."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            messages = [message for message in self._consumer.consume(500, 0.05) if message.error() is None]
            if messages:
                self._commit({message.partition() or 0: (message.offset() or 0) + 1 for message in messages})
        self._consumer.close()

    def _commit(self, offsets: dict[int, int]) -> None:
        began = time.monotonic()
        try:
            self._compare()
            wanted = [TopicPartition(TOPIC, partition, offset) for partition, offset in offsets.items()]
            self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException:
            return  # of a rebalance, or nobody coordinates: what is read next is committed with it
        self._acknowledged |= offsets
        self.committed_at = began

    def _compare(self) -> None:
        known = dict(self._acknowledged)
        found = self._consumer.committed([TopicPartition(TOPIC, partition) for partition in known], 5.0)
        for tp in found:
            if tp.partition in self._acknowledged and tp.offset < known[tp.partition]:
                self.went_back.append(f"{tp.partition}: {tp.offset} after {known[tp.partition]}")


def run(run: Run) -> list[Figure]:
    """Twenty kills for each protocol, each of a cluster that has fully healed."""
    return [figure for protocol in ("classic", "consumer") for figure in _measure(run, protocol)]


def _measure(run: Run, protocol: str) -> list[Figure]:
    gaps: list[float] = []
    group = f"{protocol}-members"
    with running_cluster(SETTINGS) as cluster:
        create_topic(cluster, TOPIC, partitions=PARTITIONS)
        with flowing(cluster, TOPIC, PARTITIONS, RATE), _members(cluster, group, protocol) as members:
            _wait_for_commits(members, time.monotonic())
            for _ in range(run.times(KILLS)):
                gaps.append(_kill_coordinator(cluster, group, members))
                run.say(f"{protocol}: all members have committed {gaps[-1] * 1000:.0f} ms after the kill")
            went_back = [each for member in members for each in member.went_back]
    what, note = f"coordinator's kill until all members commit, {protocol} protocol", f"{len(gaps)} kills"
    return [
        Figure(f"{what}, p50", percentile(gaps, 0.5), "s"),
        Figure(f"{what}, p99", percentile(gaps, 0.99), "s", Target("<", 5.0), note),
        Figure("committed offsets that went back", len(went_back), "", Target("=", 0), "; ".join(went_back[:3])),
    ]


@contextmanager
def _members(cluster: LocalCluster, group: str, protocol: str) -> Iterator[list[Member]]:
    with ExitStack() as stack:
        members = []
        for _ in range(MEMBERS):
            members.append(Member(cluster.bootstrap_servers, group, protocol))
            stack.callback(members[-1].stop)
        yield members


def _wait_for_commits(members: list[Member], since: float) -> float:
    """Until each has asked for a commit since then that was acknowledged; the seconds."""
    while not all(member.committed_at >= since for member in members):
        assert time.monotonic() < since + _PATIENCE_S, f"no commit of a member for {_PATIENCE_S:g} s"
        time.sleep(0.01)
    return time.monotonic() - since


def _kill_coordinator(cluster: LocalCluster, group: str, members: list[Member]) -> float:
    """The seconds from the kill until all have committed; the node is up again afterwards."""
    cluster.wait_for(is_balanced, "every preferred leader to lead", _PATIENCE_S)
    settled_view(cluster)
    time.sleep(_UNDISTURBED_S)
    victim = cluster.coordinator_of(group)
    killed = time.monotonic()
    cluster.kill(victim)
    gap = _wait_for_commits(members, killed)
    time.sleep(max(0.0, _DOWN_S - gap))
    cluster.start_node(victim, _PATIENCE_S)
    return gap
