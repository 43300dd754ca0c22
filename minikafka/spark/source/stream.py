"""Plans micro-batches. It lives on the driver as long as the query; tasks get a copy that only reads.

Spark's calls for every batch::

    latestOffset(start, limit) -> end    end of the batch; equal to start without data. Called up to 100 times a second
    (writes end into the checkpoint)
    partitions(start, end) -> ranges     depends on its arguments only: another process may repeat the batch
    commit(end)                          without effect: the checkpoint has the position

It asks for the ends of logs at most every ``POLL_INTERVAL_MS``, and for partitions every ``METADATA_INTERVAL_MS``: a
new partition of a running query is found within that time, and read from its start.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from minikafka.model import EARLIEST, OffsetAndEpoch, TopicPartition
from minikafka.spark.cluster import Cluster, cluster_of
from minikafka.spark.options import SourceOptions
from minikafka.spark.source.bounds import starting_offsets
from minikafka.spark.source.ends import EndsOfLogs
from minikafka.spark.source.limits import Patience, available, capped
from minikafka.spark.source.losses import report_loss
from minikafka.spark.source.offsets import UNRESOLVED, Json, Offsets, StreamOffset, begins_of
from minikafka.spark.source.ranges import ranges_between, split_ranges
from minikafka.spark.source.reading import read_range
from minikafka.spark.source.truncation import Truncations

POLL_INTERVAL_MS: Final = 50
METADATA_INTERVAL_MS: Final = 1_000


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics as long as the query runs."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._logs = EndsOfLogs(options.topics, POLL_INTERVAL_MS, METADATA_INTERVAL_MS)
        self._truncations = Truncations(fail=options.fail_on_data_loss)
        self._patience = Patience(options.min_offsets_per_trigger, options.max_trigger_delay_ms)
        self._first: Offsets | None = None  # beginning of the stream, until the first batch has it
        self._target: StreamOffset | None = None  # end of Trigger.AvailableNow

    # -- what there is to read --------------------------------------------------------------------------------------

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        """UNRESOLVED: the first batch has the beginning of a new stream."""
        return UNRESOLVED

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The limit for ``latestOffset``, unless the trigger reads all."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note the present ends; the query ends once it has read up to them."""
        self._target = self._logs.now(self._cluster, _now_ms(), is_new=True)

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802 - Spark's name
        """The end of the batch that begins at ``start``; ``start`` itself without new data."""
        now_ms = _now_ms()
        logs = self._logs_now(start, now_ms)
        fresh = self._fresh_begins(start, logs)
        begins = dict(fresh) if start == UNRESOLVED else {**StreamOffset.from_json(start).ends, **fresh}
        ends = {tp: max(end, begins[tp], key=_offset) for tp, end in logs.ends.items()}
        offsets = available(begins, ends)
        if start != UNRESOLVED and not fresh and begins.keys() == ends.keys() and not offsets:
            return start
        if not self._is_worth_it(offsets, limit, now_ms):
            return start
        offsets_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return StreamOffset(capped(begins, ends, offsets_max), fresh, logs.topic_ids).to_json()

    def reportLatestOffset(self) -> Json | None:  # noqa: N802 - Spark's name
        """The ends of the logs as they were last seen."""
        latest = self._logs.last
        return None if latest is None else latest.to_json()

    # -- what each task reads ---------------------------------------------------------------------------------------

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """The ranges of one batch."""
        offset = StreamOffset.from_json(end)
        ranges = ranges_between(begins_of(start, offset), offset.ends, offset.topic_ids)
        options = self._options
        return split_ranges(ranges, ranges_min=options.min_partitions, offsets_max=options.max_records_per_partition)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: the rows of one range."""
        return read_range(partition, self._options)

    def commit(self, end: Json) -> None:
        """No effect: Spark's checkpoint has the position."""

    def stop(self) -> None:
        """No effect: connections belong to the process, which ends or serves another query."""

    # -- inside -----------------------------------------------------------------------------------------------------

    @property
    def _cluster(self) -> Cluster:
        return cluster_of(self._options.client)

    def _logs_now(self, start: Json, now_ms: int) -> StreamOffset:
        logs = self._logs.now(self._cluster, now_ms) if self._target is None else self._target
        doubtful = {} if start == UNRESOLVED else _others(StreamOffset.from_json(start), logs)
        if self._cluster.replaced(doubtful).keys() != doubtful.keys():  # the answer of a broker that is behind
            logs = self._logs.now(self._cluster, now_ms, is_new=True)
            self._target = None if self._target is None else logs
        return logs

    def _is_worth_it(self, offsets: int, limit: ReadLimit, now_ms: int) -> bool:
        """``minOffsetsPerTrigger`` does not count when the trigger reads all."""
        is_everything = self._target is not None or isinstance(limit, ReadAllAvailable)
        return is_everything or self._patience.is_worth_it(offsets, now_ms)

    def _fresh_begins(self, start: Json, logs: StreamOffset) -> Offsets:
        """First offsets in partitions that the batch does not continue."""
        ends = logs.ends
        if start == UNRESOLVED:
            if self._first is None:
                self._first = self._starting_offsets(ends)
            appeared = self._appeared([tp for tp in ends if tp not in self._first])
            self._first = {tp: begin for tp, begin in {**self._first, **appeared}.items() if tp in ends}
            return self._first
        known = self._still_known(StreamOffset.from_json(start), logs)
        for tp in sorted(known.keys() - ends.keys()):
            what = f"{tp}, read up to offset {known[tp].offset}, was deleted, or the options leave it out now"
            report_loss(what, fail=self._fail)
        appeared = self._appeared([tp for tp in ends if tp not in known])
        kept = {tp: offset for tp, offset in known.items() if tp in ends}
        return {**appeared, **self._truncations.moved(self._cluster, kept, ends)}

    def _still_known(self, stood: StreamOffset, logs: StreamOffset) -> Offsets:
        """Positions of the stream in topics with unchanged ids."""
        others = _others(stood, logs)
        for topic in others:
            offsets = ", ".join(str(end.offset) for tp, end in sorted(stood.ends.items()) if tp.topic == topic)
            what = f"topic {topic!r}, read up to offsets {offsets}, was deleted and created again"
            report_loss(what, fail=self._fail)
        return {tp: offset for tp, offset in stood.ends.items() if tp.topic not in others}

    def _starting_offsets(self, logs: Offsets) -> Offsets:
        return starting_offsets(
            self._cluster,
            self._options.start,
            sorted(logs),
            latest_when_no_timestamp=self._options.latest_when_no_timestamp,
            fail_on_data_loss=self._fail,
        )

    def _appeared(self, partitions: list[TopicPartition]) -> dict[TopicPartition, OffsetAndEpoch]:
        begins = self._cluster.offsets(partitions, EARLIEST) if partitions else {}
        for tp, begin in sorted(begins.items()):
            if begin.offset > 0:
                what = f"{tp} appeared while the query ran, and its log begins at offset {begin.offset} already"
                report_loss(what, fail=self._fail)
        return begins

    @property
    def _fail(self) -> bool:
        return self._options.fail_on_data_loss


def _others(stood: StreamOffset, logs: StreamOffset) -> dict[str, str]:
    """Topics that were deleted and created again, with their former ids."""
    return {topic: known for topic, known in stood.topic_ids.items() if logs.topic_ids.get(topic, known) != known}


def _offset(end: OffsetAndEpoch) -> int:
    return end.offset


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
