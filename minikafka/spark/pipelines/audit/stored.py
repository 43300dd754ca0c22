"""The stored records as items: one more consumer with every partition, which reads all in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from minikafka.model import Isolation
from minikafka.spark.brokers import Brokers
from minikafka.spark.pipelines.audit.history import Kind
from minikafka.spark.pipelines.topics import look_at

IDENTITY: Final = (
    "concat(make_valid_utf8(coalesce(cast(key AS STRING), '')), "
    "'#', lpad(lower(hex(crc32(coalesce(value, X'')))), 8, '0'))"
)
"""The id of a stored record unless told otherwise, in SQL over the source's columns: ``KEY#CRC32``, the checksum of the
value in eight hexadecimal digits, as ``chaos.workload.record_id`` writes it into histories. So changed values show."""

COMMITTED: Final = ("kafka.isolation.level", "read_committed")
"""What was aborted is not stored: a history calls it failed."""

READER: Final = "the topics"
"""The name of that consumer in sentences."""


def stored_in_topics(spark: SparkSession, topics: Sequence[str], brokers: Brokers) -> DataFrame:
    """The committed records of topics of a running cluster, up to the first open transaction."""
    reader = spark.read.format("minikafka").options(**brokers.options)
    return reader.option("subscribe", ",".join(topics)).option(*COMMITTED).load()


def open_from_in_topics(topics: Sequence[str], brokers: Brokers) -> dict[str, int]:
    """By partition with an open transaction: its first offset. What lies behind is not read."""
    stable = look_at(brokers, *topics).extent  # first: an end that moves meanwhile is no open transaction
    whole = look_at(brokers, *topics, isolation=Isolation.READ_UNCOMMITTED).extent
    return {str(tp): extent.end for tp, extent in stable.items() if extent.end < whole[tp].end}


def log_starts_in_topics(topics: Sequence[str], brokers: Brokers) -> dict[str, int]:
    """The present log starts by partition, from a running cluster.

    The caller of ``audit`` vouches for them: a lost head is excused like one that retention deleted.
    """
    found = look_at(brokers, *topics).extent
    return {str(tp): extent.start for tp, extent in found.items()}


def stored_in_logs(spark: SparkSession, directories: Sequence[str], topics: Sequence[str] = ()) -> DataFrame:
    """The committed records in log directories, whose brokers need not run.

    For each partition it reads the replica with the highest high watermark, to its end. A killed node's high watermark
    may be seconds old, and other replicas may have a tail that they truncate at their start.
    """
    reader = spark.read.format("minikafka-log").option("replicas", "one").option("upTo", "end").option(*COMMITTED)
    return (reader.option("topics", ",".join(topics)) if topics else reader).load(",".join(directories))


def stored_items(stored: DataFrame, identity: str) -> DataFrame:
    """Rows of the source -> items. ``identity``: expression over the columns for a record's id."""
    return stored.select(
        fn.concat_ws("-", "topic", "partition").alias("partition"),
        fn.lit(int(Kind.STORED)).cast("tinyint").alias("kind"),
        fn.coalesce(fn.expr(identity).cast("string"), fn.lit("")).alias("id"),
        "offset",
    )
