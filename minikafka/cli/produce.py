"""``minikafka produce``: the lines of a file or of standard input as records."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from minikafka.cli import completion
from minikafka.cli.lines import LineError
from minikafka.cli.options import DAY_S, AsJson, Bootstrap, Directory, target
from minikafka.cli.output import print_json, print_note, size
from minikafka.cli.partitioners import Partitioner
from minikafka.cli.record_format import unescaped
from minikafka.cli.record_input import LineForm, parse_header, parse_json, reader_properties
from minikafka.cli.run import run
from minikafka.cli.sending import Same, Sending, Tally, Transactions
from minikafka.cli.times import parse_moment
from minikafka.cli.waiting import Concern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from minikafka.cli.ledger import Ledger


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
        float, typer.Option(help="Seconds from a line to the last attempt to deliver it.", min=0.1, max=DAY_S)
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
    same = Same(
        None if key is None else key.encode(),
        tuple(parse_header(word) for word in headers or ()),
        None if timestamp is None else parse_moment(timestamp, "--timestamp", time.time_ns() // 1_000_000),
        partition,
    )
    cluster = target(bootstrap, directory)
    producer = Producer(
        cluster.servers,
        security=cluster.security,
        acks=acks.value if acks is Acks.ALL else int(acks.value),
        enable_idempotence=idempotence,
        compression=Compression[compression.name],
        delivery_timeout_ms=max(1, round(timeout * 1000)),
        transactional_id=transactional_id,
    )
    with file.open("rb") if file else _standard_input() as source:
        tally = Tally()
        with _ledger(history, topic, acks) as ledger:
            sending = Sending(producer, topic, source, parse, tally, same, partitioner, ledger)
            transactions = Transactions(commit_every) if transactional_id is not None else None
            try:
                run(sending.run(file is not None, transactions), Concern(cluster, topic, needs_isr=acks is Acks.ALL))
            except (typer.Exit, LineError) as end:
                done = "committed" if transactions else "acknowledged"
                count = transactions.committed if transactions else tally.records
                how = "interrupted" if isinstance(end, typer.Exit) else "stopped"
                print_note(f"{how}: {count:,} of the {tally.lines:,} lines read are {done}")
                raise
    _print_summary(tally, as_json)


def _check(given: dict[str, bool], reason: str) -> None:
    """Refuse options that are all given."""
    if all(given.values()):
        _refuse(" / ".join(given), reason)


def _refuse(option: str, reason: str) -> NoReturn:
    raise typer.BadParameter(reason, param_hint=option)


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


def _print_summary(tally: Tally, as_json: bool) -> None:
    seconds = time.monotonic() - tally.began
    if as_json:
        print_json({"records": tally.records, "bytes": tally.bytes, "seconds": round(seconds, 3)})
        return
    rate = f"{tally.records / seconds:,.0f} records/s, {size(tally.bytes / seconds)}/s"
    records = f"{tally.records:,} record{'' if tally.records == 1 else 's'}"
    print_note(f"{records}, {size(tally.bytes)} in {seconds:.1f} s ({rate})")
