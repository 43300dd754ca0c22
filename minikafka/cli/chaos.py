"""``minikafka chaos``: break a running cluster in every way, and judge what clients saw."""

from __future__ import annotations

import typer

from minikafka.cli import faults

app = typer.Typer(
    no_args_is_help=True, help="Break a running local cluster: links, clocks, disks, answers; and mend it."
)
app.command("cut")(faults.cut)
app.command("slow")(faults.slow)
app.command("clock")(faults.clock)
app.command("disk")(faults.disk)
app.add_typer(faults.rule_app, name="rule")
app.command("faults")(faults.faults)
app.command("heal")(faults.heal)
