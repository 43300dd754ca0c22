"""``minikafka topic``: create, list, describe, alter, delete."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from minikafka.cli import completion
from minikafka.cli.describing import ask_details, ask_held_back, missing, print_topics
from minikafka.cli.options import (
    ADMIN_TIMEOUT_S,
    AsJson,
    Bootstrap,
    Directory,
    Timeout,
    parse_assignments,
    target,
)
from minikafka.cli.output import print_json, print_line, print_note, print_table
from minikafka.cli.run import run_with_admin
from minikafka.cli.waiting import MIN_ISR, note_if_stale

if TYPE_CHECKING:
    from minikafka.client import Admin
    from minikafka.client.cluster import TopicView

app = typer.Typer(no_args_is_help=True, help="Topics: create, list, describe, alter, delete, move.")

Name = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False, autocompletion=completion.topics)]
WithInternal = Annotated[bool, typer.Option("--internal", help="Include internal topics.")]

PARTITIONS_MAX: Final = (1 << 31) - 1
REPLICAS_MAX: Final = (1 << 15) - 1
"""What a request has room for; a cluster refuses less."""


@app.command()
def create(
    name: Name,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, max=PARTITIONS_MAX, show_default="the cluster's num.partitions"),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            min=1,
            max=REPLICAS_MAX,
            show_default="the cluster's default.replication.factor",
        ),
    ] = None,
    configs: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="NAME=VALUE", help="Topic setting; may be repeated."),
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Succeed if the topic exists.")] = False,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
) -> None:
    """Create a topic.

    Examples:

    [bold]minikafka topic create events --partitions 3[/]

    [bold]minikafka topic create clicks -p 6 -r 2 --config retention.ms=3600000 --config min.insync.replicas=1[/]
    """
    settings = parse_assignments(configs, "--config")

    async def verb(admin: Admin) -> None:
        from minikafka.errors import ErrorCode, KafkaError

        try:
            await admin.create_topic(
                name, partitions=partitions or -1, replication_factor=replication_factor or -1, configs=settings
            )
        except KafkaError as error:
            if not if_not_exists or error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            print_line(f"{name} exists")
        else:
            print_line(f"created {name}")
            await _note_if_beyond_the_replicas(admin, name, settings.get(MIN_ISR))

    run_with_admin(verb, target(bootstrap, directory), timeout)


@app.command("list")
def list_topics(
    internal: WithInternal = False,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """List the topics with their partitions and replicas."""

    async def verb(admin: Admin) -> None:
        topics = await admin.list_topics(internal=internal)
        if as_json:
            print_json([_summary(topic) for topic in topics])
        elif topics:
            rows = (_summary(topic) for topic in topics)
            cells = (
                (row["name"], str(row["partitions"]), str(row["replication_factor"]), _marked(row["under_replicated"]))
                for row in rows
            )
            print_table(("topic", "partitions#", "replicas#", "under-\nreplicated#"), cells)
        else:
            print_line("no topics")
        await note_if_stale(admin)

    run_with_admin(verb, target(bootstrap, directory), timeout)


@app.command()
def describe(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC]...", help="Topics. Default: all.", show_default=False, autocompletion=completion.topics
        ),
    ] = None,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only under-replicated partitions.")
    ] = False,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Show the partitions of topics: leader, replicas, ISR, offsets, size on the leader. Named topics: settings, too.

    Behind that it says which replicas are out of sync, and which transaction read_committed consumers wait for.

    Example:

    [bold]minikafka topic describe events[/]
    """

    async def verb(admin: Admin) -> None:
        from minikafka.cli.partitions import absent

        topics = await (admin.describe_topics(names) if names else admin.list_topics())
        for topic in topics:
            if topic.error:
                raise await absent(admin, topic)
        details = await ask_details(admin, topics, settings=bool(names))
        await ask_held_back(admin, details)
        print_topics(topics, details, under_replicated=under_replicated, as_json=as_json)

    run_with_admin(verb, target(bootstrap, directory), timeout)


@app.command()
def alter(
    name: Name,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            min=1,
            max=PARTITIONS_MAX,
            help="New total; can only increase.",
            show_default="as many as now",
        ),
    ] = None,
    configs: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="NAME=VALUE", help="Change a setting; may be repeated."),
    ] = None,
    delete_configs: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="NAME", help="Reset a setting to its default; may be repeated."),
    ] = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
) -> None:
    """Add partitions or change settings of a topic. To move replicas, use [bold]topic move[/] or [bold]reassign[/].

    Examples:

    [bold]minikafka topic alter events --partitions 6[/]

    [bold]minikafka topic alter events --config retention.ms=60000 --delete-config cleanup.policy[/]
    """
    changes: dict[str, str | None] = dict(parse_assignments(configs, "--config"))
    for setting in delete_configs or ():
        if setting in changes:
            raise typer.BadParameter(f"{setting} is also in --config", param_hint="--delete-config")
        changes[setting] = None
    if partitions is None and not changes:
        raise typer.BadParameter(
            "nothing to change; give --partitions, --config or --delete-config", param_hint="topic alter"
        )

    async def verb(admin: Admin) -> None:
        from minikafka.cli.partitions import which_may_be_misspelt

        async with which_may_be_misspelt(admin, name):
            if changes:
                await admin.alter_configs(name, changes)
                print_line(f"changed {', '.join(changes)} of {name}")
                await _note_if_beyond_the_replicas(admin, name, changes.get(MIN_ISR))
            if partitions is not None:
                await admin.create_partitions(name, partitions)
                print_line(f"{name} has {partitions} partitions")

    run_with_admin(verb, target(bootstrap, directory), timeout)


@app.command()
def delete(
    names: Annotated[
        list[str], typer.Argument(metavar="TOPIC...", show_default=False, autocompletion=completion.topics)
    ],
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
) -> None:
    """Delete topics and their data."""

    async def verb(admin: Admin) -> None:
        from minikafka.cli.partitions import which_may_be_misspelt

        for name in names:
            async with which_may_be_misspelt(admin, name):
                await admin.delete_topic(name)
            print_line(f"deleted {name}")

    run_with_admin(verb, target(bootstrap, directory), timeout)


async def _note_if_beyond_the_replicas(admin: Admin, name: str, minimum: str | None) -> None:
    """Say on stderr what more in-sync replicas than there are replicas come to. To Kafka, too, that is no mistake."""
    from minikafka.errors import KafkaError

    if minimum is None:
        return
    with suppress(KafkaError):  # the change itself is made
        (topic,) = await admin.describe_topics([name])
        replicas = min((len(partition.replicas) for partition in topic.partitions.values()), default=int(minimum))
        if replicas < int(minimum):
            cost = ", and acks=all is refused while one of them is out of sync" if replicas > 1 else ""
            print_note(f"note: replicas of {name}: {replicas}; {MIN_ISR} {minimum} counts as {replicas}{cost}")


def _summary(topic: TopicView) -> dict[str, Any]:
    partitions = list(topic.partitions.values())
    return {
        "name": topic.name,
        "topic_id": str(topic.topic_id),
        "partitions": len(partitions),
        "replication_factor": max((len(partition.replicas) for partition in partitions), default=0),
        "under_replicated": sum(bool(missing(partition)) for partition in partitions),
    }


def _marked(count: int) -> str:
    return f"[yellow]{count}[/]" if count else "0"
