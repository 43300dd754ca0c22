"""A lake as minikafka 0.x wrote it: two commits in a snapshot, and one whose files did not all reach their places."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from minikafka.model import NO_EPOCH, OffsetAndEpoch, TopicPartition
from minikafka.spark.pipelines.archive.lake import Lake
from minikafka.spark.pipelines.archive.taking_over import TakenOver, take_over
from minikafka.spark.pipelines.archive.writing import FilesWriter
from minikafka.spark.pipelines.running import PipelineError

Rows = Callable[..., pa.RecordBatch]
Plain = Callable[[Path], dict[TopicPartition, list[int]]]
HERE = TopicPartition("o", 0)
HELD = TakenOver(("o",), partitions=1, files=6, records=30)


@pytest.fixture
def old(tmp_path: Path, rows: Rows) -> Path:
    lake = tmp_path / "lake"
    (lake / "_delta_log").mkdir(parents=True)  # for the writer
    added = []
    for start in (0, 10, 20):
        writer = FilesWriter(str(lake), HERE)
        writer.write(rows("o", 0, range(start, start + 10), [0, 1]))
        for file in writer.close().files:
            fields = ["o", file.date, 0, file.first_offset, file.last_offset, file.rows, file.size_bytes]
            name = f"00000-{file.first_offset:020d}-{file.last_offset:020d}.parquet"
            os.rename(lake / file.path, lake / f"topic=o/date={file.date}" / name)
            added.append(fields)
    (lake / "_delta_log").rmdir()
    commits, staging = lake / "_minikafka" / "commits", lake / "_minikafka" / "staging" / "token"
    commits.mkdir(parents=True)
    staging.mkdir(parents=True)
    last = max((lake / "topic=o" / "date=1970-01-02").iterdir())
    os.rename(last, staging / "5.part")
    staged = [[*added[4], "token/4.part"], [*added[5], "token/5.part"]]
    for name, fields in {
        "lake.json": {"format": 1, "cluster_id": "here", "topics": {"o": "id-1"}},
        "commits/00000000000000000002.json": {"removed": [], "added": [], "ranges": {"o": {"0": [10, 20]}}},
        "commits/00000000000000000002.snapshot.json": {"files": added[:4], "ends": {"o": {"0": 20}}},
        "commits/00000000000000000003.json": {"removed": [], "added": staged, "ranges": {"o": {"0": [20, 30]}}},
    }.items():
        (lake / "_minikafka" / name).write_text(json.dumps(fields))
    return lake


def test_it_becomes_a_table_in_place(old: Path, plain: Plain, rows: Rows) -> None:
    assert take_over(old, dry_run=True) == HELD
    assert not (old / "_delta_log").exists()
    before = {path.name: path.stat().st_ino for path in old.glob("topic=*/date=*/*")}
    assert take_over(old) == HELD
    assert plain(old) == {HERE: list(range(30))}
    after = {path.name: path.stat().st_ino for path in old.glob("topic=*/date=*/*")}
    assert before.items() < after.items(), "no file was copied"
    lake = Lake.opened(old, "here", {"o": "id-1"})
    assert lake.ends == {HERE: OffsetAndEpoch(30, NO_EPOCH)}
    assert lake.content("o").records == 30
    lake.check_files()
    writer = FilesWriter(lake.location, HERE)
    writer.write(rows("o", 0, range(30, 40)))
    lake.append({HERE: OffsetAndEpoch(40, 1)}, writer.close().files)
    assert plain(old) == {HERE: list(range(40))}
    with pytest.raises(PipelineError, match="is no lake of an earlier minikafka"):
        take_over(old)


def test_a_crash_before_the_old_manifest_is_put_away(old: Path, plain: Plain) -> None:
    take_over(old)
    os.rename(old / "_minikafka.before", old / "_minikafka")
    assert take_over(old) == HELD
    assert plain(old) == {HERE: list(range(30))}


def test_damage_is_told_and_nothing_is_changed(old: Path) -> None:
    first = min(old.glob("topic=*/date=*/*"))
    os.truncate(first, 10)
    with pytest.raises(PipelineError, match=f"is damaged: topic=o/date=1970-01-01/{first.name} is missing or cut"):
        take_over(old)
    (old / "_minikafka" / "lake.json").write_text("{")
    with pytest.raises(PipelineError, match="is damaged: Expecting"):
        take_over(old)
    assert not (old / "_delta_log").exists()


def test_an_archive_that_runs_is_not_disturbed(old: Path) -> None:
    with (old / "_minikafka" / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(PipelineError, match="an archive of an earlier version writes to"):
            take_over(old)
