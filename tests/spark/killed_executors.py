"""A job of its own on a cluster of processes, whose executors and Python workers are killed while it reads.

``python killed_executors.py BOOTSTRAP_SERVERS TOPIC DIRECTORY`` writes what it reads to Parquet files, in a batch to
``batch`` and in a stream to ``stream``, and prints as JSON who was killed meanwhile.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from minikafka.spark import start_session
from minikafka.spark.java import spark_java_home
from minikafka.spark.shared_classes import sharing_options

TASKS = 9
HOME = spark_java_home(os.environ)
FAST = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
SETTINGS = {
    "spark.driver.extraJavaOptions": " ".join(FAST),
    "spark.executor.extraJavaOptions": " ".join((*FAST, *(sharing_options(HOME) if HOME else ()))),
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


def main(bootstrap_servers: str, topic: str, directory: Path) -> None:
    spark = start_session("killed", master="local-cluster[2,1,512]", settings=SETTINGS)
    options = {
        "kafka.bootstrap.servers": bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "minPartitions": str(TASKS),
    }
    killed = {}
    for read in (batch, stream):
        with Killing(spark) as killing:
            read(spark, options, directory)
        killed[read.__name__] = killing.killed
    spark.stop()
    print(json.dumps(killed))


def batch(spark: SparkSession, options: dict[str, str], directory: Path) -> None:
    write(spark.read.format("minikafka").options(**options).load(), directory / "batch")


def stream(spark: SparkSession, options: dict[str, str], directory: Path) -> None:
    writer = spark.readStream.format("minikafka").options(**options).load().writeStream
    writer = writer.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True)
    query = writer.foreachBatch(lambda df, batch_id: write(df, directory / "stream" / f"batch={batch_id}")).start()
    query.awaitTermination()


def write(df: DataFrame, path: Path) -> None:
    """Slowly, so that there is time to kill somebody."""
    slept = "IF(offset % 100 = 0, reflect('java.lang.Thread', 'sleep', 10L), '') AS slept"
    df.selectExpr("partition", "offset", slept).write.mode("overwrite").parquet(str(path))


class Killing:
    """While it lasts, an executor and then every Python worker get SIGKILL, each time when some tasks have ended."""

    def __init__(self, spark: SparkSession) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._thread = threading.Thread(target=self._run)
        self._is_over = threading.Event()
        self._ended_before = self._ended()
        self.killed: list[str] = []

    def __enter__(self) -> Killing:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        for what, find, tasks in (("executor", executors, 2), ("worker", workers, 5)):
            while self._ended() - self._ended_before < tasks or not (victims := find()):
                if self._is_over.wait(0.02):
                    return
            for pid in victims[:1] if what == "executor" else victims:
                os.kill(pid, signal.SIGKILL)
                self.killed.append(what)

    def _ended(self) -> int:
        stages = (self._tracker.getStageInfo(stage) for stage in range(100))
        return sum(stage.numCompletedTasks for stage in stages if stage is not None)


def executors() -> list[int]:
    return [pid for pid in ours() if "CoarseGrainedExecutorBackend" in command(pid)]


def workers() -> list[int]:
    """The daemons' children that read: a daemon is a child of an executor."""
    running = set(executors())
    daemons = [pid for pid in ours() if "minikafka.spark.daemon" in command(pid) and parent(pid) in running]
    return [pid for pid in ours() if parent(pid) in daemons]


def ours() -> list[int]:
    """Our descendants, of which alone anything is killed."""
    found = [os.getpid()]
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    parents = {pid: parent(pid) for pid in pids}
    for above in found:
        found.extend(pid for pid, its in parents.items() if its == above)
    return found[1:]


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
