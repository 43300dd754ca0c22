"""A producer under way while a cluster is broken and mended, and the judge of what became of its records."""

from __future__ import annotations

import asyncio

from live_cluster import PATIENCE_S, assert_replicas_equal, eventually
from live_wire import Wire

from minikafka.chaos.history import History
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.workload import SourceProducer, read_back
from minikafka.ledger.checker import Verdict, check

TOPIC = "sources"
PARTITIONS = 3
RATE = 600  # records a second: the cluster's time is for its own work, not for theirs


class Load:
    """librdkafka writes with acks=all and idempotence to a topic of which every node leads a partition.

    ``settings`` are librdkafka's.
    """

    def __init__(self, cluster: LocalCluster, *, rate: int = RATE, **settings: int) -> None:
        with Wire(cluster.layout.client_port(1)) as wire:
            wire.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1], [3, 1, 2]], min_insync_replicas="2")
        cluster.wait_for(lambda view: len(view.partitions) == PARTITIONS, "the topic")
        self._cluster = cluster
        self._history = History()
        named = {"linger.ms": 25} | {name.replace("_", "."): value for name, value in settings.items()}
        self._producer = SourceProducer(cluster.bootstrap_servers, TOPIC, PARTITIONS, self._history, rate, named)
        self._producer.start()
        self.wait_for_more()

    def wait_for_more(self, count: int = RATE // 2) -> None:
        """Wait until that many more records than now were acknowledged."""
        enough = self._producer.acknowledged + count
        eventually(lambda: self._producer.acknowledged >= enough, f"{count} more acknowledged records")

    def abandon(self) -> None:
        """Stop writing, whatever is under way; nothing happens after :meth:`finish`."""
        self._producer.abandon()

    def finish(self) -> Verdict:
        """Stop writing, read everything back and judge: nothing lost, nothing twice, nothing out of order."""
        self._producer.finish()
        self._cluster.wait_in_sync(PATIENCE_S)
        asyncio.run(read_back(self._cluster.bootstrap_servers, TOPIC, PARTITIONS, self._history))
        verdict = check(self._history.events)
        assert verdict.ok, verdict.examples
        assert verdict.acknowledged == verdict.sent == verdict.read
        for partition in range(PARTITIONS):
            assert_replicas_equal(self._cluster, TOPIC, partition)
        return verdict
