"""``minikafka consume``: the records of topics as lines."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from minikafka.cli import completion
from minikafka.cli.describing import EARLIEST, LATEST
from minikafka.cli.options import Bootstrap, Directory, Target, target
from minikafka.cli.output import print_note
from minikafka.cli.record_format import (
    Line,
    Printed,
    fields_line,
    for_a_terminal,
    format_line,
    print_properties,
    record_as_json,
    unescaped,
)
from minikafka.cli.run import raise_when_the_reader_has_left, run
from minikafka.cli.starting import (
    Assigned,
    Start,
    find_assigned,
    find_topics,
    parse_partitions,
    parse_pattern,
    parse_start,
)
from minikafka.cli.times import parse_moment
from minikafka.cli.waiting import Concern

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


class IsolationLevel(StrEnum):
    """As Kafka's console consumer writes it; in any case."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


def consume(
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC]...", help="Topics to read.", show_default=False, autocompletion=completion.topics
        ),
    ] = None,
    include: Annotated[
        str | None,
        typer.Option(
            "--include", metavar="REGEX", help="Topics whose names match, also those created later; A,B for several."
        ),
    ] = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start at the earliest offset instead of the latest.")
    ] = False,
    count: Annotated[
        int | None, typer.Option("--count", "--max-messages", "-n", help="Number of records; stop after them.", min=1)
    ] = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", "-e", help="Stop at the end of the topics as it is now.")
    ] = False,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            help="Consumer group: share its partitions and commit offsets.",
            autocompletion=completion.groups,
        ),
    ] = None,
    partitions: Annotated[
        list[str] | None, typer.Option("--partition", "-p", metavar="P[,P...]", help="Only these partitions.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--offset",
            metavar="N|-N|earliest|latest",
            help="Start there; -N: at the last N records of each partition. N needs --partition.",
        ),
    ] = None,
    from_timestamp: Annotated[
        str | None,
        typer.Option(
            "--from-timestamp",
            metavar="TIME",
            help="Start at the first record since: 2026-01-31T12:00:00, ms since 1970, or 10m for ten minutes ago.",
        ),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", help="Seconds without a record; stop after them.", min=0)
    ] = None,
    timeout_ms: Annotated[int | None, typer.Option("--timeout-ms", hidden=True, min=0)] = None,
    isolation: Annotated[
        IsolationLevel,
        typer.Option(
            "--isolation-level",
            case_sensitive=False,
            help="read_committed leaves out aborted transactions, and waits for open ones.",
        ),
    ] = IsolationLevel.READ_UNCOMMITTED,
    print_key: Annotated[bool, typer.Option("--print-key", help="Print the key before the value.")] = False,
    print_headers: Annotated[bool, typer.Option("--print-headers", help="Print the headers.")] = False,
    print_timestamp: Annotated[bool, typer.Option("--print-timestamp", help="Print the timestamp.")] = False,
    print_partition: Annotated[bool, typer.Option("--print-partition", help="Print the partition.")] = False,
    print_offset: Annotated[bool, typer.Option("--print-offset", help="Print the offset.")] = False,
    separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", help="Separator between what is printed.", show_default="tab")
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            metavar="NAME=VALUE",
            help="As Kafka's: print.key=true, null.literal=-",
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help="As kcat's: %t topic, %p partition, %o offset, %k key, %s value, %h headers, %T timestamp, "
            "%K and %S sizes.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print each record as one line of JSON.")] = False,
    consumer_properties: Annotated[
        list[str] | None, typer.Option("--consumer-property", "--command-property", hidden=True)
    ] = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
) -> None:
    """Print records, one per line, until --count, --until-end, --timeout or Ctrl-C.

    Examples:

    [bold]minikafka consume events --from-beginning --count 10[/]

    [bold]minikafka consume events --offset -5 --until-end --print-key[/]

    [bold]minikafka consume --include 'orders-.*' --from-timestamp 1h --json | jq .value[/]

    [bold]minikafka consume events --group readers[/]

    [bold]minikafka consume events -f '%T %p:%o %k=%s\\n'[/]
    """
    from minikafka.model import Isolation

    for assignment in consumer_properties or ():
        name, _, value = assignment.partition("=")
        if name == "group.id":
            group = group or value
        elif name == "auto.offset.reset":
            from_beginning = from_beginning or value == "earliest"
        elif name == "isolation.level" and value in list(IsolationLevel):
            isolation = IsolationLevel(value)
        else:
            _refuse(
                "--consumer-property", f"{assignment!r}: only group.id, auto.offset.reset and isolation.level count"
            )
    if bool(topics) == (include is not None):
        _refuse("TOPIC / --include", "exclude each other" if topics else "name a topic, or a pattern of topics")
    begins = _start(from_beginning, start, from_timestamp)
    indexes = parse_partitions(partitions or [])
    if group is not None:
        _check_group(indexes, begins, until_end)
    if begins.offset is not None and not indexes:
        _refuse("--offset", "needs --partition; -N for the last N does not")
    seconds = timeout if timeout is not None else None if timeout_ms is None else timeout_ms / 1000
    fields = {
        "key": print_key,
        "headers": print_headers,
        "timestamp": print_timestamp,
        "partition": print_partition,
        "offset": print_offset,
        "value": True,
    }
    chosen = [
        name
        for name, is_given in (("--json", as_json), ("--format", form), ("--print-...", _any_but_value(fields)))
        if is_given
    ]
    if len(chosen) > 1:
        _refuse(" / ".join(chosen), "exclude each other")
    printed = Printed(frozenset(name for name, is_on in fields.items() if is_on))
    if separator is not None:
        printed = printed._replace(separator=unescaped(separator))
    printed = print_properties(printed, properties or [])
    plan = _Plan(
        target(bootstrap, directory),
        tuple(topics or ()),
        None if include is None else parse_pattern(include),
        group,
        indexes,
        begins,
        until_end,
        Isolation[isolation.name],
        count,
        inf if seconds is None else int(seconds * 1000),
    )
    line = record_as_json if as_json else format_line(form) if form is not None else fields_line(printed)
    concern = Concern(plan.cluster, plan.topics[0] if len(plan.topics) == 1 else None, needs_isr=True)
    run(_run(plan, line), concern)


@dataclass(frozen=True, slots=True)
class _Plan:
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


def _any_but_value(fields: dict[str, bool]) -> bool:
    return any(is_on for name, is_on in fields.items() if name != "value")


def _refuse(option: str, reason: str) -> NoReturn:
    raise typer.BadParameter(reason, param_hint=option)


def _start(from_beginning: bool, offset: str | None, from_timestamp: str | None) -> Start:
    ways = {
        "--offset": offset is not None,
        "--from-timestamp": from_timestamp is not None,
        "--from-beginning": from_beginning,
    }
    if sum(ways.values()) > 1:
        _refuse(" / ".join(name for name, is_given in ways.items() if is_given), "exclude each other")
    if offset is not None:
        return parse_start(offset)
    if from_timestamp is not None:
        return Start(at_ms=parse_moment(from_timestamp, "--from-timestamp", time.time_ns() // 1_000_000))
    return Start(EARLIEST if from_beginning else LATEST)


def _check_group(partitions: Sequence[int], start: Start, until_end: bool) -> None:
    if partitions:
        _refuse("--partition", "cannot be combined with --group: the group assigns the partitions")
    if start.is_sought:
        option = "--from-timestamp" if start.at_ms is not None else "--offset"
        _refuse(option, "cannot be combined with --group: it goes on where it is; group reset-offsets moves it")
    if until_end:
        _refuse("--until-end", "cannot be combined with --group: others may read the rest; use --timeout")


async def _run(plan: _Plan, line: Line) -> None:
    from minikafka.client import Admin, Consumer
    from minikafka.model import Isolation

    assigned: Assigned | None = None
    async with Admin(plan.cluster.servers) as admin:
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


async def _watch_topics(consumer: Consumer, plan: _Plan, topics: list[str]) -> None:
    """Subscribe to topics that are created later and match."""
    from minikafka.client import Admin
    from minikafka.errors import KafkaError

    assert plan.pattern is not None
    while True:
        await asyncio.sleep(_NEW_TOPICS_S)
        try:
            async with Admin(plan.cluster.servers) as admin:
                found = await find_topics(admin, (), plan.pattern, plan.cluster)
            if found != topics:
                await consumer.subscribe(*found)
                topics = found
        except KafkaError:
            continue  # the next look may succeed; reading goes on meanwhile


async def _consume(consumer: Consumer, plan: _Plan, line: Line, assigned: Assigned | None) -> bool:
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

    async with Admin(cluster.servers) as admin:
        details = await ask_details(admin, await admin.describe_topics(list(topics)), settings=False)
        await ask_held_back(admin, details)
    if details.held:
        print_note(sentence(list(details.held.values())))
