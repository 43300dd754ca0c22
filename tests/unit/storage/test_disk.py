from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from minikafka.storage import disk as disk_module
from minikafka.storage.disk import OsDisk, OsFile, write_rest_at


def test_appends_all_buffers_in_order_also_beyond_iov_max(disk: OsDisk, tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    file = disk.open_append(path)
    buffers = [b"%d," % index for index in range(disk_module.MAX_BUFFERS_PER_WRITE * 2 + 7)]
    file.append(buffers)
    file.append([b"end"])
    assert disk.read_bytes(path) == b"".join(buffers) + b"end"
    assert file.size() == disk.size(path)


@pytest.mark.parametrize("most", [1, 2, 3, 5, 8])
def test_continues_after_short_writes(disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    path = str(tmp_path / "f")
    file = disk.open_append(path)
    writev = os.writev

    def short_writev(fd: int, buffers: list[memoryview]) -> int:
        return writev(fd, [memoryview(b"".join(buffers))[:most]])

    monkeypatch.setattr(os, "writev", short_writev)
    monkeypatch.setattr(os, "write", lambda fd, buffer: short_writev(fd, [memoryview(buffer)]))
    file.append([b"abc", b"", b"defgh", b"i"])
    file.append([b"jklmnop"])
    assert disk.read_bytes(path) == b"abcdefghijklmnop"


def test_a_write_that_makes_no_progress_is_a_full_disk(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open_append(str(tmp_path / "f"))
    monkeypatch.setattr(os, "writev", lambda _fd, _buffers: 0)
    with pytest.raises(OSError, match="No space"):
        file.append([b"a", b"b"])


def test_pread_is_short_only_at_the_end(disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.open_append(str(tmp_path / "f"))
    file.append([b"0123456789"])
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, position: pread(fd, min(size, 3), position))
    assert file.pread(7, 1) == b"1234567"
    assert file.pread(7, 8) == b"89"
    assert file.pread(7, 10) == b""


def test_slots_are_written_in_place_and_beyond_the_end(disk: OsDisk, tmp_path: Path) -> None:
    path = str(tmp_path / "slots")
    disk.write_bytes(path, b"123456")
    file = disk.open_slots(path)
    file.pwrite(b"xy", 1)
    file.pwrite(b"z", 8)
    assert disk.read_bytes(path) == b"1xy456\0\0z"
    with pytest.raises(FileNotFoundError):
        disk.open_slots(path + "-")


def test_what_a_write_at_a_position_left_is_written_behind_it() -> None:
    content = bytearray(8)

    def pwrite(data: bytes, position: int) -> int:
        taken = data[:2]
        content[position : position + len(taken)] = taken
        return len(taken)

    write_rest_at(pwrite, b"12345", 1, 2)
    assert content == b"\0\0\x00345\0\0"
    with pytest.raises(OSError, match="No space"):
        write_rest_at(lambda _data, _position: 0, b"12345", 1, 2)


def test_write_atomic_replaces_and_leaves_no_temporary_file(disk: OsDisk, tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    disk.write_atomic(path, b"old content")
    disk.write_atomic(path, b"new")
    assert disk.read_bytes(path) == b"new"
    assert disk.listdir(str(tmp_path)) == ["f"]


def test_what_cannot_be_written_whole_takes_no_room(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "f")
    disk.write_atomic(path, b"old content")

    def refuse(_file: OsFile) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(OsFile, "fsync", refuse)
    with pytest.raises(OSError, match="No space left"):
        disk.write_atomic(path, b"new")
    assert disk.read_bytes(path) == b"old content"
    assert disk.listdir(str(tmp_path)) == ["f"]


def test_names_are_synced_without_another_descriptor(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = disk.open_names(str(tmp_path))
    monkeypatch.setattr(os, "open", lambda *_: pytest.fail("there is none left"))
    disk.rename(str(tmp_path), str(tmp_path) + "-moved")
    names.fsync()


def test_a_dropped_file_gives_its_descriptor_back(disk: OsDisk, tmp_path: Path) -> None:
    file = disk.open_append(str(tmp_path / "f"))
    fd = file.fileno()
    assert fd is not None
    del file
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


def test_close_twice_closes_once(disk: OsDisk, tmp_path: Path) -> None:
    file = OsFile(os.open(tmp_path / "f", os.O_CREAT | os.O_RDWR))
    file.close()
    file.close()


def test_a_lock_keeps_a_second_holder_out_even_in_this_process(disk: OsDisk, tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    lock = disk.lock(path)
    with pytest.raises(BlockingIOError):
        disk.lock(path)
    lock.release()
    disk.lock(path).release()


def test_unlink_and_mkdir_do_not_mind_what_is_there(disk: OsDisk, tmp_path: Path) -> None:
    disk.unlink(str(tmp_path / "absent"))
    disk.mkdir(str(tmp_path / "a/b"))
    disk.mkdir(str(tmp_path / "a/b"))
    assert disk.is_dir(str(tmp_path / "a/b"))
    disk.remove_tree(str(tmp_path / "a"))
    assert not disk.exists(str(tmp_path / "a"))


def test_run_all_runs_every_job_and_raises_what_one_raised(disk: OsDisk) -> None:
    done: list[int] = []
    disk.run_all([lambda index=index: done.append(index) for index in range(40)])  # type: ignore[misc]
    assert sorted(done) == list(range(40))
    with pytest.raises(ZeroDivisionError):
        disk.run_all([lambda: done.append(1), lambda: done.append(1 // 0)])


@pytest.mark.spec("P1")
@pytest.mark.parametrize(
    ("found", "told"), [(errno.ENOSPC, errno.EIO), (errno.EDQUOT, errno.EIO), (errno.EMFILE, errno.EMFILE)]
)
def test_a_sync_that_lacks_room_has_lost_what_was_written(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: int, told: int
) -> None:
    """As on NFS. Of a write such an error says that what was written before is there."""
    file, names = disk.open_append(str(tmp_path / "a")), disk.open_names(str(tmp_path))

    def refuse(_fd: int) -> None:
        raise OSError(found, os.strerror(found))

    monkeypatch.setattr(os, "fsync", refuse)
    monkeypatch.setattr("minikafka.storage.disk._fdatasync", refuse)
    for sync in (file.fsync, names.fsync, lambda: disk.fsync_path(str(tmp_path / "a"))):
        with pytest.raises(OSError, match=os.strerror(told)) as raised:
            sync()
        assert raised.value.errno == told


def test_space_is_that_of_the_file_system(disk: OsDisk, tmp_path: Path) -> None:
    space = disk.space(str(tmp_path))
    assert 0 < space.usable <= space.total
