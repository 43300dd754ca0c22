"""When the fetcher looks again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from itertools import chain, repeat
from typing import cast

from minikafka.client.connections import Connections
from minikafka.client.consuming.buffer import FetchBuffer
from minikafka.client.consuming.fetcher import Fetcher, FetchSettings
from minikafka.client.consuming.positions import Position
from minikafka.client.consuming.resolver import Resolver
from minikafka.client.metadata import Metadata
from minikafka.model import Isolation, TopicPartition
from minikafka.net.tasks import TaskOwner

BACK_OFF_MS = 100
SETTINGS = FetchSettings(Isolation.READ_UNCOMMITTED, 500, 1, 1000, 1000, check_crcs=True)


class Looks:
    """In the resolver's place: tells when the fetcher looked."""

    def __init__(self) -> None:
        self.at_ms: asyncio.Queue[int] = asyncio.Queue()

    def ask(self, positions: Iterable[Position], now_ms: int) -> None:
        self.at_ms.put_nowait(now_ms)


async def test_a_back_off_that_ends_while_the_fetcher_looks_is_over() -> None:
    """It is not due when the fetcher looks, and is when it looks how long to sleep. Nothing else wakes it here."""
    readings = chain([BACK_OFF_MS - 1], repeat(BACK_OFF_MS))
    position = Position(TopicPartition("t", 0))
    position.back_off(BACK_OFF_MS)
    rng, looks = random.Random(1), Looks()
    tasks = TaskOwner("test", lambda _name, _error: None)
    connections = Connections("127.0.0.1:9", client_id="test", rng=rng)
    fetcher = Fetcher(
        connections,
        Metadata(connections, tasks, rng, lambda: None),  # not started
        cast(Resolver, looks),
        tasks,
        lambda: next(readings),
        lambda: [position],
        FetchBuffer(),
        SETTINGS,
        lambda: None,
    )
    fetcher.start()
    try:
        async with asyncio.timeout(5):
            assert [await looks.at_ms.get(), await looks.at_ms.get()] == [BACK_OFF_MS - 1, BACK_OFF_MS]
    finally:
        await tasks.close()
        await connections.close()
