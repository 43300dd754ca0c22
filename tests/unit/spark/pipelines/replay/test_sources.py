from __future__ import annotations

import json
from pathlib import Path

from minikafka.spark.pipelines.replay.sources import read_file


def test_rows_are_numbered_through_all_batches_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text("".join(json.dumps({"n": n}) + "\n" for n in range(25_000)))
    batches = list(read_file(("many", str(path)), kind="json", key="n", value=None))
    assert [batch.num_rows for batch in batches] == [10_000, 10_000, 5_000]
    numbers = [number for batch in batches for number in batch["position"].to_pylist()]
    assert numbers == [int(key) for batch in batches for key in batch["key"].to_pylist()] == list(range(25_000))
    assert set(batches[-1]["source"].to_pylist()) == {"many"}


def test_lines_of_consume_become_rows_with_all_that_they_have(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    line = {"partition": 2, "timestamp": 4711, "key": "k", "value": None, "headers": [["a", "1"], ["b", None]]}
    path.write_text(json.dumps(line) + "\n" + json.dumps({"value": "v"}) + "\n")
    (batch,) = read_file(("s", str(path)), kind="records", key=None, value=None)
    full, bare = batch.to_pylist()
    assert (full["key"], full["value"], full["partition"]) == (b"k", None, 2)
    assert full["headers"] == [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]
    assert full["timestamp"].timestamp() == 4.711
    assert (bare["value"], bare["headers"], bare["timestamp"], bare["partition"]) == (b"v", [], None, None)
