"""The interface to Spark: the writers of a batch job and of a streaming query.

Spark makes them on the driver, where impossible queries are refused, and sends them pickled to the tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from minikafka.spark.sink.columns import check_schema
from minikafka.spark.sink.origin import Origin
from minikafka.spark.sink.writing import Written, write_rows

if TYPE_CHECKING:
    from minikafka.spark.options import SinkOptions

BATCH_ID: Final = "streaming.sql.batchId"
QUERY_ID: Final = "sql.streaming.queryId"

_log = logging.getLogger(__name__)


class TopicWriter(DataSourceArrowWriter):
    """Appends the rows of a DataFrame to topics, at least once: a repeated task writes its rows again."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        """Raises ValueError for a DataFrame or a mode that cannot be written."""
        if overwrite:
            raise ValueError("a topic can only be appended to, not overwritten; use .mode('append')")
        check_schema(schema, options.topic)
        self._options = options
        self._job_id = str(uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of one task."""
        return write_rows(iterator, self._options, self._origin() if self._options.deduplication_headers else None)

    def _origin(self) -> Origin:
        """The origin; in ``foreachBatch`` that of the micro-batch, which is the same after a repetition."""
        return _stream_origin() if _context().getLocalProperty(BATCH_ID) else Origin(self._job_id, 0, _task())

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Every task has written its rows."""
        _log.info("wrote %s", _described(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """A task failed. Records that are written stay."""
        _log.info("gave up; %s stay in their topics, and what failed tasks wrote", _described(messages))


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """Appends the rows of every micro-batch to topics, at least once: a repeated batch is written again.

    It appends every row, also in the output mode *complete*. Spark refuses *update* for sinks in Python.
    """

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        """Raises ValueError for a DataFrame that cannot be written."""
        check_schema(schema, options.topic)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of one task of a micro-batch."""
        return write_rows(iterator, self._options, _stream_origin() if self._options.deduplication_headers else None)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Every task of the micro-batch has written its rows."""
        _log.info("batch %d: wrote %s", batchId, _described(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """A task failed. The repetition of the batch writes its rows a second time."""
        _log.info("batch %d: gave up; %s stay, and what failed tasks wrote", batchId, _described(messages))


def _stream_origin() -> Origin:
    context = _context()
    query_id, batch_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    assert query_id is not None, f"Spark did not say which query this is: {QUERY_ID}"
    assert batch_id is not None, f"Spark did not say which batch this is: {BATCH_ID}"
    return Origin(query_id, int(batch_id), context.partitionId())


def _task() -> int:
    return _context().partitionId()


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "this is called by Spark's tasks"
    return context


def _described(messages: Sequence[WriterCommitMessage | None]) -> str:
    written = [message for message in messages if isinstance(message, Written)]
    rows, size = sum(message.rows for message in written), sum(message.bytes for message in written)
    return f"{rows} rows ({size} bytes) in {len(written)} of {len(messages)} tasks"
