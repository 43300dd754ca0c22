"""``minikafka pipeline audit``: was anything lost, doubled or reordered?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minikafka.cli.judgements import print_examples
from minikafka.cli.options import AsJson, Bootstrap, Directory
from minikafka.cli.output import print_json, print_line, print_table
from minikafka.cli.pipeline.common import MASTER, Master, SparkSettings, progress_bar, spark_session
from minikafka.cli.pipeline.surroundings import pipeline_verb, target_with

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from minikafka.spark.pipelines.audit import AuditVerdict, PartitionVerdict


@pipeline_verb
def audit(
    history: Annotated[
        Path,
        typer.Option("--history", metavar="PATH", help="History of the clients: a file, or a directory of files."),
    ],
    topics: Annotated[
        str | None, typer.Option("--topics", metavar="TOPIC[,TOPIC...]", help="Topics to judge; read from the cluster.")
    ] = None,
    logs: Annotated[
        list[str] | None,
        typer.Option("--logs", metavar="DIR", help="Read this log directory instead of the cluster; may be repeated."),
    ] = None,
    lake: Annotated[
        str | None,
        typer.Option("--lake", metavar="DIR", help="Read this lake of `pipeline archive` instead of the cluster."),
    ] = None,
    polls: Annotated[
        bool,
        typer.Option(
            "--polls", help="Judge by what the consumers recorded; read no topic. The default without --topics."
        ),
    ] = False,
    from_log_start: Annotated[
        bool,
        typer.Option("--from-log-start", help="Treat records below the log start offset as deleted on purpose."),
    ] = False,
    identity: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="SQL",
            help="SQL expression for a record's id in the history, from key, value, ...",
            show_default="KEY#CRC32",
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    master: Master = MASTER,
    conf: SparkSettings = None,
    as_json: AsJson = False,
) -> None:
    """Compare what the cluster acknowledged with what it stores. Exit code 0 only if it kept every promise.

    A partition that no consumer read to the end is "not judged"; the exit code then is not 0. Read it with --topics, or
    let a consumer in the history read it to the end.

    A history is a file of JSON lines that a test's clients write: what they sent, what was acknowledged at which
    offset, what they read. `minikafka produce --history FILE` and `minikafka demo --history FILE` write one; so does
    minikafka.chaos.history.History in a test of your own (minikafka/ledger/events.py says what is in it). It may be
    larger than memory; of a directory, all files that end in .jsonl are taken, say one of each process.

    A record's id in the history must follow from the stored record. It is the key, "#" and the CRC-32 of the value in
    eight hexadecimal digits, unless --id says otherwise in Spark's SQL over the columns key and value.

    Committed records count: those of aborted transactions are not there, and the history should call them failed. What
    lies behind the beginning of an open transaction is not judged, and the verdict says where: end it, and judge again.

    Records that were deleted or compacted away on purpose count as lost. The history may say what was deleted
    (event log_start); or --from-log-start trusts the topics' log start offsets, and excuses a head that was lost, too.

    Examples:

    [bold]seq 100000 | minikafka produce numbers --history numbers.jsonl[/]

    [bold]minikafka pipeline audit --history numbers.jsonl --topics numbers[/]

    [bold]minikafka pipeline audit --history histories/ --topics orders --logs data/broker-1 --logs data/broker-2[/]

    [bold]minikafka pipeline audit --history test.jsonl --topics t --id "CAST(value AS STRING)"[/]
    """
    names = [name for name in (topics or "").split(",") if name]
    if (logs or lake) and not names:
        raise typer.BadParameter("name the topics to judge", param_hint="--topics")
    from minikafka.spark.pipelines.audit.history import history_files

    history_files(history)
    if lake:
        from minikafka.spark.pipelines.archive import Lake

        Lake.open(lake).chosen(names)
    is_read = bool(names) and not (logs or lake or polls)
    if from_log_start and not is_read:
        raise typer.BadParameter("only topics of a cluster have log start offsets", param_hint="--from-log-start")
    cluster = target_with(bootstrap, directory, names) if is_read else None
    with spark_session("audit", master, conf) as spark:
        from minikafka.client.security import PLAIN
        from minikafka.spark.brokers import Brokers
        from minikafka.spark.pipelines.audit import IDENTITY, audit, log_starts_in_topics

        log_starts: Mapping[str, int] = {}
        if from_log_start and cluster is not None:
            log_starts = log_starts_in_topics(names, Brokers(cluster.servers, cluster.security))
        with progress_bar("auditing") as show:
            verdict = audit(
                spark,
                history,
                names,
                bootstrap_servers=cluster.servers if cluster else None,
                security=cluster.security if cluster else PLAIN,
                stored=None if polls else _stored(spark, logs, lake, names),
                identity=identity or IDENTITY,
                log_starts=log_starts,
                show=show,
            )
    if as_json:
        print_json(verdict.as_dict())
    else:
        print_verdict(verdict)
    raise typer.Exit(0 if verdict.ok else 1)


def _stored(spark: SparkSession, logs: list[str] | None, lake: str | None, topics: list[str]) -> DataFrame | None:
    if logs:
        from minikafka.spark.pipelines.audit import stored_in_logs

        return stored_in_logs(spark, logs, topics)
    if lake:
        from minikafka.spark.pipelines.archive import read_lake

        return read_lake(spark, lake, topics)
    return None


def print_verdict(verdict: AuditVerdict) -> None:
    """The figures of each partition, examples of what is wrong, and the verdict in a line."""
    rows = [_row(each.partition, each) for each in verdict.partitions]
    if len(rows) > 1:
        rows.append([f"[bold]{cell}[/]" for cell in _row("all", verdict)])
    print_table(("partition", "sent#", "acknowledged#", "read#", "unknown#", "broken"), rows)
    print_examples(verdict.violations, verdict.examples)
    for partition, offset in verdict.open_from.items():
        print_line(f"{partition}: a transaction is open from offset {offset:,} on; end it to have the rest judged")
    for sentence in verdict.not_judged:
        print_line(f"not judged: {sentence}")
    print_line(verdict.sentence)


def _row(name: str, judged: PartitionVerdict | AuditVerdict) -> list[str]:
    figures = judged.figures
    shown = (f"{figures[figure]:,}" for figure in ("sent", "acknowledged", "read", "unknown"))
    broken = ", ".join(f"{rule} {count:,}" for rule, count in judged.broken.items())
    if broken:
        found = f"[red]{broken}[/]"
    elif figures["unjudged"]:
        found = "[yellow]not judged[/]"
    else:
        found = "[green]nothing[/]"
    return [name, *shown, found]
