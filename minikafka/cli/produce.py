"""``minikafka produce``: the lines of a file or of standard input as records."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from minikafka.cli import completion
from minikafka.cli.options import AsJson, Bootstrap, Directory, target
from minikafka.cli.output import print_json, print_note, size
from minikafka.cli.partitioners import Choose, Partitioner, choice
from minikafka.cli.record_format import unescaped
from minikafka.cli.record_input import (
    Headers,
    InputRecord,
    LineForm,
    Parse,
    parse_header,
    parse_json,
    reader_properties,
)
from minikafka.cli.run import run
from minikafka.cli.times import parse_moment
from minikafka.cli.waiting import Concern

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from minikafka.cli.ledger import Ledger
    from minikafka.client import Producer


DELIVERY_TIMEOUT_S: Final = 120.0
TAB: Final = b"\t"


class Acks(StrEnum):
    """How many replicas must have a record before it counts as written."""

    ALL = "all"
    ONE = "1"
    NONE = "0"


class Codec(StrEnum):
    """How batches are compressed."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Input(StrEnum):
    """What a line is."""

    LINES = "lines"
    JSON = "json"


def produce(
    topic: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC",
            help="Topic to write to; created if the cluster allows it.",
            autocompletion=completion.topics,
        ),
    ],
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Input file. Default: standard input.", exists=True, dir_okay=False),
    ] = None,
    input_form: Annotated[
        Input, typer.Option("--input", help="Values, or JSON objects as consume --json prints them.")
    ] = Input.LINES,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", help="Separator between key and value (first occurrence).")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="Key of every record.")] = None,
    with_headers: Annotated[
        bool, typer.Option("--headers", help="Lines begin with headers, NAME:VALUE,NAME:VALUE, and a tab.")
    ] = False,
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="Header of every record; may be repeated."),
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            "--timestamp", metavar="TIME", help="Timestamp of every record: 2026-01-31T12:00:00, or ms since 1970."
        ),
    ] = None,
    null: Annotated[
        str | None, typer.Option("--null-marker", metavar="TEXT", help="What stands for null, as key or value.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Partition of every record.", min=0)
    ] = None,
    partitioner: Annotated[
        Partitioner,
        typer.Option(
            help="Choice of partitions: by the key as Java's client (murmur2) or as librdkafka (crc32); input: of JSON."
        ),
    ] = Partitioner.MURMUR2,
    acks: Annotated[
        Acks, typer.Option(help="Acknowledgement of a record: all in-sync replicas, the leader (1) or none (0).")
    ] = Acks.ALL,
    compression: Annotated[Codec, typer.Option("--compression", "-z", help="Compression of batches.")] = Codec.NONE,
    idempotence: Annotated[
        bool | None,
        typer.Option("--idempotence/--no-idempotence", help="No duplicates by retries. Default with acks all."),
    ] = None,
    transactional_id: Annotated[
        str | None,
        typer.Option("--transactional-id", metavar="ID", help="Write all records in one transaction, or none."),
    ] = None,
    commit_every: Annotated[
        int | None, typer.Option("--commit-every", metavar="N", help="Commit after each N records.", min=1)
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(help="Record every send and acknowledgement in this file, for `pipeline audit`.", dir_okay=False),
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds from a line to the last attempt to deliver it.", min=0.1)
    ] = DELIVERY_TIMEOUT_S,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="As Kafka's: parse.key=true, ..."),
    ] = None,
    producer_properties: Annotated[
        list[str] | None, typer.Option("--producer-property", "--command-property", hidden=True)
    ] = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    as_json: AsJson = False,
) -> None:
    """Write each line as a record; print a summary at the end.

    Examples:

    [bold]seq 1000 | minikafka produce events[/]

    [bold]minikafka produce events --file access.log --compression zstd[/]

    [bold]echo user-7,hello | minikafka produce events --key-separator , --header source=web[/]

    [bold]minikafka consume events -e --from-beginning --json | minikafka produce copy --input json[/]

    [bold]minikafka produce events --file orders.txt --transactional-id loader[/]

    [bold]minikafka produce events --file access.log --history sent.jsonl[/]
    """
    from minikafka.client import Producer
    from minikafka.model import Compression

    for assignment in producer_properties or ():
        name, _, value = assignment.partition("=")
        if name == "acks" and value in (*Acks, "-1"):
            acks = Acks.ALL if value == "-1" else Acks(value)
        elif name == "compression.type" and value in list(Codec):
            compression = Codec(value)
        elif name == "enable.idempotence" and value in ("true", "false"):
            idempotence = value == "true"
        elif name == "transactional.id" and value:
            transactional_id = value
        else:
            known = "acks, compression.type, enable.idempotence and transactional.id"
            _refuse("--producer-property", f"{assignment!r}: only {known} count")
    form = reader_properties(
        LineForm(
            unescaped(key_separator) if key_separator else None,
            TAB if with_headers else None,
            null=None if null is None else null.encode(),
        ),
        properties or [],
    )
    parse = form.parse if input_form is Input.LINES else parse_json
    _check(
        {
            "--input json": input_form is Input.JSON,
            "--key-separator, --headers, --null-marker": form != LineForm(),
        },
        "a JSON object has its own key and headers",
    )
    _check({"--key": key is not None, "--key-separator": form.key_separator is not None}, "exclude each other")
    _check(
        {"--partition": partition is not None, "--partitioner": partitioner is not Partitioner.MURMUR2},
        "exclude each other",
    )
    for option, is_given in (
        ("--partition", partition is not None),
        ("--partitioner", partitioner is not Partitioner.MURMUR2),
        ("--transactional-id", transactional_id is not None),
        ("--input json", input_form is Input.JSON),
    ):
        _check({"--history": history is not None, option: is_given}, "exclude each other")
    _check(
        {"--transactional-id": transactional_id is not None, "--acks": acks is not Acks.ALL},
        "transactions need acks all",
    )
    _check({"--idempotence": bool(idempotence), "--acks": acks is not Acks.ALL}, "idempotence needs acks all")
    if transactional_id is not None and idempotence is False:
        _refuse("--no-idempotence", "transactions need idempotence")
    if commit_every is not None and transactional_id is None:
        _refuse("--commit-every", "needs --transactional-id")
    same = _Same(
        None if key is None else key.encode(),
        tuple(parse_header(word) for word in headers or ()),
        None if timestamp is None else parse_moment(timestamp, "--timestamp", time.time_ns() // 1_000_000),
        partition,
    )
    cluster = target(bootstrap, directory)
    producer = Producer(
        cluster.servers,
        acks=acks.value if acks is Acks.ALL else int(acks.value),
        enable_idempotence=idempotence,
        compression=Compression[compression.name],
        delivery_timeout_ms=max(1, round(timeout * 1000)),
        transactional_id=transactional_id,
    )
    with file.open("rb") if file else _standard_input() as source:
        tally = _Tally()
        with _ledger(history, topic, acks) as ledger:
            sending = _Sending(producer, topic, source, parse, tally, same, partitioner, ledger)
            transactions = _Transactions(commit_every) if transactional_id is not None else None
            try:
                run(sending.run(file is not None, transactions), Concern(cluster, topic, needs_isr=acks is Acks.ALL))
            except typer.Exit:
                done = "committed" if transactions else "acknowledged"
                count = transactions.committed if transactions else tally.records
                print_note(f"interrupted: {count:,} of the {tally.lines:,} lines read are {done}")
                raise
    _print_summary(tally, as_json)


def _check(given: dict[str, bool], reason: str) -> None:
    """Refuse options that are all given."""
    if all(given.values()):
        _refuse(" / ".join(given), reason)


def _refuse(option: str, reason: str) -> NoReturn:
    raise typer.BadParameter(reason, param_hint=option)


class _Tally:
    """How much was written, how fast, and the first thing that went wrong."""

    def __init__(self) -> None:
        self.lines = 0
        self.records = 0
        self.bytes = 0
        self.began = time.monotonic()
        self.error: BaseException | None = None

    def count(self, delivery: asyncio.Future[Any], line: int, size_bytes: int) -> None:
        """Called when a record's fate is known."""
        error = None if delivery.cancelled() else delivery.exception()
        if error is not None:
            self.error = self.error or _with_line(error, line)
        elif not delivery.cancelled():
            self.records += 1
            self.bytes += size_bytes


def _with_line(error: BaseException, line: int) -> BaseException:
    from minikafka.errors import KafkaError

    if isinstance(error, KafkaError):
        return KafkaError(error.code, f"line {line} was not written: {error.message}")
    return error


@dataclass(frozen=True, slots=True)
class _Same:
    """What all records have, unless they say otherwise."""

    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(slots=True)
class _Transactions:
    """``every``: records in one; None: all. ``committed``: records in those that are complete."""

    every: int | None = None
    committed: int = 0


class _Sending:
    """The way of lines to a topic."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        source: IO[bytes],
        parse: Parse,
        tally: _Tally,
        same: _Same | None = None,
        partitioner: Partitioner = Partitioner.MURMUR2,
        ledger: Ledger | None = None,
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._source = source
        self._parse = parse
        self._tally = tally
        self._same = same or _Same()
        self._partitioner = partitioner
        self._ledger = ledger
        self._choose: Choose = lambda key: None

    async def run(self, with_progress: bool, transactions: _Transactions | None = None) -> None:
        """Send all lines, and wait for their acknowledgements. Raises the first error of a record."""
        total = os.fstat(self._source.fileno()).st_size if with_progress else None
        async with self._producer:
            if self._partitioner is not Partitioner.MURMUR2:
                partitions = await self._producer.partitions_for(self._topic)
                self._choose = choice(self._partitioner, partitions, random.Random())
            with _progress(total) as advance:
                lines = self._lines(advance)
                await (self._send_all(lines) if transactions is None else self._commit_all(lines, transactions))

    async def _lines(self, advance: Callable[[int], None]) -> AsyncIterator[list[bytes]]:
        """Lines as they come, some at a time; none any more once a record failed."""
        from minikafka.cli.lines import LineSplitter, read_chunks

        splitter = LineSplitter()
        async for chunk in read_chunks(self._source.fileno()):
            yield splitter.feed(chunk)
            advance(len(chunk))
            if self._tally.error is not None:
                return
        yield splitter.end()

    async def _send_all(self, lines: AsyncIterator[list[bytes]]) -> None:
        async for some in lines:
            for line in some:
                if self._tally.error is None:
                    await self._send(line)
        await self._settle()

    async def _commit_all(self, lines: AsyncIterator[list[bytes]], transactions: _Transactions) -> None:
        """A transaction begins with the first line for it, and not before: it may not be open for long."""
        waiting: list[bytes] = []
        async for some in lines:
            waiting = some
            while waiting:
                async with self._producer.transaction():
                    waiting = await self._fill(waiting, lines, transactions.every)
                    await self._settle()
                transactions.committed = self._tally.records

    async def _fill(self, waiting: list[bytes], lines: AsyncIterator[list[bytes]], every: int | None) -> list[bytes]:
        """Send lines until the transaction has enough of them, or there are no more; those that are left."""
        room = sys.maxsize if every is None else every
        while True:
            for line in waiting[:room]:
                await self._send(line)
            room, waiting = room - len(waiting[:room]), waiting[room:]
            if room == 0 or self._tally.error is not None:
                return waiting
            try:
                waiting = await anext(lines)
            except StopAsyncIteration:
                return []

    async def _settle(self) -> None:
        """Wait for acknowledgements, and raise the first error."""
        from minikafka.errors import KafkaError

        error = self._tally.error
        if isinstance(error, KafkaError) and error.retriable:
            raise error  # the others wait for the same cluster, and would do so for as long again
        await self._producer.flush()
        if self._tally.error is not None:
            raise self._tally.error

    async def _send(self, line: bytes) -> None:
        tally, same, ledger = self._tally, self._same, self._ledger
        tally.lines += 1
        record = self._parse(line, tally.lines)
        key = same.key if record.key is None else record.key
        partition = self._partition_of(record, key)
        if ledger:
            partition = await ledger.sending(self._producer, key, record.value)
        delivery = await self._producer.send(
            self._topic,
            record.value,
            key=key,
            partition=partition,
            headers=(*same.headers, *record.headers),
            timestamp_ms=same.timestamp_ms if record.timestamp_ms is None else record.timestamp_ms,
        )
        delivery.add_done_callback(_counter(tally, tally.lines, len(line)))
        if ledger:
            delivery.add_done_callback(ledger.outcome(partition, key, record.value))

    def _partition_of(self, record: InputRecord, key: bytes | None) -> int | None:
        """The partition of a JSON object counts only if asked for: it is that of the topic that it came from."""
        if self._same.partition is not None:
            return self._same.partition
        return record.partition if self._partitioner is Partitioner.INPUT else self._choose(key)


def _counter(tally: _Tally, line: int, size_bytes: int) -> Callable[[asyncio.Future[Any]], None]:
    return lambda delivery: tally.count(delivery, line, size_bytes)


@contextmanager
def _ledger(path: Path | None, topic: str, acks: Acks) -> Iterator[Ledger | None]:
    if path is None:
        yield None
        return
    from minikafka.cli.ledger import Ledger

    with path.open("w", buffering=1) as file:  # a line at a time: who is killed has said what it sent
        yield Ledger(file, topic, is_answered=acks is not Acks.NONE)


@contextmanager
def _standard_input() -> Iterator[IO[bytes]]:
    if sys.stdin.isatty():
        print_note("type one record per line; end with Ctrl-D")
    yield sys.stdin.buffer


@contextmanager
def _progress(total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr for a file of known size, if there is someone to see it."""
    if not total or not sys.stderr.isatty():
        yield lambda size_bytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda size_bytes: progress.advance(task, size_bytes)


def _print_summary(tally: _Tally, as_json: bool) -> None:
    seconds = time.monotonic() - tally.began
    if as_json:
        print_json({"records": tally.records, "bytes": tally.bytes, "seconds": round(seconds, 3)})
        return
    rate = f"{tally.records / seconds:,.0f} records/s, {size(tally.bytes / seconds)}/s"
    records = f"{tally.records:,} record{'' if tally.records == 1 else 's'}"
    print_note(f"{records}, {size(tally.bytes)} in {seconds:.1f} s ({rate})")
