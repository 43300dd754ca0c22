"""The columns of a topic: those of Spark's Kafka source, in its order, all nullable as there."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

SOURCE_SCHEMA: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
SOURCE_SCHEMA_WITH_HEADERS: Final = StructType(
    [
        *SOURCE_SCHEMA.fields,
        StructField(
            "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
        ),
    ]
)

TIMESTAMP_TYPE: Final = pa.timestamp("us", "UTC")
HEADERS_TYPE: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
ARROW_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP_TYPE),
        ("timestampType", pa.int32()),
    ]
)
ARROW_SCHEMA_WITH_HEADERS: Final = ARROW_SCHEMA.append(pa.field("headers", HEADERS_TYPE))


def source_schema(*, include_headers: bool) -> StructType:
    """The columns as Spark's types."""
    return SOURCE_SCHEMA_WITH_HEADERS if include_headers else SOURCE_SCHEMA


def arrow_schema(*, include_headers: bool) -> Any:
    """The columns as Arrow's types: ``pyarrow.Schema``."""
    return ARROW_SCHEMA_WITH_HEADERS if include_headers else ARROW_SCHEMA
