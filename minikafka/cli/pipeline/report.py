"""``minikafka pipeline report``: what is in a topic, as a table and as a page with plots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minikafka.cli.options import AsJson, Bootstrap, Directory
from minikafka.cli.output import print_json, print_line, print_note, print_table, size
from minikafka.cli.pipeline.common import MASTER, Master, SparkSettings, progress_bar, spark_session
from minikafka.cli.pipeline.surroundings import pipeline_verb, target_with

if TYPE_CHECKING:
    from minikafka.spark.pipelines.report import TopicReport
    from minikafka.spark.pipelines.report.measures import Measures

_SPARKS = " ▁▂▃▄▅▆▇█"
_BAR = 8


@pipeline_verb
def report(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to read.")],
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write an HTML page with plots, too.", dir_okay=False)
    ] = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    master: Master = MASTER,
    conf: SparkSettings = None,
    as_json: AsJson = False,
) -> None:
    """Read a topic once; report records, bytes, rate over time, keys, skew, sizes, headers.

    Distinct keys, percentiles of sizes and frequent keys are estimates (about 2%, 1% and 0.35% of the records off);
    the rest is exact. Bytes are those of keys, values and headers before compression.

    Examples:

    [bold]minikafka pipeline report events[/]

    [bold]minikafka pipeline report events --html events.html[/]

    [bold]minikafka pipeline report events --json | jq .total.keys[/]
    """
    if html is not None and not html.absolute().parent.is_dir():
        raise typer.BadParameter(f"directory {html.absolute().parent} not found", param_hint="--html")
    cluster = target_with(bootstrap, directory, [topic])
    from minikafka.spark.pipelines.report import make_report, to_html

    with spark_session("report", master, conf) as spark, progress_bar("reading") as show:
        made = make_report(spark, topic, bootstrap_servers=cluster.servers, security=cluster.security, show=show)
    if html is not None:
        html.write_text(to_html(made), encoding="utf-8")
    if as_json:
        from dataclasses import asdict

        print_json(asdict(made))
    else:
        _print(made)
    if html is not None:
        print_note(f"page with plots: {html.absolute().as_uri()}")


def _print(made: TopicReport) -> None:
    from rich.markup import escape

    from minikafka.spark.pipelines.report.page import time_range

    total = made.total
    if not total.records:
        print_line(f"{made.topic} has no records")
        return
    rows = [
        ("records", f"{total.records:,}", f"{made.records_per_second:,.1f}/s on average"),
        ("bytes", size(total.total_bytes), _parts(total)),
        ("timestamps", "", f"{time_range(total)} UTC"),
        ("keys", f"≈ {total.keys:,}", f"{total.keyless:,} records without a key"),
        ("tombstones", f"{total.tombstones:,}", "records without a value"),
        ("sizes", size(total.size_quantiles[0]), _quantiles(total)),
        ("skew", f"{made.skew:.2f}", "records in the fullest partition over the mean"),
    ]
    rows += [("headers", f"≈ {each.records:,}", escape(each.what)) for each in made.header_names]
    rows += [("frequent keys", f"≈ {each.records:,}", escape(each.what)) for each in made.hot_keys[:5]]
    before = None
    for number, (what, count, more) in enumerate(rows):
        rows[number] = ("" if what == before else what, count, more)
        before = what
    print_table([made.topic, "#", ""], rows)
    print_line(f"records over time  {spark_line([each.records for each in made.over_time])}")
    print_line("")
    fullest = max(each.measures.records for each in made.partitions)
    print_table(
        ["partition#", "records#", "", "bytes#", "median#", "99 %#", "≈ keys#", "gaps#"],
        [
            (
                str(each.partition),
                f"{each.measures.records:,}",
                "█" * round(each.measures.records / fullest * _BAR),
                size(each.measures.total_bytes),
                size(each.measures.size_quantiles[0]),
                size(each.measures.size_quantiles[-1]),
                f"{each.measures.keys:,}",
                f"{each.gaps:,}",
            )
            for each in made.partitions
        ],
    )


def spark_line(counts: list[int], width: int = 60) -> str:
    """Counts as a line of blocks, at most ``width`` of them; where nothing was, a gap."""
    each = max(1, -(-len(counts) // width))
    sums = [sum(counts[start : start + each]) for start in range(0, len(counts), each)]
    most = max(sums, default=0) or 1
    return "".join(_SPARKS[-(-count * 8 // most)] for count in sums)


def _parts(total: Measures) -> str:
    return f"keys {size(total.key_bytes)}, values {size(total.value_bytes)}, headers {size(total.header_bytes)}"


def _quantiles(total: Measures) -> str:
    _, most, nearly_all = map(size, total.size_quantiles)
    return f"is the median; 90 % up to {most}, 99 % up to {nearly_all}, the largest {size(total.size_max)}"
