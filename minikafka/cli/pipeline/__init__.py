"""``minikafka pipeline``: Spark over topics. One module per verb.

What they share is in ``common``, and in ``surroundings`` what is around each: brokers that answer, Ctrl-C, no Spark.
"""

from __future__ import annotations

import typer

from minikafka.cli.pipeline import archive, audit, demo, prepare, replay, report, windows

app = typer.Typer(
    no_args_is_help=True,
    help="Archive, replay, aggregate, audit and report topics with Spark (`pip install 'minikafka\\[spark]'`).",
)


@app.callback()
def _group() -> None:
    pass  # with a callback, a group of one verb stays a group


app.command("archive")(archive.archive)
app.command("take-over")(archive.take_over)
app.command("replay")(replay.replay)
app.command("windows")(windows.windows)
app.command("audit")(audit.audit)
app.command("report")(report.report)
app.command("prepare")(prepare.prepare)
app.command("demo")(demo.demo)
