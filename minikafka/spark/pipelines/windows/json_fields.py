"""The fields of ``json``: from ``--schema``, or learnt from a sample of the newest records."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from minikafka.spark.pipelines.running import PipelineError
from minikafka.spark.pipelines.topics import Topics, newest, read_few
from minikafka.spark.pipelines.windows.spec import Windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE_COUNT: Final = 1000
_HINT: Final = "name the fields: --schema 'user STRING, amount DOUBLE'"


def json_fields(spark: SparkSession, windows: Windows, bootstrap_servers: str, topic: str, found: Topics) -> str | None:
    """The DDL of ``json``, or None if no expression uses it.

    Raises PipelineError if it must be learnt and there are no records.
    """
    if windows.schema is not None or not windows.reads_json:
        return windows.schema
    sample = read_few(bootstrap_servers, newest(found, SAMPLE_COUNT))
    found_values = (value for batch in sample for value in batch["value"].to_pylist() if value is not None)
    values = [value.decode(errors="replace") for value in found_values]
    if not values:
        raise PipelineError(f"topic {topic!r} has no values yet to learn the fields of json from; {_HINT}")
    return learn_fields(spark, windows, values, topic)


def learn_fields(spark: SparkSession, windows: Windows, values: Sequence[str], topic: str) -> str:
    """The DDL of the expressions' fields, with Spark's types for the usual values.

    Other fields are left out: their content does not matter, and they have no cost.
    """
    from pyspark.sql.types import StructType

    usual = usual_values(values, None if windows.reads_whole_json else windows.json_fields)
    learnt = spark.read.json(spark.sparkContext.parallelize(usual, 1)).schema
    wanted = [each for each in learnt if windows.reads_whole_json or _is_among(each.name, windows.json_fields)]
    missing = sorted(name for name in windows.json_fields if not _is_among(name, learnt.names))
    if missing or not wanted:
        known = ", ".join(learnt.names) or "none: they are not JSON objects"
        raise PipelineError(
            f"{'.'.join(['json', *missing[:1]])} is in none of the newest {len(values):,} values of {topic!r}, "
            f"whose fields are {known}; if it is to come, {_HINT}"
        )
    return StructType(wanted).toDDL()


def usual_values(values: Sequence[str], fields: frozenset[str] | None) -> list[str]:
    """The JSON objects in which each of the fields (None: all) has its most frequent kind.

    For a single text among many numbers Spark would make the field a text.
    """
    objects = [(value, parsed) for value in values if isinstance(parsed := _parse(value), dict)]
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for _, parsed in objects:
        for name, field in parsed.items():
            if field is not None and (fields is None or _is_among(name, fields)):
                kinds[name][_kind(field)] += 1
    usual = {name: counted.most_common(1)[0][0] for name, counted in kinds.items()}
    return [
        value
        for value, parsed in objects
        if all(parsed.get(name) is None or _kind(parsed[name]) == kind for name, kind in usual.items())
    ]


def _parse(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return None


def _kind(field: Any) -> str:
    return "float" if isinstance(field, int) and not isinstance(field, bool) else type(field).__name__


def _is_among(name: str, names: Sequence[str] | frozenset[str]) -> bool:
    return name.lower() in {each.lower() for each in names}  # as Spark compares names
