"""Applications that work in transactions, and faults that break them and their cluster, mended again."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from live_cluster import PATIENCE_S
from live_wire import Wire

from minikafka.chaos.local_cluster import ClusterError, LocalCluster
from minikafka.coordination.partitioning import partition_for
from minikafka.model import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC

INPUT, OUTPUT, PARTITIONS = "input", "output", 3

Command = Callable[[str, str], Sequence[str]]
"""``(bootstrap servers, name)`` to the command line of an application."""


class Applications:
    """Processes with names, each started again when it ends. A subclass says what they do and whether they did it.

    They read INPUT as members of ``group``, and write to OUTPUT: topics of PARTITIONS partitions each.
    """

    group: str

    def __init__(self, cluster: LocalCluster, directory: Path, names: Sequence[str], command: Command) -> None:
        self.cluster = cluster
        self.names = names
        with Wire(cluster.layout.client_port(1)) as wire:
            for topic in (INPUT, OUTPUT):
                wire.create_topic(topic, [[1, 2, 3], [2, 3, 1], [3, 1, 2]], min_insync_replicas="2")
        self.starts = 0
        self._directory = directory
        self._command = command
        self._running: dict[str, tuple[subprocess.Popen[bytes], IO[bytes]]] = {}

    def transactional_ids(self) -> Sequence[str]:
        """Those that are in use."""
        return self.names

    def tend(self) -> None:
        """Start those that do not run."""
        for name in self.names:
            found = self._running.get(name)
            if found is not None and found[0].poll() is None:
                continue
            if found is not None:
                found[1].close()
            said = self._said(name).open("ab")
            process = subprocess.Popen(self._command(self.cluster.bootstrap_servers, name), stdout=said, stderr=said)
            self._running[name] = process, said
            self.starts += 1

    def kill(self, name: str) -> None:
        """SIGKILL to one."""
        process, _ = self._running[name]
        process.kill()
        process.wait()

    def stop(self) -> None:
        """SIGKILL to all."""
        for process, said in self._running.values():
            process.kill()
            process.wait()
            said.close()
        self._running.clear()

    def _said(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def said(self) -> Iterator[str]:
        """What they printed, line by line."""
        for name in self.names:
            yield from self._said(name).read_text(errors="replace").splitlines()

    # -- what they read and write -------------------------------------------------------------------------------------

    def feed(self, values: Iterable[bytes]) -> None:
        """Write the input."""
        servers = self.cluster.bootstrap_servers
        producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20, "log_level": 0})
        for number, value in enumerate(values):
            producer.produce(INPUT, value, partition=number % PARTITIONS)
            if number % 10_000 == 0:
                producer.flush(PATIENCE_S)
        assert producer.flush(PATIENCE_S) == 0

    def committed(self) -> int:
        """How many records of the input the group has committed; -1 when nobody can tell now."""
        # A client of its own each time: librdkafka 2.16 may wait for ever for a coordinator that is gone.
        asker = Consumer({"bootstrap.servers": self.cluster.bootstrap_servers, "group.id": self.group, "log_level": 0})
        try:
            found = asker.committed([TopicPartition(INPUT, number) for number in range(PARTITIONS)], 5)
            return sum(max(0, tp.offset) for tp in found)
        except KafkaException:
            return -1
        finally:
            asker.close()

    def hanging(self) -> list[str]:
        """The partitions of the output whose last stable offset is not their end."""
        partitions = self._output_partitions()
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0})
        ends = [
            admin.list_offsets({tp: OffsetSpec.latest() for tp in partitions}, isolation_level=level)
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        ]
        stable, all_ = ({tp: each.result(PATIENCE_S).offset for tp, each in found.items()} for found in ends)
        return [f"{tp}: {stable[tp]} of {all_[tp]}" for tp in partitions if stable[tp] != all_[tp]]

    def written(self) -> Iterator[Message]:
        """What a read_committed consumer gets of the output, to its end."""
        settings = {"group.id": "judge", "isolation.level": "read_committed", "enable.partition.eof": True}
        settings |= {"bootstrap.servers": self.cluster.bootstrap_servers, "auto.offset.reset": "earliest"}
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(tp.topic, tp.partition, 0) for tp in self._output_partitions()])
        at_end: set[int] = set()
        while len(at_end) < PARTITIONS:
            messages = consumer.consume(5000, 1.0)
            for message in messages:
                if message.error() is None:
                    yield message
                elif message.error().name() == "_PARTITION_EOF":
                    at_end.add(message.partition())
        consumer.close()

    def _output_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(OUTPUT, number) for number in range(PARTITIONS)]


class Faults:
    """Breaks nodes and applications, one at a time, and mends them."""

    def __init__(self, applications: Applications, seed: int) -> None:
        self._applications = applications
        self._cluster = applications.cluster
        self._random = random.Random(seed)
        self.done: Counter[str] = Counter()

    def one(self) -> None:
        """One fault of a random kind, until it is mended."""
        kinds = (self.kill_coordinator, self.kill_group_coordinator, self.kill_leader, self.kill_controller)
        act = self._random.choice((*kinds, self.pause, self.kill_application, self.kill_application, self.stop_node))
        with suppress(ClusterError):  # nobody is coordinator now
            act()
            self.done[act.__name__] += 1

    def kill_coordinator(self) -> None:
        """SIGKILL to the coordinator of an application's transactions."""
        self._kill(self._leader(TRANSACTION_STATE_TOPIC, self._random.choice(self._applications.transactional_ids())))

    def kill_group_coordinator(self) -> None:
        """SIGKILL to the coordinator of the applications' group."""
        self._kill(self._leader(CONSUMER_OFFSETS_TOPIC, self._applications.group))

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

    def kill_application(self) -> None:
        """SIGKILL to an application."""
        self._applications.kill(self._random.choice(self._applications.names))
        self._wait(self._random.uniform(0, 1))
        self._applications.tend()

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
            self._applications.tend()
            time.sleep(0.05)

    def wait(self) -> None:
        """Let them work for a moment, or until every replica is in sync."""
        if self._random.random() < 0.5:
            self._cluster.wait_in_sync(PATIENCE_S)
        self._wait(self._random.uniform(0, 3))
