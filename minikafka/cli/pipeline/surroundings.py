"""What surrounds every pipeline: brokers that answer before Spark is started, Ctrl-C at any moment, Spark at all."""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import Popen
from traceback import walk_tb
from typing import Final, ParamSpec, TypeVar

import typer

from minikafka.cli.options import Target, target
from minikafka.cli.output import fail, print_note
from minikafka.cli.run import INTERRUPTED

P = ParamSpec("P")
T = TypeVar("T")

EXTRAS: Final = {"deltalake": "lake"} | dict.fromkeys(("pyspark", "py4j", "pyarrow", "numpy", "pygal"), "spark")
"""Modules that pipelines import, and the extra that has each."""


def pipeline_verb(function: Callable[P, T]) -> Callable[P, T]:
    """The verb, which SIGINT and SIGTERM end in a line whatever it is doing; without Spark it says what to install."""

    @functools.wraps(function)
    def surrounded(*args: P.args, **kwargs: P.kwargs) -> T:
        from minikafka.spark.pipelines.running import interrupted_by_sigterm, is_interruption

        try:
            with interrupted_by_sigterm():
                return function(*args, **kwargs)
        except ModuleNotFoundError as error:
            extra = EXTRAS.get((error.name or "").partition(".")[0])
            if extra is None:
                raise
            fail(f"pipelines need Spark, and {error.name} is not installed: pip install 'minikafka[{extra}]'")
        except typer.Exit:
            raise
        except BaseException as error:
            if not is_interruption(error):
                raise
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends now; whoever is impatient shall see no traceback
            _end_java_that_starts(error)
            print_note("interrupted")
            raise typer.Exit(INTERRUPTED) from None

    return surrounded


def _end_java_that_starts(error: BaseException) -> None:
    """It would complain of a directory that PySpark takes away. Nobody but the interrupted function knows of it yet."""
    for frame, _ in walk_tb(error.__traceback__):
        for value in frame.f_locals.values():
            if isinstance(value, Popen) and value.poll() is None:
                value.kill()


def end_if_stopped(is_stopped: bool, where: str = "here") -> None:
    """A pipeline that was stopped before its end says so to scripts, too."""
    if is_stopped:
        print_note(f"stopped; the same command resumes from {where}")
        raise typer.Exit(INTERRUPTED)


def target_with(bootstrap: str | None, directory: Path | None, topics: Sequence[str] = ()) -> Target:
    """The brokers, of which one answered, that have these topics: Spark takes its time to start, and to give up.

    Raises KafkaError when no broker answers or a topic is not there.
    """
    import asyncio

    from minikafka.cli.partitions import absent
    from minikafka.client import Admin

    cluster = target(bootstrap, directory)

    async def look() -> None:
        async with Admin(cluster.servers, security=cluster.security) as admin:
            for view in await admin.describe_topics(topics) if topics else await admin.list_topics():
                if topics and view.error:
                    raise await absent(admin, view, f"create it with: {cluster.command(f'topic create {view.name}')}")

    asyncio.run(look())
    return cluster
