"""Somebody takes files of a running log away: that log alone is damaged, and it can be made anew."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from uuid import UUID

import pytest
from at_once import delete_old_segments
from simulator.disk import SimulatedDisk
from simulator.disk.operations import Operation
from simulator.killed import Killed
from storage_batches import NOW_MS, append, values_in
from store_checkpoints import write_checkpoints

from minikafka.model import TopicPartition
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk, OsDisk
from minikafka.storage.errors import StorageFailure
from minikafka.storage.log import Log
from minikafka.storage.log_store import LogStore
from minikafka.storage.registration import Registrations

HERE, OTHER = TopicPartition("here", 0), TopicPartition("other", 0)
TOPIC_ID = UUID(int=5)
CONFIG = LogConfig(segment_bytes=300)


def opened(directory: Path) -> LogStore:
    uuids = iter(range(10, 1000))
    return LogStore.open(OsDisk(), [str(directory)], node_id=1, cluster_id="c", new_uuid=lambda: UUID(int=next(uuids)))


class Kill:
    """Strikes before that step."""

    steps_left: int | None = None

    def __call__(self, _operation: Operation) -> None:
        if self.steps_left is not None:
            self.steps_left -= 1
            if not self.steps_left:
                raise Killed


def simulated(disk: Disk) -> LogStore:
    uuids = count(10)
    return LogStore.open(
        disk, ["/data"], node_id=1, cluster_id="c", new_uuid=lambda: UUID(int=next(uuids)), boot_id="boot"
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    store = opened(tmp_path)
    for tp in (HERE, OTHER):
        log = store.create(tp, TOPIC_ID, CONFIG)
        for at in range(10):
            append(log, b"%d" % at)
        log.flush()
    yield store
    store.abandon()


def log_of(store: LogStore, tp: TopicPartition = HERE) -> Log:
    log = store.get(tp)
    assert log is not None
    return log


def looked(store: LogStore) -> None:
    look = store.prepare_look()
    for log_ in store:
        look.add(log_)
    look.run()
    look.complete()


def remove_directory(log: Log) -> None:
    shutil.rmtree(log.directory)


def remove_active(log: Log) -> None:
    Path(log.segments.active.path(".log")).unlink()


def remove_first(log: Log) -> None:
    Path(log.segments[0].path(".log")).unlink()


def cut_active(log: Log) -> None:
    os.truncate(log.segments.active.path(".log"), log.segments.active.size - 1)


def empty_first(log: Log) -> None:
    os.truncate(log.segments[0].path(".log"), 0)


TAKEN = [remove_directory, remove_active, remove_first, cut_active, empty_first]


@pytest.mark.parametrize("take", TAKEN)
def test_a_look_finds_the_log_that_lost_files(store: LogStore, take: Callable[[Log], None]) -> None:
    looked(store)
    assert not log_of(store).has_lost_files
    take(log_of(store))
    looked(store)
    log = log_of(store)
    assert log.corruption is not None
    assert log.corruption.offset == 0
    assert not log.is_offline, "open files are served"
    if take is not cut_active:  # an append would notice by itself
        append(log, b"more")
    assert log_of(store, OTHER).corruption is None


def test_a_segment_that_goes_while_one_looks_is_not_missed(store: LogStore) -> None:
    log = log_of(store)
    look = store.prepare_look()
    for log_ in store:
        look.add(log_)
    log.maybe_increment_log_start_offset(log.segments[1].base_offset)
    assert delete_old_segments(log, log.log_end_offset, NOW_MS)
    look.run()
    look.complete()
    assert not log.has_lost_files


@pytest.mark.spec("P5")
@pytest.mark.parametrize("change", [-1, 1])
def test_an_append_that_does_not_end_where_it_should_damages_the_log(store: LogStore, change: int) -> None:
    """Another process cut the file, or wrote to it: what is appended would be at no position that the log knows."""
    log = log_of(store)
    append(log, b"before")
    path = Path(log.segments.active.path(".log"))
    os.truncate(path, path.stat().st_size + change)
    end_offset = log.log_end_offset
    with pytest.raises(StorageFailure, match="the file was changed"):
        append(log, b"more")
    assert log.has_lost_files
    assert log.log_end_offset == end_offset, "nothing is acknowledged"
    assert log_of(store, OTHER).corruption is None


def expire(log: Log) -> None:
    log.maybe_increment_log_start_offset(log.segments[1].base_offset)
    delete_old_segments(log, log.log_end_offset, NOW_MS)
    log.flush()


ACTS: dict[str, Callable[[Log], object]] = {
    "roll": lambda log: log.roll(),
    "flush": lambda log: log.flush(),
    "cut": lambda log: log.truncate_to(2),
    "restart": lambda log: log.truncate_fully_and_start_at(50),
    "mark": lambda log: log.mark_damaged(log.segments[0], OSError("as if a read had failed")),
    "retention": expire,
}


@pytest.mark.spec("P6", "R12")
@pytest.mark.parametrize("what", ACTS)
def test_whatever_misses_the_directory_damages_that_log_only(store: LogStore, what: str) -> None:
    log = log_of(store)
    append(log, b"more", leader_epoch=1)
    remove_directory(log)
    with pytest.raises(StorageFailure, match="No such file"):
        ACTS[what](log)
    assert log.has_lost_files
    assert store.online
    append(log_of(store, OTHER), b"goes on")


def test_without_the_whole_log_directory_all_of_it_is_offline(store: LogStore, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path)
    with pytest.raises(StorageFailure):
        log_of(store).roll()
    assert not store.online


@pytest.mark.parametrize("take", TAKEN)
def test_it_is_made_anew_and_stays_damaged(store: LogStore, tmp_path: Path, take: Callable[[Log], None]) -> None:
    lost = log_of(store)
    take(lost)
    looked(store)
    log = store.remake(HERE)
    assert lost.is_offline
    assert (log.log_end_offset, log.topic_id, log.config) == (0, TOPIC_ID, CONFIG)
    assert log_of(store) is log
    append(log, b"fetched")
    assert values_in(log.read(0, 1000).read()) == {0: b"fetched"}
    write_checkpoints(store, {})
    store.abandon()
    again = opened(tmp_path)
    assert log_of(again).corruption is not None, "a restart does not forget it"
    assert log_of(again, OTHER).corruption is None
    again.abandon()


def test_a_kill_while_it_is_made_anew_leaves_no_whole_log() -> None:
    """At whatever step: the next process neither claims it nor takes it for one that was never there."""
    for step in count(1):
        platter, kill = SimulatedDisk(), Kill()
        disk = platter.mount(kill)
        store = simulated(disk)
        Registrations(disk, store, "boot").write(1)
        log = store.create(HERE, TOPIC_ID, CONFIG)
        append(log, b"acknowledged")
        write_checkpoints(store, {HERE: 1})
        disk.remove_tree(log.directory)
        looked(store)
        kill.steps_left = step
        try:
            store.remake(HERE)
        except Killed:
            pass
        else:
            return
        platter.kill()
        disk = platter.mount()
        store = simulated(disk)
        assert Registrations(disk, store, "boot").whole_replicas() == {}, step
        found = store.get(HERE)
        assert found is None or found.corruption is not None or found.topic_id != TOPIC_ID, step
        assert found is not None or store.is_missing(HERE, TOPIC_ID), step


def test_what_is_deleted_may_be_gone_already(store: LogStore) -> None:
    remove_directory(log_of(store))
    store.delete(HERE)
    assert store.get(HERE) is None
    assert store.online


@pytest.mark.parametrize("take", TAKEN)
def test_an_orderly_stop_does_not_vouch_for_it(store: LogStore, tmp_path: Path, take: Callable[[Log], None]) -> None:
    take(log_of(store))
    looked(store)
    store.close({}, broker_epoch=7)
    again = opened(tmp_path)
    assert not again.was_clean
    assert log_of(again, OTHER).log_end_offset == 10
    again.abandon()


def test_checkpoints_that_are_gone_are_written_again(store: LogStore, tmp_path: Path) -> None:
    write_checkpoints(store, {HERE: 5})
    for path in tmp_path.glob("*-checkpoint"):
        path.unlink()
    append(log_of(store), b"x")
    log_of(store).flush()
    write_checkpoints(store, {HERE: 6})
    assert store.online
    assert "here 0 6" in (tmp_path / "replication-offset-checkpoint").read_text()


def test_the_metadata_log_is_not_made_anew(tmp_path: Path) -> None:
    store = opened(tmp_path)
    log = store.create(TopicPartition("__cluster_metadata", 0), TOPIC_ID, CONFIG)
    append(log, b"x")
    remove_directory(log)
    looked(store)
    assert log.corruption is None
    with pytest.raises(StorageFailure):
        log.roll()
    assert not store.online
