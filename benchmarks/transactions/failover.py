"""From the SIGKILL of a coordinator's node to a producer's next commit, as a librdkafka producer lives through it.

It commits transactions of three partitions, one after the other, with short pauses. The gap of a kill ends with the
first commit of a transaction that was begun after it. The node comes back after two seconds, and leads again within one
more what it led before, so that each kill hits a coordinator.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException, Producer

from benchmarks.clusters import create_topic, running_cluster, settled_view
from benchmarks.failover import KILLS, SETTINGS, is_balanced
from benchmarks.producer_gap import RECONNECT_MAX_MS
from benchmarks.report import Figure, Run, Target, percentile
from minikafka.chaos.local_cluster import LocalCluster

SUMMARY = "from the SIGKILL of a coordinator's node to a producer's next commit"
TOPIC: Final = "failover"
PARTITIONS: Final = 3
TRANSACTIONAL_ID: Final = "application"
_PAUSE_S: Final = 0.01
_UNDISTURBED_S: Final = 1.0
_DOWN_S: Final = 2.0
_PATIENCE_S: Final = 60.0


class Commit(NamedTuple):
    """When a transaction was begun, and when its commit was acknowledged."""

    began: float
    ended: float


class Application:
    """Commits transactions until it is told to stop. What can be done again is done again."""

    def __init__(self, servers: str, settings: dict[str, Any]) -> None:
        self.commits: list[Commit] = []
        self.aborted = 0
        self._producer: Any = Producer({"bootstrap.servers": servers, "transactional.id": TRANSACTIONAL_ID} | settings)
        self._producer.init_transactions(_PATIENCE_S)
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait_for_commit(self, since: float) -> Commit:
        """The first commit of a transaction that was begun then or later."""
        give_up_s = time.monotonic() + _PATIENCE_S
        while time.monotonic() < give_up_s and self._thread.is_alive():
            found = next((commit for commit in self.commits if commit.began >= since), None)
            if found is not None:
                return found
            time.sleep(0.01)
        raise AssertionError(f"no commit for {_PATIENCE_S:g} s") from self._failure

    def stop(self) -> None:
        """And wait for the last commit."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopped.wait(_PAUSE_S):
                self._commit_one()
        except BaseException as error:
            self._failure = error
            raise

    def _commit_one(self) -> None:
        began = time.monotonic()
        self._producer.begin_transaction()
        try:
            for partition in range(PARTITIONS):
                self._producer.produce(TOPIC, b"value", partition=partition)
            _repeat(self._producer.commit_transaction)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self.aborted += 1
            _repeat(self._producer.abort_transaction)
            return
        self.commits.append(Commit(began, time.monotonic()))


def _repeat(end: Any) -> None:
    """Until it is done: librdkafka goes on with the same request."""
    while True:
        try:
            end(_PATIENCE_S)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def run(run: Run) -> list[Figure]:
    """Twenty kills, each of a cluster that has fully healed."""
    gaps: list[float] = []
    with running_cluster(SETTINGS) as cluster:
        create_topic(cluster, TOPIC, partitions=PARTITIONS)
        with applied(cluster, {"reconnect.backoff.max.ms": RECONNECT_MAX_MS, "log_level": 0}) as application:
            for _ in range(run.times(KILLS)):
                gaps.append(kill_coordinator(cluster, application))
                run.say(f"committed {gaps[-1] * 1000:.0f} ms after the kill of the coordinator")
            note = f"{len(gaps)} kills; {application.aborted} transactions had to be aborted"
    return [
        Figure("coordinator's kill to the next commit, p50", percentile(gaps, 0.5), "s"),
        Figure("coordinator's kill to the next commit, p99", percentile(gaps, 0.99), "s", Target("<", 1.5), note),
    ]


@contextmanager
def applied(cluster: LocalCluster, settings: dict[str, Any]) -> Iterator[Application]:
    """An application that commits while the block lasts."""
    application = Application(cluster.bootstrap_servers, settings)
    try:
        yield application
    finally:
        application.stop()


def kill_coordinator(cluster: LocalCluster, application: Application) -> float:
    """The seconds from the kill to the next commit; the node is up again afterwards."""
    cluster.wait_for(is_balanced, "every preferred leader to lead", 60.0)
    settled_view(cluster)
    time.sleep(_UNDISTURBED_S)
    victim = cluster.coordinator_of(TRANSACTIONAL_ID, transactional=True)
    killed = time.monotonic()
    cluster.kill(victim)
    gap = application.wait_for_commit(killed).ended - killed
    time.sleep(max(0.0, _DOWN_S - gap))
    cluster.start_node(victim)
    return gap
