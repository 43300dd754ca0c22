"""Loops that a node needs: after an error from outside they start again, and a bug in them ends the node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from minikafka.broker.backoff import growing_pauses
from minikafka.broker.logs import one_line
from minikafka.errors import KafkaError
from minikafka.event_log import get_logger

log = get_logger()

LONGEST_PAUSE_S: Final = 10.0
GOOD_RUN_S: Final = 60.0
"""A loop that ran for so long starts with the first pause again."""


async def supervised(run: Callable[[], Awaitable[None]], name: str) -> None:
    """Await ``run()``; after KafkaError or OSError start it again after a pause. Pauses double.

    For loops whose end nobody awaits. ``run`` must begin by looking for work: a wake-up may have been lost with the
    former attempt. Returns when ``run`` returns; any other exception is a bug, and is raised.
    """
    loop = asyncio.get_running_loop()
    pauses = growing_pauses(LONGEST_PAUSE_S)
    while True:
        began_s = loop.time()
        try:
            return await run()
        except (KafkaError, OSError) as error:
            if loop.time() - began_s >= GOOD_RUN_S:
                pauses = growing_pauses(LONGEST_PAUSE_S)
            pause_s = next(pauses)
            log.warning("a task failed and starts again", task=name, pause_s=pause_s, why=one_line(error))
        await asyncio.sleep(pause_s)
