"""``minikafka transaction``: what coordinators and partitions know of transactions, and the end of those that hang.

The verbs and their options are those of Kafka's ``kafka-transactions.sh``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from minikafka.cli.options import ADMIN_TIMEOUT_S, DAY_S, AsJson, Bootstrap, Directory, Target, Timeout, target
from minikafka.cli.output import duration, escaped, moment, print_json, print_line, print_note, print_table
from minikafka.cli.run import run_with_admin

if TYPE_CHECKING:
    from minikafka.client import Admin
    from minikafka.client.admin import OpenTransaction, TransactionView
    from minikafka.model import TopicPartition

LISTED: Final = ("transactional id", "coordinator#", "producer#", "state")
DESCRIBED: Final = (
    "transactional id",
    "coordinator#",
    "producer#",
    "epoch#",
    "state",
    "time-out#",
    "since",
    "for#",
    "partitions",
)
PRODUCERS: Final = (
    "producer#",
    "epoch#",
    "coordinator\nepoch#",
    "last\nsequence#",
    "last record or marker#",
    "open transaction\nbegins at#",
)
HANGING: Final = (
    "topic",
    "partition#",
    "begins at#",
    "producer#",
    "epoch#",
    "coordinator\nepoch#",
    "transactional id",
    "idle for#",
)

app = typer.Typer(
    no_args_is_help=True, help="Transactions: list, describe, terminate; find those that hang, and abort them."
)

Topic = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]
Partition = Annotated[int, typer.Option("--partition", "-p", min=0, show_default=False)]


class State(StrEnum):
    """Of a transactional id, as Kafka names them; in any case."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


@app.command("list")
def list_transactions(
    states: Annotated[
        list[State] | None,
        typer.Option("--state", metavar="STATE", case_sensitive=False, help=f"Any of {', '.join(State)}."),
    ] = None,
    producer_ids: Annotated[
        list[int] | None,
        typer.Option("--producer-id", metavar="ID", help="Only this producer; may be repeated.", min=0),
    ] = None,
    duration_filter: Annotated[
        int | None,
        typer.Option("--duration-filter", metavar="MS", help="Only transactions under way for longer.", min=0),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--transactional-id-pattern",
            metavar="REGEX",
            help="Only ids that the regular expression matches as a whole.",
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """List the transactional ids with their coordinators, producers and states.

    Examples:

    [bold]minikafka transaction list --state Ongoing[/]

    [bold]minikafka transaction list --duration-filter 60000 --transactional-id-pattern 'copier-.*'[/]
    """

    async def verb(admin: Admin) -> None:
        listed = await admin.list_transactions(
            states=[state.value for state in states or ()],
            producer_ids=producer_ids or (),
            longer_than_ms=-1 if duration_filter is None else duration_filter,
            pattern=pattern,
        )
        if as_json:
            print_json([each._asdict() for each in listed])
        elif listed:
            rows = ((escaped(each.transactional_id), *map(str, each[1:])) for each in listed)
            print_table(LISTED, rows)
        else:
            print_line("no transactional ids")

    run_with_admin(verb, target(bootstrap, directory), timeout)


@app.command()
def describe(
    names: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", show_default=False)] = None,
    more: Annotated[
        list[str] | None,
        typer.Option("--transactional-id", metavar="ID", help="The same, as Kafka's tool has it.", show_default=False),
    ] = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Show transactional ids: coordinator, producer, state, and the partitions of the transaction under way.

    Example:

    [bold]minikafka transaction describe copier[/]
    """
    wanted = [*(names or ()), *(more or ())]
    if not wanted:
        raise typer.BadParameter("name at least one transactional id", param_hint="ID")

    async def verb(admin: Admin) -> None:
        described = [await admin.describe_transaction(name) for name in wanted]
        if as_json:
            print_json([_as_dict(view) for view in described])
        else:
            print_table(DESCRIBED, map(_cells, described))

    run_with_admin(verb, target(bootstrap, directory), timeout)


@app.command("describe-producers")
def describe_producers(
    topic: Topic,
    partition: Partition,
    broker_id: Annotated[
        int | None, typer.Option("--broker-id", help="Ask this broker's replica.", min=0, show_default="the leader")
    ] = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Show the producers that wrote to a partition lately, and their open transactions there.

    Example:

    [bold]minikafka transaction describe-producers events --partition 0[/]
    """

    async def verb(admin: Admin) -> None:
        from minikafka.model import TopicPartition

        tp = TopicPartition(topic, partition)
        producers = (await admin.describe_producers([tp], broker_id=broker_id))[tp]
        if as_json:
            print_json([each._asdict() for each in producers])
        elif producers:
            rows = (
                (
                    str(each.producer_id),
                    str(each.producer_epoch),
                    str(each.coordinator_epoch) if each.coordinator_epoch >= 0 else "-",
                    str(each.last_sequence) if each.last_sequence >= 0 else "-",
                    moment(each.last_timestamp),
                    "-" if each.transaction_start is None else str(each.transaction_start),
                )
                for each in producers
            )
            print_table(PRODUCERS, rows)
        else:
            print_line(f"no producer with an id wrote to {tp} lately")

    run_with_admin(verb, target(bootstrap, directory), timeout, topic)


@app.command("find-hanging")
def find_hanging(
    topic: Annotated[str | None, typer.Option("--topic", help="Only this topic.", show_default=False)] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Only this partition of --topic.", min=0)
    ] = None,
    broker_id: Annotated[
        int | None,
        typer.Option("--broker-id", help="Only this broker's replicas, leaders or not.", min=0, show_default="leaders"),
    ] = None,
    max_timeout: Annotated[
        float | None,
        typer.Option(
            "--max-transaction-timeout",
            metavar="MINUTES",
            help="Leave out producers that wrote in this time.",
            min=0,
            max=DAY_S,
            show_default="the cluster's transaction.max.timeout.ms",
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Find open transactions that no coordinator will end. They hold read_committed consumers back for ever.

    Exit code: 0 when there is none, else 1. Abort those with [bold]minikafka transaction abort[/].

    Examples:

    [bold]minikafka transaction find-hanging[/]

    [bold]minikafka transaction find-hanging --topic events --max-transaction-timeout 0[/]
    """
    if partition is not None and topic is None:
        raise typer.BadParameter("needs --topic", param_hint="--partition")
    cluster = target(bootstrap, directory)

    async def verb(admin: Admin) -> None:
        from minikafka.model import TopicPartition

        named = None if topic is None or partition is None else TopicPartition(topic, partition)
        partitions = [named] if named else await _partitions(admin, topic, broker_id)
        idle_for_ms = await _longest_ms(admin) if max_timeout is None else round(max_timeout * 60_000)
        now_ms = time.time_ns() // 1_000_000
        found = await admin.find_hanging(partitions, idle_for_ms=idle_for_ms, now_ms=now_ms, broker_id=broker_id)
        if as_json:
            print_json([_hanging_as_dict(each) for each in found])
        elif found:
            print_table(HANGING, (_hanging_cells(each, now_ms) for each in found))
            print_line(f"abort one with: {_abort_command(cluster, found[0])}")
        else:
            print_line(f"no hanging transactions in {len(partitions)} partitions")
        if found:
            raise typer.Exit(1)

    run_with_admin(verb, cluster, timeout, topic)


@app.command()
def abort(
    topic: Topic,
    partition: Partition,
    start_offset: Annotated[
        int, typer.Option("--start-offset", help="First offset of the transaction.", min=0, show_default=False)
    ],
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
) -> None:
    """Abort a hanging transaction: write the marker that its coordinator will not write, in this partition only.

    A transaction that its coordinator will end is left alone.

    Example:

    [bold]minikafka transaction abort events --partition 0 --start-offset 1234[/]
    """

    async def verb(admin: Admin) -> None:
        from minikafka.model import TopicPartition

        tp = TopicPartition(topic, partition)
        aborted = await admin.abort_transaction(tp, start_offset)
        print_line(
            f"aborted the transaction of producer {aborted.producer.producer_id} at offset {start_offset} of {tp}"
        )

    run_with_admin(verb, target(bootstrap, directory), timeout, topic)


@app.command()
def terminate(
    name: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
) -> None:
    """Abort the open transaction of a transactional id, and fence its producer: it cannot write any more.

    For an application that is gone, or hangs, while readers wait. Another one can begin with the id at any time.

    Example:

    [bold]minikafka transaction terminate copier[/]
    """

    async def verb(admin: Admin) -> None:
        before = await admin.describe_transaction(name)
        after = await admin.fence_producer(name)
        done = "aborted its transaction" if before.state == State.ONGOING else "it had no open transaction"
        print_line(f"{name}: {done}; the next producer has epoch {after.epoch + 1} or a later one")

    run_with_admin(verb, target(bootstrap, directory), timeout)


async def _partitions(admin: Admin, topic: str | None, broker_id: int | None) -> list[TopicPartition]:
    """What is to be searched; those without a leader are named on stderr."""
    from minikafka.errors import ErrorCode, KafkaError
    from minikafka.model import TopicPartition

    topics = await admin.list_topics(internal=True) if topic is None else await admin.describe_topics([topic])
    for view in topics:
        if topic is not None and view.error:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} not found")
    of_all = {TopicPartition(view.name, index): each for view in topics for index, each in view.partitions.items()}
    if broker_id is not None:
        return [tp for tp, each in of_all.items() if broker_id in each.replicas]
    leaderless = [tp for tp, each in of_all.items() if each.leader < 0]
    if leaderless:
        print_note(f"not searched, without a leader: {', '.join(map(str, leaderless[:5]))}, {len(leaderless)} in all")
    return [tp for tp, each in of_all.items() if each.leader >= 0]


async def _longest_ms(admin: Admin) -> int:
    """How long a transaction may be under way, as the broker with the lowest id has it configured."""
    brokers = (await admin.describe_cluster()).brokers
    settings = {entry.name: entry.value for entry in await admin.describe_broker_configs(min(brokers))}
    return int(settings.get("transaction.max.timeout.ms") or 900_000)


def _cells(view: TransactionView) -> tuple[str, ...]:
    now_ms = time.time_ns() // 1_000_000
    return (
        escaped(view.transactional_id),
        str(view.coordinator),
        str(view.producer_id),
        str(view.producer_epoch),
        view.state,
        duration(view.timeout_ms),
        "-" if view.started_ms is None else moment(view.started_ms),
        "-" if view.started_ms is None else duration(now_ms - view.started_ms),
        " ".join(map(str, view.partitions)) or "-",
    )


def _as_dict(view: TransactionView) -> dict[str, Any]:
    return view._asdict() | {"partitions": _named(view.partitions)}


def _named(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [tp._asdict() for tp in partitions]


def _hanging_cells(each: OpenTransaction, now_ms: int) -> tuple[str, ...]:
    producer = each.producer
    return (
        each.partition.topic,
        str(each.partition.partition),
        str(producer.transaction_start),
        str(producer.producer_id),
        str(producer.producer_epoch),
        str(producer.coordinator_epoch) if producer.coordinator_epoch >= 0 else "-",
        "-" if each.transactional_id is None else escaped(each.transactional_id),
        duration(now_ms - producer.last_timestamp),
    )


def _hanging_as_dict(each: OpenTransaction) -> dict[str, Any]:
    return {**each.partition._asdict(), **each.producer._asdict(), "transactional_id": each.transactional_id}


def _abort_command(cluster: Target, each: OpenTransaction) -> str:
    topic, partition = each.partition
    start = each.producer.transaction_start
    return cluster.command(f"transaction abort {topic} --partition {partition} --start-offset {start}")
