"""The note of how far a log was synced: what a start reads of it, whatever a crash left."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random

import pytest
from simulator.disk import MountedDisk, SimulatedDisk

from minikafka.storage import durable_end
from minikafka.storage.disk import OsDisk
from minikafka.storage.durable_end import DURABLE_END_FILE, DurableEnd, read_durable_end

DISK = OsDisk()


def begun(directory: Path | str, disk: OsDisk | MountedDisk = DISK) -> DurableEnd:
    end = DurableEnd(disk, str(directory))
    end.begin()
    return end


def test_nothing_is_noted_where_nobody_has_begun(tmp_path: Path) -> None:
    """A start syncs what it finds before anybody looked whether the note is missing."""
    end = DurableEnd(DISK, str(tmp_path))
    end.note(7)
    assert read_durable_end(DISK, str(tmp_path)) is None
    assert not end.is_known
    end.begin()
    assert read_durable_end(DISK, str(tmp_path)) == 0
    end.note(7)
    DurableEnd(DISK, str(tmp_path)).begin()
    assert read_durable_end(DISK, str(tmp_path)) == 7


def test_nothing_is_known_where_nothing_was_noted(tmp_path: Path) -> None:
    assert read_durable_end(DISK, str(tmp_path)) is None


def test_the_last_note_counts(tmp_path: Path) -> None:
    end = begun(tmp_path)
    for offset in (0, 7, 12):
        end.note(offset)
        assert read_durable_end(DISK, str(tmp_path)) == offset


def test_syncs_that_overlap_never_take_a_note_back(tmp_path: Path) -> None:
    end = begun(tmp_path)
    end.note(12)
    end.note(7)
    assert read_durable_end(DISK, str(tmp_path)) == 12


def test_a_cut_takes_it_back(tmp_path: Path) -> None:
    end = begun(tmp_path)
    end.note(12)
    end.lower(20)
    assert read_durable_end(DISK, str(tmp_path)) == 12
    end.lower(7)
    assert read_durable_end(DISK, str(tmp_path)) == 7
    end.note(8)
    assert DurableEnd(DISK, str(tmp_path))._offset == 8


@pytest.mark.parametrize("torn", [b"\0" * 16, b"\1" * 16, b"\0" * 5])
def test_a_note_that_a_crash_damaged_does_not_count(tmp_path: Path, torn: bytes) -> None:
    begun(tmp_path).note(7)
    with (tmp_path / DURABLE_END_FILE).open("ab") as file:
        file.write(torn)
    assert read_durable_end(DISK, str(tmp_path)) == 7


def test_the_file_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_end, "ROWS_MAX", 4)
    end = begun(tmp_path)
    for offset in range(1, 20):
        end.note(offset)
        assert read_durable_end(DISK, str(tmp_path)) == offset
        assert (tmp_path / DURABLE_END_FILE).stat().st_size <= 4 * 16


def test_a_note_outlives_a_power_cut() -> None:
    platter, rng = SimulatedDisk(), Random(1)
    disk = platter.mount()
    disk.mkdir("/log")
    disk.fsync_dir("/")
    end = begun("/log", disk)
    for offset in range(1, 30):
        end.note(offset)
        assert read_durable_end(platter.after_power_loss(rng).mount(), "/log") == offset


@pytest.mark.spec("P5")
@pytest.mark.parametrize("row", [0, 1])
def test_a_damaged_row_that_no_crash_damages_makes_the_note_unreadable(tmp_path: Path, row: int) -> None:
    end = begun(tmp_path)
    for offset in (7, 12):
        end.note(offset)
    path = tmp_path / DURABLE_END_FILE
    data = bytearray(path.read_bytes())
    assert len(data) == 3 * 16
    data[16 * row + 7] ^= 1
    path.write_bytes(data)
    assert read_durable_end(DISK, str(tmp_path)) is None


@pytest.mark.parametrize("content", [b"", b"\0" * 15, b"\0" * 16], ids=["empty", "cut", "zeroed"])
def test_a_note_without_a_sound_row_is_unreadable(tmp_path: Path, content: bytes) -> None:
    begun(tmp_path)
    (tmp_path / DURABLE_END_FILE).write_bytes(content)
    assert read_durable_end(DISK, str(tmp_path)) is None


def test_a_note_that_became_a_directory_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / DURABLE_END_FILE).mkdir()
    assert read_durable_end(DISK, str(tmp_path)) is None
    begun(tmp_path).note(3)
    assert read_durable_end(DISK, str(tmp_path)) == 3


def test_what_a_start_finds_is_made_durable() -> None:
    """A process was killed before it synced its note: the next one builds on that, and loses power."""
    platter, rng = SimulatedDisk(), Random(1)
    disk = platter.mount()
    disk.mkdir("/log")
    disk.fsync_dir("/")
    begun("/log", disk)
    file = disk.open_append(f"/log/{DURABLE_END_FILE}")
    file.append([struct.pack(">qq", 7, ~7)])
    end = begun("/log", disk)
    end.note(7)
    assert read_durable_end(platter.after_power_loss(rng).mount(), "/log") == 7
