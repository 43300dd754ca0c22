"""``minikafka chaos run``: break a cluster under load by plan, and say whether anything was lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from minikafka.cli.demo_transactions import need_confluent_kafka
from minikafka.cli.options import AsJson
from minikafka.cli.output import print_json, print_note, print_table

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from minikafka.chaos.rounds.round import Options, Outcome, Round

LOADS = ("produce", "group", "transactions")


def run(
    duration: Annotated[float, typer.Option(metavar="S", help="Seconds of load in each round.", min=5)] = 60,
    seed: Annotated[
        int | None, typer.Option(help="Of the first round; each later one has the next.", show_default="random")
    ] = None,
    faults: Annotated[
        str | None,
        typer.Option(metavar="KIND,...", help="Kinds of faults; see [bold]chaos kinds[/].", show_default="all"),
    ] = None,
    workload: Annotated[str, typer.Option(help=f"{', '.join(LOADS)}, or all of them in turn.")] = "produce",
    rate: Annotated[int, typer.Option(metavar="N", help="Records a second.", min=10)] = 2_000,
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
    as_json: AsJson = False,
) -> None:
    """Break a cluster under load, mend it, read everything, and say whether anything was lost.

    Four brokers, three of which vote; a topic with replication factor 3. Exits with 0 only if no promise was broken and
    enough was written. A round that fails is planned again by its seed; how threads meet is not.

    Examples:

    [bold]minikafka chaos run --duration 120 --seed 7 --faults kill,isolate,damage[/]

    [bold]minikafka chaos run --rounds 20 --workload all[/]
    """
    need_confluent_kafka()
    import random
    import tempfile

    from rich.console import Console

    from minikafka.chaos.rounds.round import Options

    console = Console(stderr=as_json, highlight=False)
    kinds = _kinds(faults)
    loads = LOADS if workload == "all" else (workload,)
    if not set(loads) <= set(LOADS):
        raise typer.BadParameter(f"{workload!r} is none of {', '.join(LOADS)}, all", param_hint="--workload")
    first = random.randrange(10_000) if seed is None else seed
    directory = out or Path(tempfile.mkdtemp(prefix="minikafka-chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for number in range(rounds):
        options = Options(first + number, duration, kinds, loads[number % len(loads)], rate)
        outcomes.append(_round(options, directory / f"{options.load}-{options.seed}", console))
        _say(outcomes[-1], console)
    if as_json:
        print_json([as_dict(outcome) for outcome in outcomes])
    failed = sum(not outcome.ok for outcome in outcomes)
    total = sum(outcome.acknowledged for outcome in outcomes)
    if rounds > 1:
        console.print(f"[bold]{rounds} rounds, {failed} failed; {total:,} records acknowledged[/]")
    print_note(f"histories are in {directory}; judge one again with: minikafka chaos check DIR/history.jsonl")
    raise typer.Exit(1 if failed else 0)


def kinds(as_json: AsJson = False) -> None:
    """Show the kinds of faults."""
    from minikafka.chaos.rounds.kinds import KINDS

    rows = [(name, (kind.__doc__ or "").strip()) for name, kind in KINDS.items()]
    if as_json:
        print_json([{"kind": name, "what": what} for name, what in rows])
    else:
        print_table(("kind", "what it does"), rows)


def as_dict(outcome: Outcome) -> dict[str, Any]:
    """The outcome as a script wants it."""
    return {
        "ok": outcome.ok,
        "seed": outcome.options.seed,
        "workload": outcome.options.load,
        "duration_s": outcome.options.duration_s,
        "acknowledged": outcome.acknowledged,
        "verdicts": [
            {"ok": each.ok, "sentence": each.sentence, "broken": dict(each.broken)} for each in outcome.verdicts
        ],
        "findings": [each._asdict() for each in outcome.findings],
        "faults": [
            {"kind": each.kind, "what": each.sentence, "began_ms": each.began_ms, "ended_ms": each.ended_ms}
            for each in outcome.faults
        ],
        "replay": command(outcome.options),
        "seconds": round(outcome.seconds, 1),
    }


def command(options: Options) -> str:
    """What plans the same round again."""
    from minikafka.chaos.rounds.kinds import KINDS

    chosen = "" if set(options.kinds) == set(KINDS) else f" --faults {','.join(options.kinds)}"
    return (
        f"minikafka chaos run --seed {options.seed} --duration {options.duration_s:g} --workload {options.load}"
        f" --rate {options.rate}{chosen}"
    )


def _kinds(faults: str | None) -> tuple[str, ...]:
    from minikafka.chaos.rounds.kinds import KINDS

    if faults is None:
        return tuple(KINDS)
    named = tuple(name.strip() for name in faults.split(",") if name.strip())
    if unknown := [name for name in named if name not in KINDS]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(KINDS)}", param_hint="--faults")
    return named


def _round(options: Options, directory: Path, console: Console) -> Outcome:
    import shutil

    from minikafka.chaos.history import History
    from minikafka.chaos.rounds.round import Round

    if directory.exists():
        raise typer.BadParameter(f"{directory} exists; choose another --out", param_hint="--out")
    directory.mkdir(parents=True)
    console.print(f"[bold]{command(options)}[/]")
    began = time.monotonic()

    def say(sentence: str) -> None:
        console.print(f"{time.monotonic() - began:6.1f} s  {sentence}", markup=False)

    outcome: Outcome | None = None
    try:
        with (
            (directory / "history.jsonl").open("w") as file,
            Round(options, directory / "cluster", History(file), say) as it,
            _display(console, it),
        ):
            outcome = it.run()
    finally:
        if outcome is not None and outcome.ok:
            shutil.rmtree(directory / "cluster")
        else:
            print_note(f"the brokers' files and logs: {directory / 'cluster'}")
    return outcome


@contextmanager
def _display(console: Console, it: Round) -> Iterator[None]:
    """On a terminal: faults in force, leaders and in-sync replicas, throughput."""
    if not console.is_terminal:
        yield
        return
    from rich.live import Live

    with Live(get_renderable=lambda: _picture(it), console=console, refresh_per_second=4, transient=True):
        yield


def _picture(it: Round) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    samples = it.observer.samples[-9:]
    in_force = [each.sentence for each in it.faults if each.ended_ms is None]
    table.add_row("faults", "; ".join(in_force) or "none")
    if samples:
        last, first = samples[-1], samples[0]
        seconds = max(1, last.time_ms - first.time_ms) / 1000
        table.add_row(
            "records",
            f"{last.acknowledged:,} acknowledged ({(last.acknowledged - first.acknowledged) / seconds:,.0f}/s), "
            f"{last.read:,} read",
        )
        table.add_row("controller", "none" if last.controller_id is None else f"node {last.controller_id}")
        for each in last.partitions:
            out = sorted({*each.replicas} - {*each.in_sync_replicas})
            leader = f"node {each.leader_id}" if each.leader_id >= 0 else "none"
            behind = f"  [red]not in sync: {out}[/]" if out else ""
            table.add_row(f"{each.topic}-{each.partition}", f"leader {leader}, epoch {each.leader_epoch}{behind}")
    return table


def _say(outcome: Outcome, console: Console) -> None:
    colour = "green" if outcome.ok else "red"
    for verdict in outcome.verdicts:
        console.print(f"[bold {'green' if verdict.ok else 'red'}]{verdict.sentence}[/]")
        for rule, examples in verdict.examples.items():
            console.print(f"  [red]{rule}[/]: {examples[0]}")
    for finding in outcome.findings:
        if not finding.ok:
            console.print(f"[bold red]not so: {finding.name}[/]: {finding.sentence}")
    what = "passed" if outcome.ok else "FAILED"
    console.print(
        f"[bold {colour}]{what}[/]: {outcome.acknowledged:,} records acknowledged, {len(outcome.faults)} faults, "
        f"{outcome.seconds:.0f} s"
    )
