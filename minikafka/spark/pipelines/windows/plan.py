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

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from minikafka.spark.pipelines.running import PipelineError, explain
from minikafka.spark.pipelines.windows.spec import WINDOW_END, WINDOW_START, Windows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
    from pyspark.sql import functions as fn

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
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as fn

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
    from pyspark.sql import functions as fn
    from pyspark.sql.types import DateType, StringType, TimestampNTZType, TimestampType

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
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as fn

    try:
        seen = (use or records.select)(fn.expr(expression))
        _ = seen.schema
    except PySparkException as error:
        raise PipelineError(f"{option} {expression!r}: {_in_words(error)}") from error
    return seen


def _in_words(error: BaseException) -> str:
    line = explain(error)
    if "GROUP_BY_AGGREGATE" in str(error):
        return "it is an aggregate; use --agg"
    if "MISSING_AGGREGATION" in str(error) or "MISSING_GROUP_BY" in str(error):
        return (
            "it is not an aggregate; use count(*), sum(...), avg(...), min(...), max(...), approx_count_distinct(...)"
        )
    return line


def _results(aggregated: DataFrame, windows: Windows) -> DataFrame:
    from pyspark.sql import functions as fn

    def time(edge: str) -> Column:
        return fn.date_format(f"window.{edge}", _TIME_FORMAT)

    identity = [fn.col(f"`{key.name}`") for key in windows.keys]
    identity += [time("start").alias(WINDOW_START), time("end").alias(WINDOW_END)]
    aggregates = [fn.col(f"`{aggregate.name}`") for aggregate in windows.aggregates]
    options = {"ignoreNullFields": "false"}
    key = fn.to_json(fn.struct(*identity), options)
    value = fn.to_json(fn.struct(*identity, *aggregates), options)
    return aggregated.select(key.cast("binary").alias("key"), value.cast("binary").alias("value"))
