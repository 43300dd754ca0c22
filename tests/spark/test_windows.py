"""Windows over real topics: equal to a naive computation, over restarts, kills and late records."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from librdkafka import create_topic
from live_cluster import StartCluster
from orders import JUNK, START_MS, Order, all_results, naive_windows, newest_results, produce, some_orders
from pyspark.sql import SparkSession

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.errors import KafkaError
from minikafka.spark.pipelines.running import PipelineError, Progress, show_nothing
from minikafka.spark.pipelines.windows import Windows, WindowsSummary, run_windows, windowed
from minikafka.spark.pipelines.windows.spec import Named
from minikafka.spark.sink import ORIGIN_HEADER

WINDOWS = Windows.parse(
    window="10s",
    slide="5s",
    key=["json.user"],
    agg=["count(*)", "sum(json.amount)"],
    time="timestamp_millis(json.at_ms)",
    watermark="1h",
)
FINAL = replace(WINDOWS, slide_ms=10_000, watermark_ms=5_000, emit=Windows.parse(window="1s", emit="final").emit)


class Job:
    """One pipeline: its topics and its checkpoint."""

    def __init__(self, spark: SparkSession, cluster: LocalCluster, topic: str, checkpoint: Path) -> None:
        self.spark, self.cluster, self.topic, self.checkpoint = spark, cluster, topic, checkpoint
        self.to = f"{topic}-results"
        create_topic(cluster, topic)
        create_topic(cluster, self.to)

    def run(self, windows: Windows = WINDOWS, show: Any = show_nothing, **more: Any) -> WindowsSummary:
        return run_windows(
            self.spark,
            self.topic,
            to=self.to,
            windows=windows,
            bootstrap_servers=self.cluster.bootstrap_servers,
            checkpoint=str(self.checkpoint),
            once=True,
            show=show,
            **more,
        )

    def produce(self, orders: list[Order]) -> None:
        produce(self.cluster, self.topic, [order.value for order in orders])

    def check(self, orders: list[Order], windows: Windows = WINDOWS) -> None:
        expected = naive_windows(orders, windows.window_ms, windows.slide_ms)
        assert newest_results(self.cluster, self.to) == expected


@pytest.fixture
def job(spark: SparkSession, cluster: LocalCluster, topic: str, tmp_path: Path) -> Job:
    return Job(spark, cluster, topic, tmp_path / "checkpoint")


def test_results_equal_a_naive_computation_over_a_restart(job: Job) -> None:
    before, after = some_orders(600), some_orders(400, seed=2, first_ms=START_MS + 40_000)
    job.produce(before)
    produce(
        job.cluster, job.topic, [JUNK, b'{"user": "u", "amount": "much", "at_ms": 1}', None, b'{"user": "untimed"}']
    )
    first = job.run()
    assert (first.read, first.unfit, first.untimed, first.late) == (604, 3, 1, 0)
    assert not first.is_resumed
    job.check(before)
    job.produce(after)
    second = job.run()
    assert (second.read, second.is_resumed) == (400, True)
    job.check(before + after)
    assert second.open_windows == len(newest_results(job.cluster, job.to))
    assert first.written + second.written == len(all_results(job.cluster, job.to))

    assert job.run().read == 0  # nothing new, nothing written
    with pytest.raises(PipelineError, match=r"of other windows .--window was 10s.: choose another --checkpoint"):
        job.run(replace(WINDOWS, window_ms=20_000))


@pytest.mark.long
def test_late_records_are_dropped_and_final_windows_come_once(job: Job) -> None:
    def at(second: int) -> Order:
        return Order("ada", 1, START_MS + second * 1000)

    early = [at(1), at(2), at(11), at(30)]
    job.produce(early)
    first = job.run(FINAL)  # the watermark comes to 25 s: the windows up to 20 s are final, the one from 30 s is not
    assert (first.late, first.open_windows) == (0, 1)
    job.check(early[:3], FINAL)
    job.produce([at(3), at(27), at(50)])  # the watermark was at 25 s: the first is late, the second is not
    second = job.run(FINAL)
    assert (second.late, second.open_windows) == (1, 1)
    job.check([*early, at(27)], FINAL)
    times = Counter(message.key() for message in all_results(job.cluster, job.to))
    assert set(times.values()) == {1}


@pytest.mark.long
def test_a_broker_that_is_killed_meanwhile_does_no_harm(
    spark: SparkSession, start_cluster: StartCluster, topic: str, tmp_path: Path
) -> None:
    job = Job(spark, start_cluster(), topic, tmp_path / "checkpoint")
    orders = some_orders(1000)
    job.produce(orders)
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.rows and not killed:
            killed.append(2)
            job.cluster.kill(2)

    summary = job.run(show=kill, records_per_batch=250)
    assert killed
    assert summary.batches >= 4
    job.check(orders)


DRIVER = """
import sys
from minikafka.spark import start_session
from minikafka.spark.pipelines.windows import run_windows
from test_windows import WINDOWS

topic, to, servers, checkpoint = sys.argv[1:]
fast = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
settings = {"spark.driver.extraJavaOptions": fast, "spark.sql.shuffle.partitions": "2"}
spark = start_session("killed", settings=settings)
def show(progress):
    if progress.rows:
        print("rows", progress.rows, flush=True)
run_windows(spark, topic, to=to, windows=WINDOWS, bootstrap_servers=servers, checkpoint=checkpoint, once=True,
            records_per_batch=50, show=show)
"""


@pytest.mark.long
def test_a_driver_that_is_killed_goes_on_where_it_was(job: Job) -> None:
    orders = some_orders(1000)
    job.produce(orders)
    command = [sys.executable, "-c", DRIVER, job.topic, job.to, job.cluster.bootstrap_servers, str(job.checkpoint)]
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1])])
    environment = os.environ | {"PYTHONPATH": path}
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, start_new_session=True)
    try:
        assert driver.stdout is not None
        assert driver.stdout.readline().startswith(b"rows"), "the driver ended before it did anything"
    finally:
        os.killpg(driver.pid, signal.SIGKILL)  # Python, its workers and the JVM
        driver.wait()
    summary = job.run(records_per_batch=500)
    assert summary.is_resumed
    assert 0 < summary.read < 1000
    job.check(orders)
    origins = [dict(message.headers())[ORIGIN_HEADER] for message in all_results(job.cluster, job.to)]
    assert len({origin.split(b"/")[0] for origin in origins}) == 1  # the same query, so that repeats can be told


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ({"key": ["json.usr"]}, "--key 'json.usr': No such struct field `usr`"),
        ({"key": ["json.user +"]}, "--key 'json.user +': Syntax error at or near end of input"),
        ({"key": ["max(key) AS it"]}, "--key 'max(key)': it is an aggregate; use --agg"),
        ({"agg": ["json.user"]}, "--agg 'json.user': it is not an aggregate; use count"),
        ({"agg": ["summ(offset)"]}, "--agg 'summ(offset)': Cannot resolve routine `summ`"),
        ({"time": "offset"}, "--time 'offset' is a bigint, not a time: say timestamp_millis(offset)"),
        ({"where": "offset"}, "--where 'offset' is a bigint, not true or false"),
        ({"where": "ofset > 1"}, "--where 'ofset > 1': A column, variable, or function parameter with name `ofset`"),
    ],
)
def test_an_error_in_an_expression_is_a_line_that_names_its_option(
    spark: SparkSession, words: dict[str, Any], complaint: str
) -> None:
    columns = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"
    records = spark.createDataFrame([], columns)
    with pytest.raises(PipelineError) as refused:
        windowed(records, Windows.parse(window="10s", **words), "user STRING")
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_missing_is_said_before_anything_starts(job: Job) -> None:
    with pytest.raises(PipelineError, match="has no values yet to learn the fields of json from; name the fields"):
        job.run()
    produce(job.cluster, job.topic, [b'{"other": 1}'])
    with pytest.raises(
        PipelineError, match=r"json.amount is in none of the newest 1 values .* whose fields are other;"
    ):
        job.run()
    with pytest.raises(PipelineError, match="--schema 'usr strng': "):
        job.run(replace(WINDOWS, schema="usr strng"))
    with pytest.raises(KafkaError, match="topic 'nowhere' not found"):
        run_windows(
            job.spark, job.topic, to="nowhere", windows=WINDOWS, bootstrap_servers=job.cluster.bootstrap_servers,
            checkpoint=str(job.checkpoint),
        )  # fmt: skip
    with pytest.raises(PipelineError, match=f"--to {job.topic} is the source topic: results would be aggregated again"):
        run_windows(
            job.spark, job.topic, to=job.topic, windows=WINDOWS, bootstrap_servers=job.cluster.bootstrap_servers,
            checkpoint=str(job.checkpoint),
        )  # fmt: skip
    assert not job.checkpoint.exists()


@pytest.mark.long
def test_a_checkpoint_belongs_to_the_query_that_began_a_batch_with_it(job: Job) -> None:
    """Not to one that Spark would not have; and not to any, if another program did."""
    job.checkpoint = job.checkpoint.with_name("check [point]*")  # to Spark's readers a pattern
    orders = some_orders(100)
    job.produce(orders)
    with pytest.raises(PipelineError, match="Distinct aggregations are not supported"):
        job.run(replace(WINDOWS, aggregates=(Named("users", "count(DISTINCT json.user)"),)))
    (job.checkpoint / "offsets").mkdir(exist_ok=True)  # as of one that died while it wrote the first offsets
    for name in (".0.5b1f.tmp", "..0.5b1f.tmp.crc"):
        (job.checkpoint / "offsets" / name).write_text("v1\n")
    (job.checkpoint / "offsets" / "of somebody").mkdir()
    with pytest.raises(PipelineError, match="offsets should be empty on batch 0"):
        job.run()
    assert [path.name for path in (job.checkpoint / "offsets").iterdir()] == ["of somebody"]
    (job.checkpoint / "offsets" / "of somebody").rmdir()
    assert not job.run().is_resumed
    job.check(orders)
    with pytest.raises(PipelineError, match=r"of other windows .--window was 10s."):
        job.run(replace(WINDOWS, window_ms=20_000))
    shutil.rmtree(job.checkpoint / "purpose")
    with pytest.raises(PipelineError, match="belongs to another program: choose another --checkpoint"):
        job.run()
    job.checkpoint = job.checkpoint / "metadata"
    with pytest.raises(PipelineError, match=r"metadata cannot be used: Parent path is not a directory"):
        job.run()
