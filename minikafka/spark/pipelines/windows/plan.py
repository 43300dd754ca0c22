"""From records to results: the plan of a query, for a stream as well as for a batch.

Expressions see a record as ``key``, ``value`` (both text), ``json`` (the value parsed, if anything asks for it),
``topic``, ``partition``, ``offset``, ``timestamp`` and ``headers``. Three kinds of records are left out and counted:

- *unfit*: ``json`` is used, and the value is no JSON object, or a field has another type than in the schema;
- *untimed*: the event time is NULL;
- *late*: the watermark had passed the end of the window before the record (counted by Spark).

A result is a record whose key is a JSON object of the keys and the window, and whose value is the same object with the
aggregates added. NULL fields are written as ``null``, so a value is never a tombstone. All results of a window have the
same key: the newest counts. A compacted topic keeps that one, and repeated results after a crash change nothing.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import DateType, StringType, StructType, TimestampNTZType, TimestampType

from minikafka.spark.brokers import Brokers
from minikafka.spark.pipelines.running import PipelineError, explain
from minikafka.spark.pipelines.topics import Topics, newest, read_few
from minikafka.spark.pipelines.windows.spec import WINDOW_END, WINDOW_START, Windows

SAMPLE_COUNT: Final = 1000
_HINT: Final = "name the fields: --schema 'user STRING, amount DOUBLE'"
UNFIT: Final = "_unfit"
EVENT_TIME: Final = "_event_time"
READ_METRICS: Final = "minikafka_windows_read"
RESULT_METRICS: Final = "minikafka_windows_results"
_TIME_FORMAT: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"


def windowed(records: DataFrame, windows: Windows, fields: str | None = None) -> DataFrame:
    """Results, with the columns ``key`` and ``value``, of records in the columns of ``format("minikafka")``.

    ``fields`` is the DDL of ``json``, if the expressions use it. Raises PipelineError, naming the option, for an
    expression that Spark does not understand.
    """
    readable = with_event_time(parsed(records, fields), windows)
    _check_expressions(readable, windows)
    counted = readable.observe(
        READ_METRICS,
        fn.count("*").alias("read"),
        fn.count_if(UNFIT).alias("unfit"),
        fn.count_if(fn.col(EVENT_TIME).isNull() & ~fn.col(UNFIT)).alias("untimed"),
    )
    usable = counted.where(~fn.col(UNFIT) & fn.col(EVENT_TIME).isNotNull())
    if windows.where is not None:
        usable = usable.where(windows.where)
    window = fn.window(EVENT_TIME, f"{windows.window_ms} milliseconds", f"{windows.slide_ms} milliseconds")
    aggregated = (
        usable.withWatermark(EVENT_TIME, f"{windows.watermark_ms} milliseconds")
        .groupBy(window.alias("window"), *(fn.expr(key.expression).alias(key.name) for key in windows.keys))
        .agg(*(fn.expr(aggregate.expression).alias(aggregate.name) for aggregate in windows.aggregates))
    )
    return _results(aggregated, windows).observe(RESULT_METRICS, fn.count("*").alias("written"))


def parsed(records: DataFrame, fields: str | None) -> DataFrame:
    """Records in the columns for expressions, and whether they are unfit. Raises PipelineError for a wrong schema."""
    texts = records.withColumns({"key": fn.col("key").cast("string"), "value": fn.col("value").cast("string")})
    if fields is None:
        return texts.withColumn(UNFIT, fn.lit(False))
    corrupt = "_unparsed"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": corrupt}
    try:
        with_json = texts.withColumn("json", fn.from_json("value", f"{fields}, {corrupt} STRING", options))
    except PySparkException as error:
        raise PipelineError(f"--schema {fields!r}: {explain(error)}") from error
    is_unfit = fn.col("json").isNull() | fn.col(f"json.{corrupt}").isNotNull()
    return with_json.withColumn(UNFIT, is_unfit).withColumn("json", fn.col("json").dropFields(corrupt))


def with_event_time(records: DataFrame, windows: Windows) -> DataFrame:
    """Records with their event time. Texts are parsed as ISO 8601."""
    found = _understood(records, windows.time, "--time").schema[0].dataType
    time = fn.expr(windows.time)
    if isinstance(found, StringType):
        time = fn.try_to_timestamp(time)
    elif isinstance(found, DateType | TimestampNTZType):
        time = time.cast("timestamp")
    elif not isinstance(found, TimestampType):
        raise PipelineError(
            f"--time {windows.time!r} is a {found.simpleString()}, not a time: say timestamp_millis({windows.time}), "
            f"timestamp_seconds({windows.time}) or to_timestamp({windows.time}, 'FORMAT')"
        )
    return records.withColumn(EVENT_TIME, fn.when(~fn.col(UNFIT), time))


def _check_expressions(records: DataFrame, windows: Windows) -> None:
    """Let Spark analyse each expression on its own, so that an error names its option."""
    for key in windows.keys:
        _understood(records, key.expression, "--key", lambda column: records.groupBy(column).count())
    for aggregate in windows.aggregates:
        _understood(records, aggregate.expression, "--agg", records.agg)
    if windows.where is not None:
        found = _understood(records, windows.where, "--where").schema[0].dataType.simpleString()
        if found != "boolean":
            raise PipelineError(f"--where {windows.where!r} is a {found}, not true or false")


def _understood(
    records: DataFrame, expression: str, option: str, use: Callable[[Column], DataFrame] | None = None
) -> DataFrame:
    """The DataFrame of the expression, by default a selection. Nothing is computed."""
    try:
        seen = (use or records.select)(fn.expr(expression))
        _ = seen.schema
    except PySparkException as error:
        raise PipelineError(f"{option} {expression!r}: {_in_words(error)}") from error
    return seen


def _in_words(error: BaseException) -> str:
    if "GROUP_BY_AGGREGATE" in str(error):
        return "it is an aggregate; use --agg"
    if "MISSING_AGGREGATION" in str(error) or "MISSING_GROUP_BY" in str(error):
        return (
            "it is not an aggregate; use count(*), sum(...), avg(...), min(...), max(...), approx_count_distinct(...)"
        )
    return explain(error)


def _results(aggregated: DataFrame, windows: Windows) -> DataFrame:
    def time(edge: str) -> Column:
        return fn.date_format(f"window.{edge}", _TIME_FORMAT)

    identity = [fn.col(f"`{key.name}`") for key in windows.keys]
    identity += [time("start").alias(WINDOW_START), time("end").alias(WINDOW_END)]
    aggregates = [fn.col(f"`{aggregate.name}`") for aggregate in windows.aggregates]
    options = {"ignoreNullFields": "false"}
    key = fn.to_json(fn.struct(*identity), options)
    value = fn.to_json(fn.struct(*identity, *aggregates), options)
    return aggregated.select(key.cast("binary").alias("key"), value.cast("binary").alias("value"))


def json_fields(spark: SparkSession, windows: Windows, brokers: Brokers, topic: str, found: Topics) -> str | None:
    """The DDL of ``json``, or None if no expression uses it. Raises PipelineError if it must be learnt, and cannot."""
    if windows.schema is not None or not windows.reads_json:
        return windows.schema
    sample = read_few(brokers, newest(found, SAMPLE_COUNT))
    found_values = (value for batch in sample for value in batch["value"].to_pylist() if value is not None)
    values = [value.decode(errors="replace") for value in found_values]
    if not values:
        raise PipelineError(f"topic {topic!r} has no values yet to learn the fields of json from; {_HINT}")
    wanted = None if windows.reads_whole_json else windows.json_fields
    # Other fields are left out: their content does not matter, and they have no cost.
    learnt = spark.read.json(spark.sparkContext.parallelize(usual_values(values, wanted), 1)).schema
    fields = [each for each in learnt if wanted is None or _is_among(each.name, wanted)]
    missing = sorted(name for name in windows.json_fields if not _is_among(name, learnt.names))
    if missing or not fields:
        known = ", ".join(learnt.names) or "none: they are not JSON objects"
        raise PipelineError(
            f"{'.'.join(['json', *missing[:1]])} is in none of the newest {len(values):,} values of {topic!r}, "
            f"whose fields are {known}; if it is to come, {_HINT}"
        )
    return StructType(fields).toDDL()


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
