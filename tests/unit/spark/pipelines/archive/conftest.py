"""Records as Spark hands them to a task, and a reader of a lake that knows nothing of us."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from minikafka.model import TopicPartition
from minikafka.spark.pipelines.archive.writing import SCHEMA

Rows = Callable[..., pa.RecordBatch]
Plain = Callable[[Path], dict[TopicPartition, list[int]]]


@pytest.fixture
def rows() -> Rows:
    """``rows("orders", 3, range(10), days=[0, 1])``: records whose days alternate."""

    def make(topic: str, partition: int, offsets: Iterable[int], days: Iterable[float] = (0,)) -> pa.RecordBatch:
        numbers = list(offsets)
        cycle = list(days)
        times = [int(cycle[n % len(cycle)] * 86_400_000_000) + n for n in range(len(numbers))]
        columns = {
            "key": pa.array([None if n % 3 == 0 else b"k%d" % n for n in numbers], pa.binary()),
            "value": pa.array([None if n % 5 == 0 else b"v%d" % n for n in numbers], pa.binary()),
            "topic": pa.array([topic] * len(numbers)),
            "partition": pa.array([partition] * len(numbers), pa.int32()),
            "offset": pa.array(numbers, pa.int64()),
            "timestamp": pa.array(times, pa.timestamp("us", "UTC")),
            "timestampType": pa.array([n % 2 for n in numbers], pa.int32()),
            "headers": pa.array(
                [
                    None if n % 2 else [{"key": "n", "value": b"%d" % n}, {"key": "null", "value": None}]
                    for n in numbers
                ],
                SCHEMA.field("headers").type,
            ),
        }
        return pa.RecordBatch.from_pydict(columns)

    return make


@pytest.fixture
def plain() -> Plain:
    """What a reader of Delta tables sees: the offsets by partition, in order."""

    def read(directory: Path) -> dict[TopicPartition, list[int]]:
        table = DeltaTable(directory).to_pyarrow_table(columns=["topic", "partition", "offset"])
        seen: dict[TopicPartition, list[int]] = {}
        for topic, partition, offset in sorted(zip(*(column.to_pylist() for column in table.columns), strict=True)):
            seen.setdefault(TopicPartition(topic, partition), []).append(offset)
        return seen

    return read
