from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import dataset, parquet

from minikafka.model import TopicPartition
from minikafka.spark.pipelines.archive import writing
from minikafka.spark.pipelines.archive.writing import (
    FOOTER,
    SCHEMA,
    FilesWriter,
    Written,
    merge,
    split,
)

Rows = Callable[..., pa.RecordBatch]


def written_by(writer: FilesWriter, *batches: pa.RecordBatch) -> Written:
    for batch in batches:
        writer.write(batch)
    return writer.close()


def test_each_partition_and_day_has_its_file(tmp_path: Path, rows: Rows) -> None:
    mixed = pa.Table.from_batches([rows("orders", 0, range(6), [0, 1]), rows("other", 2, [7, 9], [-1])])
    written = written_by(FilesWriter(tmp_path), *mixed.combine_chunks().to_batches())
    found = {(f.topic, f.partition, f.date): (f.first_offset, f.last_offset, f.rows) for f, _ in written.files}
    assert found == {
        ("orders", 0, "1970-01-01"): (0, 4, 3),
        ("orders", 0, "1970-01-02"): (1, 5, 3),
        ("other", 2, "1969-12-31"): (7, 9, 2),
    }
    assert written.parts == [(TopicPartition("orders", 0), 0, 5), (TopicPartition("other", 2), 7, 9)]


def test_nothing_of_a_record_is_lost(tmp_path: Path, rows: Rows) -> None:
    batch = rows("orders", 0, range(100), [0, 0.5])
    ((file, staged),) = written_by(FilesWriter(tmp_path), batch.slice(0, 40), batch.slice(40)).files
    path = tmp_path.parent / staged
    assert parquet.ParquetFile(path).read() == pa.Table.from_batches([batch]).select(SCHEMA.names).cast(SCHEMA)
    assert file.size_bytes == path.stat().st_size
    about = json.loads(parquet.ParquetFile(path).metadata.metadata[FOOTER])
    assert (about["topic"], about["first_offset"], about["last_offset"], about["rows"]) == ("orders", 0, 99, 100)


def test_any_timestamp_has_a_day(tmp_path: Path, rows: Rows) -> None:
    times = [-1_000, -(2**63), 2**63 - 1, 0]
    batch = rows("orders", 0, range(4))
    batch = batch.set_column(5, "timestamp", pa.array(times, pa.timestamp("us", "UTC")))
    written = written_by(FilesWriter(tmp_path), batch)
    assert sorted(file.date for file, _ in written.files) == ["0001-01-01", "1969-12-31", "1970-01-01", "9999-12-31"]
    kept = [parquet.ParquetFile(tmp_path.parent / staged).read()["timestamp"] for _, staged in written.files]
    assert sorted(column.cast(pa.int64())[0].as_py() for column in kept) == sorted(times)


def test_there_are_never_too_many_open_files(tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "OPEN_FILES_MAX", 3)
    written = written_by(
        FilesWriter(tmp_path), *(rows("orders", 0, range(n * 20, n * 20 + 20), range(5)) for n in (0, 1))
    )
    assert sum(file.rows for file, _ in written.files) == 40
    assert len({file.path for file, _ in written.files}) == len(written.files)


def test_large_rows_do_not_gather_in_memory(tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "ROW_GROUP_BYTES", 4_000)
    monkeypatch.setattr(writing, "PENDING_BYTES_MAX", 2_000)
    written = written_by(FilesWriter(tmp_path), *(rows("orders", n % 2, range(n * 50, n * 50 + 50)) for n in range(10)))
    groups = [parquet.ParquetFile(tmp_path.parent / staged).num_row_groups for _, staged in written.files]
    assert sum(groups) > 2
    assert sum(file.rows for file, _ in written.files) == 500


def test_a_large_file_ends_and_another_begins(tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "ROW_GROUP_BYTES", 1)
    writer = FilesWriter(tmp_path, target_bytes=1)
    written = written_by(writer, *(rows("orders", 0, range(n * 5, n * 5 + 5)) for n in range(3)))
    assert [(file.first_offset, file.last_offset) for file, _ in written.files] == [(0, 4), (5, 9), (10, 14)]


@pytest.mark.parametrize("offsets", [[1, 1], [2, 1], [0, 2, 1]])
def test_offsets_that_do_not_ascend_are_noticed(tmp_path: Path, rows: Rows, offsets: list[int]) -> None:
    writer = FilesWriter(tmp_path)
    with pytest.raises(AssertionError, match="orders-0"):
        writer.write(rows("orders", 0, offsets))
    again = FilesWriter(tmp_path)
    again.write(rows("orders", 0, [5]))
    with pytest.raises(AssertionError, match="orders-0: offset 5 came after 5"):
        again.write(rows("orders", 0, [5]))


def test_merged_files_have_the_records_of_both(tmp_path: Path, rows: Rows) -> None:
    staging = tmp_path / "staging"
    staging.mkdir()
    small = [written_by(FilesWriter(staging), rows("orders", 0, range(n * 9, n * 9 + 9))).files[0] for n in range(3)]
    file, staged = merge(tmp_path, [path for _, path in small], "orders", staging)
    assert (file.first_offset, file.last_offset, file.rows) == (0, 26, 27)
    expected = pa.concat_tables([parquet.ParquetFile(tmp_path / path).read() for _, path in small])
    assert parquet.ParquetFile(tmp_path / staged).read() == expected


def test_large_values_are_merged_a_row_group_at_a_time(
    tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may have been compressed to nothing: how large files are says little of the memory that they take."""
    monkeypatch.setattr(writing, "ROW_GROUP_BYTES", 1)
    staging = tmp_path / "staging"
    staging.mkdir()
    ((_, small),) = written_by(FilesWriter(staging), *(rows("orders", 0, range(n, n + 5)) for n in (0, 5, 10))).files
    sizes = []
    write = FilesWriter.write
    monkeypatch.setattr(FilesWriter, "write", lambda self, batch: (sizes.append(batch.num_rows), write(self, batch)))
    assert merge(tmp_path, [small], "orders", staging).file.rows == 15
    assert sizes == [5, 5, 5]


def test_plain_readers_find_topic_and_date(tmp_path: Path, rows: Rows) -> None:
    for file, staged in written_by(FilesWriter(tmp_path), rows("orders", 0, range(6), [0, 1])).files:
        target = tmp_path / "lake" / file.path
        target.parent.mkdir(parents=True)
        (tmp_path.parent / staged).rename(target)
    table = dataset.dataset(tmp_path / "lake", partitioning="hive").to_table()
    assert sorted(zip(table["date"].to_pylist(), table["offset"].to_pylist(), strict=True))[:2] == [
        ("1970-01-01", 0),
        ("1970-01-01", 2),
    ]
    assert set(table["topic"].to_pylist()) == {"orders"}


@given(st.lists(st.sampled_from("abc"), max_size=20))
def test_split_keeps_all_rows_in_order(letters: list[str]) -> None:
    batch = pa.RecordBatch.from_pydict({"letter": letters, "place": list(range(len(letters)))})
    parts = {letter: part["place"].to_pylist() for letter, part in split(batch, "letter")}
    assert parts == {letter: [n for n, other in enumerate(letters) if other == letter] for letter in letters}
