"""What pipelines make of jobs that end before their time."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from live_cluster import eventually
from pyspark.sql import SparkSession

from minikafka.spark.pipelines.running import PipelineError, watched_jobs


def test_a_worker_that_is_killed_is_told_in_a_line(spark: SparkSession) -> None:
    """PySpark has no class for it, and raises what Java did."""
    job = spark.sparkContext.parallelize([1], 1).map(lambda _: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(PipelineError, match="Python worker exited unexpectedly") as told, watched_jobs(spark):
        job.collect()
    assert "\n" not in str(told.value)


def test_a_job_that_is_interrupted_ends(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    tracker = spark.sparkContext.statusTracker()
    job = spark.sparkContext.parallelize([1], 1).map(lambda _: time.sleep(600))

    def terminate() -> None:
        eventually(tracker.getActiveJobsIds, "the job to begin")
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=terminate)
    thread.start()
    with pytest.raises(KeyboardInterrupt), watched_jobs(spark):
        job.collect()
    thread.join()
    assert not caplog.records
    eventually(lambda: not tracker.getActiveJobsIds(), "the job to end")
