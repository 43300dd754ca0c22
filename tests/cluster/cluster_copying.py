"""Applications that copy a topic in transactions while they and the cluster are broken, and the judge of the copy."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from live_cluster import PATIENCE_S, eventually
from live_wire import Wire

from minikafka.chaos.local_cluster import ClusterError, LocalCluster
from minikafka.coordination.partitioning import partition_for
from minikafka.model import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC

INPUT, OUTPUT, GROUP, PARTITIONS = "input", "output", "copiers", 3
COPIER: Final = Path(__file__).with_name("transactional_copier.py")

Command = Callable[[str, str], Sequence[str]]
"""``(bootstrap servers, transactional id)`` to the command line of a copier."""


def confluent_copier(records: int, abort_every: int) -> Command:
    """:mod:`transactional_copier`."""
    return lambda servers, transactional_id: (
        *(sys.executable, str(COPIER), servers, INPUT, OUTPUT, GROUP, transactional_id),
        *(str(records), str(abort_every)),
    )


def java_copier(class_path: str, records: int) -> Command:
    """Kafka's own, of its tools (version 4.3): it speaks transaction version 2, and aborts at random."""
    return lambda servers, transactional_id: (
        *("java", "-Xmx256m", "-cp", class_path, "org.apache.kafka.tools.TransactionalMessageCopier"),
        *("--broker-list", servers, "--input-topic", INPUT, "--input-partition", "0", "--output-topic", OUTPUT),
        *("--consumer-group", GROUP, "--group-mode", "--use-group-metadata", "--transactional-id", transactional_id),
        *("--transaction-size", str(records), "--transaction-timeout", "20000", "--enable-random-aborts"),
    )


class Copying:
    """``records`` are written to the input; then that many copiers copy them, each started again when it ends."""

    def __init__(self, cluster: LocalCluster, directory: Path, records: int, command: Command, copiers: int) -> None:
        self.cluster = cluster
        self.records = records
        self._directory = directory
        self._command = command
        with Wire(cluster.layout.client_port(1)) as wire:
            for topic in (INPUT, OUTPUT):
                wire.create_topic(topic, [[1, 2, 3], [2, 3, 1], [3, 1, 2]], min_insync_replicas="2")
        servers = cluster.bootstrap_servers
        producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20, "log_level": 0})
        for number in range(records):
            producer.produce(INPUT, b"%d" % number, partition=number % PARTITIONS)
            if number % 10_000 == 0:
                producer.flush(PATIENCE_S)
        assert producer.flush(PATIENCE_S) == 0
        self.ids = [f"copier-{number}" for number in range(copiers)]
        self._running: dict[str, tuple[subprocess.Popen[bytes], IO[bytes]]] = {}
        self.starts = 0
        self.tend()

    # -- the applications ---------------------------------------------------------------------------------------------

    def tend(self) -> None:
        """Start those that do not run."""
        for transactional_id in self.ids:
            found = self._running.get(transactional_id)
            if found is not None and found[0].poll() is None:
                continue
            if found is not None:
                found[1].close()
            said = self._said(transactional_id).open("ab")
            process = subprocess.Popen(
                self._command(self.cluster.bootstrap_servers, transactional_id), stdout=said, stderr=said
            )
            self._running[transactional_id] = process, said
            self.starts += 1

    def kill(self, transactional_id: str) -> None:
        """SIGKILL to one."""
        process, _ = self._running[transactional_id]
        process.kill()
        process.wait()

    def stop(self) -> None:
        """SIGKILL to all."""
        for process, said in self._running.values():
            process.kill()
            process.wait()
            said.close()
        self._running.clear()

    def _said(self, transactional_id: str) -> Path:
        return self._directory / f"{transactional_id}.log"

    def said(self) -> Iterator[str]:
        """What they printed, line by line."""
        for transactional_id in self.ids:
            yield from self._said(transactional_id).read_text(errors="replace").splitlines()

    # -- the outcome --------------------------------------------------------------------------------------------------

    def copied(self) -> int:
        """How many records of the input are copied, as the group has committed; -1 when nobody can tell now."""
        # A client of its own each time: librdkafka 2.16 may wait for ever for a coordinator that is gone.
        asker = Consumer({"bootstrap.servers": self.cluster.bootstrap_servers, "group.id": GROUP, "log_level": 0})
        try:
            found = asker.committed([TopicPartition(INPUT, number) for number in range(PARTITIONS)], 5)
            return sum(max(0, tp.offset) for tp in found)
        except KafkaException:
            return -1
        finally:
            asker.close()

    def wait_for_more(self) -> None:
        """Wait until some more records than now are copied."""
        enough = min(self.records, max(0, self.copied()) + 1)
        eventually(lambda: self.copied() >= enough, "another transaction")

    def finish(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until all is copied, and judge: each record once, nothing else, and no transaction left open."""

        def is_done() -> bool:
            self.tend()
            time.sleep(0.2)
            return self.copied() == self.records

        eventually(is_done, f"{self.records} records to be copied", timeout_s)
        partitions = [TopicPartition(OUTPUT, number) for number in range(PARTITIONS)]
        eventually(lambda: self.hanging(partitions) == [], "the end of all transactions")
        self.stop()
        found = Counter(self._read(partitions))
        lost = self.records - sum(b"%d" % number in found for number in range(self.records))
        doubled = [value for value, count in found.items() if count > 1]
        assert (lost, doubled[:5], len(found)) == (0, [], self.records), (lost, len(doubled), len(found))

    def hanging(self, partitions: list[TopicPartition]) -> list[str]:
        """The partitions whose last stable offset is not their end."""
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0})
        ends = [
            admin.list_offsets({tp: OffsetSpec.latest() for tp in partitions}, isolation_level=level)
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        ]
        stable, all_ = ({tp: each.result(PATIENCE_S).offset for tp, each in found.items()} for found in ends)
        return [f"{tp}: {stable[tp]} of {all_[tp]}" for tp in partitions if stable[tp] != all_[tp]]

    def _read(self, partitions: list[TopicPartition]) -> Iterator[bytes]:
        settings = {"group.id": "judge", "isolation.level": "read_committed", "enable.partition.eof": True}
        settings |= {"bootstrap.servers": self.cluster.bootstrap_servers, "auto.offset.reset": "earliest"}
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(tp.topic, tp.partition, 0) for tp in partitions])
        at_end: set[int] = set()
        while len(at_end) < len(partitions):
            messages = consumer.consume(5000, 1.0)
            for message in messages:
                if message.error() is None:
                    yield message.value()
                elif message.error().name() == "_PARTITION_EOF":
                    at_end.add(message.partition())
        consumer.close()


class Faults:
    """Breaks nodes and applications, one at a time, and mends them."""

    def __init__(self, copying: Copying, seed: int) -> None:
        self._copying = copying
        self._cluster = copying.cluster
        self._random = random.Random(seed)
        self.done: Counter[str] = Counter()

    def one(self) -> None:
        """One fault of a random kind, until it is mended."""
        kinds = (self.kill_coordinator, self.kill_group_coordinator, self.kill_leader, self.kill_controller)
        act = self._random.choice((*kinds, self.pause, self.kill_copier, self.kill_copier, self.stop_node))
        with suppress(ClusterError):  # nobody is coordinator now
            act()
            self.done[act.__name__] += 1

    def kill_coordinator(self) -> None:
        """SIGKILL to the coordinator of a copier's transactions."""
        self._kill(self._leader(TRANSACTION_STATE_TOPIC, self._random.choice(self._copying.ids)))

    def kill_group_coordinator(self) -> None:
        """SIGKILL to the coordinator of the copiers' group."""
        self._kill(self._leader(CONSUMER_OFFSETS_TOPIC, GROUP))

    def kill_leader(self) -> None:
        """SIGKILL to the leader of a partition of the output."""
        self._kill(self._cluster.leader_of(OUTPUT, self._random.randrange(PARTITIONS)))

    def kill_controller(self) -> None:
        """SIGKILL to the active controller."""
        self._kill(self._cluster.controller())

    def stop_node(self) -> None:
        """SIGTERM to a node."""
        node_id = self._random.choice(self._cluster.node_ids)
        self._cluster.stop_node(node_id)
        self._restart(node_id)

    def pause(self) -> None:
        """SIGSTOP to a node, for longer or shorter than the cluster's patience."""
        node_id = self._random.choice(self._cluster.node_ids)
        self._cluster.pause(node_id)
        self._wait(self._random.choice((0.3, 1.0, 4.0, 11.0)))
        self._cluster.resume(node_id)

    def kill_copier(self) -> None:
        """SIGKILL to an application."""
        self._copying.kill(self._random.choice(self._copying.ids))
        self._wait(self._random.uniform(0, 1))
        self._copying.tend()

    def _leader(self, topic: str, key: str) -> int:
        view = self._cluster.view()
        partitions = 0 if view is None else sum(each.topic == topic for each in view.partitions)
        if not partitions:
            raise ClusterError(f"{topic} not found")
        return self._cluster.leader_of(topic, partition_for(key, partitions))

    def _kill(self, node_id: int) -> None:
        self._cluster.kill(node_id)
        self._restart(node_id)

    def _restart(self, node_id: int) -> None:
        self._wait(self._random.choice((0.0, 0.5, 3.0)))
        self._cluster.start_node(node_id, PATIENCE_S)

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._copying.tend()
            time.sleep(0.05)

    def wait(self) -> None:
        """Let the copiers work for a moment, or until every replica is in sync."""
        if self._random.random() < 0.5:
            self._cluster.wait_in_sync(PATIENCE_S)
        self._wait(self._random.uniform(0, 3))
