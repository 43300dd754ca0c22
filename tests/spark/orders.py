"""Orders as records, their windows computed naively, and what is in a topic of results."""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from librdkafka import end_offsets, read_by_librdkafka

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.client import Producer

START_MS = 1_767_225_600_000
JUNK = b"no JSON"


class Order(NamedTuple):
    user: str | None
    amount: int
    at_ms: int

    @property
    def value(self) -> bytes:
        return json.dumps(self._asdict()).encode()


def some_orders(count: int, *, seed: int = 1, first_ms: int = START_MS, spread_ms: int = 60_000) -> list[Order]:
    """Orders of ten users, one of whom has no name, in no order of time."""
    rng = random.Random(seed)
    users = [None, *(f"user-{number}" for number in range(9))]
    return [Order(rng.choice(users), rng.randrange(100), first_ms + rng.randrange(spread_ms)) for _ in range(count)]


def produce(cluster: LocalCluster, topic: str, values: Sequence[bytes | None], **more: Any) -> None:
    """Write values, in order, with the same key, headers and so on."""

    async def write() -> None:
        async with Producer(cluster.bootstrap_servers) as producer:
            deliveries = [await producer.send(topic, value, **more) for value in values]
            await asyncio.gather(*deliveries)

    asyncio.run(write())


def naive_windows(orders: Iterable[Order], window_ms: int, slide_ms: int) -> dict[bytes, dict[str, Any]]:
    """What the newest result of each key must be: the value by the key, for count(*) and sum(json.amount)."""
    members: dict[tuple[int, str | None], list[int]] = defaultdict(list)
    for order in orders:
        start_ms = order.at_ms // slide_ms * slide_ms
        while start_ms > order.at_ms - window_ms:
            members[start_ms, order.user].append(order.amount)
            start_ms -= slide_ms
    results = {}
    for (start_ms, user), amounts in members.items():
        identity = {"user": user, "window_start": iso(start_ms), "window_end": iso(start_ms + window_ms)}
        results[compact(identity)] = identity | {"count": len(amounts), "sum_amount": sum(amounts)}
    return results


def newest_results(cluster: LocalCluster, topic: str) -> dict[bytes, dict[str, Any]]:
    """What a compacted topic keeps: of each key the last value."""
    return {message.key(): json.loads(message.value()) for message in all_results(cluster, topic)}


def all_results(cluster: LocalCluster, topic: str) -> list[Any]:
    """Every record of a topic, those of a partition in order."""
    return read_by_librdkafka(cluster, topic, sum(end_offsets(cluster, topic)))


def compact(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def iso(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"
