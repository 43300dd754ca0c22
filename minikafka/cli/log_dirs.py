"""``minikafka log-dirs``: the log directories of brokers and what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from minikafka.cli.options import ADMIN_TIMEOUT_S, AsJson, Bootstrap, Directory, Timeout, target
from minikafka.cli.output import fail, print_json, print_table, size
from minikafka.cli.run import run_with_admin

if TYPE_CHECKING:
    from minikafka.client import Admin
    from minikafka.client.admin import LogDirectory


def log_dirs(
    broker_list: Annotated[
        str | None, typer.Option(metavar="1,2,3", help="Brokers to show. Default: all live ones.", show_default="all")
    ] = None,
    topic_list: Annotated[
        str | None, typer.Option(metavar="TOPIC[,TOPIC...]", help="Topics to show. Default: all.", show_default="all")
    ] = None,
    replicas: Annotated[bool, typer.Option("--replicas", help="Print one line per replica.")] = False,
    describe: Annotated[bool, typer.Option("--describe", hidden=True)] = False,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Show the log directories of brokers: size, replicas, moves, failures.

    To move replicas between directories, set log_dirs in a plan: [bold]minikafka reassign --help[/].
    """
    from minikafka.cli.reassign import parse_brokers

    brokers = None if broker_list is None else parse_brokers(broker_list)
    topics = None if topic_list is None else topic_list.split(",")

    async def verb(admin: Admin) -> None:
        found = await admin.describe_log_dirs(brokers)
        _check_all_answered(brokers or [], found)
        chosen = {broker: [_only(each, topics) for each in directories] for broker, directories in found.items()}
        if as_json:
            print_json(_as_json(chosen))
        elif replicas:
            print_table(("broker", "directory", "partition", "size#", "lag#", ""), _replica_rows(chosen))
        else:
            print_table(("broker", "directory", "state", "replicas#", "size#", "free#"), _directory_rows(chosen))

    run_with_admin(verb, target(bootstrap, directory), timeout)


def _check_all_answered(named: list[int], found: dict[int, list[LogDirectory]]) -> None:
    if missing := [str(broker) for broker in named if broker not in found]:
        fail(f"--broker-list: brokers not alive: {', '.join(missing)}; omit the option to see all live brokers")


def _only(directory: LogDirectory, topics: list[str] | None) -> LogDirectory:
    if topics is None:
        return directory
    return directory._replace(replicas={w: size for w, size in directory.replicas.items() if w.topic in topics})


def _directory_rows(found: dict[int, list[LogDirectory]]) -> list[tuple[str, ...]]:
    return [
        (
            str(broker),
            each.path,
            f"[red]{each.error.name}[/]" if each.error else "[green]online[/]",
            str(len(each.replicas)),
            size(sum(replica.size_bytes for replica in each.replicas.values())),
            size(each.usable_bytes) if each.usable_bytes >= 0 else "-",
        )
        for broker, directories in found.items()
        for each in directories
    ]


def _replica_rows(found: dict[int, list[LogDirectory]]) -> list[tuple[str, ...]]:
    return [
        (
            str(broker),
            each.path,
            str(tp),
            size(replica.size_bytes),
            str(replica.offset_lag),
            "[yellow]moves here[/]" if replica.is_future else "",
        )
        for broker, directories in found.items()
        for each in directories
        for tp, replica in sorted(each.replicas.items())
    ]


def _as_json(found: dict[int, list[LogDirectory]]) -> dict[str, Any]:
    """As Kafka's tool prints it."""
    return {
        "version": 1,
        "brokers": [
            {
                "broker": broker,
                "logDirs": [
                    {
                        "logDir": each.path,
                        "error": each.error.name if each.error else None,
                        "partitions": [
                            {
                                "partition": str(tp),
                                "size": replica.size_bytes,
                                "offsetLag": replica.offset_lag,
                                "isFuture": replica.is_future,
                            }
                            for tp, replica in sorted(each.replicas.items())
                        ],
                    }
                    for each in directories
                ],
            }
            for broker, directories in found.items()
        ],
    }
