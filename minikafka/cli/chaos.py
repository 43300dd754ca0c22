"""``minikafka chaos``: break clusters in every way, and judge what clients saw."""

from __future__ import annotations

import typer

from minikafka.cli import chaos_check, chaos_lab, chaos_run, faults

app = typer.Typer(
    no_args_is_help=True,
    help="Break clusters: by a plan and with a verdict, or the running local one by hand. Judge what clients saw.",
)
app.command("run")(chaos_run.run)
app.command("kinds")(chaos_run.kinds)
app.command("lab")(chaos_lab.lab)
app.command("check")(chaos_check.check)
app.command("cut")(faults.cut)
app.command("slow")(faults.slow)
app.command("clock")(faults.clock)
app.command("disk")(faults.disk)
app.command("damage")(faults.damage)
app.add_typer(faults.rule_app, name="rule")
app.command("faults")(faults.faults)
app.command("heal")(faults.heal)
