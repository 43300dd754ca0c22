"""``minikafka pipeline archive``: topics to a lake, each offset exactly once; and lakes of earlier versions."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from minikafka.cli.options import DAY_S, AsJson, Bootstrap, Directory, target
from minikafka.cli.output import print_json, print_note, print_table, size
from minikafka.cli.pipeline.common import MASTER, SparkSettings, progress_bar, spark_session
from minikafka.cli.pipeline.surroundings import end_if_stopped, pipeline_verb

if TYPE_CHECKING:
    from minikafka.spark.pipelines.archive import Archived


@pipeline_verb
def archive(
    to: Annotated[
        str,
        typer.Option("--to", metavar="LAKE", help="Directory, or URL such as s3://bucket/lake; created if missing."),
    ],
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="Topics to archive. Default: the topics of the lake.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep archiving new records until Ctrl-C.")] = False,
    every: Annotated[
        float,
        typer.Option("--every", metavar="SECONDS", help="--follow: interval between commits.", min=0.1, max=DAY_S),
    ] = 10.0,
    add: Annotated[bool, typer.Option("--add", help="Add new topics to an existing lake.")] = False,
    skip_lost: Annotated[
        bool, typer.Option("--skip-lost", help="Skip offsets deleted before they were archived.")
    ] = False,
    on_divergence: Annotated[
        str,
        typer.Option(
            "--on-divergence",
            metavar="error|mark",
            help="When an unclean election lost archived records: end, or mark them and archive what is there instead.",
        ),
    ] = "error",
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
    processes: Annotated[
        int, typer.Option("--processes", help="Processes that read and write, without --master.", min=1)
    ] = 2,
    master: Annotated[
        str | None,
        typer.Option("--master", help=f"Run the tasks in Spark: {MASTER}, spark://HOST:PORT, ... Default: no Spark."),
    ] = None,
    conf: SparkSettings = None,
    as_json: AsJson = False,
) -> None:
    """Copy topics into a lake, a Delta table: each offset exactly once, in spite of crashes.

    A restart resumes: the table stores its progress. All that reads Delta tables can read it. Columns: key, value,
    partition, offset, timestamp, timestampType, headers, topic and date (the UTC day of the timestamp). Tombstones are
    rows whose value is null.

    Do not remove files from a lake: archive treats that as damage. Use --drop-before to remove old days; they are not
    archived again. It also forgets days whose files are already gone.

    Object stores take their credentials from the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, ...).

    Records of transactions come once they are committed. Records behind an open transaction wait for its end (see
    minikafka transaction find-hanging); those of aborted ones do not come.

    Small files are merged. The files that they replace, and those of dropped days, stay for a day, for readers that
    have begun. If two archives write the same topics, the table refuses the commit of the second one, which ends. With
    --master, a directory must be mounted on all of Spark's machines.

    Examples:

    [bold]minikafka pipeline archive orders payments --to lake[/]

    [bold]minikafka pipeline archive --to lake --follow[/]

    [bold]minikafka pipeline archive --to lake --drop-before $(date -u -d '30 days ago' +%F)[/]

    [bold]python -c "import deltalake; print(deltalake.DeltaTable('lake').to_pandas())"[/]

    [bold]minikafka pipeline replay lake --to orders-again[/]
    """
    if conf and not master:
        raise typer.BadParameter("settings of Spark need --master", param_hint="--conf")
    from minikafka.spark.pipelines.archive import archive

    cluster = target(bootstrap, directory)
    with ExitStack() as stack:
        start = lambda: stack.enter_context(spark_session("archive", master or "", conf))  # noqa: E731
        with progress_bar("archiving") as show:
            archived = archive(
                start if master else None,
                topics=topics or (),
                to=to,
                bootstrap_servers=cluster.servers,
                security=cluster.security,
                follow=follow,
                interval_s=every,
                offsets_per_commit=per_commit,
                compact_at=compact_at,
                add=add,
                skip_lost=skip_lost,
                on_divergence=on_divergence,
                drop_before=drop_before,
                processes=processes,
                show=show,
            )
    if as_json:
        marked = {str(tp): offset for tp, offset in archived.diverged.items()}
        print_json(
            {name: getattr(archived, name) for name in archived.__dataclass_fields__}
            | {"diverged": marked}
            | {"topics": [asdict(topic) for topic in archived.topics]}
        )
    else:
        print_archived(archived)
        if archived.dropped_files:
            print_note(f"dropped {archived.dropped_files:,} files of the days before {drop_before}")
        for tp, offset in archived.diverged.items():
            print_note(
                f"{tp}: an unclean election lost records; the archived ones from offset {offset:,} on are marked"
            )
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
                f"{topic.content.records:,}",
                f"{topic.content.files:,}",
                size(topic.content.size_bytes),
                _days(topic.content.first_date, topic.content.last_date),
            )
            for topic in archived.topics
        ],
    )


def _days(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


@pipeline_verb
def take_over(
    lake: Annotated[str, typer.Argument(metavar="DIR", help="Lake of an earlier minikafka.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check it, and show what it holds.")] = False,
) -> None:
    """Make a lake of an earlier version a Delta table, in place: no file is copied.

    An earlier version no longer writes to it. Its own files stay, as DIR/_minikafka.before; remove them when you like.
    """
    from minikafka.spark.pipelines.archive.taking_over import take_over

    taken = take_over(lake, dry_run=dry_run)
    print_note(
        f"{lake} {'can become' if dry_run else 'is now'} a Delta table: {taken.records:,} records of "
        f"{', '.join(taken.topics)}, {taken.partitions} partitions, {taken.files:,} files"
    )
