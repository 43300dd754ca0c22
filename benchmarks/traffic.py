"""A librdkafka producer that never stops, and the judgement of what became of its records.

It is the demonstration's own producer: lines of source files, ``acks=all``, idempotent, everything else as librdkafka
has it (see ``minikafka.chaos.workload.PRODUCER_SETTINGS``).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.report import Figure, Target
from minikafka.chaos.history import History
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.workload import SourceProducer, read_back
from minikafka.ledger.checker import Verdict, check


class Traffic:
    """Records that flow into every partition of a topic; times are milliseconds of its history."""

    def __init__(self, cluster: LocalCluster, topic: str, partitions: int, rate: int, **settings: str | int) -> None:
        self._servers = cluster.bootstrap_servers
        self._topic = topic
        self._partitions = partitions
        self._history = History()
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self.producer = SourceProducer(self._servers, topic, partitions, self._history, rate, named)

    def mark(self, text: str) -> int:
        """Note a fault; answers the time."""
        return self._history.append("nemesis", "info", "fault", text).time_ms

    def verdict(self, *, first_offset: int | None = None) -> Verdict:
        """Read everything back with aiokafka and compare; the producer must have finished. ``first_offset``: what was
        in each partition before."""
        reading = read_back(self._servers, self._topic, self._partitions, self._history, first_offset=first_offset)
        asyncio.run(reading)
        return check(self._history.events)

    def acknowledged(self) -> Iterator[tuple[str, str, int]]:
        """``(partition, record, offset)`` of all that the producer was promised."""
        for event in self._history.events:
            if (event.function, event.type) == ("send", "ok"):
                yield from event.value

    def first_write_ms(self, since_ms: int) -> dict[int, int]:
        """By partition: when a record that was handed to the producer after `since_ms` was first acknowledged."""
        first: dict[int, int] = {}
        sent_ms = self._sent_ms()
        for event in self._history.events:
            if (event.function, event.type) != ("send", "ok") or event.time_ms < since_ms:
                continue
            for name, record, _offset in event.value:
                partition = int(name.rpartition("-")[2])
                if partition not in first and sent_ms[name, record] >= since_ms:
                    first[partition] = event.time_ms
        return first

    def _sent_ms(self) -> dict[tuple[str, str], int]:
        sent: dict[tuple[str, str], int] = defaultdict(int)
        for event in self._history.events:
            if (event.function, event.type) == ("send", "invoke"):
                sent.update(((name, record), event.time_ms) for name, record in event.value)
        return sent


@contextmanager
def flowing(cluster: LocalCluster, topic: str, partitions: int, rate: int, **settings: str | int) -> Iterator[Traffic]:
    """Traffic for as long as the block lasts; what is under way at its end is waited for. ``settings`` are librdkafka's
    own, with underscores for dots."""
    traffic = Traffic(cluster, topic, partitions, rate, **settings)
    traffic.producer.start()
    try:
        yield traffic
    finally:
        traffic.producer.finish()


def safety(verdict: Verdict) -> list[Figure]:
    """What the checker found, as figures that must be zero."""
    broken = verdict.violations
    lost = broken["lost-write"] + broken["unseen"]
    others = sum(broken.values()) - lost
    note = f"{verdict.acknowledged:,} acknowledged, {verdict.read:,} read back"
    return [
        Figure("acknowledged records lost", lost, "", Target("=", 0), note),
        Figure("acknowledged records not judged", sum(verdict.not_judged.values()), "", Target("=", 0)),
        Figure("records duplicated, reordered or otherwise wrong", others, "", Target("=", 0)),
    ]
