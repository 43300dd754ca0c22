"""The note of how far a log was synced: what a start reads of it, whatever a crash left."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from minikafka.storage import durable_end
from minikafka.storage.disk import OsDisk
from minikafka.storage.durable_end import DURABLE_END_FILE, DurableEnd, read_durable_end
from minikafka.testing.disk import SimulatedDisk

DISK = OsDisk()


def test_nothing_is_known_where_nothing_was_noted(tmp_path: Path) -> None:
    assert read_durable_end(DISK, str(tmp_path)) is None


def test_the_last_note_counts(tmp_path: Path) -> None:
    end = DurableEnd(DISK, str(tmp_path))
    for offset in (0, 7, 12):
        end.note(offset)
        assert read_durable_end(DISK, str(tmp_path)) == offset


def test_syncs_that_overlap_never_take_a_note_back(tmp_path: Path) -> None:
    end = DurableEnd(DISK, str(tmp_path))
    end.note(12)
    end.note(7)
    assert read_durable_end(DISK, str(tmp_path)) == 12


def test_a_cut_takes_it_back(tmp_path: Path) -> None:
    end = DurableEnd(DISK, str(tmp_path))
    end.note(12)
    end.lower(20)
    assert read_durable_end(DISK, str(tmp_path)) == 12
    end.lower(7)
    assert read_durable_end(DISK, str(tmp_path)) == 7
    end.note(8)
    assert DurableEnd(DISK, str(tmp_path))._offset == 8


@pytest.mark.parametrize("torn", [b"\0" * 16, b"\1" * 16, b"\0" * 5])
def test_a_note_that_a_crash_damaged_does_not_count(tmp_path: Path, torn: bytes) -> None:
    DurableEnd(DISK, str(tmp_path)).note(7)
    with (tmp_path / DURABLE_END_FILE).open("ab") as file:
        file.write(torn)
    assert read_durable_end(DISK, str(tmp_path)) == 7


def test_the_file_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_end, "ROWS_MAX", 4)
    end = DurableEnd(DISK, str(tmp_path))
    for offset in range(1, 20):
        end.note(offset)
        assert read_durable_end(DISK, str(tmp_path)) == offset
        assert (tmp_path / DURABLE_END_FILE).stat().st_size <= 4 * 16


def test_a_note_outlives_a_power_cut() -> None:
    platter, rng = SimulatedDisk(), Random(1)
    disk = platter.mount()
    disk.mkdir("/log")
    disk.fsync_dir("/")
    end = DurableEnd(disk, "/log")
    for offset in range(1, 30):
        end.note(offset)
        assert read_durable_end(platter.after_power_loss(rng).mount(), "/log") == offset
