"""Which DataFrames can be written, and what is taken from their Arrow batches."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from minikafka.errors import KafkaError
from minikafka.spark.sink.columns import check_schema, rows_of

STRING, BINARY, INT, LONG = StringType(), BinaryType(), IntegerType(), LongType()


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in columns.items()])


def headers(key: str = "key", value: str = "value", values: DataType = BINARY) -> ArrayType:
    return ArrayType(StructType([StructField(key, STRING, False), StructField(value, values)]))


@pytest.mark.parametrize(
    "columns",
    [
        {"value": STRING},
        {"value": BINARY, "key": STRING},
        {"key": BINARY, "value": STRING, "headers": headers(), "partition": INT, "topic": STRING},
        {"value": BINARY, "something": MapType(STRING, INT)},
        {"value": STRING, "headers": headers(key="KEY", value="Value")}
        | {"offset": LONG, "timestamp": TimestampType()},
    ],
)
def test_what_can_be_written(columns: dict[str, DataType]) -> None:
    check_schema(schema(**columns), "t")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"key": STRING}, "needs a column 'value'.*its columns are 'key'"),
        ({"Value": STRING}, "its columns are 'Value'"),
        ({"value": INT}, "'value' is of type int; it must be string or binary; cast it"),
        ({"value": schema(a=INT)}, "make JSON of it with to_json"),
        ({"value": STRING, "key": LONG}, "'key' is of type bigint"),
        ({"value": STRING, "partition": LONG}, "'partition' is of type bigint; it must be int"),
        ({"value": STRING, "topic": BINARY}, "'topic' is of type binary; it must be string"),
        ({"value": STRING, "headers": MapType(STRING, BINARY)}, "'headers' is of type map"),
        ({"value": STRING, "headers": headers(values=STRING)}, "'headers' is of type array"),
        ({"value": STRING, "headers": headers(key="name")}, "'headers' is of type array"),
    ],
)
def test_columns_that_cannot_be_written_are_refused_with_what_to_do(columns: dict[str, DataType], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_schema(schema(**columns), "t")


def test_somebody_must_name_the_topic() -> None:
    with pytest.raises(ValueError, match="neither the option 'topic' nor a column 'topic'"):
        check_schema(schema(value=STRING), None)
    check_schema(schema(value=STRING, topic=STRING), None)


def test_strings_become_bytes_and_other_columns_are_left() -> None:
    batch = pa.record_batch({"id": [1, 2], "value": ["ä", None], "key": [None, b"k"], "partition": [None, 3]})
    rows = rows_of(batch, "t")
    assert rows.value.to_pylist() == ["ä".encode(), None]
    assert rows.key.to_pylist() == [None, b"k"]
    assert rows.partition.to_pylist() == [None, 3]
    assert rows.headers is None
    assert rows.topic is None


def test_the_option_overrides_the_column_of_topics() -> None:
    batch = pa.record_batch({"value": ["a", "b"], "topic": ["t", None]})
    assert rows_of(batch, "other").topic is None
    with pytest.raises(KafkaError, match="a row's topic is null"):
        rows_of(batch, None)


def test_headers_may_be_named_in_another_case() -> None:
    named = pa.list_(pa.struct([pa.field("KEY", pa.string()), pa.field("Value", pa.binary())]))
    given = pa.array([[{"KEY": "a", "Value": b"1"}, {"KEY": "a", "Value": None}], None, []], named)
    rows = rows_of(pa.record_batch({"value": ["a", "b", "c"], "headers": given}), "t")
    assert rows.headers.to_pylist() == [[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None, []]
