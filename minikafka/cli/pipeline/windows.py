"""``minikafka pipeline windows``: aggregates by key and event-time window, from a topic into another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minikafka.cli.options import AsJson, Bootstrap, Directory
from minikafka.cli.output import print_json, print_table
from minikafka.cli.pipeline.common import MASTER, Master, SparkSettings, progress_bar, spark_session
from minikafka.cli.pipeline.surroundings import end_if_stopped, pipeline_verb, target_with

if TYPE_CHECKING:
    from minikafka.spark.pipelines.windows import WindowsSummary


@pipeline_verb
def windows(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to aggregate.")],
    to: Annotated[str, typer.Option("--to", metavar="TOPIC", help="Topic for the results; it must exist.")],
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", "-k", metavar="EXPR", help="Expression to group by; may be repeated. Default: one group."
        ),
    ] = None,
    window: Annotated[
        str, typer.Option("--window", "-w", metavar="DURATION", help="Length of a window: 500ms, 10s, 5m, 1h, 1d.")
    ] = "1m",
    agg: Annotated[
        list[str] | None,
        typer.Option("--agg", "-a", metavar="EXPR", help="Aggregate to compute; may be repeated. Default: count(*)."),
    ] = None,
    slide: Annotated[
        str | None,
        typer.Option(
            "--slide",
            metavar="DURATION",
            help="Interval between window starts. Default: the length of a window, without overlap.",
        ),
    ] = None,
    watermark: Annotated[
        str,
        typer.Option(
            "--watermark",
            metavar="DURATION",
            help="Allowed lateness of a record, relative to the newest one seen; then its window closes.",
        ),
    ] = "10s",
    time: Annotated[
        str, typer.Option("--time", metavar="EXPR", help="Time of an event.", show_default="the record's time")
    ] = "timestamp",
    where: Annotated[
        str | None, typer.Option("--where", metavar="EXPR", help="Condition on the records to aggregate.")
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar="FIELDS",
            help="Fields of json: 'user STRING, amount DOUBLE'. Default: inferred from the newest 1,000 records.",
        ),
    ] = None,
    emit: Annotated[
        str,
        typer.Option(
            "--emit",
            metavar="update|final",
            help="update: write a window at each change. final: write it once, when the watermark closes it.",
        ),
    ] = "update",
    once: Annotated[bool, typer.Option("--once", help="Stop at the current end of the topic.")] = False,
    start: Annotated[
        str, typer.Option("--from", metavar="earliest|latest", help="Start position without a checkpoint.")
    ] = "earliest",
    every: Annotated[
        str, typer.Option("--every", metavar="DURATION", help="Interval between writes of results.")
    ] = "1s",
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            help="Directory of the checkpoint, to resume from; on any of Spark's file systems.",
            show_default="~/.minikafka/pipelines/windows/TOPIC-to-TOPIC",
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    master: Master = MASTER,
    conf: SparkSettings = None,
    as_json: AsJson = False,
) -> None:
    """Aggregate records by key and event-time window, until Ctrl-C. A restart resumes.

    EXPR is Spark SQL over [bold]key[/] and [bold]value[/] (both text), [bold]json[/] (the value parsed: json.user,
    json.address.city), topic, partition, offset, timestamp and headers. It may end with AS NAME.

    A result is a JSON object with the keys, window_start, window_end and the aggregates; its record's key is that
    object without the aggregates. With --emit update a window is written again whenever it changed, under the same
    key: the newest counts, and a compacted topic keeps it. Left out, and counted in the summary: values that do not
    fit json's fields, events without a time, and late records of closed windows.

    Examples:

    [bold]minikafka topic create totals --partitions 3 --config cleanup.policy=compact[/]

    [bold]minikafka pipeline windows orders --to totals --window 10s --key json.user --agg 'sum(json.amount)'[/]

    [bold]minikafka pipeline windows clicks --to rates --window 1m --slide 10s --where "json.page LIKE '/shop/%'"[/]

    [bold]minikafka pipeline windows orders --to daily --window 1d --time 'timestamp_millis(json.at)' --emit final[/]
    """
    from minikafka.spark.pipelines.windows import Windows, run_windows

    parsed = Windows.parse(
        key=key or (),
        window=window,
        agg=agg or (),
        slide=slide,
        watermark=watermark,
        time=time,
        where=where,
        schema=schema,
        emit=emit,
    )
    if start not in ("earliest", "latest"):
        raise typer.BadParameter(f"{start!r} is not valid; choose earliest or latest", param_hint="--from")
    cluster = target_with(bootstrap, directory, [topic, to])
    chosen = checkpoint or str(Path.home() / ".minikafka" / "pipelines" / "windows" / f"{topic}-to-{to}")
    with spark_session("windows", master, conf) as spark, progress_bar("aggregating") as show:
        summary = run_windows(
            spark,
            topic,
            to=to,
            windows=parsed,
            bootstrap_servers=cluster.servers,
            security=cluster.security,
            checkpoint=chosen,
            once=once,
            start=start,
            every=every,
            show=show,
        )
    _print(summary, chosen, as_json=as_json)
    end_if_stopped(summary.is_stopped, chosen)


def _print(summary: WindowsSummary, checkpoint: str, *, as_json: bool) -> None:
    from dataclasses import asdict

    if as_json:
        print_json(asdict(summary) | {"checkpoint": checkpoint})
        return
    rows = [
        ("records read", f"{summary.read:,}", "resumed from the checkpoint" if summary.is_resumed else ""),
        ("results written", f"{summary.written:,}", f"in {summary.batches:,} batches"),
        (
            "open windows",
            f"{summary.open_windows:,}",
            f"the watermark is {summary.watermark}" if summary.watermark else "",
        ),
    ]
    for what, count, why in (
        ("left out: unfit", summary.unfit, "values that are not JSON objects, or do not match --schema"),
        ("left out: untimed", summary.untimed, "events whose --time is NULL"),
        ("left out: late", summary.late, "groups of records that came after the watermark had closed their window"),
    ):
        if count:
            rows.append((what, f"{count:,}", why))
    print_table(["", "count#", ""], rows)
