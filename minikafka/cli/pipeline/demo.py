"""``minikafka pipeline demo``: archive, windows and audit on real input, while brokers are killed."""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from minikafka.cli.output import fail, print_note, print_table
from minikafka.cli.pipeline import archive as archive_verb
from minikafka.cli.pipeline import audit as audit_verb
from minikafka.cli.pipeline.common import MASTER, Master, SparkSettings, progress_bar, spark_session
from minikafka.cli.pipeline.surroundings import pipeline_verb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from minikafka.chaos.demo import Demo

RESULTS: Final = "lines-by-package"
_SHOWN: Final = 8


@pipeline_verb
def demo(
    rate: Annotated[int, typer.Option(help="Lines per second.", min=100)] = 5_000,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the lake, the history and the brokers' files.")] = False,
    master: Master = MASTER,
    conf: SparkSettings = None,
) -> None:
    """Stream real files into a topic, kill its leader and the controller, and let Spark work on it all the while.

    Archives the topic into a lake, counts lines per package in windows of ten seconds, and audits in
    the end what was acknowledged against what is in the topic and in the lake. Exits with 0 only if nothing was lost,
    duplicated or reordered.
    """
    import deltalake  # noqa: F401  # where they are missing, that is said before brokers are started
    import pyspark  # noqa: F401

    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        fail("the demo needs confluent-kafka, which is not installed: pip install 'minikafka[demo,lake]'")
    from minikafka.chaos.demo import Demo

    work = Path(tempfile.mkdtemp(prefix="minikafka-pipelines-"))
    with ExitStack() as stack:
        history = stack.enter_context((work / "history.jsonl").open("w"))
        run = Demo(_say_at(time.monotonic()), rate, history)
        is_fine = False
        stack.callback(lambda: _keep_or_remove(run, work, keep=keep or not is_fine))
        stack.enter_context(run)
        run.start()
        _create_results(run.cluster.bootstrap_servers)
        with run.streaming():
            spark = stack.enter_context(spark_session("demo", master, conf))
            _archive_under(run, work)
            _aggregate_under(spark, run, work)
        history.flush()
        is_fine = _judge(spark, run, work)
    raise typer.Exit(0 if is_fine else 1)


def _archive_under(run: Demo, work: Path) -> None:
    with ThreadPoolExecutor(1) as faults:
        fault = faults.submit(run.kill_leader)
        _archive(run, work)
        fault.result()


def _archive(run: Demo, work: Path) -> None:
    from minikafka.chaos.demo import TOPIC
    from minikafka.spark.pipelines.archive import archive

    run.say(f"archiving {TOPIC} into {work / 'lake'}")
    with progress_bar("archiving") as show:
        archived = archive(topics=[TOPIC], to=work / "lake", bootstrap_servers=run.cluster.bootstrap_servers, show=show)
    _end_if_stopped(archived.is_stopped)
    archive_verb.print_archived(archived)


def _aggregate_under(spark: SparkSession, run: Demo, work: Path) -> None:
    from minikafka.chaos.demo import TOPIC
    from minikafka.spark.pipelines.windows import Windows, run_windows

    windows = Windows.parse(
        key=["regexp_extract(key, '^(?:[0-9]+/)?([^/.]+)', 1) AS package"],  # when all were read once: 2/asyncio/...
        window="10s",
        agg=["count(*) AS lines", "sum(length(value)) AS characters"],
    )
    run.say(f"counting lines per package and ten seconds into the topic {RESULTS}")
    with ThreadPoolExecutor(1) as faults, progress_bar("aggregating") as show:
        fault = faults.submit(run.kill_controller)
        summary = run_windows(
            spark,
            TOPIC,
            to=RESULTS,
            windows=windows,
            bootstrap_servers=run.cluster.bootstrap_servers,
            checkpoint=str(work / "checkpoint"),
            once=True,
            show=show,
        )
        fault.result()
    _end_if_stopped(summary.is_stopped)
    print_table(["window", "package", "lines#", "characters#"], _largest(spark, run.cluster.bootstrap_servers))


def _largest(spark: SparkSession, servers: str) -> list[list[str]]:
    """The windows with the most lines; of a window that was written several times the newest record counts."""
    results = spark.read.format("minikafka").option("kafka.bootstrap.servers", servers).option("subscribe", RESULTS)
    rows = (
        results.load()
        .selectExpr("CAST(key AS STRING) AS id", "CAST(value AS STRING) AS result", "offset")
        .groupBy("id")
        .agg(_max_by("result", "offset"))
        .selectExpr("from_json(result, 'package STRING, window_start STRING, lines BIGINT, characters BIGINT') AS r")
        .orderBy("r.lines", ascending=False)
        .limit(_SHOWN)
        .collect()
    )
    return [[str(row.r.window_start), str(row.r.package), f"{row.r.lines:,}", f"{row.r.characters:,}"] for row in rows]


def _max_by(column: str, by: str) -> Any:
    from pyspark.sql.functions import max_by

    return max_by(column, by).alias(column)


def _judge(spark: SparkSession, run: Demo, work: Path) -> bool:
    """Bring the lake up to date; audit the topic and the lake."""
    from minikafka.chaos.demo import TOPIC
    from minikafka.spark.pipelines.archive import read_lake
    from minikafka.spark.pipelines.audit import audit

    _archive(run, work)
    is_fine = True
    for what, source in (
        ("topic", {"bootstrap_servers": run.cluster.bootstrap_servers}),
        ("lake", {"stored": read_lake(spark, work / "lake", [TOPIC])}),
    ):
        run.say(f"auditing what was acknowledged against the {what}")
        with progress_bar("auditing") as show:
            verdict = audit(spark, work / "history.jsonl", [TOPIC], show=show, **source)
        audit_verb.print_verdict(verdict)
        is_fine = is_fine and verdict.ok
    return is_fine


def _create_results(servers: str) -> None:
    from minikafka.chaos.demo import create_topic

    create_topic(servers, RESULTS, 3)


def _end_if_stopped(is_stopped: bool) -> None:
    """What stops a pipeline of the demonstration is meant for the whole."""
    if is_stopped:
        raise KeyboardInterrupt


def _say_at(began: float) -> Any:
    return lambda text: print_note(f"{time.monotonic() - began:5.1f} s  {text}")


def _keep_or_remove(run: Demo, work: Path, *, keep: bool) -> None:
    import shutil

    if keep:
        print_note(f"the lake and the history are in {work}, the brokers' logs and data in {run.directory}")
        return
    run.remove_files()
    shutil.rmtree(work, ignore_errors=True)
