"""`minikafka log dump` on segments that the storage's own writers made."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from command_line import COMMAND

from minikafka.groups.records import OffsetCommitKey, OffsetCommitRecord, OffsetCommitValue
from minikafka.metadata.records import UserScramCredentialRecord, encode_record
from minikafka.model import Compression
from minikafka.records.batch import HEADER_SIZE, parse_header, write_header
from minikafka.records.build import build_batch
from minikafka.records.control import EndTxnMarker, build_end_txn_marker
from minikafka.records.record import Record
from minikafka.sasl.scram import ScramMechanism


def dump(*words: str | Path) -> Result:
    return CliRunner().invoke(COMMAND, ["log", "dump", *map(str, words)])


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000.log"
    first = [Record(0, 1_700_000_000_000, b"k", b"one"), Record(1, 1_700_000_000_001, None, b"\xff", (("h", b"1"),))]
    path.write_bytes(
        build_batch(first, base_offset=0)
        + build_batch(
            [Record(2, 0, b"k", b"x" * 1000)],
            base_offset=2,
            compression=Compression.ZSTD,
            producer_id=7,
            base_sequence=0,
        )
    )
    return path


def test_each_batch_is_a_line(segment: Path) -> None:
    result = dump(segment)
    assert result.exit_code == 0
    first, second = result.output.splitlines()
    assert first.startswith("offsets 0-1  byte 0+")
    assert "2 records" in first
    assert "2023-11-14T22:13:20.001+00:00" in first
    assert "zstd  producer 7/" in second


def test_keys_of_users_are_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "__cluster_metadata-0" / "00000000000000000000.log"
    path.parent.mkdir()
    credential = UserScramCredentialRecord("alice", ScramMechanism.SCRAM_SHA_256, b"salt", b"stored", b"server", 4096)
    path.write_bytes(build_batch([Record(0, 0, None, encode_record(credential))]))
    *_, record = map(json.loads, dump("--json", "--records", path).output.splitlines())
    assert (record["value"], record["meaning"]) == (None, repr(credential))
    assert "b'" not in record["meaning"]


def test_ends_of_transactions_and_the_index_of_aborted_ones_are_shown(tmp_path: Path) -> None:
    log, index = tmp_path / "00000000000000000000.log", tmp_path / "00000000000000000000.txnindex"
    log.write_bytes(
        build_end_txn_marker(7, 0, EndTxnMarker(False, 3), timestamp=0)
        + build_end_txn_marker(8, 0, EndTxnMarker(True, 4), timestamp=0, base_offset=1)
    )
    first, meaning, second, _ = dump("--records", log).output.splitlines()
    assert first.endswith("producer 7/0 seq -1  transactional  control  abort")
    assert meaning.endswith("control record: ABORT, coordinator epoch 3")
    assert second.endswith("commit")
    entries = [json.loads(line) for line in dump("--json", log).output.splitlines()]
    assert [entry["marker"] for entry in entries] == ["abort", "commit"]
    index.write_bytes(struct.pack(">hqqqq", 0, 7, 0, 4, 2))
    assert dump(index).output == "producer_id 7  first_offset 0  last_offset 4  last_stable_offset 2\n"


def test_records_are_shown_when_asked_for(segment: Path) -> None:
    lines = dump("--records", segment).output.splitlines()
    assert len(lines) == 5
    assert lines[1].endswith("'k': 'one'")
    assert lines[2].endswith("None: {'base64': '/w=='}  headers [['h', '1']]")


def test_of_very_many_headers_the_first_are_shown(tmp_path: Path) -> None:
    """3 KB of zstd hold millions."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_batch([Record(0, 0, b"k", b"v", (("h", None),) * 200)]))
    _batch, record = dump("--records", path).output.splitlines()
    assert record.count("['h', None]") == 100
    assert record.endswith(", the first 100 of 200")
    *_, shown = map(json.loads, dump("--json", "--records", path).output.splitlines())
    assert (len(shown["headers"]), shown["header_count"]) == (100, 200)


def test_json_is_one_document_a_line(segment: Path) -> None:
    entries = [json.loads(line) for line in dump("--json", "--records", segment).output.splitlines()]
    assert [entry["offset"] for entry in entries if "key" in entry] == [0, 1, 2]
    assert entries[0]["crc_valid"] is True


def test_the_clusters_own_records_are_explained(tmp_path: Path) -> None:
    offset = OffsetCommitRecord(OffsetCommitKey(group="g", topic="t", partition=1), OffsetCommitValue(offset=42))
    directory = tmp_path / "__consumer_offsets-3"
    directory.mkdir()
    key, value = offset.encode()
    path = directory / "00000000000000000000.log"
    path.write_bytes(build_batch([Record(0, 0, key, value), Record(1, 0, b"?", b"?")]))
    _, first, second = dump("-r", path).output.splitlines()
    assert "group='g'" in first
    assert "offset=42" in first
    assert "cannot be read" in second


def test_what_a_producer_sent_broken_is_told_and_what_follows_is_shown(tmp_path: Path) -> None:
    broken = build_batch([Record(0, 0, None, b"x" * 60)])
    broken[HEADER_SIZE:] = b"\xff" * (len(broken) - HEADER_SIZE)
    write_header(broken, parse_header(broken))
    sound = build_batch([Record(1, 0, b"k", b"v", (("\udcff", b"1"),))], base_offset=1)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(broken + sound)
    result = dump("--records", "--json", path)
    entries = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 1
    assert "cannot be read" in entries[1]["problem"]
    assert entries[3]["headers"] == [["\udcff", "1"]]


def test_an_empty_file_is_said_to_be_empty(tmp_path: Path) -> None:
    log, index = tmp_path / "00000000000000000000.log", tmp_path / "00000000000000000000.index"
    log.touch()
    index.touch()
    assert dump(log).output == "no batches\n"
    assert dump(log, index).output == f"{log}:\nno batches\n{index}:\nno entries\n"
    assert dump("--json", log).output == ""


def test_damage_is_told_where_it_is_and_fails(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    data[70] ^= 1
    segment.write_bytes(data[:-3])
    result = dump(segment)
    assert result.exit_code == 1
    assert "!! wrong checksum: batch at byte 0" in result.output
    assert "!! damaged from byte" in result.output
    assert result.output.splitlines()[-1] == "minikafka: 2 problems found"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("00000000000000000000.index", b"\1" * 12),
        ("00000000000000000000.timeindex", b"\1" * 7),
        ("00000000000000000000.txnindex", b"\1" * 34),
        ("00000000000000000000.snapshot", b"junk"),
        ("x.index", b""),
    ],
)
def test_a_damaged_file_is_said_to_be_damaged(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    result = dump(path)
    assert result.exit_code == 1
    problem, last = result.output.splitlines()
    assert problem.startswith("!! cannot be read: ")
    assert last == "minikafka: 1 problem found"


def test_a_name_without_an_offset_is_told(tmp_path: Path) -> None:
    path = tmp_path / "mine.timeindex"
    path.write_bytes(b"")
    first, _ = dump(path).output.splitlines()
    assert first == (
        "!! cannot be read: the name must begin with the base offset, as 00000000000000000000; it is mine.timeindex"
    )


def test_what_is_no_such_file_is_refused_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"")
    refused = dump(path)
    assert refused.exit_code == 1
    assert (
        refused.output == f"minikafka: {path}: unknown file type; "
        "the name must end in .log, .index, .timeindex, .txnindex or .snapshot\n"
    )
    assert dump(tmp_path / "none.log").output == f"minikafka: {tmp_path}/none.log: file not found\n"
    assert dump(tmp_path).output == f"minikafka: {tmp_path} is a directory; name the files in it: {tmp_path}/*.log\n"
