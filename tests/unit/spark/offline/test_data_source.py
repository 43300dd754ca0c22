"""Segments become rows: every record once, with where it lies; damage is an error, or a row."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from log_files import Logs, batch

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Compression, TopicPartition
from minikafka.records.batch import parse_header, write_header
from minikafka.records.build import build_batch
from minikafka.records.control import EndTxnMarker, build_end_txn_marker
from minikafka.records.record import Record
from minikafka.spark.offline.data_source import LogReader, read_segment
from minikafka.spark.offline.options import LogOptions
from minikafka.spark.offline.rows import log_schema
from minikafka.spark.offline.segments import plan
from minikafka.storage.disk import OsDisk

WHERE = TopicPartition("t", 4)


def read(logs: Logs, **given: str) -> list[dict[str, Any]]:
    options = LogOptions.parse({"path": str(logs.path), "upTo": "end"} | given)
    rows = []
    for task in plan(OsDisk(), options):
        for taken in read_segment(task, options):
            assert taken.schema.names == log_schema(options).fieldNames()
            rows += taken.to_pylist()
    return rows


def test_a_row_has_its_place(logs: Logs) -> None:
    logs.segment(WHERE, 0, batch(0, 2), batch(2, 2, epoch=5))
    logs.high_watermarks({WHERE: 4})
    row = read(logs, includeHeaders="true")[3]
    assert row == {
        "key": b"k",
        "value": b"3..........",
        "topic": "t",
        "partition": 4,
        "offset": 3,
        "timestamp": datetime(1970, 1, 1, 0, 0, 1, 3000, tzinfo=UTC),
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"x"}],
        "replica": 1,
        "directory": str(logs.path),
        "segment": 0,
        "highWatermark": 4,
        "leaderEpoch": 5,
        "batchBaseOffset": 2,
        "position": len(batch(0, 2)),
        "producerId": 7,
        "producerEpoch": 1,
        "baseSequence": 2,
        "isTransactional": False,
        "isControl": False,
    }


@pytest.mark.parametrize("compression", Compression)
def test_every_record_is_read_once(logs: Logs, compression: Compression) -> None:
    offset = 0
    for base in range(0, 3000, 1000):
        batches = []
        while offset < base + 1000:
            records = [Record(-1, 0, None, b"%d" % n) for n in range(offset, offset + 10)]
            batches.append(bytes(build_batch(records, base_offset=offset, leader_epoch=base, compression=compression)))
            offset += 10
        logs.segment(WHERE, base, *batches)
    rows = read(logs)
    assert [row["offset"] for row in rows] == list(range(3000))
    assert all(row["value"] == b"%d" % row["offset"] for row in rows)
    assert all(row["leaderEpoch"] == row["segment"] == row["offset"] // 1000 * 1000 for row in rows)
    assert all(row["batchBaseOffset"] == row["offset"] // 10 * 10 for row in rows)


def test_bounds_cut_batches(logs: Logs) -> None:
    logs.segment(WHERE, 0, *(batch(base) for base in (0, 3, 6)))
    logs.high_watermarks({WHERE: 7})
    logs.log_starts({WHERE: 2})
    rows = read(logs, upTo="highWatermark")
    assert [(row["offset"], row["batchBaseOffset"]) for row in rows] == [(2, 0), (3, 3), (4, 3), (5, 3), (6, 6)]


def test_control_batches_are_rows_when_asked_for(logs: Logs) -> None:
    marker = bytes(build_end_txn_marker(9, 0, EndTxnMarker(True, 0), timestamp=0, base_offset=3))
    logs.segment(WHERE, 0, batch(0), marker, batch(4))
    logs.segment(WHERE, 7, marker[:7] + bytes([7]) + marker[8:])
    assert [row["offset"] for row in read(logs)] == [0, 1, 2, 4, 5, 6]
    rows = read(logs, includeControlBatches="true")
    assert [row["offset"] for row in rows] == list(range(8))
    assert [row["offset"] for row in rows if row["isControl"]] == [3, 7]


def damaged(data: bytes, at: int = 75) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_damage_is_an_error_that_says_where(logs: Logs) -> None:
    path = logs.segment(WHERE, 0, batch(0), damaged(batch(3)), batch(6))
    with pytest.raises(KafkaError) as raised:
        read(logs)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
    assert raised.value.message == (
        f"{path} is damaged from offset 3 on: a batch fails its checksum at byte {len(batch(0))} "
        f"({len(batch(3))} bytes); set mode=permissive to read the rest, and what is missing as rows of their own"
    )
    logs.high_watermarks({WHERE: 3})
    assert len(read(logs, upTo="highWatermark")) == 3, "what is not committed may be anything"


def test_damage_is_a_row_when_that_is_permitted(logs: Logs) -> None:
    logs.segment(WHERE, 0, batch(0), damaged(batch(3)), batch(6), batch(9)[:-2])
    rows = read(logs, mode="permissive")
    assert [row["offset"] for row in rows] == [0, 1, 2, 3, 6, 7, 8, 9]
    told = [row for row in rows if row["damage"] is not None]
    assert [(row["offset"], row["position"], row["value"]) for row in told] == [
        (3, len(batch(0)), None),
        (9, 3 * len(batch(0)), None),
    ]
    assert [row["damage"].split(":")[0] for row in told] == ["damaged from offset 3 on", "a torn tail from offset 9 on"]
    assert {(row["topic"], row["partition"], row["replica"]) for row in rows} == {("t", 4, 1)}


def test_records_that_cannot_be_decoded_are_damage(logs: Logs) -> None:
    spoilt = bytearray(damaged(batch(3), 61))
    write_header(spoilt, parse_header(spoilt))  # as if the author was wrong: the checksum is right
    logs.segment(WHERE, 0, batch(0), bytes(spoilt), batch(6))
    with pytest.raises(KafkaError, match="damaged from offset 3 on: its records cannot be read"):
        read(logs)
    rows = read(logs, mode="permissive")
    assert [row["offset"] for row in rows] == [0, 1, 2, 3, 6, 7, 8]


def test_checksums_may_be_overlooked(logs: Logs) -> None:
    logs.segment(WHERE, 0, damaged(batch(0, 1), 17))
    assert len(read(logs, verifyCrc="false")) == 1


def test_a_segment_that_vanished(logs: Logs) -> None:
    path = logs.segment(WHERE, 0, batch(0))
    options = LogOptions.parse({"path": str(logs.path), "upTo": "end"})
    (task,) = plan(OsDisk(), options)
    Path(path).unlink()
    with pytest.raises(KafkaError, match="was deleted after the query was planned"):
        list(read_segment(task, options))


def test_a_scan_without_segments_reads_nothing() -> None:
    assert list(LogReader(LogOptions(("/",))).read(None)) == []
