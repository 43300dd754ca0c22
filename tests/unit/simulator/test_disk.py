"""The simulated disk: what processes see, what outlives them, and what a power cut leaves."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from typing import cast

import pytest
from simulator.disk import KilledInside, MountedDisk, Operation, SimulatedDisk
from simulator.disk.damage import HOWS, How, damage, displace, keep, let_pass, plant, put_back, restore, roll_back
from simulator.disk.inodes import SECTOR, WRITTEN_BACK
from simulator.killed import Killed

from minikafka.storage.disk import Disk


@pytest.fixture
def platter() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def disk(platter: SimulatedDisk) -> MountedDisk:
    disk = platter.mount()
    disk.mkdir("/data/logs")
    disk.fsync_dir("/")
    disk.fsync_dir("/data")
    return disk


def futures(platter: SimulatedDisk, path: str, count: int = 300) -> set[bytes | None]:
    """What a power cut now may leave of a file; None when it is gone."""
    return {platter.after_power_loss(Random(seed)).files().get(path) for seed in range(count)}


def make(disk: MountedDisk, path: str, data: bytes) -> None:
    file = disk.open_append(path)
    file.append([data])
    file.fsync()
    disk.fsync_dir("/data/logs")


# -- a file system --------------------------------------------------------------------------------------------------


def test_a_mounted_disk_serves_as_a_disk(disk: MountedDisk) -> None:
    port: Disk = disk
    assert port.is_dir("/data/logs")


def test_reads_see_what_was_written(disk: MountedDisk) -> None:
    file = disk.open_append("/data/logs/a")
    file.append([b"ab", bytearray(b"cd"), memoryview(b"xefx")[1:3]])
    assert file.pread(3, 1) == b"bcd"
    assert file.pread(100, 4) == b"ef"
    file.truncate(3)
    file.append([b"!"])
    assert disk.read_bytes("/data/logs/a") == b"abc!"
    file.truncate(6)
    assert disk.read_bytes("/data/logs/a") == b"abc!\0\0"
    assert disk.size("/data/logs/a") == file.size() == 6


def test_an_open_file_outlives_its_name(disk: MountedDisk) -> None:
    disk.write_bytes("/data/logs/a", b"old")
    file = disk.open_read("/data/logs/a")
    disk.unlink("/data/logs/a")
    disk.unlink("/data/logs/a")
    disk.unlink("/data/none/a")
    assert file.pread(10, 0) == b"old"
    assert not disk.exists("/data/logs/a")


def test_rename_replaces_files_and_takes_directories_along(disk: MountedDisk) -> None:
    disk.write_bytes("/data/logs/a", b"a")
    disk.write_bytes("/data/logs/b", b"b")
    disk.rename("/data/logs/a", "/data/logs/b")
    disk.rename("/data/logs", "/data/moved")
    assert disk.listdir("/data/moved") == ["b"]
    assert disk.read_bytes("/data/moved/b") == b"a"
    assert disk.listdir("/data") == ["moved"]


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda disk: disk.read_bytes("/data/none"), FileNotFoundError),
        (lambda disk: disk.open_append("/none/a"), FileNotFoundError),
        (lambda disk: disk.open_append("/data/logs"), IsADirectoryError),
        (lambda disk: disk.listdir("/data/file"), NotADirectoryError),
        (lambda disk: disk.open_append("/data/file/a"), NotADirectoryError),
        (lambda disk: disk.mkdir("/data/file"), NotADirectoryError),
        (lambda disk: disk.rename("/data/none", "/data/a"), FileNotFoundError),
        (lambda disk: disk.rename("/data/logs", "/data/full"), OSError),
        (lambda disk: disk.rename("/data/file", "/file"), OSError),
        (lambda disk: disk.fsync_dir("/none"), FileNotFoundError),
        (lambda disk: disk.unlink("/data/logs"), IsADirectoryError),
    ],
)
def test_what_an_operating_system_refuses_is_refused(
    disk: MountedDisk, act: Callable[[MountedDisk], object], error: type[Exception]
) -> None:
    disk.write_bytes("/data/file", b"")
    disk.mkdir("/data/full/below")
    with pytest.raises(error):
        act(disk)


def test_a_closed_file_is_refused(disk: MountedDisk) -> None:
    file = disk.open_append("/data/a")
    file.close()
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.append([b"x"])


def test_a_tree_goes_with_everything_below(platter: SimulatedDisk, disk: MountedDisk) -> None:
    disk.mkdir("/data/logs/below")
    disk.write_bytes("/data/logs/below/a", b"abc")
    disk.write_bytes("/data/logs/b", b"b")
    disk.remove_tree("/data/logs")
    assert disk.listdir("/data") == []
    assert platter.used == 0


def test_relative_paths_and_repeated_slashes_are_understood(disk: MountedDisk) -> None:
    disk.mkdir("there")
    disk.write_bytes("there//a", b"x")
    assert disk.read_bytes("./there/a") == b"x"


# -- room -----------------------------------------------------------------------------------------------------------


def test_a_full_disk_takes_what_fits() -> None:
    platter = SimulatedDisk(capacity=10)
    disk = platter.mount()
    file = disk.open_append("/a")
    file.append([b"1234567"])
    with pytest.raises(OSError, match="No space left") as raised:
        file.append([b"abcdef"])
    assert raised.value.errno == errno.ENOSPC
    assert disk.read_bytes("/a") == b"1234567abc"
    assert disk.space("/") == (10, 0)
    file.truncate(4)
    assert disk.space("/").usable == 6
    disk.rename("/a", "/b")
    disk.write_bytes("/c", b"12")
    disk.rename("/c", "/b")
    assert platter.used == 2
    disk.unlink("/b")
    assert platter.used == 0


def test_a_file_has_the_rest_of_its_last_block_when_the_disk_has_none_left(platter: SimulatedDisk) -> None:
    disk = platter.mount()
    disk.write_bytes("/a", b"123")
    disk.write_bytes("/b.log", b"")
    platter.capacity, platter.block, platter.spared = platter.used + 9, 4, (".log",)
    small = disk.open_append("/a")
    with pytest.raises(OSError, match="No space left"):
        disk.write_bytes("/c", b"0123456789")
    assert disk.read_bytes("/c") == b"01234567"
    small.append([b"4"])
    with pytest.raises(OSError, match="No space left"):
        small.append([b"5"])
    disk.open_append("/b.log").append([b"0123456789"])
    disk.unlink("/c")
    assert (disk.read_bytes("/a"), disk.space("/").usable, platter.is_short) == (b"1234", 0, True)
    platter.short_below = "/d"
    disk.write_bytes("/c", b"0123456789")
    assert not platter.is_short or disk.space("/").usable > 10


@pytest.mark.parametrize("taken", [1, 3, 4])
def test_a_write_that_takes_a_part_is_gone_on_with(taken: int) -> None:
    seen: list[Operation] = []
    disk = SimulatedDisk().mount(before=seen.append)
    disk.takes = lambda size: min(size, taken)
    file = disk.open_append("/a")
    assert file.append([b"12", b"", b"345"]) == 5
    assert disk.read_bytes("/a") == b"12345"
    assert file.pwrite(b"abcde", 0) == taken
    assert [size for kind, _path, size, _data in seen if kind == "append"] == list(range(5, 0, -taken))


def test_what_could_not_be_written_is_no_temporary_file() -> None:
    platter = SimulatedDisk(capacity=10)
    disk = platter.mount()
    disk.write_atomic("/a", b"1234567")
    with pytest.raises(OSError, match="No space left"):
        disk.write_atomic("/a", b"12345678")
    assert platter.files() == {"/a": b"1234567"}


# -- the end of a process ---------------------------------------------------------------------------------------------


def test_nothing_of_a_killed_process_reaches_the_disk(platter: SimulatedDisk, disk: MountedDisk) -> None:
    file = disk.open_append("/data/a")
    file.append([b"before"])
    lock = disk.lock("/data/.lock")
    platter.kill()
    acts: list[Callable[[], object]] = [
        lambda: file.append([b"after"]),
        lambda: file.pread(1, 0),
        lambda: file.truncate(0),
        file.size,
        file.fsync,
        lock.release,
        lambda: disk.open_append("/data/b"),
        lambda: disk.read_bytes("/data/a"),
        lambda: disk.write_atomic("/data/b", b""),
        lambda: disk.mkdir("/data/c"),
        lambda: disk.rename("/data/a", "/data/b"),
        lambda: disk.unlink("/data/a"),
        lambda: disk.remove_tree("/data"),
        lambda: disk.listdir("/data"),
        lambda: disk.exists("/data"),
        lambda: disk.fsync_dir("/data"),
        lambda: disk.lock("/data/.lock"),
    ]
    for act in acts:
        with pytest.raises(Killed):
            act()
    again = platter.mount()
    assert again.listdir("/data") == [".lock", "a", "logs"]
    assert again.read_bytes("/data/a") == b"before"
    again.lock("/data/.lock").release()


def test_one_process_holds_a_lock(platter: SimulatedDisk, disk: MountedDisk) -> None:
    lock = disk.lock("/data/.lock")
    for other in (disk, platter.mount()):
        with pytest.raises(BlockingIOError):
            other.lock("/data//.lock")
    lock.release()
    platter.mount().lock("/data/.lock")


def test_every_system_call_is_announced(platter: SimulatedDisk) -> None:
    seen: list[Operation] = []
    disk = platter.mount(before=seen.append)
    disk.mkdir("/a/b")
    disk.write_atomic("/a/b/c", b"123")
    disk.write_bytes("/a/b/c", b"4567")
    file = disk.open_append("/a/b/c")
    file.truncate(2)
    disk.unlink("/a/b/none")
    disk.remove_tree("/a")
    assert [(kind, path) for kind, path, *_ in seen] == [
        ("mkdir", "/a"),
        ("mkdir", "/a/b"),
        ("create", "/a/b/c.tmp"),
        ("append", "/a/b/c.tmp"),
        ("fsync", "/a/b/c.tmp"),
        ("rename", "/a/b/c.tmp"),
        ("fsync_dir", "/a/b"),
        ("truncate", "/a/b/c"),
        ("append", "/a/b/c"),
        ("truncate", "/a/b/c"),
        ("unlink", "/a/b/c"),
        ("rmdir", "/a/b"),
        ("rmdir", "/a"),
    ]
    assert [size for kind, _path, size, _data in seen if kind in ("append", "truncate")] == [3, 0, 4, 2]
    assert [data for *_, data in seen if data] == [b"123", b"4567"]


def test_bytes_are_written_over_in_place(platter: SimulatedDisk) -> None:
    seen: list[Operation] = []
    disk = platter.mount(before=seen.append)
    disk.write_atomic("/a", b"123456")
    seen.clear()
    file = disk.open_slots("/a")
    file.pwrite(b"xy", 1)
    file.pwrite(b"789", 5)
    file.pwrite(b"!", 10)
    assert disk.read_bytes("/a") == b"1xy45789\0\0!"
    assert [(kind, size) for kind, _path, size, _data in seen] == [("overwrite", 2), ("overwrite", 3), ("overwrite", 1)]
    assert platter.used == 11
    after = futures(platter, "/a")
    assert {b"123456", b"1xy456", b"12345789", b"1xy45789\0\0!", b"123456\0\0\0\0\0"} <= after
    assert all(data is not None and data[:1] == b"1" and data[3:5] == b"45" for data in after)


def test_what_is_written_over_and_never_synced_reaches_the_disk_some_time(platter: SimulatedDisk) -> None:
    disk = platter.mount()
    disk.write_atomic("/a", bytes(8))
    file = disk.open_slots("/a")
    for number in range(10 * WRITTEN_BACK):
        file.pwrite(number.to_bytes(8, "big"), 0)
    node = platter.inode("/a")
    assert len(node.unsynced) < WRITTEN_BACK
    assert min(int.from_bytes(data or b"", "big") for data in futures(platter, "/a")) > 9 * WRITTEN_BACK


def test_a_full_disk_takes_no_more_slots_and_still_takes_those_it_has() -> None:
    platter = SimulatedDisk(capacity=10)
    disk = platter.mount()
    disk.write_bytes("/a", bytes(8))
    file = disk.open_slots("/a")
    with pytest.raises(OSError, match="space"):
        file.pwrite(bytes(8), 8)
    file.pwrite(b"12345678", 0)
    assert disk.read_bytes("/a") == b"12345678"


def test_a_process_dies_before_an_operation_or_inside_an_append(platter: SimulatedDisk) -> None:
    def before(operation: Operation) -> None:
        if operation.kind == "append":
            platter.kill()
            raise KilledInside(operation.size // 2)

    disk = platter.mount(before)
    with pytest.raises(Killed):
        disk.write_bytes("/a", b"123456")
    assert platter.mount().read_bytes("/a") == b"123"


def test_a_read_that_fails(platter: SimulatedDisk) -> None:
    def fail(operation: Operation) -> None:
        raise OSError(errno.EIO, "the sector is bad", operation.path)

    platter.mount().write_bytes("/a", b"123")
    disk = platter.mount(before_read=fail)
    with pytest.raises(OSError, match="the sector is bad"):
        disk.open_read("/a").pread(1, 0)


# -- the end of the machine -------------------------------------------------------------------------------------------


def test_what_was_synced_survives(platter: SimulatedDisk, disk: MountedDisk) -> None:
    make(disk, "/data/logs/a", b"data")
    disk.write_atomic("/data/logs/b", b"more")
    platter.lose_power(Random(1))
    assert platter.files() == {"/data/logs/a": b"data", "/data/logs/b": b"more"}
    assert platter.used == 8
    with pytest.raises(Killed):
        disk.exists("/data/logs/a")


def test_an_unsynced_append_is_there_or_not_or_zeros(platter: SimulatedDisk, disk: MountedDisk) -> None:
    make(disk, "/data/logs/a", b"data")
    disk.open_append("/data/logs/a").append([b"more"])
    assert futures(platter, "/data/logs/a") == {b"data", b"datamore", b"data\0\0\0\0"}
    assert disk.read_bytes("/data/logs/a") == b"datamore"


def test_a_large_append_is_torn_at_sectors(platter: SimulatedDisk, disk: MountedDisk) -> None:
    make(disk, "/data/logs/a", b"<" * 12)
    disk.open_append("/data/logs/a").append([b"1" * 500 + b"2" * SECTOR])
    old, first, second = b"<" * 12, b"1" * 500, b"2" * SECTOR
    zeros = bytes(len(first)), bytes(len(second))
    assert futures(platter, "/data/logs/a") == {
        old,
        old + first,
        old + first + second,
        old + zeros[0] + second,
        old + zeros[0] + zeros[1],
    }


def test_unsynced_changes_happen_independently(platter: SimulatedDisk, disk: MountedDisk) -> None:
    make(disk, "/data/logs/a", b"123456")
    file = disk.open_append("/data/logs/a")
    file.truncate(2)
    file.append([b"ab"])
    left = futures(platter, "/data/logs/a")
    assert left == {b"123456", b"12", b"12ab", b"12ab56", b"12\0\0"}


def test_names_are_lost_from_the_end(platter: SimulatedDisk, disk: MountedDisk) -> None:
    make(disk, "/data/logs/a", b"a")
    disk.rename("/data/logs/a", "/data/logs/b")
    disk.open_append("/data/logs/c").fsync()
    disk.unlink("/data/logs/b")
    names = {tuple(platter.after_power_loss(Random(seed)).mount().listdir("/data/logs")) for seed in range(100)}
    assert names == {("a",), ("b",), ("b", "c"), ("c",)}


def test_a_new_directory_is_lost_with_what_is_in_it(platter: SimulatedDisk, disk: MountedDisk) -> None:
    disk.mkdir("/data/logs/new")
    disk.write_atomic("/data/logs/new/a", b"a")
    assert futures(platter, "/data/logs/new/a") == {None, b"a"}
    disk.fsync_dir("/data/logs")
    assert futures(platter, "/data/logs/new/a") == {b"a"}


def test_an_atomic_write_leaves_the_old_or_the_new_content_before_its_last_step(platter: SimulatedDisk) -> None:
    left: list[set[bytes | None]] = []
    disk = platter.mount(before=lambda _operation: left.append(futures(platter, "/a", 50)))
    disk.write_atomic("/a", b"old")
    left.clear()
    disk.write_atomic("/a", b"new")
    assert left == [{b"old"}] * 4 + [{b"old", b"new"}]
    assert futures(platter, "/a", 50) == {b"new"}


def test_a_sync_after_a_failed_one_lies(platter: SimulatedDisk) -> None:
    is_broken = False

    def before(operation: Operation) -> None:
        if is_broken and operation.kind in ("fsync", "fsync_dir"):
            raise OSError(errno.EIO, "Input/output error")

    disk = platter.mount(before)
    file = disk.open_append("/a")
    disk.fsync_dir("/")
    file.append([b"1"])
    file.fsync()
    is_broken = True
    file.append([b"2"])
    disk.write_bytes("/b", b"")
    with pytest.raises(OSError, match="Input/output"):
        file.fsync()
    with pytest.raises(OSError, match="Input/output"):
        disk.fsync_dir("/")
    is_broken = False
    file.append([b"3"])
    file.fsync()
    disk.fsync_dir("/")
    assert platter.has_failed_sync
    assert disk.read_bytes("/a") == b"123"
    assert futures(platter, "/a") == {b"1\x003", b"123"}
    assert futures(platter, "/b") == {None, b""}


def test_a_disk_that_survived_goes_on(platter: SimulatedDisk, disk: MountedDisk) -> None:
    make(disk, "/data/logs/a", b"1")
    other = platter.after_power_loss(Random(0))
    copy = platter.copy()
    assert platter.digest() == other.digest() == copy.digest()
    disk.open_append("/data/logs/a").append([b"2"])
    copy.mount().open_append("/data/logs/a").append([b"3"])
    assert other.files() == {"/data/logs/a": b"1"}
    assert copy.files() == {"/data/logs/a": b"13"}
    assert platter.files() == {"/data/logs/a": b"12"}
    assert len({platter.digest(), other.digest(), copy.digest()}) == 3


def test_what_is_in_doubt_is_in_doubt_on_a_copy(platter: SimulatedDisk, disk: MountedDisk) -> None:
    make(disk, "/data/logs/a", b"1")
    disk.open_append("/data/logs/a").append([b"2"])
    disk.rename("/data/logs/a", "/data/logs/b")
    disk.mkdir("/data/logs/c")
    copy = platter.copy()
    platter.lose_power(Random(0))
    assert copy.files() == {"/data/logs/b": b"12"}
    assert futures(copy, "/data/logs/b") | futures(copy, "/data/logs/a") == {None, b"1", b"1\0", b"12"}
    copy.mount().fsync_dir("/data/logs")
    copy.mount().fsync_path("/data/logs/b")
    assert futures(copy, "/data/logs/b") == {b"12"}
    assert copy.after_power_loss(Random(0)).mount().is_dir("/data/logs/c")


def test_damage_is_one_bit(platter: SimulatedDisk, disk: MountedDisk) -> None:
    make(disk, "/data/logs/a", b"abc")
    platter.flip("/data/logs/a", 1)
    assert disk.read_bytes("/data/logs/a") == b"acc"
    assert futures(platter, "/data/logs/a", 5) == {b"acc"}


def test_the_same_choices_leave_the_same(platter: SimulatedDisk) -> None:
    disk, rng = platter.mount(), Random(3)
    for turn in range(200):
        file = disk.open_append(f"/{rng.randrange(9)}")
        file.append([rng.randbytes(rng.randrange(2000))])
        if turn % 3 == 0:
            file.fsync()
        if turn % 5 == 0:
            file.truncate(rng.randrange(file.size() + 10))
        if turn % 7 == 0:
            disk.fsync_dir("/")
    assert platter.used == sum(len(data) for data in platter.files().values())
    digests = [platter.after_power_loss(Random(seed)).digest() for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]


# -- syncs that take a while ------------------------------------------------------------------------------------------


def test_a_sync_covers_what_was_written_before_it_began(platter: SimulatedDisk) -> None:
    meanwhile: dict[str, Callable[[], object]] = {}
    disk = platter.mount(before=lambda operation: meanwhile.pop(operation.kind, lambda: None)())
    file = disk.open_append("/a")
    disk.fsync_dir("/")
    file.append([b"1"])
    meanwhile = {"fsync": lambda: file.append([b"2"]), "fsync_dir": lambda: disk.write_bytes("/c", b"")}
    file.fsync()
    disk.write_bytes("/b", b"")
    disk.fsync_dir("/")
    assert futures(platter, "/a") == {b"1", b"1\0", b"12"}
    assert futures(platter, "/b") == {b""}
    assert futures(platter, "/c") == {None, b""}
    file.fsync()
    disk.fsync_dir("/")
    assert futures(platter, "/a") == {b"12"}
    assert futures(platter, "/c") == {b""}


# -- media ------------------------------------------------------------------------------------------------------------


def test_a_file_may_be_as_it_once_was_or_a_directory(platter: SimulatedDisk) -> None:
    disk = platter.mount()
    disk.write_atomic("/a", b"older and newer")
    used = platter.used
    done = roll_back(platter, "/a", b"older")
    assert (done.how, done.start, done.stop) == ("older", 5, 15)
    assert disk.read_bytes("/a") == b"older"
    assert platter.used == used - 10
    displace(platter, "/a")
    assert platter.used == used - 15
    platter.lose_power(Random(1))
    assert platter.mount().is_dir("/a")


def test_a_directory_that_was_kept_is_put_back_as_it_was(platter: SimulatedDisk) -> None:
    disk = platter.mount()
    disk.mkdir("/a/b/c")
    disk.open_append("/a/b/d").append([b"not synced"])
    kept, digest, used = keep(platter, "/a"), platter.digest(), platter.used
    disk.open_append("/a/b/d").append([b", and more"])
    restore(platter, "/a", {"new": b"disk"})
    put_back(platter, "/a", kept)
    assert (platter.digest(), platter.used) == (digest, used)
    platter.lose_power(Random(1))
    assert platter.digest() == digest


@pytest.mark.parametrize("how", HOWS)
def test_damage_is_seen_at_once_and_by_those_who_come_after_a_power_cut(how: How) -> None:
    seen = set()
    for seed in range(20):
        platter = SimulatedDisk()
        disk = platter.mount()
        disk.write_atomic("/a", bytes(range(1, 251)) * 8)
        file = disk.open_append("/a")
        before = file.pread(2000, 0)
        done = damage(platter, "/a", how, Random(seed))
        assert (done.path, done.how) == ("/a", how)
        if how == "unreadable":
            with pytest.raises(OSError, match="Input/output error"):
                file.pread(1, done.start)
            assert file.pread(done.start, 0) == before[: done.start]
        elif how == "lost":
            assert platter.files() == {}
            assert file.pread(2000, 0) == before
        else:
            after = file.pread(2000, 0)
            assert after[: done.start] == before[: done.start]
            assert after[done.stop :] == (b"" if how in ("cut", "emptied") else before[done.stop :])
            assert after[done.start : done.stop] != before[done.start : done.stop]
        assert platter.used == sum(len(content) for content in platter.files().values())
        seen.add((done.start, done.stop))
        left = platter.files()
        platter.lose_power(Random(seed))
        assert platter.files() == left
        if how == "unreadable":
            with pytest.raises(OSError, match="Input/output error"):
                platter.mount().read_bytes("/a")
    assert len(seen) == 1 if how in ("lost", "emptied") else len(seen) > 3


def test_the_end_of_a_file_is_damaged_where_asked(platter: SimulatedDisk) -> None:
    for seed in range(20):
        platter.mount().write_bytes("/a", bytes(range(1, 251)) * 8)
        for how in ("flipped", "zeroed", "cut"):
            done = damage(platter, "/a", cast(How, how), Random(seed), of_last=100)
            assert done.start >= 1900


def test_a_directory_is_lost_with_everything_in_it(platter: SimulatedDisk, disk: MountedDisk) -> None:
    disk.mkdir("/data/logs/below")
    disk.write_bytes("/data/logs/below/a", b"abc")
    done = damage(platter, "/data/logs", "lost", Random(0))
    assert str(done) == "/data/logs is lost"
    assert (disk.listdir("/data"), platter.used) == ([], 0)
    assert platter.after_power_loss(Random(0)).files() == {}
    with pytest.raises(FileNotFoundError):
        damage(platter, "/data/logs", "lost", Random(0))


def test_a_sector_that_is_cut_off_fails_nobody(platter: SimulatedDisk, disk: MountedDisk) -> None:
    make(disk, "/data/a", b"1" * 2000)
    done = damage(platter, "/data/a", "unreadable", Random(0))
    file = disk.open_append("/data/a")
    file.truncate(done.start)
    file.append([b"2" * 2000])
    assert len(file.pread(4000, 0)) == done.start + 2000


def test_unsynced_bytes_that_are_damaged_stay_damaged(platter: SimulatedDisk, disk: MountedDisk) -> None:
    make(disk, "/data/logs/a", b"")
    disk.open_append("/data/logs/a").append([b"abc"])
    damage(platter, "/data/logs/a", "cut", Random(1))
    assert futures(platter, "/data/logs/a") == {disk.read_bytes("/data/logs/a")}


def test_a_file_is_cut_exactly_where_asked(platter: SimulatedDisk) -> None:
    platter.mount().write_bytes("/a", bytes(100))
    done = damage(platter, "/a", "cut", Random(0), at=61)
    assert platter.files()["/a"] == bytes(61)
    assert (done.start, done.stop) == (61, 100)


@pytest.mark.parametrize("how", ["flipped", "zeroed", "garbled", "unreadable"])
def test_bytes_that_were_read_wrong_may_be_right_again(platter: SimulatedDisk, how: How) -> None:
    content = bytes(range(1, 200))
    platter.mount().write_bytes("/a", content)
    done = damage(platter, "/a", how, Random(0))
    assert let_pass(platter, done)
    assert platter.mount().read_bytes("/a") == content


@pytest.mark.parametrize("how", ["cut", "emptied", "lost"])
def test_what_is_gone_does_not_come_back(platter: SimulatedDisk, how: How) -> None:
    platter.mount().write_bytes("/a", bytes(100))
    assert not let_pass(platter, damage(platter, "/a", how, Random(0)))


def test_damage_that_somebody_repaired_does_not_pass(platter: SimulatedDisk) -> None:
    disk = platter.mount()
    disk.write_bytes("/a", bytes(100))
    done = damage(platter, "/a", "flipped", Random(0))
    disk.write_bytes("/a", bytes(100))
    assert not let_pass(platter, done)
    assert platter.files()["/a"] == bytes(100)


def test_a_foreign_file_is_there_for_good(platter: SimulatedDisk) -> None:
    platter.mount().mkdir("/data")
    platter.mount().fsync_dir("/")
    assert str(plant(platter, "/data/99999999999999999999.log")) == "/data/99999999999999999999.log is foreign"
    platter.lose_power(Random(0))
    assert platter.files()["/data/99999999999999999999.log"] == b""
