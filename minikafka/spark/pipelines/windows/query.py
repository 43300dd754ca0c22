"""The streaming query of ``windows``: started, watched, resumed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from minikafka.client import Security
from minikafka.client.security import PLAIN
from minikafka.spark.brokers import Brokers
from minikafka.spark.pipelines.running import (
    POLL_S,
    PipelineError,
    Progress,
    Show,
    configured,
    explain,
    interrupted_by_sigterm,
    readable_errors,
    show_nothing,
)
from minikafka.spark.pipelines.topics import Topics, look_at
from minikafka.spark.pipelines.windows.checkpoint import Purpose, load_purpose, save_purpose
from minikafka.spark.pipelines.windows.plan import READ_METRICS, RESULT_METRICS, json_fields, windowed
from minikafka.spark.pipelines.windows.spec import Emit, Windows, parse_duration

FORMAT: Final = "minikafka"
RECORDS_PER_BATCH: Final = 500_000
EVERY: Final = "1s"
_SETTINGS: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


@dataclass(frozen=True, slots=True)
class WindowsSummary:
    """Result of one run of the query, without earlier runs of the same checkpoint."""

    read: int = 0  # records
    unfit: int = 0  # of them left out: the value did not fit json's fields
    untimed: int = 0  # of them left out: the event time was NULL
    late: int = 0  # groups of late records (same key and window, in one task) that were left out
    written: int = 0  # results
    batches: int = 0
    open_windows: int = 0  # keys and windows in the state at the end
    watermark: str | None = None
    is_resumed: bool = False
    is_stopped: bool = False


def run_windows(
    spark: SparkSession,
    topic: str,
    *,
    to: str,
    windows: Windows,
    bootstrap_servers: str,
    security: Security = PLAIN,
    checkpoint: str,
    once: bool = False,
    start: str = "earliest",
    every: str = EVERY,
    records_per_batch: int = RECORDS_PER_BATCH,
    show: Show = show_nothing,
) -> WindowsSummary:
    """Aggregate ``topic`` into ``to`` until stopped; with ``once``, only the present records.

    ``checkpoint`` is a directory in any file system of Spark; the query resumes there. ``start`` (earliest, latest)
    counts at the first start only.

    Raises PipelineError, and KafkaError for a missing cluster or topic.
    """
    checkpoint = checkpoint.rstrip("/")
    interval = f"{parse_duration(every, '--every')} milliseconds"
    if to == topic:
        raise PipelineError(
            f"--to {to} is the source topic: results would be aggregated again, without end; choose another topic"
        )
    brokers = Brokers(bootstrap_servers, security)
    found = look_at(brokers, topic)
    look_at(brokers, to)
    purpose, is_resumed = _purpose(spark, found, topic, to, windows, brokers, checkpoint)
    reading = {
        **brokers.options,
        "subscribe": topic,
        "startingOffsets": start,
        "kafka.isolation.level": "read_committed",
        "maxOffsetsPerTrigger": str(records_per_batch),
        "includeHeaders": str(windows.reads_headers).lower(),
    }
    writing = {**brokers.options, "topic": to, "deduplicationHeaders": "true"}

    def write(batch: DataFrame, batch_id: int) -> None:  # Spark's Python sinks take no updates of streams, but these
        batch.write.format(FORMAT).mode("append").options(**writing).save()

    with configured(spark, _SETTINGS), readable_errors():
        records = spark.readStream.format(FORMAT).options(**reading).load()
        results = windowed(records, windows, purpose.fields)
        if not is_resumed:
            save_purpose(spark, checkpoint, purpose)
        writer = results.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
        writer = writer.queryName(f"windows {topic} to {to}")
        writer = writer.outputMode("append" if windows.emit is Emit.FINAL else "update")
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=interval)
        query = writer.start()
    total = found.offsets if once and start == "earliest" and not is_resumed else None
    return _run(query, total, show, is_resumed)


def _purpose(
    spark: SparkSession, found: Topics, topic: str, to: str, windows: Windows, brokers: Brokers, checkpoint: str
) -> tuple[Purpose, bool]:
    """The purpose of the query, and True if its checkpoint exists."""
    stored = load_purpose(spark, checkpoint)
    purpose = Purpose(found.cluster_id, topic, to, windows)
    if stored is None:
        return replace(purpose, fields=json_fields(spark, windows, brokers, topic, found)), False
    purpose.check_same(stored, checkpoint)
    return replace(purpose, fields=stored["fields"]), True


def _run(query: StreamingQuery, total: int | None, show: Show, is_resumed: bool) -> WindowsSummary:
    """Wait until the query ends. SIGINT and SIGTERM stop it: they interrupt the running batch, which the next start
    repeats. Raises PipelineError when the query fails."""
    counts, is_stopped = _Counts(total), False
    try:
        with interrupted_by_sigterm():
            while not query.awaitTermination(POLL_S):  # type: ignore[arg-type]  # seconds; its annotation says int
                show(counts.look(query))
        counts.look(query)
    except KeyboardInterrupt:
        query.stop()
        counts.look(query)
        is_stopped = True
    except StreamingQueryException as error:
        raise PipelineError(explain(error)) from error
    finally:
        query.stop()
    return replace(counts.summary, is_resumed=is_resumed, is_stopped=is_stopped)


@dataclass(slots=True)
class _Counts:
    """Sums over Spark's reports of batches. Spark keeps the latest hundred, and looks are far more frequent."""

    rows_total: int | None
    summary: WindowsSummary = field(default_factory=WindowsSummary)
    newest: int = -1
    rows: int = 0
    rows_per_second: float = 0.0

    def look(self, query: StreamingQuery) -> Progress:
        """Add the batches that completed since the last look."""
        for batch in query.recentProgress:
            if batch["batchId"] > self.newest and "addBatch" in batch["durationMs"]:
                self.newest = batch["batchId"]
                self.rows += batch["numInputRows"]
                self.rows_per_second = batch["processedRowsPerSecond"]
                self._add(batch)
        return Progress(self.rows, self.rows_per_second, self.rows_total)

    def _add(self, batch: Any) -> None:
        observed, operators, before = batch["observedMetrics"], batch["stateOperators"], self.summary
        counted = [observed[name].asDict() for name in (READ_METRICS, RESULT_METRICS) if name in observed]
        self.summary = replace(
            before,
            **{what: getattr(before, what) + count for each in counted for what, count in each.items()},
            batches=before.batches + 1,
            late=before.late + sum(each["numRowsDroppedByWatermark"] for each in operators),
            open_windows=operators[-1]["numRowsTotal"] if operators else before.open_windows,
            watermark=(batch["eventTime"] or {}).get("watermark", before.watermark),
        )
