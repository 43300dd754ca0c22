"""What the benchmarks of Spark's source and sink share: a session with the connector to compare with, and rows."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.report import Run
from minikafka.chaos.local_cluster import LocalCluster
from tests.spark.kafka_connector import find_connector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS: Final = 2  # as many as Spark has cores here
BATCH_BYTES: Final = 256 * 1024
SIZES: Final[dict[int, int]] = {1024: 300_000, 100: 2_000_000}  # bytes of a value: rows

_ROWS_AT_ONCE: Final = 100_000


@contextmanager
def session_with_connector(run: Run) -> Iterator[tuple[SparkSession, bool]]:
    """A session, and whether ``format("kafka")`` works in it: it does where the connector could be fetched."""
    from minikafka.spark import start_session

    with tempfile.TemporaryDirectory(prefix="minikafka-bench-") as directory:
        connector = find_connector(Path(directory) / "connector")
        found = f"compared with Spark's own connector {connector.version}"
        run.say(found if connector.jars else f"without Spark's own connector: {connector.missing}")
        jars = {"spark.jars": ",".join(map(str, connector.jars))} if connector.jars else {}
        settings = jars | {"spark.sql.warehouse.dir": str(Path(directory) / "warehouse")}
        spark = start_session("benchmark", settings=settings)
        try:
            yield spark, bool(connector.jars)
        finally:
            spark.stop()


def fill(cluster: LocalCluster, topic: str, size: int, rows: int) -> None:
    """Write rows without keys whose values are ``size`` random bytes, so that no format finds them easy."""
    import numpy as np
    import pyarrow as pa

    from minikafka.model import Compression
    from minikafka.spark.cluster import ClientSettings, cluster_of
    from minikafka.spark.columns.encode import encode

    rng = np.random.default_rng(size)
    with cluster_of(ClientSettings(cluster.bootstrap_servers)).writer() as writer:
        for begin in range(0, rows, _ROWS_AT_ONCE):
            count = min(_ROWS_AT_ONCE, rows - begin)
            places = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * size)
            values = pa.Array.from_buffers(pa.binary(), count, [None, places, pa.py_buffer(rng.bytes(count * size))])
            now_ms = int(time.time() * 1000)
            batches = encode(None, values, None, now_ms, max_batch_bytes=BATCH_BYTES, compression=Compression.NONE)
            for number, batch in enumerate(batches):
                writer.send(topic, number % PARTITIONS, batch)


def read(spark: SparkSession, cluster: LocalCluster, source: str, topic: str) -> DataFrame:
    """All of a topic, by our source or Spark's."""
    reader = spark.read.format(source).option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    return reader.option("subscribe", topic).load()


def seconds_to_noop(df: DataFrame) -> float:
    """How long it takes Spark to have all rows and columns, and do nothing with them."""
    began = time.monotonic()
    df.write.format("noop").mode("overwrite").save()
    return time.monotonic() - began


def in_turns(run: Run, rounds: int, jobs: Mapping[str, Any]) -> dict[str, float]:
    """The shortest time of each job, which are repeated one after the other, so that all meet the same conditions."""
    shortest = dict.fromkeys(jobs, float("inf"))
    for number in range(rounds):
        taken = {name: job() for name, job in jobs.items()}
        run.say(f"round {number + 1}: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in taken.items()))
        shortest = {name: min(shortest[name], seconds) for name, seconds in taken.items()}
    return shortest
