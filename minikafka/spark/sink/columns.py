"""The columns of a DataFrame for a topic: checked when the query starts, and taken from its Arrow batches.

The columns are those of Spark's Kafka sink, found by name. Other columns are ignored:

===============  ==========================================  ========================================================
``value``        string or binary, required                  null is a tombstone
``key``          string or binary                            null: no key
``headers``      array<struct<key: string, value: binary>>   null: none
``partition``    int                                         null: by the key
``topic``        string                                      required without the option ``topic``
===============  ==========================================  ========================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType

from minikafka.errors import ErrorCode, KafkaError
from minikafka.spark.columns.schema import HEADERS_TYPE


class RowsOfTopics(NamedTuple):
    """The columns of one Arrow batch in the sink's types. ``topic`` is None if all rows go to one topic."""

    value: Any
    key: Any | None = None
    headers: Any | None = None
    partition: Any | None = None
    topic: Any | None = None
    timestamp: Any | None = None  # only where it is wanted: None is now


def check_schema(schema: StructType, topic: str | None) -> None:
    """Raise ValueError, naming the column, if the DataFrame cannot be written. ``topic`` is the option."""
    columns = {field.name: field.dataType for field in schema.fields}
    if "value" not in columns:
        raise ValueError(
            f"a DataFrame needs a column 'value' to be written to a topic; its columns are {_list(schema)}"
        )
    if topic is None and "topic" not in columns:
        raise ValueError("neither the option 'topic' nor a column 'topic' says where to write; set one of them")
    for name, (wanted, is_fine) in _TYPES.items():
        if name in columns and not is_fine(columns[name]):
            found = columns[name].simpleString()
            raise ValueError(f"the column '{name}' is of type {found}; it must be {wanted}{_hint(name)}")


def rows_of(batch: pa.RecordBatch, topic: str | None, *, keeps_timestamps: bool = False) -> RowsOfTopics:
    """The columns of a batch with a checked schema. ``topic`` is the option.

    Raises KafkaError for a null topic.
    """

    def column(name: str, type_: pa.DataType) -> Any | None:
        index = batch.schema.get_field_index(name)
        return None if index < 0 else batch.column(index).cast(type_)

    topics = column("topic", pa.string()) if topic is None else None
    if topics is not None and topics.null_count:
        message = "a row's topic is null; fill the column 'topic', or name one topic for all rows by the option 'topic'"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
    value = column("value", pa.binary())
    assert value is not None, "checked when the query started"
    index = batch.schema.get_field_index("headers")
    headers = None if index < 0 else _as_headers(batch.column(index))
    timestamp = column("timestamp", pa.timestamp("us", "UTC")) if keeps_timestamps else None
    return RowsOfTopics(value, column("key", pa.binary()), headers, column("partition", pa.int32()), topics, timestamp)


def _as_headers(array: Any) -> Any:
    """Field names in any case: Arrow fills fields of other names with nulls."""
    if [field.name for field in array.type.value_type] == [field.name for field in HEADERS_TYPE.value_type]:
        return array.cast(HEADERS_TYPE)
    rows = array.to_pylist()
    return pa.array([row and [each and tuple(each.values()) for each in row] for row in rows], HEADERS_TYPE)


def _is_text_or_bytes(type_: DataType) -> bool:
    return isinstance(type_, StringType | BinaryType)


def _is_headers(type_: DataType) -> bool:
    if not isinstance(type_, ArrayType) or not isinstance(type_.elementType, StructType):
        return False
    fields = type_.elementType.fields
    return (
        [field.name.lower() for field in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, StringType)
        and isinstance(fields[1].dataType, BinaryType)
    )


_TYPES: Final[dict[str, tuple[str, Callable[[DataType], bool]]]] = {
    "value": ("string or binary", _is_text_or_bytes),
    "key": ("string or binary", _is_text_or_bytes),
    "headers": ("array<struct<key:string,value:binary>>", _is_headers),
    "partition": ("int", lambda type_: isinstance(type_, IntegerType)),
    "topic": ("string", lambda type_: isinstance(type_, StringType)),
}


def _hint(name: str) -> str:
    return "; cast it, or make JSON of it with to_json(struct(...))" if name in ("key", "value") else ""


def _list(schema: StructType) -> str:
    return ", ".join(repr(field.name) for field in schema.fields) or "none"
