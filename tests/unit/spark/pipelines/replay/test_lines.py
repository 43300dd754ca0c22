from __future__ import annotations

import json
from pathlib import Path

from minikafka.spark.pipelines.replay.lines import FilesReader


def test_rows_are_numbered_through_all_batches(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text("".join(json.dumps({"n": n}) + "\n" for n in range(25_000)))
    reader = FilesReader({"files": json.dumps({"many.jsonl": str(path)}), "kind": "json", "key": "n"})
    (part,) = reader.partitions()
    batches = list(reader.read(part))
    assert [batch.num_rows for batch in batches] == [10_000, 10_000, 5_000]
    numbers = [number for batch in batches for number in batch["position"].to_pylist()]
    assert numbers == [int(key) for batch in batches for key in batch["key"].to_pylist()] == list(range(25_000))
    assert set(batches[-1]["source"].to_pylist()) == {"many.jsonl"}
