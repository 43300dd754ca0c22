"""The way of records from topics to lines, for ``minikafka consume``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from minikafka.cli.options import Target
from minikafka.cli.output import print_note
from minikafka.cli.record_format import Line, for_a_terminal
from minikafka.cli.run import raise_when_the_reader_has_left
from minikafka.cli.starting import Assigned, Start, find_assigned, find_topics
from minikafka.model import EARLIEST, LATEST

if TYPE_CHECKING:
    import re

    from minikafka.client import Consumer
    from minikafka.model import Isolation

_RECORDS_PER_POLL: Final = 1000
_LOOK_INTERVAL_MS: Final = 1000
"""How often a verb that waits looks whether anybody still reads its output."""

_SAY_AFTER_MS: Final = 2 * _LOOK_INTERVAL_MS
_NEW_TOPICS_S: Final = 5.0
"""How often topics are looked for that match a pattern."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is read, from where, and until when. ``wait_ms``: longest time without a record."""

    cluster: Target
    topics: tuple[str, ...]
    pattern: re.Pattern[str] | None
    group: str | None
    partitions: Sequence[int]
    start: Start
    until_end: bool
    isolation: Isolation
    count: int | None
    wait_ms: float

    @property
    def is_by_hand(self) -> bool:
        """The partitions are assigned, and not subscribed to."""
        return bool(self.partitions) or self.start.is_sought or self.until_end

    @property
    def hint(self) -> str:
        """For who sees nothing, as there was nothing new."""
        begins_at_the_end = self.start == Start(LATEST) and self.group is None
        return "; --from-beginning reads those that are there" if begins_at_the_end else ""


async def read(plan: Plan, line: Line) -> None:
    """Print the records; a note tells why there are none."""
    from minikafka.client import Admin, Consumer
    from minikafka.model import Isolation

    assigned: Assigned | None = None
    async with Admin(plan.cluster.servers, security=plan.cluster.security) as admin:
        topics = await find_topics(admin, plan.topics, plan.pattern, plan.cluster)
        if plan.is_by_hand:
            assigned = await find_assigned(
                admin,
                topics,
                plan.partitions,
                plan.start,
                plan.cluster,
                isolation=plan.isolation,
                until_end=plan.until_end,
            )
    consumer = Consumer(
        plan.cluster.servers,
        *(() if assigned else topics),
        security=plan.cluster.security,
        group_id=plan.group,
        auto_offset_reset="earliest" if plan.start.end == EARLIEST else "latest",
        isolation_level=plan.isolation,
    )
    async with consumer:
        if assigned is not None:
            _assign(consumer, assigned)
        watching = None
        if plan.pattern is not None and assigned is None:
            watching = asyncio.create_task(_watch_topics(consumer, plan, topics))
        try:
            is_silent = await _consume(consumer, plan, line, assigned)
        finally:
            if watching is not None:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
    if is_silent and plan.isolation is Isolation.READ_COMMITTED:
        await _say_if_held_back(plan.cluster, topics)


def _assign(consumer: Consumer, assigned: Assigned) -> None:
    consumer.assign(assigned.begin)
    for tp, offset in assigned.begin.items():
        if offset is not None:
            consumer.seek(tp, offset)


async def _watch_topics(consumer: Consumer, plan: Plan, topics: list[str]) -> None:
    """Subscribe to topics that are created later and match."""
    from minikafka.client import Admin
    from minikafka.errors import KafkaError

    assert plan.pattern is not None
    while True:
        await asyncio.sleep(_NEW_TOPICS_S)
        try:
            async with Admin(plan.cluster.servers, security=plan.cluster.security) as admin:
                found = await find_topics(admin, (), plan.pattern, plan.cluster)
            if found != topics:
                await consumer.subscribe(*found)
                topics = found
        except KafkaError:
            continue  # the next look may succeed; reading goes on meanwhile


async def _consume(consumer: Consumer, plan: Plan, line: Line, assigned: Assigned | None) -> bool:
    """True when there was no record until the end, and none before."""
    from minikafka.model import TopicPartition

    left = sys.maxsize if plan.count is None else plan.count
    until = dict(assigned.until) if assigned is not None and plan.until_end else None
    is_for_people = sys.stdout.isatty()
    waited_ms = 0
    is_silent = True  # so far: nothing to be seen needs a reason
    while left > 0:
        if until is not None:
            for tp in [tp for tp, end in until.items() if await consumer.position(tp) >= end]:
                del until[tp]
                consumer.pause(tp)
            if not until:
                if is_silent:
                    print_note(f"no record up to the end{plan.hint}")
                return is_silent
        next_ms = int(min(_LOOK_INTERVAL_MS, plan.wait_ms - waited_ms))
        records = await consumer.poll(next_ms, min(left, _RECORDS_PER_POLL))
        raise_when_the_reader_has_left()
        waited_ms = 0 if records else waited_ms + next_ms
        if not records and waited_ms >= plan.wait_ms:
            if is_silent:
                print_note(f"no new record in {plan.wait_ms / 1000:g} s{plan.hint}")
            return is_silent
        if records:
            is_silent = False
        elif is_silent and waited_ms == _SAY_AFTER_MS and sys.stderr.isatty():
            print_note(f"waiting for new records; Ctrl-C ends{plan.hint}")
        left -= len(records)
        if assigned is not None and plan.until_end:  # a batch may go on behind the end
            records = [
                each
                for each in records
                if each.offset < assigned.until.get(TopicPartition(each.topic, each.partition), 0)
            ]
        lines = b"".join(map(line, records))
        sys.stdout.buffer.write(for_a_terminal(lines) if is_for_people else lines)
        sys.stdout.buffer.flush()
    return False


async def _say_if_held_back(cluster: Target, topics: Sequence[str]) -> None:
    from minikafka.cli.describing import ask_details, ask_held_back
    from minikafka.cli.held_back import sentence
    from minikafka.client import Admin

    async with Admin(cluster.servers, security=cluster.security) as admin:
        details = await ask_details(admin, await admin.describe_topics(list(topics)), settings=False)
        await ask_held_back(admin, details)
    if details.held:
        print_note(sentence(list(details.held.values())))
