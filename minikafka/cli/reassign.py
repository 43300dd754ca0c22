"""``minikafka reassign``: move partitions between brokers and directories, with Kafka's options (row A6)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from minikafka.cli import reassign_view as view
from minikafka.cli.options import ADMIN_TIMEOUT_S, AsJson, Bootstrap, Directory, Timeout, target
from minikafka.cli.output import print_json, print_line, print_note
from minikafka.cli.run import run_with_admin
from minikafka.cli.waiting import note_if_stale

if TYPE_CHECKING:
    from minikafka.client import Admin
    from minikafka.client.reassigning.progress import Progress
    from minikafka.client.reassigning.tool import Begun, Reassigner

STDIN: Final = "-"

File = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="JSON file, or - for standard input.", show_default=False)
]
PlanFile = Annotated[
    Path | None, typer.Option("--reassignment-json-file", help="Same as FILE; the name in Kafka's tool.")
]
TopicsFile = Annotated[
    Path | None,
    typer.Option("--topics-to-move-json-file", help="Same as FILE of --generate; the name in Kafka's tool."),
]
BrokerList = Annotated[
    str | None,
    typer.Option(metavar="1,2,3", help="--generate: brokers for the replicas.", show_default=False),
]
Throttled = Annotated[
    int | None,
    typer.Option(
        "--throttle",
        metavar="BYTES/S",
        min=1,
        help="--execute: throttle, in bytes per second, from and to each broker.",
        show_default="none",
    ),
]
LogDirThrottled = Annotated[
    int | None,
    typer.Option(
        "--replica-alter-log-dirs-throttle",
        metavar="BYTES/S",
        min=1,
        help="--execute: throttle between the log directories of a broker.",
        show_default="none",
    ),
]


def reassign(
    file: File = None,
    generate: Annotated[
        bool, typer.Option("--generate", help="Propose a balanced plan for the topics in FILE; change nothing.")
    ] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Carry out the plan in FILE.")] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Show the progress of the plan in FILE; remove its throttles once it is complete."
        ),
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Cancel the plan in FILE; return to the previous replicas.")
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="List all reassignments in progress.")] = False,
    broker_list: BrokerList = None,
    disable_rack_aware: Annotated[bool, typer.Option("--disable-rack-aware", help="--generate: ignore racks.")] = False,
    throttle: Throttled = None,
    log_dir_throttle: LogDirThrottled = None,
    additional: Annotated[
        bool,
        typer.Option(
            "--additional", help="--execute: allow it during other reassignments; replace those of the same partitions."
        ),
    ] = False,
    disallow_replication_factor_change: Annotated[
        bool,
        typer.Option(
            "--disallow-replication-factor-change", help="--execute: refuse a change of the replication factor."
        ),
    ] = False,
    preserve_throttles: Annotated[
        bool, typer.Option("--preserve-throttles", help="--verify, --cancel: keep the throttles.")
    ] = False,
    wait: Annotated[
        bool | None,
        typer.Option(
            "--wait/--no-wait",
            help="Show progress until the plan is complete.",
            show_default="--wait with --execute, --no-wait with --verify",
        ),
    ] = None,
    reassignment_json_file: PlanFile = None,
    topics_to_move_json_file: TopicsFile = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Move partitions to other brokers or log directories. For one partition see [bold]minikafka topic move[/].

    A plan is a JSON file in Kafka's format. Write one, or let --generate propose one:

    [bold]echo '{"version": 1, "topics": [{"topic": "events"}]}' > topics.json[/]

    [bold]minikafka reassign --generate topics.json --broker-list 1,2,3,4[/]

    Save the proposed line as plan.json, then:

    [bold]minikafka reassign --execute plan.json --throttle 50000000[/]

    --execute first prints the current assignment: save it, to roll back. It then shows progress and finally removes
    the throttle. After Ctrl-C the cluster continues; --verify shows the progress. Exit code of --verify: 1 until the
    plan is complete.
    """
    actions = {"--generate": generate, "--execute": execute, "--verify": verify, "--cancel": cancel, "--list": list_}
    _check_one(actions)
    if as_json and (execute or cancel):
        raise typer.BadParameter("is for --generate, --verify and --list", param_hint="--json")

    def run_tool(work: Callable[[Reassigner], Coroutine[Any, Any, None]]) -> None:
        from minikafka.client.reassigning.tool import Reassigner

        run_with_admin(lambda admin: work(Reassigner(admin)), target(bootstrap, directory), timeout)

    path = file or reassignment_json_file or topics_to_move_json_file
    if list_:
        run_with_admin(partial(_list, as_json), target(bootstrap, directory), timeout)
        return
    if path is None:
        raise typer.BadParameter(f"{next(name for name in actions if actions[name])} needs a FILE", param_hint="FILE")
    text = read_file(path)
    if generate:
        run_tool(lambda tool: _generate(tool, text, broker_list, not disable_rack_aware, as_json))
    elif execute:
        how = {
            "throttle": throttle,
            "log_dir_throttle": log_dir_throttle,
            "additional": additional,
            "allow_replication_factor_change": not disallow_replication_factor_change,
        }
        follow = wait is not False
        follow_up = target(bootstrap, directory).command(f"reassign --verify {path}")
        run_tool(lambda tool: _execute(tool, text, follow_up, how, follow))
    elif verify:
        follow = wait is True
        run_tool(lambda tool: _verify(tool, text, preserve_throttles, follow, as_json))
    else:
        run_tool(lambda tool: _cancel(tool, text, preserve_throttles))


def _check_one(actions: dict[str, bool]) -> None:
    chosen = [name for name, given in actions.items() if given]
    if len(chosen) != 1:
        given = f", not {' and '.join(chosen)}" if chosen else ""
        raise typer.BadParameter(f"choose one of {', '.join(actions)}{given}", param_hint="reassign")


def read_file(path: Path) -> str:
    """The text of a file, or of standard input. PlanError when it cannot be had."""
    from minikafka.client.reassigning.plan import PlanError

    try:
        return sys.stdin.read() if str(path) == STDIN else path.read_text()
    except OSError as error:
        raise PlanError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PlanError(f"{path} is not a UTF-8 text file") from None


async def _generate(tool: Reassigner, text: str, broker_list: str | None, rack_aware: bool, as_json: bool) -> None:
    from minikafka.client.reassigning.plan import parse_topics, to_json

    topics = parse_topics(text)
    brokers = parse_brokers(broker_list) if broker_list is not None else await tool.live_brokers()
    current, proposed = await tool.generate(topics, brokers, rack_aware=rack_aware)
    if as_json:
        print_json({"current": view.plan_as_dict(current), "proposed": view.plan_as_dict(proposed)})
        return
    print_line(f"Current partition replica assignment\n{to_json(current)}\n")
    print_line(f"Proposed partition reassignment configuration\n{to_json(proposed)}")


def parse_brokers(text: str, option: str = "--broker-list") -> list[int]:
    """``1,2,3`` as broker ids; `option` is named when they are not."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a list of broker ids", param_hint=option) from None


async def _execute(tool: Reassigner, text: str, verify: str, how: dict[str, Any], follow: bool) -> None:
    from minikafka.client.reassigning.plan import Plan, parse_plan, to_json

    plan = parse_plan(text)

    def print_rollback(rollback: Plan) -> None:
        print_line(f"Current partition replica assignment\n\n{to_json(rollback)}\n")
        print_line("Save this to use as the --reassignment-json-file option during rollback")
        sys.stdout.flush()  # before anything changes

    begun = await tool.execute(plan, **how, on_checked=print_rollback)
    if how["throttle"] is not None:
        print_line(f"The inter-broker throttle limit was set to {how['throttle']} B/s")
    if how["log_dir_throttle"] is not None:
        print_line(f"The replica-alter-dir throttle limit was set to {how['log_dir_throttle']} B/s")
    print_line(f"Successfully started partition reassignments for {view.names(plan)}")
    sys.stdout.flush()
    if not follow:
        is_throttled = bool(begun.throttle.brokers)
        print_note(f"follow it{', and have the throttle removed,' if is_throttled else ''} with: {verify}")
        return
    progress = await follow_to_end(tool, begun, verify)
    if begun.throttle.brokers or begun.throttle.topics:
        view.print_cleared(await tool.clear_throttles(plan))
    for line in view.status_lines(plan, progress):
        print_line(line)
    if not progress.is_complete:
        raise typer.Exit(1)


async def follow_to_end(tool: Reassigner, begun: Begun, resume: str) -> Progress:
    """A progress bar until nothing moves any more; ``resume`` is how to look again after Ctrl-C."""
    import asyncio

    from minikafka.cli.progress import move_bar

    with move_bar() as show:
        try:
            return await tool.wait(begun.plan, begun.moves, show)
        except asyncio.CancelledError:
            print_note(f"\nthe reassignment continues; see its progress with: {resume}")
            raise


async def _verify(tool: Reassigner, text: str, preserve_throttles: bool, follow: bool, as_json: bool) -> None:
    from minikafka.cli.progress import move_bar
    from minikafka.client.reassigning.plan import parse_plan
    from minikafka.client.reassigning.throttles import Throttle

    plan = parse_plan(text)
    if follow:
        with move_bar() as show:
            progress = await tool.wait(plan, None, show)
    else:
        progress = await tool.progress(plan)
    if not as_json:
        print_line("Status of partition reassignment:")
        for line in view.status_lines(plan, progress):
            print_line(line)
    is_over = not progress.is_under_way and not preserve_throttles
    removed = await tool.clear_throttles(plan) if is_over else Throttle({}, {})
    if as_json:
        print_json(view.progress_as_dict(plan, progress, removed))
    else:
        view.print_cleared(removed)
    if not progress.is_complete:
        raise typer.Exit(1)


async def _cancel(tool: Reassigner, text: str, preserve_throttles: bool) -> None:
    from minikafka.client.reassigning.plan import parse_plan

    plan = parse_plan(text)
    cancelled = await tool.cancel(plan)
    if cancelled:
        print_line(f"Successfully cancelled partition reassignments for: {view.names(cancelled)}")
    else:
        print_line("None of the specified partition reassignments are in progress.")
    if not preserve_throttles:
        view.print_cleared(await tool.clear_throttles(plan))


async def _list(as_json: bool, admin: Admin) -> None:
    from minikafka.client.reassigning.tool import Reassigner

    ongoing = await Reassigner(admin).ongoing()
    if as_json:
        print_json(view.ongoing_as_list(ongoing))
    else:
        print_line("Current partition reassignments:" if ongoing else "No partition reassignments found.")
        for line in view.ongoing_lines(ongoing):
            print_line(line)
    await note_if_stale(admin)
