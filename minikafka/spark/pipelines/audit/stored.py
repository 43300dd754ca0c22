"""What is in the topics, as items: one more consumer, which is assigned every partition, reads all and in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as fn

from minikafka.spark.pipelines.audit.history import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

IDENTITY: Final = (
    "concat(coalesce(cast(key AS STRING), ''), '#', lpad(lower(hex(crc32(coalesce(value, X'')))), 8, '0'))"
)
"""The id of a stored record unless told otherwise, in SQL over the source's columns: ``KEY#CRC32``, the checksum of the
value in eight hexadecimal digits, as ``chaos.workload.record_id`` writes it into histories. So changed values show."""

READER: Final = "the topics"
"""The name of that consumer in sentences."""


def topics(
    spark: SparkSession,
    names: Sequence[str],
    bootstrap_servers: str,
    *,
    format: str = "minikafka",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The records of topics of a running cluster, to be handed to ``audit``. ``options`` are the source's own."""
    reader = spark.read.format(format).option("kafka.bootstrap.servers", bootstrap_servers)
    return reader.option("subscribe", ",".join(names)).options(**(options or {})).load()


def logs(
    spark: SparkSession, directory: str, names: Sequence[str] = (), *, options: Mapping[str, str] | None = None
) -> DataFrame:
    """The records of topics in log directories, whose broker need not run."""
    reader = spark.read.format("minikafka-log").options(**(options or {}))
    return (reader.option("subscribe", ",".join(names)) if names else reader).load(directory)


def stored_items(stored: DataFrame, identity: str) -> DataFrame:
    """Rows of the source -> items. ``identity`` is an expression over its columns that gives a record's id."""
    return stored.select(
        fn.concat_ws("-", "topic", "partition").alias("partition"),
        fn.xxhash64(fn.lit(READER)).alias("process"),
        fn.col("offset").alias("place"),
        fn.lit(int(Kind.STORED)).cast("tinyint").alias("kind"),
        fn.coalesce(fn.expr(identity).cast("string"), fn.lit("")).alias("id"),
        fn.col("offset"),
    )
