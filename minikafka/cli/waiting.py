"""Says on stderr what a verb waits for when that takes long, and at last why it gave up."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minikafka.cli.output import print_note

if TYPE_CHECKING:
    from minikafka.cli.options import Target
    from minikafka.client import Admin

QUIET_S: Final = 3.0
LOOKS_APART_S: Final = 1.0
LOOK_TIMEOUT_MS: Final = 2_000
PARTITIONS_NAMED: Final = 5
SILENT_QUORUM: Final = "the metadata quorum does not answer"
MIN_ISR: Final = "min.insync.replicas"


class Concern(NamedTuple):
    """What a verb depends on: a cluster, a topic, and whether its ISR is large enough.

    Without that acks=all is refused, and what is written otherwise is not committed: nobody reads it.
    """

    target: Target
    topic: str | None = None
    needs_isr: bool = False


async def explained(verb: Coroutine[Any, Any, None], concern: Concern) -> None:
    """Run `verb`. After 3 s, and when it fails with a retriable error, say what keeps the cluster from serving it."""
    from minikafka.errors import KafkaError

    told: list[str] = []  # what was seen last
    telling = asyncio.create_task(_tell(concern, told))
    try:
        await verb
    except KafkaError as error:
        cause = (told[-1] if told else await trouble(concern)) if error.retriable else None
        if not cause or cause in error.message or all(MIN_ISR in words for words in (cause, error.message)):
            raise  # it says so already
        message = cause if cause.startswith(error.message) else f"{error.message}; {cause}"
        raise KafkaError(error.code, message) from error
    finally:
        telling.cancel()
        with suppress(asyncio.CancelledError):
            await telling


async def _tell(concern: Concern, told: list[str]) -> None:
    await asyncio.sleep(QUIET_S)
    while True:
        seen = await trouble(concern)
        if seen is not None and [seen] != told:
            print_note(f"waiting: {seen}")
        told[:] = [] if seen is None else [seen]
        await asyncio.sleep(LOOKS_APART_S if told else QUIET_S)


async def trouble(concern: Concern) -> str | None:
    """What keeps the cluster from serving the verb, in a line; None when nothing is known to."""
    from minikafka.client import Admin
    from minikafka.client.errors import UnreachableError
    from minikafka.errors import KafkaError

    try:
        cluster = concern.target
        async with Admin(cluster.servers, security=cluster.security, request_timeout_ms=LOOK_TIMEOUT_MS) as admin:
            return await quorum_trouble(admin) or (await _of_topic(admin, concern) if concern.topic else None)
    except UnreachableError as error:
        start = f"; start a cluster with: {concern.target.start}" if concern.target.start else ""
        return f"{error.message}{start}"
    except KafkaError as error:
        return error.message


async def quorum_trouble(admin: Admin) -> str | None:
    """Why there is no controller, in the words of a broker; None when there is one, or this user may not know."""
    from minikafka.errors import ErrorCode, KafkaError

    try:
        await admin.describe_quorum()
    except KafkaError as error:
        if error.code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            return None  # a cluster of other brokers, or a user who may read topics and no more
        return SILENT_QUORUM if error.code is ErrorCode.REQUEST_TIMED_OUT else error.message
    return None


async def note_if_stale(admin: Admin) -> None:
    """Say on stderr that what was shown may be old, if the quorum is lost."""
    why = await staleness(admin)
    if why is not None:
        print_note(f"may be outdated: {why}")


async def staleness(admin: Admin) -> str | None:
    """Why metadata may be old; None when there is a controller."""
    try:
        async with asyncio.timeout(QUIET_S):
            return await quorum_trouble(admin)
    except TimeoutError:
        return SILENT_QUORUM


async def _of_topic(admin: Admin, concern: Concern) -> str | None:
    assert concern.topic is not None
    (topic,) = await admin.describe_topics([concern.topic])
    if topic.error:
        return None  # the verb creates it, or says so itself
    leaderless = [index for index, partition in sorted(topic.partitions.items()) if partition.leader < 0]
    if leaderless:
        return f"topic {topic.name!r}: no leader of {_partitions(leaderless)}"
    if not concern.needs_isr:
        return None
    settings = {entry.name: entry.value for entry in await admin.describe_configs(topic.name)}
    minimum = int(settings.get(MIN_ISR) or 1)
    short = {
        index: partition.in_sync_replicas
        for index, partition in sorted(topic.partitions.items())
        if len(partition.in_sync_replicas) < min(minimum, len(partition.replicas))
    }
    if not short:
        return None
    first = next(iter(short.values()))
    return f"topic {topic.name!r}: ISR {list(first)} of {_partitions(list(short))} is smaller than {MIN_ISR} {minimum}"


def _partitions(indexes: list[int]) -> str:
    named = ", ".join(map(str, indexes[:PARTITIONS_NAMED])) + (", ..." if len(indexes) > PARTITIONS_NAMED else "")
    return f"partition{'s' if len(indexes) > 1 else ''} {named}"
