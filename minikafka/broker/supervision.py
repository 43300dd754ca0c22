"""Loops that a node cannot do without: what the world does to them they outlive, and a bug in them ends the node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from minikafka.broker.logs import one_line
from minikafka.errors import KafkaError

log = structlog.get_logger(__name__)

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 10.0
GOOD_RUN_S: Final = 60.0
"""A loop that ran for so long is not failing again and again: pauses begin anew."""


async def supervised(run: Callable[[], Awaitable[None]], name: str) -> None:
    """Await ``run()``, and begin it anew after a pause when it ends with KafkaError or OSError. Pauses double.

    For loops whose end nobody awaits. ``run`` begins with looking at what there is to do: a wake-up may have been lost
    with the attempt before. Returns when ``run`` returns; any other exception is a bug, and is raised.
    """
    loop = asyncio.get_running_loop()
    pause_s = FIRST_PAUSE_S
    while True:
        began_s = loop.time()
        try:
            return await run()
        except (KafkaError, OSError) as error:
            if loop.time() - began_s >= GOOD_RUN_S:
                pause_s = FIRST_PAUSE_S
            log.warning("a task failed and starts again", task=name, pause_s=pause_s, why=one_line(error))
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
