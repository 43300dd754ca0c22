"""Plans a batch: its first and end offset in each partition, and the range of each task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from minikafka.spark.cluster import cluster_of
from minikafka.spark.options import Edge, OptionError, SourceOptions
from minikafka.spark.source.bounds import chosen_partitions, ending_offsets, ids_of, starting_offsets
from minikafka.spark.source.filters import filtered
from minikafka.spark.source.offsets import Offsets
from minikafka.spark.source.ranges import ranges_between, split_ranges
from minikafka.spark.source.reading import read_range


class TopicReader(DataSourceReader):
    """Reads the records that topics have when the query starts."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._filters: Sequence[Filter] = ()

    def partitions(self) -> Sequence[InputPartition]:
        """The range of each task."""
        options = self._options
        cluster = cluster_of(options.client)
        partitions = chosen_partitions(cluster, options.topics)
        topic_ids = ids_of(cluster, partitions)
        fail = options.fail_on_data_loss
        begins = starting_offsets(
            cluster,
            options.start,
            partitions,
            latest_when_no_timestamp=options.latest_when_no_timestamp,
            fail_on_data_loss=fail,
        )
        ends = ending_offsets(cluster, options.end, partitions, fail_on_data_loss=fail)
        if (
            options.end is not Edge.LATEST
        ):  # that is before a beginning behind an open transaction: there is nothing yet
            _check_order(begins, ends)
        ranges = filtered(ranges_between(begins, ends, topic_ids), self._filters, cluster)
        return split_ranges(ranges, ranges_min=options.min_partitions, offsets_max=options.max_records_per_partition)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: the rows of one range."""
        return read_range(partition, self._options)


class FilteredTopicReader(TopicReader):
    """Takes filters, too. Spark refuses such a reader where ``spark.sql.python.filterPushdown.enabled`` is false."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Note them. Spark applies all of them to the rows, too."""
        self._filters = filters
        return filters


def _check_order(begins: Offsets, ends: Offsets) -> None:
    for tp, end in sorted(ends.items()):
        if begins[tp].offset > end.offset:
            raise OptionError(
                f"the options begin {tp} at offset {begins[tp].offset} and end it at {end.offset}, before that; "
                "let 'startingOffsets' or 'startingTimestamp' be less than 'endingOffsets' or 'endingTimestamp'"
            )
