"""What pipelines make of jobs that end before their time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from minikafka.spark.pipelines.running import PipelineError, watched_jobs


def test_a_worker_that_is_killed_is_told_in_a_line(spark: SparkSession) -> None:
    """PySpark has no class for it, and raises what Java did."""
    job = spark.sparkContext.parallelize([1], 1).map(lambda _: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(PipelineError, match="Python worker exited unexpectedly") as told, watched_jobs(spark):
        job.collect()
    assert "\n" not in str(told.value)


INTERRUPTED = """
import sys
import time
from live_cluster import eventually
from pyspark.sql.datasource import DataSource, DataSourceReader
from minikafka.spark import start_session
from minikafka.spark.pipelines.running import watched_jobs

class Many(DataSource):
    def schema(self):
        return "value string"
    def reader(self, schema):
        return ManyReader()

class ManyReader(DataSourceReader):
    def read(self, partition):
        for _ in range(1_000_000):
            yield ("x" * 100,)

fast = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
spark = start_session("interrupted", settings={"spark.driver.extraJavaOptions": fast})
if "after head" in sys.argv:
    spark.dataSource.register(Many)
    spark.read.format("Many").load().head()
tracker = spark.sparkContext.statusTracker()
job = spark.sparkContext.parallelize([1], 1).map(lambda _: time.sleep(600))

def show(progress):
    if progress.tasks_total:
        print("runs", flush=True)

try:
    with watched_jobs(spark, show):
        job.collect()
except KeyboardInterrupt:
    eventually(lambda: not tracker.getActiveJobsIds(), "the job to end")
    print("ended", flush=True)
"""


@pytest.mark.parametrize(
    ("number", "when"),
    [(signal.SIGINT, "at once"), pytest.param(signal.SIGTERM, "after head", marks=pytest.mark.long)],
)
def test_a_job_that_is_interrupted_ends(number: signal.Signals, when: str) -> None:
    """In a process of its own, whose connection to Java is of no more use. A worker on which Spark hung up before, as
    it does after ``head``, is no reason for a traceback either."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", INTERRUPTED, when]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert job.stdout is not None
        assert job.stdout.readline() == "runs\n"
        job.send_signal(number)
        printed, complaints = job.communicate(timeout=60)
    finally:
        job.kill()
    assert (set(printed.splitlines()) - {"runs"}, job.returncode) == ({"ended"}, 0), complaints
    assert "Traceback" not in complaints
