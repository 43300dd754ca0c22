"""A lake, read by what docs/spark.md names. Spark's reader is in tests/spark."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.spark.pipelines.archive.lake import Lake
from minikafka.spark.pipelines.archive.writing import FilesWriter

Rows = Callable[..., pa.RecordBatch]
PAGE = Path(__file__).parents[5] / "docs" / "spark.md"


def test_the_page_s_examples_run(tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    here = TopicPartition("orders", 0)
    lake = Lake.opened(tmp_path / "lake", "here", {"orders": "id-1"})
    for start in (0, 10):
        writer = FilesWriter(lake.location, here)
        writer.write(rows("orders", 0, range(start, start + 10), [0, 1]))
        lake.append({here: OffsetAndEpoch(start + 10, 1)}, writer.close().files)
    lake.mark(here, OffsetAndEpoch(15, 1))

    section = PAGE.read_text().partition("### Lakes")[2].partition("\n##")[0]
    python, polars, duckdb, spark = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert "read_lake" in spark
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(python.replace("2026-11-01", "1970-01-02"), names)
    assert sorted(names["orders"]["offset"].to_pylist()) == list(range(1, 20, 2))
    assert names["orders"]["diverged"].to_pylist().count(True) == 3
    exec(polars, names)
    assert sorted(names["orders"]["offset"]) == list(range(20))
    exec(duckdb, names)
    assert sorted(names["days"]) == [("1970-01-01", 10), ("1970-01-02", 10)]
