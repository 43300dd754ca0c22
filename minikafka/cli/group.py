"""``minikafka group``: consumer groups, and how far each is behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from minikafka.cli import completion
from minikafka.cli.group_view import Shown, ask_groups, ask_partitions, group_as_json, print_group
from minikafka.cli.options import ADMIN_TIMEOUT_S, AsJson, Bootstrap, Directory, Timeout, target
from minikafka.cli.output import escaped, print_json, print_line, print_table
from minikafka.cli.reset_offsets import reset_offsets
from minikafka.cli.run import run_with_admin

if TYPE_CHECKING:
    from minikafka.client import Admin
    from minikafka.model import TopicPartition

STATES: Final = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Assigning", "Reconciling")
TYPES: Final = ("classic", "consumer")

app = typer.Typer(no_args_is_help=True, help="Consumer groups: members, offsets, lag; change offsets, delete.")


@app.command("list")
def list_groups(
    states: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="Only groups in this state, as Stable; may be repeated."),
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="Only groups of this type: classic, consumer; may be repeated."),
    ] = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """List the groups with their protocols and states."""
    wanted = [_words(states, STATES, "--state"), _words(types, TYPES, "--type")]

    async def verb(admin: Admin) -> None:
        groups = [
            group
            for group in await admin.list_groups()
            if (not wanted[0] or group.state.lower() in wanted[0])
            and (not wanted[1] or group.group_type.lower() in wanted[1])
        ]
        if as_json:
            print_json([{"group": each.group_id, "type": each.group_type, "state": each.state} for each in groups])
        elif groups:
            print_table(
                ("group", "type", "state"), [(escaped(each.group_id), each.group_type, each.state) for each in groups]
            )
        else:
            print_line("no groups")

    run_with_admin(verb, target(bootstrap, directory), timeout)


def _words(given: list[str] | None, known: Sequence[str], option: str) -> set[str]:
    """Those of all these lists, in lower case. A word that is not ``known`` would select nothing, and say nothing."""
    words = [word.strip() for each in given or () for word in each.split(",")]
    strange = [word for word in words if word.lower() not in {each.lower() for each in known}]
    if strange:
        raise typer.BadParameter(f"{strange[0]!r} is none of {', '.join(known)}", param_hint=option)
    return {word.lower() for word in words}


@app.command()
def describe(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[GROUP]...", help="Groups. Default: all.", show_default=False, autocompletion=completion.groups
        ),
    ] = None,
    all_groups: Annotated[bool, typer.Option("--all-groups", hidden=True)] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Only the partitions.")] = False,
    members: Annotated[bool, typer.Option("--members", help="Only the members.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Only state and protocol.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="With the partitions of each member.")] = False,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Show groups: committed offset, end of the log and lag of each partition; the members, and the lag of each.

    Examples:

    [bold]minikafka consume events --group readers --from-beginning --count 10[/]

    [bold]minikafka group describe readers[/]

    [bold]minikafka group describe readers --members --verbose[/]
    """
    if names and all_groups:
        raise typer.BadParameter("exclude each other", param_hint="GROUP / --all-groups")
    every = not (offsets or members or state)
    shown = Shown(offsets or every, members or every, verbose)

    async def verb(admin: Admin) -> None:
        groups = await ask_groups(admin, names)
        described = [(group, await ask_partitions(admin, group)) for group in groups]
        if as_json:
            print_json([group_as_json(group, rows) for group, rows in described])
            return
        for at, (group, rows) in enumerate(described):
            if at:
                print_line("")
            print_group(group, rows, shown)
        if not described:
            print_line("no groups")

    run_with_admin(verb, target(bootstrap, directory), timeout)


app.command("reset-offsets")(reset_offsets)


@app.command()
def delete(
    names: Annotated[
        list[str], typer.Argument(metavar="GROUP...", show_default=False, autocompletion=completion.groups)
    ],
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
) -> None:
    """Delete groups without members, and their committed offsets."""

    async def verb(admin: Admin) -> None:
        from minikafka.errors import ErrorCode, KafkaError

        for name in names:
            try:
                await admin.delete_group(name)
            except KafkaError as error:
                why = {
                    ErrorCode.NON_EMPTY_GROUP: "has members; stop them first",
                    ErrorCode.GROUP_ID_NOT_FOUND: "not found",
                }.get(error.code)
                if why is None:
                    raise
                raise KafkaError(error.code, f"group {name!r} {why}") from None
            print_line(f"deleted {name}")

    run_with_admin(verb, target(bootstrap, directory), timeout)


@app.command("delete-offsets")
def delete_offsets(
    name: Annotated[str, typer.Argument(metavar="GROUP", show_default=False, autocompletion=completion.groups)],
    topics: Annotated[
        list[str],
        typer.Option("--topic", metavar="T[:P,...]", help="Topic, or some of its partitions; may be repeated."),
    ],
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Delete a group's committed offsets of topics that no member reads.

    Example:

    [bold]minikafka group delete-offsets readers --topic events[/]
    """
    from minikafka.cli.reset_plan import parse_topics

    wanted = parse_topics(topics)

    async def verb(admin: Admin) -> None:
        committed = await admin.group_offsets(name)
        chosen = [
            tp
            for tp in sorted(committed)
            if tp.topic in wanted and tp.partition in (wanted[tp.topic] or [tp.partition])
        ]
        for topic in wanted:
            if not any(tp.topic == topic for tp in chosen):
                await admin.describe_group(name)  # raises if there is no such group
                raise _no_offsets(name, topic, wanted[topic])
        await _delete_offsets(admin, name, chosen)
        if as_json:
            rows = [{"topic": tp.topic, "partition": tp.partition, "offset": committed[tp].offset} for tp in chosen]
            print_json({"group": name, "deleted": rows})
        else:
            for tp in chosen:
                print_line(f"deleted offset {committed[tp].offset} of {tp}")

    run_with_admin(verb, target(bootstrap, directory), timeout)


async def _delete_offsets(admin: Admin, name: str, partitions: list[TopicPartition]) -> None:
    from minikafka.errors import ErrorCode, KafkaError

    try:
        await admin.delete_group_offsets(name, partitions)
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
            raise
        message = f"group {name!r} has members that read these topics; stop them, then delete its offsets"
        raise KafkaError(error.code, message) from None


def _no_offsets(name: str, topic: str, partitions: Sequence[int]) -> Exception:
    from minikafka.errors import ErrorCode, KafkaError

    named = f", partition {', '.join(map(str, partitions))}" if partitions else ""
    return KafkaError(ErrorCode.INVALID_REQUEST, f"group {name!r} has no offset of topic {topic!r}{named}")
