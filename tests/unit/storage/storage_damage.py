"""A log directory as processes leave it, and every way to damage a file of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final
from uuid import UUID

from simulator.disk import SimulatedDisk
from simulator.disk.mounts import MountedDisk
from storage_batches import append, batch, read_all, stage
from store_checkpoints import write_checkpoints

from minikafka.model import TopicPartition
from minikafka.records.control import EndTxnMarker, build_end_txn_marker
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk
from minikafka.storage.log_store import LogStore
from minikafka.storage.registration import Registrations

STOPS: Final = ("stopped", "killed", "killed before any checkpoint")
WHERE: Final = TopicPartition("orders", 0)
OTHER: Final = TopicPartition("other", 0)
TOPIC_ID: Final = UUID(int=7)
OTHER_ID: Final = UUID(int=8)
BOOT: Final = "boot"
ROOT: Final = "/data"
CONFIG: Final = LogConfig(segment_bytes=400, index_interval_bytes=100)

ABORTING: Final = 6


def open_store(disk: Disk) -> LogStore:
    return LogStore.open(
        disk,
        [ROOT],
        node_id=1,
        cluster_id="c",
        new_uuid=lambda: UUID(int=99),
        boot_id=BOOT,
        config_for=lambda _where: CONFIG,
    )


def leave(how: str) -> tuple[SimulatedDisk, bytes]:
    """What a process leaves, and what the log holds: three segments, two epochs, a producer, two transactions."""
    platter = SimulatedDisk()
    disk = platter.mount()
    store = open_store(disk)
    registrations = Registrations(disk, store, BOOT)
    registrations.write(41)
    append(store.create(OTHER, OTHER_ID, CONFIG), b"other")
    log = store.create(WHERE, TOPIC_ID, CONFIG)
    for number in range(12):
        data = batch(b"%d" % number * 20, producer=(5, 0, number), timestamp=1_700_000_000_000 + number)
        stage(log, data, leader_epoch=1 + number // 5)
        log.commit()
        if number in (1, 10):  # a transaction that is aborted, in a closed segment and in the active one
            in_it = batch(b"aborted", producer=(ABORTING, 0, number // 10), is_transactional=True)
            end = build_end_txn_marker(ABORTING, 0, EndTxnMarker(False, 0), timestamp=1_700_000_000_000 + number)
            for data in (in_it, end):
                stage(log, data, leader_epoch=1 + number // 5)
            log.commit()
    log.flush()
    assert len(log.segments) >= 3
    whole = read_all(log)
    high_watermarks = {WHERE: log.log_end_offset, OTHER: 1}
    if how == "stopped":
        store.close(high_watermarks, broker_epoch=41)
    else:
        if how == "killed":
            write_checkpoints(store, high_watermarks)
        store.abandon()
    return platter, whole


Damage = Callable[[Disk, str], None]


def changed(change: Callable[[bytes], bytes]) -> Damage:
    return lambda disk, path: disk.write_bytes(path, change(disk.read_bytes(path)))


def flipped(position: Callable[[int], int]) -> Damage:
    def flip(data: bytes) -> bytes:
        at = max(0, min(position(len(data)), len(data) - 1))
        return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :] if data else data

    return changed(flip)


def replace_by_directory(disk: Disk, path: str) -> None:
    disk.unlink(path)
    disk.mkdir(path)
    disk.write_bytes(f"{path}/something", b"x")


def unreadable(range_of: Callable[[int], range]) -> Damage:
    """A disk says EIO there until the file is replaced or cut."""

    def spoil(disk: Disk, path: str) -> None:
        assert isinstance(disk, MountedDisk)
        inode = disk.platter.inode(path)
        inode.unreadable = range_of(len(inode.content))

    return spoil


WAYS: Final[dict[str, Damage]] = {
    "magic flipped": flipped(lambda size: 16),
    "length flipped": flipped(lambda size: 10),
    "start flipped": flipped(lambda size: 30),
    "middle flipped": flipped(lambda size: size // 2 + 20),  # in a .log: not among the unchecked bytes of a batch
    "end flipped": flipped(lambda size: size - 1),
    "cut": changed(lambda data: data[: len(data) * 2 // 3]),
    "last byte cut": changed(lambda data: data[:-1]),
    "empty": changed(lambda data: b""),
    "zeros": changed(lambda data: bytes(len(data))),
    "longer": changed(lambda data: data + bytes(100)),
    "removed": lambda disk, path: disk.unlink(path),
    "a directory": replace_by_directory,
    "start unreadable": unreadable(lambda size: range(min(size, 1))),
    "middle unreadable": unreadable(lambda size: range(size // 2, size // 2 + 1)),
    "end unreadable": unreadable(lambda size: range(max(0, size - 1), size)),
}


def cases(disk: Disk) -> Iterator[tuple[str, str]]:
    for name in disk.listdir(f"{ROOT}/{WHERE}"):
        for way in WAYS:
            yield name, way
