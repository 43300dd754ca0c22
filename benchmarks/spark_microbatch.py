"""What a micro-batch costs when it has next to nothing to do: what streaming over our source adds to every trigger.

An *empty* batch is one that Spark runs although no record came; here each has a single record, for without any Spark
would run none. The same query over Spark's own ``rate-micro-batch`` source, which asks nobody anything, tells how much
of it is Spark's.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.clusters import BROKERS, create_topic, running_cluster
from benchmarks.report import Figure, Run, Target, percentile
from minikafka.client import Producer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SUMMARY = "what a micro-batch with next to nothing to do costs"
BATCHES: Final = 40
WARM_UP: Final = 15  # batches until the JVM has compiled what it runs
TIMEOUT_S: Final = 60.0


def run(run: Run) -> list[Figure]:
    """Batches of one record, to noop."""
    from minikafka.spark import start_session

    batches = run.times(BATCHES)
    spark = start_session("benchmark")
    try:
        with running_cluster() as cluster:
            create_topic(cluster, "few", partitions=3, copies=BROKERS)
            source = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "few"}
            run.say(f"{batches} batches of one record after {WARM_UP} to warm up")
            ours = asyncio.run(_one_by_one(spark, source, batches))
        run.say("the same with a source of Spark's own")
        rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").load()
        sparks = _measure_rate(rate, batches)
    finally:
        spark.stop()
    return [
        Figure("micro-batch of one record to noop, median", statistics.median(ours), "ms", Target("<", 400)),
        Figure("the same, 90th percentile", percentile(ours, 0.9), "ms"),
        Figure("the same with Spark's rate-micro-batch source, median", statistics.median(sparks), "ms"),
    ]


async def _one_by_one(spark: SparkSession, options: dict[str, str], batches: int) -> list[float]:
    """A record is written once the one before has been read."""
    df = spark.readStream.format("minikafka").options(**options).load()
    with tempfile.TemporaryDirectory() as directory:
        query = _started(df, directory)
        try:
            async with Producer(options["kafka.bootstrap.servers"]) as producer:
                _wait_for(query, 1)
                for number in range(WARM_UP + batches):
                    await (await producer.send("few", b"x"))
                    await asyncio.to_thread(_wait_for, query, number + 2)
            return _durations(query, batches)
        finally:
            query.stop()


def _measure_rate(df: DataFrame, batches: int) -> list[float]:
    with tempfile.TemporaryDirectory() as directory:
        query = _started(df, directory)
        try:
            _wait_for(query, WARM_UP + batches)
            return _durations(query, batches)
        finally:
            query.stop()


def _started(df: DataFrame, directory: str) -> StreamingQuery:
    checkpoint = str(Path(directory) / "checkpoint")
    return df.writeStream.format("noop").option("checkpointLocation", checkpoint).start()


def _wait_for(query: StreamingQuery, batches: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while (error := query.exception()) is None and len(_batch_ids(query)) < batches:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no batch within {TIMEOUT_S:g} s: {query.status}")
        time.sleep(0.005)
    if error is not None:
        raise error


def _batch_ids(query: StreamingQuery) -> set[int]:
    """Ids of the batches that did something; Spark remembers the newest hundred."""
    return {progress["batchId"] for progress in query.recentProgress if "addBatch" in progress["durationMs"]}


def _durations(query: StreamingQuery, batches: int) -> list[float]:
    """Of the newest batches, from trigger to trigger in ms."""
    all_of_them: list[Any] = [progress for progress in query.recentProgress if "addBatch" in progress["durationMs"]]
    return [float(progress["durationMs"]["triggerExecution"]) for progress in all_of_them[-batches:]]
