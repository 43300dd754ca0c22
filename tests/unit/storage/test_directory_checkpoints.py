"""The four files of a log directory: what they tell together, whenever the process is killed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from simulator.killed import Killed
from storage_batches import append, batch
from storage_machine import Machine
from store_checkpoints import write_checkpoints

from minikafka.model import TopicPartition
from minikafka.storage.checkpoints import HIGH_WATERMARK_FILE, RECOVERY_POINT_FILE, OffsetCheckpoint
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk, OsDisk
from minikafka.storage.log import Log
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_store import LogStore

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def open_store(disk: Disk, path: str) -> LogStore:
    rng = Random(1)
    new_uuid = lambda: UUID(int=rng.getrandbits(128))  # noqa: E731
    return LogStore.open(disk, [path], node_id=1, cluster_id="cluster", new_uuid=new_uuid)


def new_log(store: LogStore, tp: TopicPartition) -> Log:
    return store.create(tp, UUID(int=7), LogConfig(), store.directories[0])


def fetch_a_gap(log: Log) -> None:
    """The recovery point is in a segment behind it."""
    append(log, b"w")
    log.append_as_follower(memoryview(batch(b"x", base_offset=3, leader_epoch=0)))
    log.roll()
    append(log, b"y")
    log.flush()


@pytest.mark.spec("R26")
def test_a_kill_between_the_files_leaves_no_gap_that_nobody_sees() -> None:
    """A recovery sees those above the recovery point only."""
    is_done, budget = False, 0
    while not is_done:
        machine = Machine()
        log = new_log(store := open_store(machine.disk, "/data"), A)
        write_checkpoints(store, {})
        fetch_a_gap(log)
        machine.budget = budget
        with suppress(Killed):
            write_checkpoints(store, {})
            is_done = True
        machine.kill()
        again = open_store(machine.disk, "/data").get(A)
        assert again is not None
        assert again.is_cleaned, f"after {budget} operations"
        budget += 1
    assert budget > 3


class Counted(dict[TopicPartition, Log]):
    looks = 0

    def __contains__(self, tp: object) -> bool:
        self.looks += 1
        return super().__contains__(tp)


@pytest.mark.parametrize("leave", [LogDir.delete, LogDir.set_aside])
def test_rows_go_with_their_log_and_nobody_looks_at_the_others(
    tmp_path: Path, disk: OsDisk, leave: Callable[[LogDir, TopicPartition, UUID], object]
) -> None:
    """With 5,000 logs that was 2 ms in one turn of the loop, each time."""
    store = open_store(disk, str(tmp_path))
    for tp in (A, B):
        append(new_log(store, tp), b"x")
    (directory,) = store.directories
    directory.write_checkpoints({A: 1, B: 1})
    logs = directory.logs = Counted(directory.logs)
    leave(directory, A, UUID(int=9))
    looks = []
    for _ in range(2):
        logs.looks = 0
        directory.write_checkpoints({B: 1})
        looks.append(logs.looks)
    assert looks == [1, 0]
    for name in (RECOVERY_POINT_FILE, HIGH_WATERMARK_FILE):
        assert OffsetCheckpoint(disk, str(tmp_path), name).read().keys() == {B}


class Meanwhile(OsDisk):
    """During its next sync of a file, something else goes all the way."""

    def __init__(self) -> None:
        self.log: Log | None = None
        self.store: LogStore | None = None

    def fsync_path(self, path: str) -> None:
        log, self.log = self.log, None
        if log is not None and self.store is not None:
            fetch_a_gap(log)
            self.store.note_rows(log, None)
        super().fsync_path(path)


@pytest.mark.spec("R26")
def test_no_recovery_point_is_newer_than_what_is_said_of_the_cleaner(tmp_path: Path) -> None:
    disk = Meanwhile()
    store = open_store(disk, str(tmp_path))
    log, other = new_log(store, A), new_log(store, B)
    fetch_a_gap(other)
    disk.log, disk.store = log, store
    write_checkpoints(store, {})
    assert disk.log is None
    store.abandon()
    again = open_store(OsDisk(), str(tmp_path)).get(A)
    assert again is not None
    assert again.is_cleaned
