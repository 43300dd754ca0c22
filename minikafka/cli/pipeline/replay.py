"""``minikafka pipeline replay``: a lake, CSV or JSON lines back to a topic, in order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minikafka.cli.options import AsJson, Bootstrap, Directory
from minikafka.cli.output import print_json, print_table
from minikafka.cli.pipeline.common import MASTER, Master, SparkSettings, progress_bar, spark_session
from minikafka.cli.pipeline.surroundings import end_if_stopped, pipeline_verb, target_with

if TYPE_CHECKING:
    from minikafka.spark.pipelines.replay import Replayed


@pipeline_verb
def replay(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A lake, a file, or a directory of files.")],
    to: Annotated[str, typer.Option("--to", metavar="TOPIC", help="Topic to write to; it must exist.")],
    kind: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="lake|csv|json|records",
            help="Format of SOURCE; records: the output of `minikafka consume --json`.",
            show_default="by file name",
        ),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="Topic of the lake to replay; may be repeated. Default: all."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="COLUMN", help="Column or field for the key. Default: no key.")
    ] = None,
    value: Annotated[
        str | None,
        typer.Option(
            "--value", metavar="COLUMN", help="Column or field for the value. Default: the whole row, as JSON."
        ),
    ] = None,
    by_key: Annotated[
        bool, typer.Option("--by-key", help="Choose partitions by key; do not keep the original ones.")
    ] = False,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Replay once more, under this name, what was replayed before."),
    ] = None,
    compression: Annotated[
        str, typer.Option("--compression", metavar="CODEC", help="none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    master: Master = MASTER,
    conf: SparkSettings = None,
    as_json: AsJson = False,
) -> None:
    """Write a lake, CSV files or JSON lines to a topic, in order. A restart resumes.

    Records of a lake keep key, value, headers and timestamp. They keep their partition if TOPIC has as many partitions;
    otherwise the key decides. So do lines of `minikafka consume --json` (--as records), but they need --by-key if the
    numbers of partitions differ. CSV needs a header line. Files that end in .gz are decompressed.

    Every record gets a header minikafka.replay with its place in SOURCE. The topic thus stores the progress: after a
    kill -9 the same command writes the rest; after more was archived, the new records.

    Examples:

    [bold]minikafka pipeline replay lake --to orders-again --topic orders[/]

    [bold]minikafka pipeline replay users.csv --to users --key id[/]

    [bold]minikafka pipeline replay clicks/ --to clicks --key user --value page[/]

    [bold]minikafka consume events --from-beginning --timeout 2 --json > all.jsonl[/]

    [bold]minikafka pipeline replay all.jsonl --to copy --as records[/]
    """
    if "://" not in source and not Path(source).expanduser().exists():
        raise typer.BadParameter(f"{source} not found", param_hint="SOURCE")
    cluster = target_with(bootstrap, directory, [to])
    with spark_session("replay", master, conf) as spark:
        from minikafka.spark.pipelines.replay import replay

        with progress_bar("replaying") as show:
            replayed = replay(
                spark,
                source,
                to=to,
                bootstrap_servers=cluster.servers,
                security=cluster.security,
                kind=kind,
                topics=topics or (),
                key=key,
                value=value,
                by_key=by_key,
                name=name,
                compression=compression,
                show=show,
            )
    if as_json:
        print_json({name: getattr(replayed, name) for name in replayed.__dataclass_fields__})
    else:
        _print(replayed)
    end_if_stopped(replayed.is_stopped)


def _print(replayed: Replayed) -> None:
    places = "their partition" if replayed.keeps_partitions else "the partition of their key"
    print_table(
        ("topic", "from", "sources#", "new#", "in the topic#", "go to", "seconds#"),
        [
            (
                replayed.topic,
                replayed.kind,
                f"{replayed.sources:,}",
                f"{replayed.new_records:,}",
                f"{replayed.records:,}",
                places,
                f"{replayed.seconds:.1f}",
            )
        ],
    )
