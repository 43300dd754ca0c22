"""``minikafka elect-leaders``: give leaderships to preferred replicas, or to any where nobody leads."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from minikafka.cli.options import ADMIN_TIMEOUT_S, AsJson, Bootstrap, Directory, Timeout, target
from minikafka.cli.output import print_json, print_line
from minikafka.cli.reassign import read_file
from minikafka.cli.reassign_view import names
from minikafka.cli.run import run_with_admin
from minikafka.model import TopicPartition

if TYPE_CHECKING:
    from minikafka.client import Admin
    from minikafka.errors import KafkaError


class ElectionType(StrEnum):
    """As Kafka's tool writes it; in any case."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"


def elect_leaders(
    election_type: Annotated[
        ElectionType,
        typer.Option(
            case_sensitive=False,
            help="preferred: the first replica, if in sync. unclean: any live replica of a partition without a leader; "
            "records it lacks are lost.",
        ),
    ] = ElectionType.PREFERRED,
    all_topic_partitions: Annotated[
        bool, typer.Option("--all-topic-partitions", help="All partitions in need of an election.")
    ] = False,
    topic: Annotated[str | None, typer.Option(help="One topic.", show_default=False)] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, help="One partition of --topic.", show_default="all of them")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--path-to-json-file",
            help='{"partitions": [{"topic": "events", "partition": 0}]}',
            show_default=False,
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Elect leaders: after the return of a broker, or for partitions without a leader.

    Examples:

    [bold]minikafka elect-leaders --all-topic-partitions[/]

    [bold]minikafka elect-leaders --election-type unclean --topic events --partition 0[/]
    """
    if [all_topic_partitions, topic is not None, file is not None].count(True) != 1:
        message = "choose one of --all-topic-partitions, --topic and --path-to-json-file"
        raise typer.BadParameter(message, param_hint="elect-leaders")
    if partition is not None and topic is None:
        raise typer.BadParameter("needs --topic", param_hint="--partition")
    text = None if file is None else read_file(file)
    work = partial(_elect, election_type, topic, partition, text, as_json)
    run_with_admin(work, target(bootstrap, directory), timeout, topic)


async def _elect(
    election_type: ElectionType,
    topic: str | None,
    partition: int | None,
    text: str | None,
    as_json: bool,
    admin: Admin,
) -> None:
    from minikafka.client.reassigning.checks import current_assignment
    from minikafka.client.reassigning.plan import parse_partitions

    wanted: list[TopicPartition] | None = None
    if text is not None:
        wanted = parse_partitions(text)
    elif topic is not None and partition is not None:
        wanted = [TopicPartition(topic, partition)]
    elif topic is not None:
        wanted = list(current_assignment(await admin.describe_cluster(), [topic]))
    outcomes = await admin.elect_leaders(election_type.value, wanted)
    if as_json:
        print_json([_as_dict(tp, error) for tp, error in sorted(outcomes.items())])
    else:
        _print_outcomes(election_type.name, outcomes)
    if any(error and not _is_needless(error) for error in outcomes.values()):
        raise typer.Exit(1)


def _is_needless(error: KafkaError) -> bool:
    from minikafka.errors import ErrorCode

    return error.code is ErrorCode.ELECTION_NOT_NEEDED


def _print_outcomes(kind: str, outcomes: Mapping[TopicPartition, KafkaError | None]) -> None:
    elected = [tp for tp, error in outcomes.items() if error is None]
    right = [tp for tp, error in outcomes.items() if error and _is_needless(error)]
    if elected:
        print_line(f"Successfully completed leader election ({kind}) for partitions {names(elected, ', ')}")
    if right or not outcomes:
        which = f"partitions {names(right, ', ')}" if right else "all partitions"
        print_line(f"Valid replica already elected for {which}")
    for tp, error in sorted(outcomes.items()):
        if error and not _is_needless(error):
            print_line(f"Error completing leader election ({kind}) for partition: {tp}: {error}")


def _as_dict(tp: TopicPartition, error: KafkaError | None) -> dict[str, Any]:
    """``elected``; else ``error`` is ELECTION_NOT_NEEDED or says what went wrong."""
    why = {"error": error.code.name, "message": error.message} if error else {"error": None, "message": None}
    return {"topic": tp.topic, "partition": tp.partition, "elected": error is None} | why
