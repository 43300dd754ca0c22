"""``minikafka elect-leaders``: give leaderships to preferred replicas, or to any where nobody leads."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minikafka.cli.options import ADMIN_TIMEOUT_S, Bootstrap, Directory, Timeout, target
from minikafka.cli.output import print_line
from minikafka.cli.reassign import read_file
from minikafka.cli.run import run_with_admin
from minikafka.model import TopicPartition

if TYPE_CHECKING:
    from minikafka.client import Admin


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
    work = partial(_elect, election_type, topic, partition, text)
    run_with_admin(work, target(bootstrap, directory), timeout, topic)


async def _elect(
    election_type: ElectionType, topic: str | None, partition: int | None, text: str | None, admin: Admin
) -> None:
    from minikafka.client.reassigning.checks import current_assignment
    from minikafka.client.reassigning.plan import parse_partitions
    from minikafka.errors import ErrorCode

    wanted: list[TopicPartition] | None = None
    if text is not None:
        wanted = parse_partitions(text)
    elif topic is not None and partition is not None:
        wanted = [TopicPartition(topic, partition)]
    elif topic is not None:
        wanted = list(current_assignment(await admin.describe_cluster(), [topic]))
    outcomes = await admin.elect_leaders(election_type.value, wanted)
    name = election_type.name
    elected = [tp for tp, error in outcomes.items() if error is None]
    right = [tp for tp, error in outcomes.items() if error and error.code is ErrorCode.ELECTION_NOT_NEEDED]
    if elected:
        print_line(f"Successfully completed leader election ({name}) for partitions {_names(elected)}")
    if right or not outcomes:
        print_line(f"Valid replica already elected for {f'partitions {_names(right)}' if right else 'all partitions'}")
    failed = {tp: error for tp, error in outcomes.items() if error and tp not in right}
    for tp, error in sorted(failed.items()):
        print_line(f"Error completing leader election ({name}) for partition: {tp}: {error}")
    if failed:
        raise typer.Exit(1)


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))
