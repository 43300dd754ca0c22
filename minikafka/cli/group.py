"""``minikafka group``: consumer groups, and how far each is behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from minikafka.cli.describing import ask_details
from minikafka.cli.options import ADMIN_TIMEOUT_S, AsJson, Bootstrap, Directory, Timeout, target
from minikafka.cli.output import print_json, print_line, print_table
from minikafka.cli.reset_offsets import reset_offsets
from minikafka.cli.run import run_with_admin

if TYPE_CHECKING:
    from minikafka.client import Admin
    from minikafka.client.admin import GroupView

COLUMNS: Final = ("topic", "partition#", "committed#", "end#", "lag#", "client", "host")

app = typer.Typer(no_args_is_help=True, help="Consumer groups: members, offsets, lag; change offsets, delete.")


@app.command("list")
def list_groups(
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """List the groups with their states."""

    async def verb(admin: Admin) -> None:
        groups = await admin.list_groups()
        if as_json:
            print_json([{"group": group, "state": state} for group, state in groups])
        elif groups:
            print_table(("group", "state"), groups)
        else:
            print_line("no groups")

    run_with_admin(verb, target(bootstrap, directory), timeout)


@app.command()
def describe(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[GROUP]...", help="Groups. Default: all.", show_default=False)
    ] = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Show the partitions of groups: committed offset, end of the log, lag, and the member that reads it.

    Examples:

    [bold]minikafka consume events --group readers --from-beginning --count 10[/]

    [bold]minikafka group describe readers[/]
    """

    async def verb(admin: Admin) -> None:
        described = []
        for name in names or [group for group, _ in await admin.list_groups()]:
            group = await admin.describe_group(name)
            described.append((group, await _partitions(admin, group)))
        if as_json:
            print_json([_as_json(group, rows) for group, rows in described])
            return
        for group, rows in described:
            print_line(_sentence(group))
            if rows:
                print_table(COLUMNS, map(_cells, rows))
        if not described:
            print_line("no groups")

    run_with_admin(verb, target(bootstrap, directory), timeout)


app.command("reset-offsets")(reset_offsets)


@app.command()
def delete(
    names: Annotated[list[str], typer.Argument(metavar="GROUP...", show_default=False)],
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
                if error.code is not ErrorCode.NON_EMPTY_GROUP:
                    raise
                raise KafkaError(error.code, f"group {name!r} has members; stop them first") from None
            print_line(f"deleted {name}")

    run_with_admin(verb, target(bootstrap, directory), timeout)


async def _partitions(admin: Admin, group: GroupView) -> list[dict[str, Any]]:
    """What the group has committed or reads, by partition; None for what nobody knows, or nobody told within 3 s."""
    committed = await admin.group_offsets(group.group_id)
    readers = {tp: member for member in group.members for tp in member.assignment}
    partitions = sorted(committed.keys() | readers.keys())
    topics = await admin.describe_topics(sorted({tp.topic for tp in partitions}))
    end = (await ask_details(admin, topics, settings=False)).end
    return [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "committed_offset": at.offset if (at := committed.get(tp)) else None,
            "end_offset": end.get(tp),
            "lag": max(0, end[tp] - at.offset) if at and tp in end else None,
            "member_id": member.member_id if (member := readers.get(tp)) else None,
            "client_id": member.client_id if member else None,
            "host": member.client_host if member else None,
        }
        for tp in partitions
    ]


def _sentence(group: GroupView) -> str:
    count = len(group.members)
    assignor = f", assignor {group.assignor}" if group.assignor else ""
    return f"{group.group_id}: {group.state}, {count} {'member' if count == 1 else 'members'}{assignor}"


def _cells(row: dict[str, Any]) -> list[str]:
    names = ("topic", "partition", "committed_offset", "end_offset", "lag", "client_id", "host")
    return ["-" if row[name] is None else str(row[name]) for name in names]


def _as_json(group: GroupView, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state,
        "assignor": group.assignor,
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.client_host,
                "group_instance_id": member.group_instance_id,
            }
            for member in group.members
        ],
        "partitions": rows,
    }
