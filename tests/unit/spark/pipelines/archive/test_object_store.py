"""A lake in an object store: a server of S3 in a process of its own, moto's. RACED_OFFSETS makes the race longer."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from live_cluster import eventually
from pyspark.sql.pandas.types import from_arrow_schema

from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.spark.pipelines.archive.lake import Lake
from minikafka.spark.pipelines.archive.places import AnotherArchiveError
from minikafka.spark.pipelines.archive.reading import read_file
from minikafka.spark.pipelines.archive.writing import FilesWriter

Rows = Callable[..., pa.RecordBatch]
HERE = TopicPartition("orders", 0)
RACED_OFFSETS = int(os.environ.get("RACED_OFFSETS", "45"))


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    """The port of a server with a bucket ``lakes``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with running(sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)):
        eventually(lambda: _has_bucket(port), "the object store")
        yield port


def _has_bucket(port: int) -> bool:
    try:
        return urlopen(Request(f"http://127.0.0.1:{port}/lakes", method="PUT", data=b"")).status == 200
    except OSError:
        return False


def environment(port: int) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }


@pytest.fixture
def store(server: int, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in environment(server).items():
        monkeypatch.setenv(name, value)
    return "s3://lakes"


def offsets(lake: str) -> list[int]:
    return sorted(DeltaTable(lake).to_pyarrow_table(columns=["offset"])["offset"].to_pylist())


def test_all_that_a_lake_can_do(store: str, rows: Rows) -> None:
    lake, other = (Lake.opened(f"{store}/lake", "here", {"orders": "id-1"}) for _ in range(2))
    for start in range(0, 50, 10):
        writer = FilesWriter(lake.location, HERE)
        writer.write(rows("orders", 0, range(start, start + 10), [0, 1]))
        files = writer.close().files
        lake.append({HERE: OffsetAndEpoch(start + 10, 7)}, files)
    with pytest.raises(AnotherArchiveError):
        other.append({HERE: OffsetAndEpoch(9, 7)}, ())
    assert Lake.open(lake.location).ends == {HERE: OffsetAndEpoch(50, 7)}
    assert lake.compact(["orders"], 4) == 10
    assert lake.content("orders").records == 50
    lake.mark(HERE, OffsetAndEpoch(40, 6))
    lake.check_files()
    lake.tidy()
    assert lake.drop_before("1970-01-02", ["orders"]) == 1
    assert offsets(lake.location) == list(range(1, 50, 2))
    told = [(row["offset"], row["topic"], row["date"], row["diverged"]) for row in as_spark_s_tasks_read(lake)]
    assert sorted(told) == [(n, "orders", "1970-01-02", True if n >= 40 else None) for n in range(1, 50, 2)]
    assert Lake.open(lake.location).ends == {HERE: OffsetAndEpoch(40, 6)}


def as_spark_s_tasks_read(lake: Lake) -> list[dict[str, Any]]:
    """Where Spark has no jars for the object store."""
    columns = from_arrow_schema(lake.arrow_schema())
    batches = (batch for file in lake.files(["orders"]) for batch in read_file(file, lake.location, columns))
    return [row for batch in batches for row in batch.to_pylist()]


RACING = """
import sys
from contextlib import suppress
import pyarrow as pa
from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.spark.pipelines.archive.lake import Lake
from minikafka.spark.pipelines.archive.places import AnotherArchiveError
from minikafka.spark.pipelines.archive.writing import FilesWriter
from minikafka.spark.pipelines.running import PipelineError

here, end = TopicPartition("orders", 0), int(sys.argv[2])
batch = pa.ipc.open_stream(sys.argv[3]).read_next_batch()
lake = None
while lake is None:
    with suppress(PipelineError):
        lake = Lake.open(sys.argv[1])
print("open", flush=True)
sys.stdin.readline()
while (start := lake.ends[here].offset if here in lake.ends else 0) < end:
    try:
        writer = FilesWriter(lake.location, here)
        writer.write(batch.slice(start, 3))
        lake.append({here: OffsetAndEpoch(start + 3, 1)}, writer.close().files)
        print("committed", flush=True)
    except AnotherArchiveError:
        print("refused", flush=True)
    except (PipelineError, OSError):
        lake.look_again()
"""


@pytest.mark.long
def test_two_archives_race_one_is_killed_and_the_network_fails(
    store: str, server: int, rows: Rows, tmp_path: Path
) -> None:
    """Each offset is there once, whichever of them wrote it, and whether it heard of that or not."""
    lake = f"{store}/raced"
    Lake.opened(lake, "here", {"orders": "id-1"})
    with pa.OSFile(str(tmp_path / "rows"), "wb") as file:
        batch = rows("orders", 0, range(RACED_OFFSETS))
        with pa.ipc.new_stream(file, batch.schema) as stream:
            stream.write_batch(batch)
    network = running(sys.executable, str(Path(__file__).with_name("failing_network.py")), str(server), "7")
    racing = [sys.executable, "-c", RACING, lake, str(RACED_OFFSETS), str(tmp_path / "rows")]
    with network as proxy:
        assert proxy.stdout is not None
        env = os.environ | environment(int(proxy.stdout.readline()))
        with started(racing, env) as victim, started(racing, env) as racer:
            for each in (victim, racer):
                each.stdin.write("go\n")
                each.stdin.flush()
            told = [victim.stdout.readline()]
            victim.send_signal(signal.SIGKILL)
            with started(racing, env) as successor:
                told += [*victim.communicate()[0].splitlines(), *successor.communicate("go\n", 300)[0].splitlines()]
            told += racer.communicate(timeout=300)[0].splitlines()
        assert (racer.returncode, successor.returncode) == (0, 0)
    assert any("refused" in line for line in told), "both began with the same version"
    assert offsets(lake) == list(range(RACED_OFFSETS))


@contextmanager
def started(command: list[str], env: dict[str, str]) -> Iterator[Any]:
    """A racer that has opened the lake, and waits for a line."""
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            yield process
        finally:
            process.kill()
