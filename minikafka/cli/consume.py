"""``minikafka consume``: the records of topics as lines."""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import StrEnum
from math import inf
from typing import Annotated, NoReturn

import typer

from minikafka.cli import completion
from minikafka.cli.options import DAY_S, Bootstrap, Directory, target
from minikafka.cli.reading import Plan, read
from minikafka.cli.record_format import (
    Printed,
    fields_line,
    format_line,
    print_properties,
    record_as_json,
    unescaped,
)
from minikafka.cli.run import run
from minikafka.cli.starting import Start, parse_partitions, parse_pattern, parse_start
from minikafka.cli.times import parse_moment
from minikafka.cli.waiting import Concern
from minikafka.model import EARLIEST, LATEST


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
        float | None, typer.Option("--timeout", help="Seconds without a record; stop after them.", min=0, max=DAY_S)
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
    plan = Plan(
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
    run(read(plan, line), concern)


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
