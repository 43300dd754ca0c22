"""The fields of ``json``: from ``--schema``, or learnt from a sample of the newest records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from minikafka.spark.pipelines.peek import TopicPeek, newest, read_few
from minikafka.spark.pipelines.running import PipelineError
from minikafka.spark.pipelines.windows.spec import Windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE_COUNT: Final = 1000
_HINT: Final = "name the fields: --schema 'user STRING, amount DOUBLE'"


def json_fields(spark: SparkSession, windows: Windows, bootstrap_servers: str, found: TopicPeek) -> str | None:
    """The DDL of ``json``, or None when no expression asks for it.

    Raises PipelineError when it has to be learnt and there is nothing to learn from.
    """
    if windows.schema is not None or not windows.reads_json:
        return windows.schema
    sample = read_few(bootstrap_servers, newest(found, SAMPLE_COUNT))
    values = [record.value.decode(errors="replace") for record in sample if record.value is not None]
    if not values:
        raise PipelineError(f"topic {found.topic!r} has no values yet to learn the fields of json from; {_HINT}")
    return learn_fields(spark, windows, values, found.topic)


def learn_fields(spark: SparkSession, windows: Windows, values: Sequence[str], topic: str) -> str:
    """The DDL of the fields that the expressions name, as Spark types them in some values.

    Fields that no expression names are left out: what they hold does not matter, then, and costs nothing.
    """
    from pyspark.sql.types import StructType

    read = spark.read.option("columnNameOfCorruptRecord", "_corrupt_record")
    learnt = read.json(spark.sparkContext.parallelize(values, 1)).schema
    wanted = [each for each in learnt if windows.reads_whole_json or _is_among(each.name, windows.json_fields)]
    wanted = [each for each in wanted if each.name != "_corrupt_record"]
    missing = sorted(name for name in windows.json_fields if not _is_among(name, learnt.names))
    if missing or not wanted:
        known = (
            ", ".join(name for name in learnt.names if name != "_corrupt_record") or "none: they are not JSON objects"
        )
        raise PipelineError(
            f"json.{missing[0] if missing else ''} is in none of the newest {len(values):,} values of {topic!r}, "
            f"whose fields are {known}; if it is to come, {_HINT}"
        )
    return StructType(wanted).toDDL()


def _is_among(name: str, names: Sequence[str] | frozenset[str]) -> bool:
    return name.lower() in {each.lower() for each in names}  # as Spark compares names
