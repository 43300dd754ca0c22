"""Batches -> Arrow: the columns of the source, with the position and the producer of each record."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BooleanType, DataType, IntegerType, LongType, StringType, StructField, StructType

from minikafka.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader
from minikafka.spark.columns.decode import decode
from minikafka.spark.columns.schema import arrow_schema, source_schema
from minikafka.spark.offline.options import LogOptions
from minikafka.spark.offline.scanning import Damage, Piece
from minikafka.spark.offline.segments import SegmentTask

# name, type for Spark, type for Arrow
_PLACE: Final[tuple[tuple[str, DataType, pa.DataType], ...]] = (
    ("replica", IntegerType(), pa.int32()),  # the node's id
    ("directory", StringType(), pa.string()),  # its log directory
    ("segment", LongType(), pa.int64()),  # the offset it is named after
    ("highWatermark", LongType(), pa.int64()),  # of the replica
)
_BATCH: Final[tuple[tuple[str, DataType, pa.DataType], ...]] = (
    ("leaderEpoch", IntegerType(), pa.int32()),
    ("batchBaseOffset", LongType(), pa.int64()),
    ("position", LongType(), pa.int64()),  # of the batch in the segment
    ("producerId", LongType(), pa.int64()),
    ("producerEpoch", IntegerType(), pa.int32()),
    ("baseSequence", IntegerType(), pa.int32()),
    ("isTransactional", BooleanType(), pa.bool_()),
    ("isControl", BooleanType(), pa.bool_()),
)
_DAMAGE: Final[tuple[tuple[str, DataType, pa.DataType], ...]] = (("damage", StringType(), pa.string()),)


def log_schema(options: LogOptions) -> StructType:
    """The columns: the source's and ours."""
    more = _PLACE + _BATCH + (_DAMAGE if options.is_permissive else ())
    fields = source_schema(include_headers=options.include_headers).fields
    return StructType(
        [StructField(field.name, field.dataType) for field in fields]
        + [StructField(name, data_type) for name, data_type, _ in more]
    )


class Rows:
    """Makes record batches for one segment, in :func:`log_schema`."""

    def __init__(self, task: SegmentTask, options: LogOptions) -> None:
        self._task = task
        self._options = options
        more = _PLACE + _BATCH + (_DAMAGE if options.is_permissive else ())
        source = arrow_schema(include_headers=options.include_headers)
        self._schema = pa.schema(
            [pa.field(field.name, field.type) for field in source] + [pa.field(name, kind) for name, _, kind in more]
        )
        self._place = (task.node_id, task.directory, task.base_offset, task.high_watermark)

    def of_piece(self, piece: Piece) -> pa.RecordBatch:
        """Its records within the task's offsets. Raises KafkaError(CORRUPT_MESSAGE) for an unreadable one."""
        task = self._task
        decoded = decode(
            piece.buffer,
            [(at, _as_data(header)) for at, header in piece.batches],
            tp=task.tp,
            start_offset=task.start_offset,
            end_offset=task.end_offset,
            include_headers=self._options.include_headers,
        )
        count = decoded.num_rows
        place = [
            pa.repeat(pa.scalar(value, kind), count) for value, (_, _, kind) in zip(self._place, _PLACE, strict=True)
        ]
        damage = [pa.nulls(count, pa.string())] if self._options.is_permissive else []
        columns = [*decoded.columns, *place, *_of_batches(piece, decoded), *damage]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def of_damage(self, damage: Damage) -> pa.RecordBatch:
        """A row with a position only."""
        task = self._task
        known = dict(zip((name for name, _, _ in _PLACE), self._place, strict=True)) | {
            "topic": task.tp.topic,
            "partition": task.tp.partition,
            "offset": damage.offset,
            "position": damage.position,
            "damage": str(damage),
        }
        columns = [pa.array([known.get(field.name)], field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _as_data(header: BatchHeader) -> BatchHeader:
    """A control batch as a batch of records, which has the same encoding; otherwise it is left out."""
    return header._replace(attributes=header.attributes & ~CONTROL_FLAG) if header.is_control else header


def _of_batches(piece: Piece, decoded: pa.RecordBatch) -> list[pa.Array]:
    """The batch of each record: the last one that begins at or before the record."""
    values = [
        (
            header.leader_epoch,
            header.base_offset,
            piece.position + at,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.attributes & TRANSACTIONAL_FLAG,
            header.attributes & CONTROL_FLAG,
        )
        for at, header in piece.batches
    ]
    table = np.array(values, dtype=np.int64).reshape(len(values), len(_BATCH))
    of_record = np.searchsorted(table[:, 1], decoded.column("offset").to_numpy(), side="right") - 1
    taken = table[of_record]
    return [
        pa.array(taken[:, index] != 0 if kind == pa.bool_() else taken[:, index]).cast(kind)
        for index, (_, _, kind) in enumerate(_BATCH)
    ]
