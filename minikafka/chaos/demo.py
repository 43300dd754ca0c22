"""The demonstration: real clients write and read while brokers are killed; then the losses are counted.

Three brokers start as processes of this machine. librdkafka streams the sources of Python's standard library into a
topic (3 partitions, replication factor 3, ``min.insync.replicas`` 2) with ``acks=all`` and idempotence. A leader is
killed with SIGKILL and restarted, then the controller. Then aiokafka reads everything back, and the checker compares
what was sent, acknowledged and read.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Final, Self

from minikafka.chaos.history import History
from minikafka.chaos.layout import ClusterError
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.ports import ReservedPorts
from minikafka.chaos.workload import SourceProducer, read_back
from minikafka.ledger.checker import Verdict, check

if TYPE_CHECKING:
    from minikafka.chaos.probe import ClusterView

TOPIC: Final = "stdlib"
BROKERS: Final = 3
PARTITIONS: Final = 3
_UNDISTURBED_S: Final = 2.5
_DOWN_S: Final = 2.0
_ISR_TIMEOUT_S: Final = 60.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """A node that was killed and restarted; times are those of the history."""

    name: str
    node_id: int
    killed_at_ms: int
    in_sync_at_ms: int
    seconds_to_full_isr: float  # from the restart until every replica was in sync


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the demonstration measured."""

    verdict: Verdict
    faults: list[Fault]
    seconds: float

    @property
    def lost(self) -> int:
        """Acknowledged records that cannot be read."""
        return self.verdict.violations["lost-write"] + self.verdict.violations["unseen"]

    @property
    def duplicated(self) -> int:
        """Records that exist more than once."""
        return self.verdict.violations["duplicate"]

    @property
    def out_of_order(self) -> int:
        """Records that are stored or were read in another order than sent."""
        return self.verdict.violations["nonmonotonic-send"] + self.verdict.violations["nonmonotonic-poll"]

    def seconds_without_write(self, fault: Fault) -> float:
        """The longest time without a write to some partition because of the fault."""
        gaps = self.verdict.longest_gap_ms(fault.killed_at_ms, fault.in_sync_at_ms)
        return max(gaps.values(), default=0) / 1000


class Demo:
    """One run: ``with Demo(say) as demo: demo.run()``; the nodes live until the block ends.

    `say` gets each step in words; `producer` has the progress of the load.
    """

    def __init__(self, say: Say, rate: int = 10_000, history_file: IO[str] | None = None) -> None:
        self.say = say
        self._rate = rate
        self.history = History(history_file)
        self.directory = Path(tempfile.mkdtemp(prefix="minikafka-demo-"))
        self._ports = ReservedPorts(BROKERS)
        self.cluster = LocalCluster.create(
            self.directory / "cluster", brokers=BROKERS, base_port=self._ports.base_port, detached=False
        )
        self.producer: SourceProducer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cluster.kill_all()
        self._ports.close()

    def run(self) -> Outcome:
        """Start, load, break, mend, read back, judge."""
        began = time.monotonic()
        self.start()
        with self.streaming():
            time.sleep(_UNDISTURBED_S)
            faults = [self.kill_leader()]
            time.sleep(_UNDISTURBED_S)
            faults.append(self.kill_controller())
            time.sleep(_UNDISTURBED_S)
        self.say("reading all records with aiokafka")
        read = asyncio.run(read_back(self.cluster.bootstrap_servers, TOPIC, PARTITIONS, self.history))
        self.say(f"read {read:,} records; comparing them with the sent ones")
        return Outcome(check(self.history.events), faults, time.monotonic() - began)

    def remove_files(self) -> None:
        """Delete what the nodes stored and logged."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(self) -> None:
        """Start the nodes and create the topic."""
        began = time.monotonic()
        self.cluster.start()
        self.say(f"{BROKERS} brokers ready after {time.monotonic() - began:.1f} s, logs in {self.directory}")
        create_topic(self.cluster.bootstrap_servers, TOPIC, PARTITIONS)
        self.cluster.wait_for(lambda view: len(view.partitions) == PARTITIONS, "the topic")
        self.cluster.wait_in_sync()
        self.say(f"topic {TOPIC}: {PARTITIONS} partitions, replication factor 3, min.insync.replicas 2")

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """The load runs during the block. Its end waits for pending records."""
        self.producer = SourceProducer(self.cluster.bootstrap_servers, TOPIC, PARTITIONS, self.history, self._rate)
        self.producer.start()
        self.say("streaming Python's sources with confluent-kafka, acks=all, idempotent")
        try:
            yield
        except BaseException:
            self.producer.abandon()
            raise
        self.producer.finish()
        self.say(f"sent {self.producer.sent:,} lines, {self.producer.acknowledged:,} acknowledged")

    def kill_leader(self) -> Fault:
        """SIGKILL to a leader, if possible not the controller; then restart it."""
        return self._kill_and_restart("leader", _a_leader_that_is_not_controller)

    def kill_controller(self) -> Fault:
        """The same with the active controller."""
        return self._kill_and_restart("controller", lambda view: view.controller_id)

    def _kill_and_restart(self, name: str, choose: Callable[[ClusterView], int]) -> Fault:
        self.cluster.wait_for(lambda view: view.has_controller, "a controller")
        view = self.cluster.view()
        assert view is not None
        node_id = choose(view)
        killed_at_ms = self.history.append("nemesis", "info", "fault", f"SIGKILL the {name}, node {node_id}").time_ms
        self.cluster.kill(node_id)
        self.say(f"killed the {name}, node {node_id}, with SIGKILL")
        time.sleep(_DOWN_S)
        self.history.append("nemesis", "info", "fault", f"restart node {node_id}")
        began = time.monotonic()
        self.cluster.start_node(node_id)
        self.cluster.wait_in_sync(_ISR_TIMEOUT_S)
        seconds = time.monotonic() - began
        in_sync_at_ms = self.history.append("nemesis", "info", "fault", "every replica is in sync").time_ms
        self.say(f"restarted node {node_id}: back in every ISR after {seconds:.1f} s")
        return Fault(name, node_id, killed_at_ms, in_sync_at_ms, seconds)


def _a_leader_that_is_not_controller(view: ClusterView) -> int:
    leaders = [partition.leader_id for partition in view.partitions if partition.topic == TOPIC]
    return next((leader for leader in leaders if leader != view.controller_id), leaders[0])


def create_topic(bootstrap_servers: str, topic: str, partitions: int) -> None:
    """Create the topic as any user of librdkafka would."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    new = NewTopic(topic, partitions, replication_factor=3, config={"min.insync.replicas": "2"})
    try:
        admin.create_topics([new])[topic].result(timeout=30)
    except KafkaException as error:
        raise ClusterError(f"could not create the topic {topic}: {error}") from error
