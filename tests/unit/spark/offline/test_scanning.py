"""What a segment holds is found piece by piece, and what is damaged is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from log_files import Logs, batch

from minikafka.model import TopicPartition
from minikafka.records.batch import parse_header
from minikafka.spark.offline import scanning
from minikafka.spark.offline.scanning import Damage, Piece, scan_segment
from minikafka.spark.offline.segments import NO_END, SegmentTask
from minikafka.storage.disk import OsDisk

WHERE = TopicPartition("t", 0)


def task(path: Path, *, end: int = NO_END, high_watermark: int | None = None, is_last: bool = True) -> SegmentTask:
    size = path.stat().st_size
    return SegmentTask(
        WHERE, 1, str(path.parent.parent), str(path), int(path.stem), size, is_last, 0, end, high_watermark
    )


def scan(task: SegmentTask, *, check_crcs: bool = True) -> list[int | Damage]:
    """Base offsets of batches, and damage."""
    found: list[int | Damage] = []
    for item in scan_segment(OsDisk(), task, check_crcs=check_crcs):
        if isinstance(item, Piece):
            for at, header in item.batches:
                assert parse_header(item.buffer, at) == header
                assert Path(task.path).read_bytes()[item.position + at :].startswith(bytes(item.buffer[at : at + 61]))
                found.append(header.base_offset)
        else:
            found.append(item)
    return found


def test_batches_are_found_in_order(logs: Logs) -> None:
    path = logs.segment(WHERE, 6, *(batch(base) for base in range(6, 60, 3)))
    assert scan(task(path)) == list(range(6, 60, 3))
    assert scan(task(path, end=31)) == list(range(6, 31, 3)), "up to and with the batch that holds the last offset"
    assert scan(task(path, end=30)) == list(range(6, 30, 3))


@pytest.mark.parametrize("piece_bytes", [61, 100, 1000, 5000])
def test_pieces_of_any_size(logs: Logs, monkeypatch: pytest.MonkeyPatch, piece_bytes: int) -> None:
    path = logs.segment(WHERE, 0, *(batch(base, size=base) for base in range(0, 300, 3)))
    monkeypatch.setattr(scanning, "PIECE_BYTES", piece_bytes)
    assert scan(task(path)) == list(range(0, 300, 3))


def test_what_is_damaged_is_passed_by(logs: Logs) -> None:
    damaged = bytearray(batch(3))
    damaged[70] ^= 1
    path = logs.segment(WHERE, 0, batch(0), bytes(damaged), batch(6))
    size = len(batch(0))
    damage = Damage(size, size, 3, "a batch fails its checksum", is_torn_tail=False)
    assert scan(task(path)) == [0, damage, 6]
    assert scan(task(path), check_crcs=False) == [0, 3, 6]
    assert scan(task(path, end=3)) == [0], "what is not asked for may be damaged"
    assert "damaged from offset 3 on: a batch fails its checksum at byte" in str(damage)


def test_the_next_batch_is_found_behind_rubbish(logs: Logs) -> None:
    path = logs.segment(WHERE, 0, batch(0), b"\2" * 1000, batch(3), bytes(100), batch(6))
    found = scan(task(path))
    assert [item for item in found if isinstance(item, int)] == [0, 3, 6]
    assert [item.size_bytes for item in found if isinstance(item, Damage)] == [1000, 100]


def test_offsets_that_go_back_are_damage(logs: Logs) -> None:
    path = logs.segment(WHERE, 0, batch(0), batch(6), batch(3), batch(9))
    found = scan(task(path))
    assert [item for item in found if isinstance(item, int)] == [0, 6, 9]
    (damage,) = (item for item in found if isinstance(item, Damage))
    assert damage.why == "a batch of offset 3 begins"


@pytest.mark.parametrize("tail", [batch(3)[:-1], batch(3)[:40], bytes(200)])
def test_a_torn_tail_is_no_damage_unless_it_was_committed(logs: Logs, tail: bytes) -> None:
    path = logs.segment(WHERE, 0, batch(0), tail)

    def torn(**how: object) -> bool:
        (_, damage) = scan(task(path, **how))  # type: ignore[arg-type]
        assert isinstance(damage, Damage)
        return damage.is_torn_tail

    assert torn()
    assert torn(high_watermark=3)
    assert not torn(high_watermark=4)
    assert not torn(is_last=False)


def test_an_empty_segment(logs: Logs) -> None:
    assert scan(task(logs.segment(WHERE, 0))) == []
