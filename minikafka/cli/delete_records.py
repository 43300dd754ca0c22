"""``minikafka topic delete-records``: delete the oldest records of partitions, as ``kafka-delete-records.sh``."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from minikafka.cli import completion
from minikafka.cli.options import ADMIN_TIMEOUT_S, AsJson, Bootstrap, Directory, Timeout, target
from minikafka.cli.output import print_json, print_line, print_table
from minikafka.cli.reset_plan import parse_topics
from minikafka.cli.run import run_with_admin
from minikafka.cli.times import parse_moment
from minikafka.model import EARLIEST, LATEST

if TYPE_CHECKING:
    from minikafka.client import Admin
    from minikafka.model import TopicPartition

COLUMNS: Final = ("topic", "partition#", "first before#", "first now#", "deleted#")
TO_LATEST: Final = -1
"""As an offset, in Kafka's files, too: all that is committed."""


def delete_records(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC...",
            help="Topics; TOPIC:0,2 for some partitions.",
            show_default=False,
            autocompletion=completion.topics,
        ),
    ] = None,
    before: Annotated[
        int | None, typer.Option("--before", metavar="OFFSET", help="Delete the records before it.", min=0)
    ] = None,
    before_time: Annotated[
        str | None,
        typer.Option(
            "--before-time",
            metavar="TIME",
            help="Delete up to the first record since: 2026-01-31T12:00:00; or 7d, a week ago.",
        ),
    ] = None,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Delete all records.")] = False,
    file: Annotated[
        Path | None,
        typer.Option("--offset-json-file", metavar="FILE", help="Partitions and offsets, in Kafka's JSON."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted; delete nothing.")] = False,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Delete the oldest records of a topic. What is deleted is gone; --dry-run shows it first.

    Examples:

    [bold]minikafka topic delete-records events:0 --before 1000 --dry-run[/]

    [bold]minikafka topic delete-records events --to-latest[/]

    [bold]minikafka topic delete-records events --before-time 7d[/]
    """
    ways = {
        "--before": before is not None,
        "--before-time": before_time is not None,
        "--to-latest": to_latest,
        "--offset-json-file": file is not None,
    }
    chosen = [name for name, is_given in ways.items() if is_given]
    if len(chosen) != 1:
        _refuse(" / ".join(chosen or ways), "exclude each other" if chosen else "one of them says up to where")
    if bool(names) == (file is not None):
        _refuse("TOPIC", "the file names the topics; leave them out" if names else "name a topic")
    topics = parse_topics(names or [], "TOPIC")
    at_ms = None if before_time is None else parse_moment(before_time, "--before-time", time.time_ns() // 1_000_000)
    cluster = target(bootstrap, directory)

    async def verb(admin: Admin) -> None:
        from minikafka.cli.partitions import find_partitions

        if file is not None:
            wanted = _read(file)
            await find_partitions(admin, _by_topic(wanted), cluster)
        else:
            partitions = await find_partitions(admin, topics, cluster)
            wanted = dict.fromkeys(partitions, TO_LATEST if before is None else before)
            if at_ms is not None:
                found = await admin.list_offsets(dict.fromkeys(partitions, at_ms))
                wanted = {tp: at.offset for tp, at in found.items()}  # -1, all of it, where no record is that young
        first, end = [
            {tp: at.offset for tp, at in (await admin.list_offsets(dict.fromkeys(wanted, which))).items()}
            for which in (EARLIEST, LATEST)
        ]
        _check_offsets(wanted, first, end)
        if dry_run:
            now = {tp: max(first[tp], end[tp] if offset == TO_LATEST else offset) for tp, offset in wanted.items()}
        else:
            now = await _delete(admin, wanted)
        _print(first, now, dry_run=dry_run, as_json=as_json)

    run_with_admin(verb, cluster, timeout)


def _refuse(option: str, reason: str) -> NoReturn:
    raise typer.BadParameter(reason, param_hint=option)


def _read(path: Path) -> dict[TopicPartition, int]:
    """``{"partitions": [{"topic": "events", "partition": 0, "offset": 1000}], "version": 1}``."""
    from minikafka.errors import ErrorCode, KafkaError

    try:
        return read_offsets(json.loads(path.read_text()))
    except (ValueError, RecursionError) as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{path}: {error}") from None


def read_offsets(document: Any) -> dict[TopicPartition, int]:
    """The offsets of Kafka's JSON; -1 is all that is committed. ValueError says what is wrong."""
    from minikafka.model import TopicPartition

    rows = document.get("partitions") if isinstance(document, dict) else None
    if not isinstance(rows, list) or not rows:
        raise ValueError('it has no list "partitions" with a partition in it')
    if document.get("version", 1) != 1:
        raise ValueError(f"version {document['version']!r}; version 1 is understood")
    found: dict[TopicPartition, int] = {}
    for row in rows:
        each: Mapping[str, Any] = row if isinstance(row, dict) else {}
        topic, partition, offset = (each.get(name, "") for name in ("topic", "partition", "offset"))
        if not (isinstance(topic, str) and _is_number(partition, 0) and _is_number(offset, TO_LATEST)):
            raise ValueError(f'{json.dumps(row)[:80]} is not {{"topic": "T", "partition": 0, "offset": 1000}}')
        tp = TopicPartition(topic, partition)
        if tp in found:
            raise ValueError(f"{tp} is named twice")
        found[tp] = offset
    return found


def _is_number(value: Any, at_least: int) -> bool:
    return type(value) is int and at_least <= value < 1 << 63


def _by_topic(partitions: Mapping[TopicPartition, int]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return topics


async def _delete(admin: Admin, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    from minikafka.errors import ErrorCode, KafkaError

    try:
        return await admin.delete_records(wanted)
    except KafkaError as error:
        if error.code is not ErrorCode.POLICY_VIOLATION:
            raise
        only = "of a topic that is only compacted; cleanup.policy=compact,delete allows it"
        raise KafkaError(error.code, f"{error.message}: records cannot be deleted {only}") from None


def _check_offsets(
    wanted: Mapping[TopicPartition, int], first: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> None:
    """Before anything is deleted."""
    from minikafka.errors import ErrorCode, KafkaError

    for tp, offset in wanted.items():
        if offset > end[tp]:
            message = f"offset {offset} not found: {tp} has offsets {first[tp]}..{end[tp]}; nothing is deleted"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, message)


def _print(
    first: Mapping[TopicPartition, int], now: Mapping[TopicPartition, int], *, dry_run: bool, as_json: bool
) -> None:
    rows = [(tp, first[tp], now[tp]) for tp in sorted(now)]
    if as_json:
        names = ("topic", "partition", "first_offset_before", "first_offset")
        partitions = [dict(zip(names, (*tp, was, to), strict=True)) for tp, was, to in rows]
        print_json({"executed": not dry_run, "partitions": partitions})
        return
    print_table(COLUMNS, [(tp.topic, *map(str, (tp.partition, was, to, max(0, to - was)))) for tp, was, to in rows])
    if dry_run:
        print_line("dry run: nothing is deleted")
