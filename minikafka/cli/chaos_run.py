"""``minikafka chaos run``: break a cluster under load by plan, and say whether anything was lost."""

from __future__ import annotations

import errno
import json
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minikafka.cli.command_config import given_command_config
from minikafka.cli.extras import need
from minikafka.cli.options import AsJson
from minikafka.cli.options import target as cluster_of
from minikafka.cli.output import escaped, print_json, print_note, print_table, teller

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from minikafka.chaos.report.run import ChaosRun
    from minikafka.chaos.rounds.loads import Clients
    from minikafka.chaos.rounds.trial import Options, Trial

LOADS = ("produce", "group", "transactions", "copy")
CLIENTS = ("confluent", "minikafka", "java")
TARGETS = ("processes", "compose")


def run(
    duration: Annotated[
        float,
        typer.Option(
            metavar="S",
            help="Seconds of load in each round. Its history is in memory, about 2 GB for a million records.",
            min=5,
            max=86_400,
        ),
    ] = 60,
    seed: Annotated[
        int | None, typer.Option(help="Of the first round; each later one has the next.", show_default="random")
    ] = None,
    faults: Annotated[
        str | None,
        typer.Option(metavar="KINDS", help="Kinds of faults; see `chaos kinds`.", show_default="all"),
    ] = None,
    workload: Annotated[str, typer.Option(help=f"{', '.join(LOADS)}, or all of them in turn.")] = "produce",
    client: Annotated[str, typer.Option(help=f"Whose clients: {', '.join(CLIENTS)}.")] = CLIENTS[0],
    target: Annotated[str, typer.Option(help=f"What the cluster is made of: {', '.join(TARGETS)}.")] = TARGETS[0],
    rate: Annotated[int, typer.Option(metavar="N", help="Records a second.", min=10, max=100_000)] = 2_000,
    rounds: Annotated[int, typer.Option(metavar="N", help="Rounds, each with a cluster of its own.", min=1)] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where histories, and the logs of failed rounds, are put.",
            show_default="a new one",
            file_okay=False,
        ),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "-b",
            metavar="SERVERS",
            help="Of a cluster that is there, of any make: break it yourself meanwhile.",
            show_default="a new cluster",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Break a cluster under load, mend it, read everything, and say whether anything was lost.

    Four brokers, three of which vote; or with --target compose those of the compose file here, with ports and volumes
    of their own. A topic with replication factor 3. Exits with 0 only if no promise was broken and enough was written.
    A round that fails is planned again by its seed; how threads meet is not.

    Examples:

    [bold]minikafka chaos run --duration 120 --seed 7 --faults kill,isolate,damage[/]

    [bold]minikafka chaos run --rounds 20 --workload all[/]

    [bold]minikafka chaos run --target compose --faults kill,pause,isolate[/]
    """
    need("confluent-kafka", of="chaos run", extra="chaos")
    need("pygal", of="the report of chaos run", extra="chaos")
    import random
    import tempfile

    from minikafka.chaos.report.values import as_dict
    from minikafka.chaos.rounds.trial import Options

    console = teller(on_stderr=as_json)
    bootstrap = bootstrap or None  # an empty one is none, as in other verbs
    if bootstrap and (faults or rounds > 1 or target != TARGETS[0]):
        raise typer.BadParameter("the cluster, its faults and its rounds are yours", param_hint="--bootstrap-server")
    kinds = () if bootstrap else _kinds(faults)
    command_config = given_command_config() if bootstrap else None
    if bootstrap:
        cluster_of(bootstrap, None)  # which tells what is wrong with either
    loads = LOADS if workload == "all" else (workload,)
    if not set(loads) <= set(LOADS):
        raise typer.BadParameter(f"{workload!r} is none of {', '.join(LOADS)}, all", param_hint="--workload")
    if client not in CLIENTS:
        raise typer.BadParameter(f"{client!r} is none of {', '.join(CLIENTS)}", param_hint="--client")
    if target not in TARGETS:
        instead = "; a cluster that is there is named by --bootstrap-server"
        raise typer.BadParameter(f"{target!r} is none of {', '.join(TARGETS)}{instead}", param_hint="--target")
    first = random.randrange(10_000) if seed is None else seed
    directory = out or Path(tempfile.mkdtemp(prefix="minikafka-chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    outcomes = []
    with _clients(client) as clients:
        for number in range(rounds):
            options = Options(
                first + number,
                duration,
                kinds,
                loads[number % len(loads)],
                rate,
                client,
                bootstrap,
                target,
                command_config,
            )
            of_round = directory / f"{options.load}-{options.seed}"
            outcomes.append(_round(options, clients, of_round, console))
            _say(outcomes[-1], console)
    if as_json:
        print_json([as_dict(outcome) for outcome in outcomes])
    failed = sum(not outcome.ok for outcome in outcomes)
    total = sum(outcome.succeeded for outcome in outcomes)
    if rounds > 1:
        console.print(f"[bold]{rounds} rounds, {failed} failed; {total:,} records acknowledged[/]")
    again = f"minikafka chaos check {shlex.quote(str(of_round / 'history.jsonl'))}"
    print_note(f"to judge {'the last history' if rounds > 1 else 'the history'} again: {again}")
    raise typer.Exit(1 if failed else 0)


def kinds(as_json: AsJson = False) -> None:
    """Show the kinds of faults."""
    from minikafka.chaos.rounds.kinds import KINDS

    rows = [(name, (kind.__doc__ or "").strip()) for name, kind in KINDS.items()]
    if as_json:
        print_json([{"kind": name, "what": what} for name, what in rows])
    else:
        print_table(("kind", "what it does"), rows)


def _kinds(faults: str | None) -> tuple[str, ...]:
    from minikafka.chaos.rounds.kinds import KINDS

    if faults is None:
        return tuple(KINDS)
    named = tuple(name.strip() for name in faults.split(",") if name.strip())
    if unknown := [name for name in named if name not in KINDS]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(KINDS)}", param_hint="--faults")
    if not named:  # a round that breaks nothing would prove nothing
        raise typer.BadParameter(f"none is named; there are {', '.join(KINDS)}", param_hint="--faults")
    return named


@contextmanager
def _clients(named: str) -> Iterator[Clients]:
    import tempfile

    from minikafka.chaos.rounds.confluent_clients import ConfluentClients
    from minikafka.chaos.rounds.java_clients import JavaClients
    from minikafka.chaos.rounds.minikafka_clients import MinikafkaClients

    makers: dict[str, Callable[[Path], Clients]] = {
        "confluent": lambda _: ConfluentClients(),
        "minikafka": lambda _: MinikafkaClients(),
        "java": JavaClients,
    }
    with tempfile.TemporaryDirectory(prefix="minikafka-chaos-") as directory:
        yield makers[named](Path(directory))


def _round(options: Options, clients: Clients, directory: Path, console: Console) -> ChaosRun:
    import shutil

    from minikafka.chaos.history import History
    from minikafka.chaos.rounds.round import Round
    from minikafka.chaos.rounds.visit import Visit

    if directory.exists():
        raise typer.BadParameter(f"{directory} exists; choose another --out", param_hint="--out")
    directory.mkdir(parents=True)
    console.print(options.command, style="bold", markup=False)
    began = time.monotonic()

    def say(sentence: str) -> None:
        console.print(f"{time.monotonic() - began:6.1f} s  {sentence}", markup=False)

    outcome: ChaosRun | None = None
    try:
        with _full_disk_named(directory), ExitStack() as stack:
            history = History(stack.enter_context((directory / "history.jsonl").open("w")))
            it: Trial
            if options.servers is None:
                it = stack.enter_context(Round(options, directory / "cluster", history, say, clients))
            else:
                it = Visit(options, history, say, clients)
            stack.enter_context(_display(console, it))
            outcome = it.run()
        _write_report(outcome, directory)
        console.print(f"report: {directory / 'report.html'}", markup=False)
    finally:
        if outcome is not None and outcome.ok:
            shutil.rmtree(directory / "cluster", ignore_errors=True)
        elif (directory / "cluster").exists():
            print_note(f"the brokers' files and logs: {directory / 'cluster'}")
    return outcome


@contextmanager
def _full_disk_named(directory: Path) -> Iterator[None]:
    """The system's words do not say which, where a file was open before its disk was full."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT) and error.filename is None:
            error.filename = str(directory)
        raise


@contextmanager
def _display(console: Console, it: Trial) -> Iterator[None]:
    """On a terminal: the time, faults in force, leaders and in-sync replicas, throughput."""
    if not console.is_terminal:
        yield
        return
    from rich.live import Live

    with Live(get_renderable=lambda: _picture(it), console=console, refresh_per_second=4, transient=True):
        yield


def _picture(it: Trial) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    samples = it.observer.samples[-9:]
    in_force = [each.sentence for each in it.faults if each.ended_ms is None]
    table.add_row("time", f"{it.history.now_ms() / 1000:,.0f} s")
    table.add_row("faults", "; ".join(in_force) or "none")
    if samples:
        last, first = samples[-1], samples[0]
        seconds = max(1, last.t_ms - first.t_ms) / 1000
        table.add_row(
            "records",
            f"{last.acknowledged:,} acknowledged ({(last.acknowledged - first.acknowledged) / seconds:,.0f}/s), "
            f"{last.read:,} read",
        )
        controller_id = it.observer.controller_id
        table.add_row("controller", "none" if controller_id is None else f"node {controller_id}")
        for each in last.partitions:
            out = sorted({*each.replicas} - {*each.isr})
            leader = "none" if each.leader is None else f"node {each.leader}"
            behind = f"  [red]not in sync: {out}[/]" if out else ""
            table.add_row(each.partition, f"leader {leader}, epoch {each.leader_epoch}{behind}")
    return table


def _say(outcome: ChaosRun, console: Console) -> None:
    console.print(f"[bold {'green' if outcome.ok else 'red'}]{outcome.sentence}[/]")
    for judgement in outcome.verdict.judgements.values():
        for rule, examples in judgement.examples.items():
            console.print(f"  [red]{rule}[/]: {escaped(examples[0])}")
    for finding in outcome.failed:
        console.print(f"[bold red]not so: {finding.name}[/]: {escaped(finding.sentence)}")


def _write_report(outcome: ChaosRun, directory: Path) -> None:
    from minikafka.chaos.report.page import to_html
    from minikafka.chaos.report.values import as_dict

    (directory / "report.html").write_text(to_html(outcome))
    (directory / "report.json").write_text(json.dumps(as_dict(outcome), indent=2) + "\n")
