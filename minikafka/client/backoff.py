"""Back-off between attempts, and the retry loop for a single call."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from minikafka.errors import ErrorCode, KafkaError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """Waits that grow from ``first_s`` by ``factor`` to ``last_s``, each up to 20 % longer or shorter at random."""

    first_s: float
    last_s: float
    factor: float

    def delay_s(self, failures: int, rng: random.Random) -> float:
        """The wait after that many failures in a row (1 is the first)."""
        assert failures >= 1
        grown = self.first_s * self.factor ** min(failures - 1, 200)
        return min(self.last_s, grown) * (0.8 + 0.4 * rng.random())


# A leader that died is replaced within a second or so, and what the client adds to that should be small: the wait
# grows so slowly that after t seconds of trying it is about t / 10.
FAILOVER_BACKOFF: Final = BackoffPolicy(first_s=0.02, last_s=1.0, factor=1.1)
RETRY_BACKOFF: Final = BackoffPolicy(first_s=0.02, last_s=1.0, factor=1.5)


async def retrying(attempt: Callable[[], Awaitable[T]], *, timeout_s: float, rng: random.Random, doing: str) -> T:
    """The result of ``attempt``, which is repeated after a retriable KafkaError, for up to ``timeout_s``.

    Raises any other error at once. After the time-out raises KafkaError with the code of the last retriable error
    (REQUEST_TIMED_OUT without one).
    """
    last: KafkaError | None = None
    failures = 0
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    return await attempt()
                except KafkaError as error:
                    if not error.retriable:
                        raise
                    last = error
                failures += 1
                await asyncio.sleep(RETRY_BACKOFF.delay_s(failures, rng))
    except TimeoutError:
        code = ErrorCode.REQUEST_TIMED_OUT if last is None else last.code
        why = f": {last.message}" if last is not None and last.message else ""
        raise KafkaError(code, f"{doing} timed out after {timeout_s:g} s{why}") from last
