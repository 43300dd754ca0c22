"""``minikafka produce``: the lines of a file or of standard input as records."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

import typer

from minikafka.cli.options import AsJson, Bootstrap, Directory, target
from minikafka.cli.output import print_json, print_note, size
from minikafka.cli.run import run
from minikafka.cli.waiting import Concern

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from minikafka.cli.ledger import Ledger
    from minikafka.client import Producer


DELIVERY_TIMEOUT_S: Final = 120.0


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


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to write to; created if the cluster allows it.")],
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Input file. Default: standard input.", exists=True, dir_okay=False),
    ] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", help="Separator between key and value (first occurrence).")
    ] = None,
    acks: Annotated[
        Acks, typer.Option(help="Acknowledgement of a record: all in-sync replicas, the leader (1) or none (0).")
    ] = Acks.ALL,
    compression: Annotated[Codec, typer.Option("--compression", "-z", help="Compression of batches.")] = Codec.NONE,
    history: Annotated[
        Path | None,
        typer.Option(help="Record every send and acknowledgement in this file, for `pipeline audit`.", dir_okay=False),
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds from a line to the last attempt to deliver it.", min=0.1)
    ] = DELIVERY_TIMEOUT_S,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    as_json: AsJson = False,
) -> None:
    """Write each line as a record; print a summary at the end.

    Examples:

    [bold]seq 1000 | minikafka produce events[/]

    [bold]minikafka produce events --file access.log --compression zstd[/]

    [bold]echo user-7,hello | minikafka produce events --key-separator ,[/]

    [bold]minikafka produce events --file access.log --history sent.jsonl[/]
    """
    from minikafka.client import Producer
    from minikafka.model import Compression

    cluster = target(bootstrap, directory)
    producer = Producer(
        cluster.servers,
        acks=acks.value if acks is Acks.ALL else int(acks.value),
        compression=Compression[compression.name],
        delivery_timeout_ms=max(1, round(timeout * 1000)),
    )
    separator = key_separator.encode() if key_separator else None
    with file.open("rb") if file else _standard_input() as source:
        tally = _Tally()
        with _ledger(history, topic, acks) as ledger:
            sending = _produce(producer, topic, source, separator, tally, file is not None, ledger)
            try:
                run(sending, Concern(cluster, topic, needs_isr=acks is Acks.ALL))
            except typer.Exit:
                print_note(f"interrupted: {tally.records:,} of the {tally.lines:,} lines read are acknowledged")
                raise
    _print_summary(tally, as_json)


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


async def _produce(
    producer: Producer,
    topic: str,
    source: IO[bytes],
    separator: bytes | None,
    tally: _Tally,
    with_progress: bool,
    ledger: Ledger | None,
) -> None:
    from minikafka.cli.lines import LineSplitter, read_chunks, split_key
    from minikafka.errors import KafkaError

    async def send(lines: list[bytes]) -> None:
        for line in lines:
            if tally.error is not None:
                return
            tally.lines += 1
            key, value = split_key(line, separator, tally.lines)
            partition = await ledger.sending(producer, key, value) if ledger else None
            delivery = await producer.send(topic, value, key=key, partition=partition)
            delivery.add_done_callback(_counter(tally, tally.lines, len(line)))
            if ledger:
                delivery.add_done_callback(ledger.outcome(partition, key, value))

    splitter = LineSplitter()
    total = os.fstat(source.fileno()).st_size if with_progress else None
    async with producer:
        with _progress(total) as advance:
            async for chunk in read_chunks(source.fileno()):
                await send(splitter.feed(chunk))
                advance(len(chunk))
                if tally.error is not None:
                    break
            await send(splitter.end())
            if isinstance(tally.error, KafkaError) and tally.error.retriable:
                raise tally.error  # the others wait for the same cluster, and would do so for as long again
            await producer.flush()
    if tally.error is not None:
        raise tally.error


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
