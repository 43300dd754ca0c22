"""The data source ``minikafka-log``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from minikafka.errors import ErrorCode, KafkaError
from minikafka.spark.offline.options import LogOptions
from minikafka.spark.offline.scanning import Damage, Piece, scan_segment
from minikafka.spark.offline.segments import SegmentTask, plan
from minikafka.spark.offline.transactions import AbortedRecords
from minikafka.storage.disk import OsDisk

if TYPE_CHECKING:
    import pyarrow as pa

    from minikafka.spark.offline.rows import Rows

FORMAT: Final = "minikafka-log"


class LogDataSource(DataSource):
    """Topics from log directories; see the package."""

    @classmethod
    def name(cls) -> str:
        """What ``format(...)`` is given."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns to read."""
        from minikafka.spark.offline.rows import log_schema

        return log_schema(LogOptions.parse(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``."""
        if schema != self.schema():
            names = ", ".join(self.schema().fieldNames())
            raise ValueError(f"the columns of a log are fixed ({names}); remove .schema(...) and select what you want")
        return LogReader(LogOptions.parse(self.options))


class LogReader(DataSourceReader):
    """Reads the records that the directories have when the query starts."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """A task for each segment."""
        return plan(OsDisk(), self._options)

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """In a task: the rows of one segment. Without segments Spark passes None."""
        if partition is not None:
            assert isinstance(partition, SegmentTask)
            yield from read_segment(partition, self._options)


def read_segment(task: SegmentTask, options: LogOptions) -> Iterator[pa.RecordBatch]:
    """The rows of one segment. Raises KafkaError(CORRUPT_MESSAGE) for damage, unless damage becomes rows."""
    from minikafka.spark.offline.rows import Rows

    rows = Rows(task, options)
    aborted = AbortedRecords(task.aborted)
    try:
        for found in scan_segment(OsDisk(), task, check_crcs=options.verify_crc):
            if isinstance(found, Piece):
                wanted = [
                    (at, header)
                    for at, header in found.batches
                    if (options.include_control if header.is_control else not aborted.have(header))
                ]
                if wanted:
                    yield from _rows_of(rows, found._replace(batches=wanted), task, options)
            elif options.is_permissive:
                yield rows.of_damage(found)
            elif not found.is_torn_tail:
                raise _damaged(task, found)
    except FileNotFoundError:
        message = f"{task.path} was deleted after the query was planned: read a copy, or when its node does not run"
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message) from None


def _rows_of(rows: Rows, piece: Piece, task: SegmentTask, options: LogOptions) -> Iterator[pa.RecordBatch]:
    """The rows of a piece; batch by batch if a batch with a correct checksum cannot be decoded."""
    try:
        yield rows.of_piece(piece)
    except KafkaError:
        for at, header in piece.batches:
            try:
                yield rows.of_piece(piece._replace(batches=[(at, header)]))
            except KafkaError as error:
                why = f"its records cannot be read ({error.message})"
                damage = Damage(piece.position + at, header.size_in_bytes, header.base_offset, why, False)
                if not options.is_permissive:
                    raise _damaged(task, damage) from None
                yield rows.of_damage(damage)


def _damaged(task: SegmentTask, damage: Damage) -> KafkaError:
    hint = "set mode=permissive to read the rest, and what is missing as rows of their own"
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{task.path} is {damage}; {hint}")
