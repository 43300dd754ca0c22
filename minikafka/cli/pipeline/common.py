"""What the pipelines' verbs share: the options of Spark, the session, the bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from minikafka.cli.options import parse_assignments
from minikafka.cli.output import fail
from minikafka.cli.progress import bar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from minikafka.spark.pipelines.running import Progress

Master = Annotated[str, typer.Option("--master", help="Spark master: local[N], spark://HOST:PORT, yarn, k8s://...")]
SparkSettings = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="Spark setting; may be repeated."),
]
MASTER: Final = "local[2]"


@contextmanager
def spark_session(name: str, master: str, settings: list[str] | None) -> Iterator[SparkSession]:
    """A session that ends with the block. Without Java the program ends, and says what to install; PipelineError when
    Spark does not start with this master and these settings."""
    from minikafka.spark import NoJavaError, start_session
    from minikafka.spark.pipelines.running import readable_errors

    chosen = parse_assignments(settings, "--conf")
    try:
        with status("starting Spark"), readable_errors(f"Spark does not start with --master {master}: "):
            spark = start_session(f"minikafka {name}", master=master, settings=chosen)
    except NoJavaError as error:
        fail(str(error))
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[Progress], None]]:
    """``with progress_bar("archiving") as show:``. Where stderr is no terminal nothing is drawn."""
    with bar(what) as update:

        def show(progress: Progress) -> None:
            share = progress.share
            update(total=None if share is None else 1.0, completed=share or 0.0, told=told(progress))

        yield show


def told(progress: Progress) -> str:
    """``1,200,000 of 3,000,000 records, 250,000/s`` or ``12 of 48 tasks``."""
    if progress.tasks_total:
        return f"{progress.tasks:,} of {progress.tasks_total:,} tasks"
    of = "" if progress.rows_total is None else f" of {progress.rows_total:,}"
    return f"{progress.rows:,}{of} records, {progress.rows_per_second:,.0f}/s"


@contextmanager
def status(what: str) -> Iterator[None]:
    """Something that moves while the block runs. Where stderr is no terminal nothing is drawn."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield
