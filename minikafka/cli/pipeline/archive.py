"""``minikafka pipeline archive``: topics to a lake of Parquet files, each offset exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from minikafka.cli.options import AsJson, Bootstrap, Directory
from minikafka.cli.output import print_json, print_note, print_table, size
from minikafka.cli.pipeline.common import MASTER, Master, SparkSettings, progress_bar, spark_session
from minikafka.cli.pipeline.surroundings import end_if_stopped, pipeline_verb, servers_with

if TYPE_CHECKING:
    from minikafka.spark.pipelines.archive import Archived


@pipeline_verb
def archive(
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="Directory of the lake; created if missing.")],
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="Topics to archive. Default: the topics of the lake.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep archiving new records until Ctrl-C.")] = False,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", help="--follow: interval between commits.", min=0.1)
    ] = 10.0,
    add: Annotated[bool, typer.Option("--add", help="Add new topics to an existing lake.")] = False,
    skip_lost: Annotated[
        bool, typer.Option("--skip-lost", help="Skip offsets deleted before they were archived.")
    ] = False,
    drop_before: Annotated[
        str | None,
        typer.Option(
            "--drop-before",
            metavar="DATE",
            help="Remove the days before this date from the lake; forget those already deleted.",
        ),
    ] = None,
    per_commit: Annotated[
        int, typer.Option("--per-commit", metavar="OFFSETS", help="Offsets per commit, approximately.", min=1)
    ] = 1_000_000,
    compact_at: Annotated[
        int,
        typer.Option(
            "--compact-at", metavar="FILES", help="Merge the small files of a day once there are this many; 0: never."
        ),
    ] = 8,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    master: Master = MASTER,
    conf: SparkSettings = None,
    as_json: AsJson = False,
) -> None:
    """Copy topics into a lake of Parquet files: each offset exactly once, in spite of crashes.

    A restart resumes: the lake stores its progress. Any Parquet reader can read it. The file

    DIR/topic=orders/date=2026-11-21/00003-00000000000000001000-00000000000000001999.parquet

    is partition 3 from offset 1000 to 1999. Columns: key, value, partition, offset, timestamp, timestampType, headers,
    and, from the path, topic and date (the UTC day of the timestamp). Tombstones are rows whose value is null.

    Do not remove files from a lake: archive treats that as damage. Use --drop-before to remove old days; they are not
    archived again. It also forgets days whose files are already gone.

    Records of transactions come once they are committed. Records behind an open transaction wait for its end (see
    minikafka transaction find-hanging); those of aborted ones do not come.

    Files appear complete and never change. Merging replaces small files by larger ones, one day's directory at a time;
    a reader that started before may miss a file: run it again. Only one archive may write to a lake at a time. DIR must
    be on a file system mounted on all of Spark's machines.

    Examples:

    [bold]minikafka pipeline archive orders payments --to lake[/]

    [bold]minikafka pipeline archive --to lake --follow[/]

    [bold]minikafka pipeline archive --to lake --drop-before $(date -u -d '30 days ago' +%F)[/]

    [bold]duckdb -c "SELECT date, count(*) FROM 'lake/*/*/*.parquet' WHERE topic = 'orders' GROUP BY 1"[/]

    [bold]python -c "import pandas; print(pandas.read_parquet('lake/topic=orders'))"[/]

    [bold]minikafka pipeline replay lake --to orders-again[/]
    """
    servers = servers_with(bootstrap, directory, topics or ())
    with spark_session("archive", master, conf) as spark:
        from minikafka.spark.pipelines.archive import archive

        with progress_bar("archiving") as show:
            archived = archive(
                spark,
                topics=topics or (),
                to=to,
                bootstrap_servers=servers,
                follow=follow,
                interval_s=every,
                offsets_per_commit=per_commit,
                compact_at=compact_at,
                add=add,
                skip_lost=skip_lost,
                drop_before=drop_before,
                show=show,
            )
    if as_json:
        from dataclasses import asdict

        print_json(asdict(archived) | {"directory": str(archived.directory)})
    else:
        print_archived(archived)
        if archived.dropped_files:
            print_note(f"dropped {archived.dropped_files:,} files of the days before {drop_before}")
    end_if_stopped(archived.is_stopped)


def print_archived(archived: Archived) -> None:
    """What is in the lake now, and what is new, as a table."""
    print_table(
        ("topic", "partitions#", "new#", "in the lake#", "files#", "size#", "days"),
        [
            (
                topic.topic,
                str(topic.partitions),
                f"{topic.new_records:,}",
                f"{topic.records:,}",
                f"{topic.files:,}",
                size(topic.size_bytes),
                _days(topic.first_date, topic.last_date),
            )
            for topic in archived.topics
        ],
    )


def _days(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"
