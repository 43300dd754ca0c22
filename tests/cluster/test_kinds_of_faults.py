"""Each kind of fault that rounds of chaos are made of takes effect, is mended, and costs a real client no record."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from confluent_kafka import Message, Producer
from live_cluster import eventually

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.rounds.kinds import KINDS, NOTHING, Arena
from minikafka.testing import MiniKafka

TOPIC: Final = "load"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniKafka]:
    directory = tmp_path_factory.mktemp("kinds") / "kafka"
    with MiniKafka(directory=directory, settings={"min.insync.replicas": 2}) as kafka:
        kafka.create_topic(TOPIC, partitions=2)
        yield kafka


class Load:
    """A producer, and the values that it was told of."""

    def __init__(self, servers: str, name: str) -> None:
        settings = {"bootstrap.servers": servers, "log_level": 0, "linger.ms": 0, "enable.idempotence": True}
        limits = {"socket.timeout.ms": 2_000, "message.timeout.ms": 120_000, "retry.backoff.ms": 50, "client.id": "own"}
        self._producer = Producer({**settings, **limits})
        self._name = name
        self.sent: list[bytes] = []
        self.acknowledged: list[bytes] = []

    def send(self) -> None:
        """20 records; their fate is seen by :meth:`flush`."""
        for _ in range(20):
            self.sent.append(f"{self._name}/{len(self.sent)}/{'x' * 100}".encode())
            self._producer.produce(TOPIC, self.sent[-1], on_delivery=self._on_delivery)
        self._producer.poll(0)

    def flush(self) -> None:
        """All are acknowledged, sooner or later."""
        assert self._producer.flush(150) == 0

    def _on_delivery(self, error: object, message: Message) -> None:
        if error is None:
            self.acknowledged.append(message.value())


def _is_down(cluster: LocalCluster, node: int) -> bool:
    return node not in cluster.running()


def _has_faults(cluster: LocalCluster, node: int) -> bool:
    return bool(cluster.faults([node])[node])


EFFECTS: Final[dict[str, Callable[[LocalCluster, int], bool]]] = {
    "kill": _is_down,
    "controller": _is_down,
    "coordinator": _is_down,
    "disk-full": _is_down,
    "pause": lambda cluster, node: node not in cluster.responsive(),
    **dict.fromkeys(("isolate", "one-way", "slow-link", "clock", "disk-lying"), _has_faults),
}
"""On the node that a fault has taken."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_takes_effect_is_mended_and_costs_no_record(kind: str, kafka: MiniKafka) -> None:
    kafka.heal()
    cluster = kafka.cluster
    assert isinstance(cluster, LocalCluster)
    load = Load(kafka.bootstrap_servers, kind)
    load.send()
    load.flush()
    before = {node: process.pid for node, process in cluster.running().items()}
    arena = Arena(cluster, (TOPIC,), "own", lambda: kafka.controller() % 3 + 1, random.Random(5))
    with KINDS[kind](arena) as sentence:
        assert sentence != NOTHING
        load.send()
        if kind in EFFECTS:
            (node,) = arena.broken
            eventually(lambda: EFFECTS[kind](cluster, node), f"the effect of {kind}")
        elif kind == "kill-all":
            assert cluster.running() == {}
        elif kind in ("rolling", "restart-storm", "damage"):
            now = {node: process.pid for node, process in cluster.running().items()}
            assert {node for node in before if now[node] != before[node]} == (arena.broken or set(before))
        elif kind == "reassign":
            moves = re.findall(r"(\d+) to (\[[\d, ]+\])", sentence)
            wanted = {int(number): json.loads(nodes) for number, nodes in moves}
            eventually(lambda: _replicas(cluster) == wanted, "the replicas that were chosen")
        else:
            assert kind in ("disk-slow", "requests")
            assert any(cluster.faults().values())
    load.send()
    kafka.heal()
    load.flush()
    assert cluster.faults() == {1: [], 2: [], 3: []}
    assert sorted(load.acknowledged) == sorted(load.sent)
    there = Counter(record.value for record in kafka.records(TOPIC))
    assert [value for value in load.sent if there[value] != 1] == []


def _replicas(cluster: LocalCluster) -> dict[int, list[int]]:
    view = cluster.view()
    assert view is not None
    return {each.partition: list(each.replicas) for each in view.partitions if each.topic == TOPIC}
