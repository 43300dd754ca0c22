"""``minikafka demo``: kill brokers under real clients and count what was lost; ``minikafka demo transactions``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from minikafka.cli.demo_transactions import step_printer, transactions
from minikafka.cli.extras import need
from minikafka.cli.options import AsJson
from minikafka.cli.output import escaped, print_json, print_note, print_table, teller

if TYPE_CHECKING:
    from rich.console import Console

    from minikafka.chaos.demo import Demo, Outcome


app = typer.Typer(invoke_without_command=True)
app.command("transactions")(transactions)


@app.callback()
def demo(
    context: typer.Context,
    rate: Annotated[int, typer.Option(help="Lines per second.", min=100)] = 10_000,
    history: Annotated[
        Path | None,
        typer.Option(help="Record what the clients sent and read in this file, as JSON lines.", dir_okay=False),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the brokers' files afterwards.")] = False,
    as_json: AsJson = False,
) -> None:
    """Start three brokers, stream real files through them, kill the leader and the controller, and count what was lost.

    Exits with 0 only if nothing was lost, duplicated or reordered. [bold]minikafka demo transactions[/] shows a bank.
    """
    if context.invoked_subcommand is not None:
        return
    need("confluent-kafka", of="the demo", extra="demo")
    from contextlib import ExitStack

    from minikafka.chaos.demo import Demo

    console = teller(on_stderr=as_json)
    with ExitStack() as stack:
        file = stack.enter_context(history.open("w")) if history else None
        outcome: Outcome | None = None
        run = Demo(step_printer(console), rate, file)
        stack.callback(lambda: _keep_or_remove(run, keep=keep or outcome is None or not outcome.verdict.ok))
        stack.enter_context(run)  # and left first: its nodes end before their files go
        with _progress(console, run):
            outcome = run.run()
        if file is not None:
            file.flush()  # so that somebody may judge it while the report is made
        if as_json:
            print_json(as_dict(outcome))
        else:
            _print_outcome(console, outcome)
            _report(run)
    raise typer.Exit(0 if outcome.verdict.ok else 1)


def _keep_or_remove(run: Demo, *, keep: bool) -> None:
    if keep:
        print_note(f"the brokers' logs and data are in {run.directory}")
    else:
        run.remove_files()


def as_dict(outcome: Outcome) -> dict[str, Any]:
    """The outcome as a script wants it."""
    verdict = outcome.verdict
    return {
        "ok": verdict.ok,
        "sent": verdict.sent,
        "acknowledged": verdict.acknowledged,
        "read": verdict.read,
        "lost": outcome.lost,
        "duplicated": outcome.duplicated,
        "out_of_order": outcome.out_of_order,
        "outcome": verdict.outcome,
        "not_judged": verdict.not_judged,
        "violations": verdict.violations,
        "faults": [
            {
                "killed": fault.name,
                "node": fault.node_id,
                "seconds_without_write": outcome.seconds_without_write(fault),
                "seconds_to_full_isr": round(fault.seconds_to_full_isr, 3),
            }
            for fault in outcome.faults
        ],
        "seconds": round(outcome.seconds, 1),
    }


def _report(run: Demo) -> None:
    """What is in the topic, by Spark, if it is installed."""
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        print_note("for a report on the topic: pip install 'minikafka[spark]'")
        return
    from minikafka.chaos.demo import TOPIC
    from minikafka.cli.pipeline.report import report

    print_note(f"minikafka pipeline report {TOPIC}")
    report(TOPIC, bootstrap=run.cluster.bootstrap_servers)


def _progress(console: Console, run: Demo) -> Any:
    """A line that shows how far the load is, on a terminal only."""
    from rich.live import Live
    from rich.spinner import Spinner

    spinner = Spinner("dots")

    def line() -> Spinner:
        producer = run.producer
        text = f"sent {producer.sent:,}, acknowledged {producer.acknowledged:,}" if producer else "starting"
        spinner.update(text=text)
        return spinner

    if not console.is_terminal:
        from contextlib import nullcontext

        return nullcontext()
    return Live(get_renderable=line, console=console, refresh_per_second=8, transient=True)


def _print_outcome(console: Console, outcome: Outcome) -> None:
    verdict = outcome.verdict
    sound = (("sent", verdict.sent), ("acknowledged", verdict.acknowledged), ("read", verdict.read))
    wrong = (("lost", outcome.lost), ("duplicated", outcome.duplicated), ("out of order", outcome.out_of_order))
    rows = [(name, f"{count:,}") for name, count in sound]
    rows += [(name, f"[bold {'red' if count else 'green'}]{count:,}[/]") for name, count in wrong]
    print_table(("", "records#"), rows)
    without = (f"{outcome.seconds_without_write(fault):.2f} s" for fault in outcome.faults)
    until = (f"{fault.seconds_to_full_isr:.2f} s" for fault in outcome.faults)
    rows_by_fault = (("longest time without a successful write", *without), ("restart to full ISR", *until))
    print_table(("", *(f"{fault.name} killed#" for fault in outcome.faults)), rows_by_fault)
    for rule, examples in verdict.examples.items():
        console.print(f"[red]{rule}[/]: {verdict.violations[rule]}, for example {escaped(examples[0])}")
    console.print(f"[bold]{verdict.sentence}[/] ({outcome.seconds:.0f} s in all)")
