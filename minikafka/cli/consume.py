"""``minikafka consume``: the records of a topic as lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, Annotated, Final

import typer

from minikafka.cli.describing import EARLIEST, LATEST
from minikafka.cli.options import Bootstrap, Directory, Target, target
from minikafka.cli.output import json_line, print_note, text_or_base64
from minikafka.cli.run import raise_when_the_reader_has_left, run
from minikafka.cli.waiting import Concern

if TYPE_CHECKING:
    from minikafka.client import Admin, Consumer
    from minikafka.client.records import ConsumerRecord
    from minikafka.model import TopicPartition

_RECORDS_PER_POLL: Final = 1000
_LOOK_INTERVAL_MS: Final = 1000
"""How often a verb that waits looks whether anybody still reads its output."""

_ENDS: Final = ("earliest", "latest")
_LAST_OFFSET: Final = 2**63 - 1

_SAY_AFTER_MS: Final = 2 * _LOOK_INTERVAL_MS


class IsolationLevel(StrEnum):
    """As Kafka's console consumer writes it; in any case."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to read.")],
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start at the earliest offset instead of the latest.")
    ] = False,
    count: Annotated[
        int | None, typer.Option("--count", "--max-messages", "-n", help="Number of records; stop after them.", min=1)
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Consumer group: share its partitions and commit offsets.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Only this partition.", min=0)] = None,
    start: Annotated[
        str | None,
        typer.Option("--offset", metavar="N|earliest|latest", help="Start there; a number needs --partition."),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", help="Seconds without a record; stop after them.", min=0)
    ] = None,
    isolation: Annotated[
        IsolationLevel,
        typer.Option(
            "--isolation-level",
            case_sensitive=False,
            help="read_committed leaves out aborted transactions, and waits for open ones.",
        ),
    ] = IsolationLevel.READ_UNCOMMITTED,
    print_key: Annotated[bool, typer.Option("--print-key", help="Print the key and a tab before the value.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print each record as one line of JSON.")] = False,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
) -> None:
    """Print records, one per line, until --count, --timeout or Ctrl-C.

    Examples:

    [bold]minikafka consume events --from-beginning --count 10[/]

    [bold]minikafka consume events --group readers --json | jq .value[/]

    [bold]minikafka consume events --from-beginning --timeout 2 > all.txt[/]

    [bold]minikafka consume events --from-beginning --isolation-level read_committed[/]
    """
    if group is not None and partition is not None:
        raise typer.BadParameter(
            "cannot be combined with --group: the group assigns the partitions", param_hint="--partition"
        )
    offset = None if start in (None, *_ENDS) else _offset(str(start))
    if start is not None and from_beginning:
        raise typer.BadParameter("exclude each other", param_hint="--offset / --from-beginning")
    if offset is not None and partition is None:
        raise typer.BadParameter("needs --partition", param_hint="--offset")
    from_beginning = from_beginning or start == "earliest"
    from minikafka.client import Consumer
    from minikafka.model import Isolation, TopicPartition

    by_hand = [] if partition is None else [TopicPartition(topic, partition)]
    cluster = target(bootstrap, directory)
    consumer = Consumer(
        cluster.servers,
        *(() if by_hand else (topic,)),
        group_id=group,
        auto_offset_reset="earliest" if from_beginning else "latest",
        isolation_level=Isolation[isolation.name],
    )
    line = _json_line if as_json else _key_and_value_line if print_key else _value_line
    wait_ms = inf if timeout is None else int(timeout * 1000)

    begins_at_the_end = not from_beginning and group is None and offset is None
    new_only = "; --from-beginning reads those that are there" if begins_at_the_end else ""

    async def verb() -> None:
        await _check_exists(cluster, topic, partition, offset)
        is_silent = await _consume(consumer, by_hand, offset, line, count, wait_ms, new_only)
        if is_silent and isolation is IsolationLevel.READ_COMMITTED:
            await _say_if_held_back(cluster, topic)

    run(verb(), Concern(cluster, topic, needs_isr=True))


def _offset(word: str) -> int:
    if word.isascii() and word.isdigit() and int(word) <= _LAST_OFFSET:
        return int(word)
    raise typer.BadParameter(f"{word!r} is neither an offset, 0 or more, nor earliest or latest", param_hint="--offset")


async def _check_exists(cluster: Target, topic: str, partition: int | None, offset: int | None) -> None:
    """Say soon that there is nothing to read, rather than wait for it."""
    from minikafka.client import Admin
    from minikafka.client.admin.base import NO_TOPIC
    from minikafka.errors import ErrorCode, KafkaError

    async with Admin(cluster.servers) as admin:
        (view,) = await admin.describe_topics([topic])
        if not view.error and partition in view.partitions and offset is not None:
            await _check_offset(admin, topic, partition, offset)
    if view.error:
        create = cluster.command(f"topic create {topic}")
        if view.error is not NO_TOPIC:
            raise KafkaError(view.error, f"cannot read topic {topic!r}")
        raise KafkaError(view.error, f"topic {topic!r} not found; create it with: {create}")
    if partition is not None and partition not in view.partitions:
        last = len(view.partitions) - 1
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"partition {partition} not found: topic {topic!r} has partitions 0 to {last}",
        )


async def _check_offset(admin: Admin, topic: str, partition: int, offset: int) -> None:
    from minikafka.errors import ErrorCode, KafkaError
    from minikafka.model import TopicPartition

    tp = TopicPartition(topic, partition)
    first, end = [(await admin.list_offsets({tp: which}))[tp].offset for which in (EARLIEST, LATEST)]
    if not first <= offset <= end:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} not found: {tp} has offsets {first}..{end}")


async def _consume(
    consumer: Consumer,
    by_hand: list[TopicPartition],
    offset: int | None,
    line: Callable[[ConsumerRecord], bytes],
    count: int | None,
    wait_ms: float,
    new_only: str,
) -> bool:
    """True when there was no record for the time-out, and none before."""
    left = sys.maxsize if count is None else count
    waited_ms = 0
    is_silent = True  # so far: nothing to be seen needs a reason
    async with consumer:
        if by_hand:
            consumer.assign(by_hand)
            if offset is not None:
                consumer.seek(by_hand[0], offset)
        while left > 0:
            next_ms = int(min(_LOOK_INTERVAL_MS, wait_ms - waited_ms))
            records = await consumer.poll(next_ms, min(left, _RECORDS_PER_POLL))
            raise_when_the_reader_has_left()
            waited_ms = 0 if records else waited_ms + next_ms
            if not records and waited_ms >= wait_ms:
                if is_silent:
                    print_note(f"no new record in {wait_ms / 1000:g} s{new_only}")
                return is_silent
            if records:
                is_silent = False
            elif is_silent and waited_ms == _SAY_AFTER_MS and sys.stderr.isatty():
                print_note(f"waiting for new records; Ctrl-C ends{new_only}")
            left -= len(records)
            sys.stdout.buffer.write(b"".join(map(line, records)))
            sys.stdout.buffer.flush()
    return False


async def _say_if_held_back(cluster: Target, topic: str) -> None:
    from minikafka.cli.describing import ask_details, ask_held_back
    from minikafka.cli.held_back import sentence
    from minikafka.client import Admin

    async with Admin(cluster.servers) as admin:
        details = await ask_details(admin, await admin.describe_topics([topic]), settings=False)
        await ask_held_back(admin, details)
    if details.held:
        print_note(sentence(list(details.held.values())))


def _value_line(record: ConsumerRecord) -> bytes:
    return (record.value or b"") + b"\n"


def _key_and_value_line(record: ConsumerRecord) -> bytes:
    return b"%s\t%s\n" % (record.key or b"", record.value or b"")


def _json_line(record: ConsumerRecord) -> bytes:
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": text_or_base64(record.key),
        "value": text_or_base64(record.value),
        "headers": [[name, text_or_base64(value)] for name, value in record.headers],
    }
    return json_line(fields)
