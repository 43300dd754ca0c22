"""The work of a task: one range of offsets, as Arrow record batches.

Batches of a range are fetched while earlier ones are decoded. Small answers are combined, large ones are split, so that
Spark gets batches of ``ROWS_MIN`` rows or ``BYTES_MIN`` bytes: each batch has a fixed cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from minikafka.client import FetchedBatches, LogTruncatedError, NoOffsetError
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import EARLIEST, LATEST
from minikafka.spark.cluster import Cluster, TopicReplacedError, cluster_of
from minikafka.spark.columns.decode import decode
from minikafka.spark.options import SourceOptions
from minikafka.spark.source.losses import report_loss
from minikafka.spark.source.ranges import OffsetRange

if TYPE_CHECKING:
    from minikafka.model import TopicPartition
    from minikafka.records.batch import BatchHeader

ROWS_AT_ONCE: Final = 20_000  # that are decoded: their columns fit into a core's cache
ROWS_MIN: Final = 10_000
BYTES_MIN: Final = 2 * 1024 * 1024  # an answer of large records goes on as it is: putting them together would copy it
LOSSES_MAX: Final = 10  # of one range; a log that loses more while it is read is not worth reading


def read_range(partition: InputPartition, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The rows of one range. Raises DataLossError if some are gone and ``failOnDataLoss`` is set."""
    if not isinstance(partition, OffsetRange):  # Spark's input for a plan without ranges
        return
    cluster = cluster_of(options.client)
    read = _exactly if options.fail_on_data_loss else _what_is_left
    fetched = read(cluster, partition, options.poll_timeout_ms)
    yield from _combined(_decoded(fetched, include_headers=options.include_headers))


def _exactly(cluster: Cluster, range_: OffsetRange, timeout_ms: int) -> Iterator[FetchedBatches]:
    tp, start, end = range_.tp, range_.start, range_.end
    try:
        yield from cluster.read_batches(tp, start, end, topic_id=range_.topic_id, timeout_ms=timeout_ms)
    except (NoOffsetError, LogTruncatedError, TopicReplacedError) as error:
        report_loss(_what_is_gone(range_, range_.start.offset, error), fail=True)


def _what_is_left(cluster: Cluster, range_: OffsetRange, timeout_ms: int) -> Iterator[FetchedBatches]:
    """The range behind the lost records."""
    tp, offset, end = range_.tp, range_.start.offset, range_.end.offset
    for _ in range(LOSSES_MAX):
        try:
            for fetched in cluster.read_batches(tp, offset, end, topic_id=range_.topic_id, timeout_ms=timeout_ms):
                yield fetched
                offset = fetched.end_offset
            return
        except (NoOffsetError, LogTruncatedError, TopicReplacedError) as error:
            report_loss(_what_is_gone(range_, offset, error), fail=False)
            if isinstance(error, TopicReplacedError):
                return
        earliest, latest = _extent(cluster, tp)
        offset, end = max(offset, earliest), min(end, latest)
        if offset >= end:
            return
    report_loss(f"{tp} lost records {LOSSES_MAX} times while it was read", fail=True)


def _extent(cluster: Cluster, tp: TopicPartition) -> tuple[int, int]:
    """The first offset and the end; both 0 for a deleted partition."""
    try:
        earliest, latest = (cluster.offsets([tp], at)[tp].offset for at in (EARLIEST, LATEST))
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return 0, 0
    return earliest, latest


def _what_is_gone(range_: OffsetRange, offset: int, error: Exception) -> str:
    wanted = f"offsets {offset} to {range_.end.offset} of {range_.tp} were to be read"
    if isinstance(error, TopicReplacedError):
        return f"{wanted}, but {error.message}"
    if isinstance(error, LogTruncatedError):
        agreed = "nothing of it" if error.divergence is None else f"only what is before {error.divergence.offset}"
        return f"{wanted}, but the log was truncated and of what it was then has {agreed}"
    return f"{wanted}, and the log does not have all of them any more"


def _decoded(fetched: Iterator[FetchedBatches], *, include_headers: bool) -> Iterator[pa.RecordBatch]:
    for answer in fetched:
        for batches in _taken_apart(answer.batches):
            rows = decode(
                answer.buffer,
                batches,
                tp=answer.tp,
                start_offset=answer.start_offset,
                end_offset=answer.end_offset,
                include_headers=include_headers,
            )
            if rows.num_rows:
                yield rows


def _taken_apart(batches: tuple[tuple[int, BatchHeader], ...]) -> Iterator[tuple[tuple[int, BatchHeader], ...]]:
    """Runs of whole record batches, no longer than ``ROWS_AT_ONCE`` records take: unpacked they may be large."""
    begin = records = 0
    for number, (_, header) in enumerate(batches, 1):
        records += header.record_count
        if records >= ROWS_AT_ONCE or number == len(batches):
            yield batches[begin:number]
            begin, records = number, 0


def _combined(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in larger batches; only the last may be small."""
    waiting: list[Any] = []
    rows = size = 0
    for part in parts:
        waiting.append(part)
        rows += part.num_rows
        size += part.nbytes
        if rows >= ROWS_MIN or size >= BYTES_MIN:
            yield _one(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _one(waiting)


def _one(parts: list[Any]) -> pa.RecordBatch:
    return parts[0] if len(parts) == 1 else pa.concat_batches(parts)
