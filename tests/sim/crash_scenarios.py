"""What is crashed, by name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from random import Random
from unittest.mock import Mock, patch

import crash_compaction
import crash_logs
import crash_metadata
import crash_moves
import crash_registrations
import crash_topics
from crash_compaction import CompactedLife
from crash_explorer import Explorer, Life
from crash_logs import LogLife
from crash_metadata import MetadataLife
from crash_moves import MovingLife
from crash_registrations import RegisteredLife
from crash_topics import TopicLife
from simulator.disk import MountedDisk

from minikafka.broker.drivers import metadata_recovery, metadata_snapshots
from minikafka.storage import durable_end

STEPS = 12
STATES_PER_LIFE = 400
TRANSACTIONS = "transactions"

Birth = Callable[[MountedDisk, Random], Life]


def _births(life: Callable[..., Life], mixes: dict[str, dict[str, int]]) -> dict[str, Birth]:
    return {mix: partial(life, mix=mix, steps=STEPS) for mix in mixes}


SCENARIOS: dict[str, Birth] = {
    **_births(LogLife, crash_logs.MIXES),
    **_births(TopicLife, crash_topics.MIXES),
    **_births(CompactedLife, crash_compaction.MIXES),
    **_births(RegisteredLife, crash_registrations.MIXES),
    **_births(MovingLife, crash_moves.MIXES),
    **_births(MetadataLife, crash_metadata.MIXES),
}


def explore(name: str, seed: int, limit: int = STATES_PER_LIFE) -> Explorer:
    """One life of a scenario, and all the lives that come of it; AssertionError with what led to a broken promise."""
    explorer = Explorer(seed, limit=limit)
    silenced = (metadata_recovery, metadata_snapshots, durable_end)
    with ExitStack() as stack:
        for module in silenced:
            stack.enter_context(patch.object(module, "log", Mock()))
        explorer.explore(SCENARIOS[name])
    return explorer


def explore_any(seed: int) -> Explorer:
    """Seed after seed, all scenarios have their turn, but those that have a suite of their own."""
    names = [name for name in SCENARIOS if name != TRANSACTIONS]
    return explore(names[seed % len(names)], seed)


def explore_transactions(seed: int) -> Explorer:
    """Logs with open and aborted transactions."""
    return explore(TRANSACTIONS, seed)
