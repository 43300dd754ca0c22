"""What the handlers of admin APIs share: time-outs, portions, certificates, and seeing one's own change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.key_change import KeyChange
from minikafka.config import BrokerConfig
from minikafka.errors import KafkaError
from minikafka.metadata.image import MetadataImage

Named = TypeVar("Named")
Result = TypeVar("Result")

LONGEST_TIMEOUT_S: Final = 60.0
SEEN_TIMEOUT_S: Final = 2.0


class Answered(Protocol):
    """A result with an error."""

    error_code: int


Answer = TypeVar("Answer", bound=Answered)


def controller_timeout_s(timeout_ms: int) -> float:
    """How long to try to reach the controller for a request with that time-out."""
    return min(max(timeout_ms / 1000, 0.5), LONGEST_TIMEOUT_S)


async def asked_in_portions(
    portions: Iterable[Sequence[Named]],
    ask: Callable[[Sequence[Named]], Awaitable[Iterable[Result]]],
    refused: Callable[[Named, KafkaError], Result],
) -> list[Result]:
    """What the controller says of each, asked portion by portion. Once it is not reached, the rest is refused."""
    results: list[Result] = []
    failure: KafkaError | None = None
    for some in portions:
        await asyncio.sleep(0)
        if failure is None:
            try:
                results += await ask(some)
                continue
            except KafkaError as error:
                # There is no controller: do not wait for one again. The traceback refers to this frame, and would keep
                # all that was asked until a garbage collection, 80 ms for fifty requests.
                failure = error.with_traceback(None)
        results += [refused(each, failure) for each in some]
    return results


async def with_keys_taken_up(
    resources: Sequence[Named],
    look: Callable[[Named], Awaitable[BrokerConfig]],
    ask: Callable[[Sequence[Named]], Awaitable[Sequence[Answer]]],
    keys: KeyChange,
    metadata: Metadata,
    *,
    validate_only: bool,
) -> Sequence[Answer]:
    """What the controller says of changes of this node's certificates, whose files can be used by a ``look`` at them;
    then they are used. One change waits for the other."""
    async with keys.turn:
        looked_at = [await look(each) for each in resources]
        answers = await ask(resources)
        if not validate_only and not any(each.error_code for each in answers):
            for config in looked_at:
                await wait_until_seen(metadata, partial(keys.is_in_force, config))
                await keys.take_up()
    return answers


async def wait_until_seen(metadata: Metadata, is_seen: Callable[[MetadataImage], bool]) -> None:
    """Wait, but not for ever, until this node's own image shows a committed change: whoever asked will look here."""
    try:
        async with asyncio.timeout(SEEN_TIMEOUT_S):
            while not is_seen(metadata.image):
                await metadata.wait_for(metadata.applied_offset + 1)
    except TimeoutError:
        return
