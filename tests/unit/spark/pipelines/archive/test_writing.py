from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from minikafka.model import TopicPartition
from minikafka.spark.pipelines.archive import writing
from minikafka.spark.pipelines.archive.writing import SCHEMA, FilesWriter, Written, date_of

Rows = Callable[..., pa.RecordBatch]
HERE = TopicPartition("orders", 0)


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """A directory that a task takes for a lake."""
    (tmp_path / "_delta_log").mkdir()
    return str(tmp_path)


def written_by(writer: FilesWriter, *batches: pa.RecordBatch) -> Written:
    for batch in batches:
        writer.write(batch)
    return writer.close()


def test_each_day_has_its_file(lake: str, rows: Rows) -> None:
    written = written_by(FilesWriter(lake, HERE), rows("orders", 0, range(6), [0, 1]), rows("orders", 0, [7, 9], [-1]))
    found = {(f.topic, f.partition, f.date): (f.first_offset, f.last_offset, f.rows) for f in written.files}
    assert found == {
        ("orders", 0, "1970-01-01"): (0, 4, 3),
        ("orders", 0, "1970-01-02"): (1, 5, 3),
        ("orders", 0, "1969-12-31"): (7, 9, 2),
    }
    assert written.parts == [(HERE, 0, 9)]
    assert written_by(FilesWriter(lake, HERE)) == ([], [])


def test_nothing_of_a_record_is_lost(lake: str, rows: Rows) -> None:
    batch = rows("orders", 0, range(100), [0, 0.5])
    (file,) = written_by(FilesWriter(lake, HERE), batch.slice(0, 40), batch.slice(40)).files
    path = Path(lake, file.path)
    assert parquet.ParquetFile(path).read() == pa.Table.from_batches([batch]).select(SCHEMA.names).cast(SCHEMA)
    assert file.size_bytes == path.stat().st_size
    assert file.statistics() == {
        "numRecords": 100,
        "minValues": {"partition": 0, "offset": 0},
        "maxValues": {"partition": 0, "offset": 99},
        "nullCount": {"partition": 0, "offset": 0},
    }


def test_any_timestamp_has_a_day(lake: str, rows: Rows) -> None:
    times = [-1_000, -(2**63), 2**63 - 1, 0]
    batch = rows("orders", 0, range(4))
    batch = batch.set_column(5, "timestamp", pa.array(times, pa.timestamp("us", "UTC")))
    written = written_by(FilesWriter(lake, HERE), batch)
    assert sorted(file.date for file in written.files) == ["0001-01-01", "1969-12-31", "1970-01-01", "9999-12-31"]
    kept = [parquet.ParquetFile(Path(lake, file.path)).read()["timestamp"] for file in written.files]
    assert sorted(column.cast(pa.int64())[0].as_py() for column in kept) == sorted(times)


def test_there_are_never_too_many_open_files(lake: str, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "OPEN_FILES_MAX", 3)
    written = written_by(
        FilesWriter(lake, HERE), *(rows("orders", 0, range(n * 20, n * 20 + 20), range(5)) for n in (0, 1))
    )
    assert sum(file.rows for file in written.files) == 40
    assert len({file.path for file in written.files}) == len(written.files)


def test_large_rows_do_not_gather_in_memory(lake: str, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "ROW_GROUP_BYTES", 4_000)
    monkeypatch.setattr(writing, "PENDING_BYTES_MAX", 2_000)
    written = written_by(
        FilesWriter(lake, HERE), *(rows("orders", 0, range(n * 50, n * 50 + 50), [n % 2]) for n in range(10))
    )
    groups = [parquet.ParquetFile(Path(lake, file.path)).num_row_groups for file in written.files]
    assert sum(groups) > 2
    assert sum(file.rows for file in written.files) == 500


def test_a_large_file_ends_and_another_begins(lake: str, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "ROW_GROUP_BYTES", 1)
    writer = FilesWriter(lake, HERE, target_bytes=1)
    written = written_by(writer, *(rows("orders", 0, range(n * 5, n * 5 + 5)) for n in range(3)))
    assert [(file.first_offset, file.last_offset) for file in written.files] == [(0, 4), (5, 9), (10, 14)]


@pytest.mark.parametrize("offsets", [[1, 1], [2, 1], [0, 2, 1]])
def test_offsets_that_do_not_ascend_are_noticed(lake: str, rows: Rows, offsets: list[int]) -> None:
    writer = FilesWriter(lake, HERE)
    with pytest.raises(AssertionError, match="orders-0"):
        writer.write(rows("orders", 0, offsets))
    again = FilesWriter(lake, HERE)
    again.write(rows("orders", 0, [5]))
    with pytest.raises(AssertionError, match="orders-0: offset 5 came after 5"):
        again.write(rows("orders", 0, [5]))


@given(st.integers(-(2**40), 2**40))
def test_any_day_has_a_date_of_ten_characters(days: int) -> None:
    assert len(date_of(days)) == 10
    assert "0001-01-01" <= date_of(days) <= "9999-12-31"


def test_days_around_the_epoch() -> None:
    assert [date_of(days) for days in (-1, 0, 1)] == ["1969-12-31", "1970-01-01", "1970-01-02"]


def test_a_machine_without_the_lake_names_itself(tmp_path: Path) -> None:
    """Not mounted there, as a rule. It must not make a directory of that name."""
    with pytest.raises(FileNotFoundError, match=rf"^{socket.gethostname()} does not see the lake {tmp_path}/lake: "):
        FilesWriter(f"{tmp_path}/lake", HERE)
    assert not list(tmp_path.iterdir())
