"""The table: its ledger, its refusals, a process that dies while it commits."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from minikafka.model import NO_EPOCH, OffsetAndEpoch, TopicPartition
from minikafka.spark.pipelines.archive.lake import Lake
from minikafka.spark.pipelines.archive.places import AnotherArchiveError, location
from minikafka.spark.pipelines.archive.writing import FilesWriter
from minikafka.spark.pipelines.running import PipelineError

Rows = Callable[..., pa.RecordBatch]
Plain = Callable[[Path], dict[TopicPartition, list[int]]]
A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


def opened(directory: Path) -> Lake:
    return Lake.opened(directory, "here", {"orders": "id-1"})


def append(lake: Lake, rows: Rows, start: int, end: int, *partitions: TopicPartition, epoch: int = 7) -> None:
    """Offsets of partitions, each on two days."""
    files = []
    for tp in partitions or (A, B):
        writer = FilesWriter(lake.location, tp)
        writer.write(rows(*tp, range(start, end), [0, 1]))
        files += writer.close().files
    lake.append({tp: OffsetAndEpoch(end, epoch) for tp in partitions or (A, B)}, files)


def test_a_lake_goes_on_where_it_was(tmp_path: Path, rows: Rows, plain: Plain) -> None:
    append(opened(tmp_path), rows, 0, 10)
    lake = opened(tmp_path)
    assert lake.ends == {A: OffsetAndEpoch(10, 7), B: OffsetAndEpoch(10, 7)}
    append(lake, rows, 10, 20, epoch=8)
    assert lake.ends == opened(tmp_path).ends == {A: OffsetAndEpoch(20, 8), B: OffsetAndEpoch(20, 8)}
    assert plain(tmp_path) == {A: list(range(20)), B: list(range(20))}
    content = lake.content("orders")
    assert (content.records, content.files) == (40, 8)
    assert (content.first_date, content.last_date) == ("1970-01-01", "1970-01-02")
    assert lake.content("others").files == 0


def test_an_end_without_records(tmp_path: Path) -> None:
    lake = opened(tmp_path)
    lake.append({A: OffsetAndEpoch(5, NO_EPOCH)}, ())
    assert Lake.open(tmp_path).ends == {A: OffsetAndEpoch(5, NO_EPOCH)}


def test_the_table_refuses_a_second_archive(tmp_path: Path, rows: Rows, plain: Plain) -> None:
    """Not a lock: whoever read the table before the first commit of the other one is refused, whenever that is."""
    one, other = opened(tmp_path), opened(tmp_path)
    append(one, rows, 0, 10, A)
    with pytest.raises(AnotherArchiveError, match="another archive writes to"):
        append(other, rows, 0, 11, A)
    assert other.ends == {A: OffsetAndEpoch(10, 7)}
    append(other, rows, 0, 3, B)
    append(one, rows, 10, 12, A)
    assert one.ends == {A: OffsetAndEpoch(12, 7), B: OffsetAndEpoch(3, 7)}, "another partition is no conflict"
    assert plain(tmp_path) == {A: list(range(12)), B: list(range(3))}


def test_a_commit_whose_answer_was_lost(tmp_path: Path, rows: Rows, plain: Plain) -> None:
    """A store that is asked again refuses it, because it is there."""
    lake, same = opened(tmp_path), opened(tmp_path)
    writer = FilesWriter(lake.location, A)
    writer.write(rows("orders", 0, range(10)))
    files = writer.close().files
    same.append({A: OffsetAndEpoch(10, 7)}, files)
    lake.append({A: OffsetAndEpoch(10, 7)}, files)
    assert plain(tmp_path) == {A: list(range(10))}


def test_files_that_somebody_removed_before_their_commit(tmp_path: Path, rows: Rows, plain: Plain) -> None:
    """With a vacuum of any age. The records are still in their topic: they must not count as archived."""
    lake = opened(tmp_path)
    writer = FilesWriter(lake.location, A)
    writer.write(rows("orders", 0, range(10)))
    files = writer.close().files
    table = DeltaTable(tmp_path)
    assert table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    with pytest.raises(PipelineError, match=r"00000-0+-\w+.parquet was removed before it was committed$"):
        lake.append({A: OffsetAndEpoch(10, 7)}, files)
    append(lake, rows, 0, 10, A)
    assert plain(tmp_path) == {A: list(range(10))}


def test_another_program_compacts_and_vacuums(tmp_path: Path, rows: Rows, plain: Plain) -> None:
    lake = opened(tmp_path)
    for start in (0, 10):
        append(lake, rows, start, start + 10, A)
    DeltaTable(tmp_path).optimize.compact()
    DeltaTable(tmp_path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    append(lake, rows, 20, 30, A)
    assert plain(tmp_path) == {A: list(range(30))}
    lake.check_files()


def test_small_files_are_put_together(tmp_path: Path, rows: Rows, plain: Plain) -> None:
    lake = opened(tmp_path)
    for start in range(0, 30, 10):
        append(lake, rows, start, start + 10)
    before = plain(tmp_path)
    assert lake.compact(["orders"], 7) == 0
    assert lake.compact(["orders"], 6) == 12
    assert lake.content("orders").files == 2
    assert plain(tmp_path) == before
    append(lake, rows, 30, 40)
    assert lake.ends == {A: OffsetAndEpoch(40, 7), B: OffsetAndEpoch(40, 7)}


def test_days_are_dropped(tmp_path: Path, rows: Rows, plain: Plain) -> None:
    lake = opened(tmp_path)
    append(lake, rows, 0, 10)
    assert lake.drop_before("1970-01-01", ["orders"]) == 0
    assert lake.drop_before("1970-01-02", ["orders"]) == 2
    assert plain(tmp_path) == {A: [1, 3, 5, 7, 9], B: [1, 3, 5, 7, 9]}
    assert opened(tmp_path).ends[A].offset == 10


def test_days_that_were_removed_by_hand(tmp_path: Path, rows: Rows, plain: Plain) -> None:
    lake = opened(tmp_path)
    append(lake, rows, 0, 10)
    shutil.rmtree(tmp_path / "topic=orders" / "date=1970-01-01")
    with pytest.raises(PipelineError, match="if old days were removed on purpose, --drop-before"):
        lake.check_files()
    assert lake.drop_before("1970-01-02", ["orders"]) == 2
    lake.check_files()
    next(iter(tmp_path.glob("topic=*/date=1970-01-02/*"))).unlink()
    with pytest.raises(PipelineError, match="is missing; put it back"):
        lake.check_files()


def test_diverged_records_are_marked_and_archived_again(tmp_path: Path, rows: Rows, plain: Plain) -> None:
    lake = opened(tmp_path)
    append(lake, rows, 0, 10)
    lake.mark(A, OffsetAndEpoch(6, 5))
    assert opened(tmp_path).ends == {A: OffsetAndEpoch(6, 5), B: OffsetAndEpoch(10, 7)}
    append(lake, rows, 6, 9, A)
    table = DeltaTable(tmp_path).to_pyarrow_table().to_pylist()
    marked = sorted((row["partition"], row["offset"]) for row in table if row["diverged"])
    others = sorted(row["offset"] for row in table if row["partition"] == 0 and not row["diverged"])
    assert marked == [(0, offset) for offset in range(6, 10)]
    assert others == list(range(9))
    lake.mark(A, OffsetAndEpoch(2, 4))
    assert lake.ends[A] == OffsetAndEpoch(2, 4)
    lake.drop_before("1970-01-03", ["orders"])
    lake.mark(A, OffsetAndEpoch(1, 3))
    assert opened(tmp_path).ends[A] == OffsetAndEpoch(1, 3), "also where no record is left to be marked"


def test_files_of_no_commit_are_removed_after_a_day(
    tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = opened(tmp_path)
    append(lake, rows, 0, 10)
    FilesWriter(lake.location, A).write(rows("orders", 0, range(10, 20)))
    lake.tidy()
    assert len(list(tmp_path.glob("topic=*/date=*/*"))) == 5
    vacuum = DeltaTable.vacuum

    def a_day_later(table: DeltaTable, **options: bool) -> list[str]:
        return vacuum(table, 0, enforce_retention_duration=False, **{"dry_run": True} | options)

    monkeypatch.setattr(DeltaTable, "vacuum", a_day_later)
    lake.tidy()
    assert len(list(tmp_path.glob("topic=*/date=*/*"))) == 4
    append(lake, rows, 10, 20)


APPENDING = """
import sys
from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.spark.pipelines.archive.lake import Lake
from minikafka.spark.pipelines.archive.writing import FilesWriter
import pyarrow as pa
from pyarrow import ipc

lake = Lake.open(sys.argv[1])
batch = ipc.open_stream(sys.stdin.buffer).read_next_batch()
here = TopicPartition("orders", 0)
while True:
    start = lake.ends[here].offset if here in lake.ends else 0
    writer = FilesWriter(lake.location, here)
    writer.write(batch.slice(start, 3))
    lake.append({here: OffsetAndEpoch(start + 3, 1)}, writer.close().files)
    print(start, flush=True)
    if start % 5 == 0:
        lake.compact(["orders"], 4)
"""


def test_processes_are_killed_while_they_commit(tmp_path: Path, rows: Rows, plain: Plain) -> None:
    """Each one a little later than the one before, some while they put files together."""
    directory = tmp_path / "lake"
    opened(directory)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, (batch := rows("orders", 0, range(10_000))).schema) as stream:
        stream.write_batch(batch)
    for number in range(3):
        command = [sys.executable, "-c", APPENDING, str(directory)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(sink.getvalue())
        process.stdin.close()
        for _ in range(5 + number * 2):
            assert process.stdout.readline(), "it ended by itself"
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        lake = opened(directory)
        lake.check_files()
        assert plain(directory)[A] == list(range(lake.ends[A].offset))
    assert lake.ends[A].offset >= 3 * (5 + 7 + 9)


def test_other_clusters_and_topics_are_refused(tmp_path: Path) -> None:
    lake = opened(tmp_path)
    with pytest.raises(PipelineError, match="is the lake of orders; add payments with --add"):
        lake.take_in({"payments": "id-2"})
    with pytest.raises(PipelineError, match="orders was deleted and created again"):
        lake.take_in({"orders": "id-9"})
    with pytest.raises(PipelineError, match="readers of a lake take this name for a missing one"):
        lake.take_in({"__HIVE_DEFAULT_PARTITION__": "id-3"}, add=True)
    lake.take_in({"payments": "id-2"}, add=True)
    assert Lake.open(tmp_path).topic_ids == {"orders": "id-1", "payments": "id-2"}
    with pytest.raises(PipelineError, match="holds topics of the cluster here, and this is there"):
        Lake.opened(tmp_path, "there", {"orders": "id-1"})
    with pytest.raises(PipelineError, match="holds no topic bills; it is the lake of orders, payments"):
        lake.chosen(["bills"])


def test_directories_that_are_no_lake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(PipelineError, match="is neither empty nor a lake"):
        opened(tmp_path)
    with pytest.raises(PipelineError, match="is a file; choose a directory"):
        opened(tmp_path / "file")
    for path in (tmp_path, tmp_path / "file", tmp_path / "nothing"):
        with pytest.raises(PipelineError, match="is not a lake; create one with"):
            Lake.open(path)
    with pytest.raises(PipelineError, match="must be without"):
        location(tmp_path / "lake [1]")
    write_deltalake(str(tmp_path / "table"), pa.table({"x": [1]}))
    with pytest.raises(PipelineError, match="is a Delta table, but no lake of minikafka"):
        opened(tmp_path / "table")
    opened(tmp_path / "described")
    DeltaTable(tmp_path / "described").alter.set_table_description("orders of the shop")
    with pytest.raises(PipelineError, match="which names cluster and topics, was replaced"):
        Lake.open(tmp_path / "described")
    (tmp_path / "old" / "_minikafka").mkdir(parents=True)
    with pytest.raises(PipelineError, match="take it over with: minikafka pipeline take-over"):
        opened(tmp_path / "old")
    assert location("file:///tmp/lake") == str(Path("/tmp/lake").resolve())
    assert location("s3://bucket/lake/") == "s3://bucket/lake"


def test_a_damaged_log_is_told(tmp_path: Path, rows: Rows) -> None:
    append(opened(tmp_path), rows, 0, 10)
    (newest,) = tmp_path.glob("_delta_log/*1.json")
    newest.write_text(newest.read_text()[:50])
    with pytest.raises(PipelineError, match=rf"^{tmp_path}: [^\n]{{1,200}}$"):
        Lake.open(tmp_path)


def test_a_store_that_does_not_answer_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "x")
    with pytest.raises(PipelineError, match=r"^s3://bucket/lake: [^\n\x1b]+$"):
        Lake.open("s3://bucket/lake")
