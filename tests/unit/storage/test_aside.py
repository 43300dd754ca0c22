"""Whatever somebody leaves under a file's name in a log directory, at rest or while it is used, the node goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest
from captured_logs import capture_logs
from simulator.disk import SimulatedDisk
from storage_batches import all_values, append
from store_checkpoints import write_checkpoints

from minikafka.model import NO_EPOCH, TopicPartition
from minikafka.storage.aside import replace_file
from minikafka.storage.checkpoints import CHECKPOINT_FILES, HIGH_WATERMARK_FILE
from minikafka.storage.clean_shutdown import CLEAN_SHUTDOWN_FILE, read_clean_shutdown
from minikafka.storage.config import LogConfig
from minikafka.storage.damage import REFETCH_FILE, read_refetch_mark
from minikafka.storage.disk import OsDisk
from minikafka.storage.errors import StorageFailure
from minikafka.storage.log import Log
from minikafka.storage.log_ends import LOG_ENDS_FILE
from minikafka.storage.log_store import LogStore
from minikafka.storage.registration import ANYTHING_LOST, Registrations
from minikafka.storage.registration_file import REGISTRATION_FILE
from minikafka.storage.segment_list import SEGMENTS_FILE

BOOT = "boot"
HERE, OTHER = TopicPartition("here", 0), TopicPartition("other", 0)
CONFIG = LogConfig(segment_bytes=300)
FILES = [LOG_ENDS_FILE, REGISTRATION_FILE, CLEAN_SHUTDOWN_FILE, *CHECKPOINT_FILES]
DEEP = "[" * 100_000


def opened(directory: Path) -> LogStore:
    uuids = iter(range(10, 1000))
    return LogStore.open(
        OsDisk(),
        [str(directory)],
        node_id=1,
        cluster_id="c",
        new_uuid=lambda: UUID(int=next(uuids)),
        boot_id=BOOT,
        config_for=lambda _where: CONFIG,
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    store = opened(tmp_path)
    Registrations(OsDisk(), store, BOOT).write(41)
    for at, tp in enumerate((HERE, OTHER)):
        log = store.create(tp, UUID(int=at + 5), CONFIG)
        for number in range(10):
            append(log, b"%d" % number)
        log.flush()
    yield store
    store.abandon()


def log_of(store: LogStore, tp: TopicPartition = HERE) -> Log:
    log = store.get(tp)
    assert log is not None
    return log


def become_directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()
    (path / "something").touch()


def become_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("x")


def become_loop(path: Path) -> None:
    shutil.rmtree(path)
    path.symlink_to(path)


# -- at rest ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("P6")
@pytest.mark.parametrize("is_orderly", [False, True], ids=["killed", "stopped"])
@pytest.mark.parametrize("name", [*FILES, "any.tmp", f"{REGISTRATION_FILE}.tmp"])
def test_a_directory_in_the_place_of_a_file_counts_as_the_file_missing(
    store: LogStore, tmp_path: Path, name: str, is_orderly: bool
) -> None:
    if is_orderly:
        store.close({HERE: 10, OTHER: 10}, broker_epoch=41)
    else:
        write_checkpoints(store, {HERE: 10, OTHER: 10})
        store.abandon()
    become_directory(tmp_path / name)
    with capture_logs() as lines:
        again = opened(tmp_path)
    assert [line["path"] for line in lines if line["event"] == "no file of the log"] == [str(tmp_path / name)]
    assert (tmp_path / f"{name}.corrupt" / "something").exists()
    assert again.was_clean == (is_orderly and name != CLEAN_SHUTDOWN_FILE)
    registrations = Registrations(OsDisk(), again, BOOT)
    assert registrations.previous_broker_epoch == (ANYTHING_LOST if name == REGISTRATION_FILE else 41)
    registrations.write(42)
    assert list(all_values(log_of(again))) == list(range(10))
    again.close({HERE: 10, OTHER: 10}, broker_epoch=42)
    assert not (tmp_path / name).is_dir()
    with capture_logs() as lines:
        opened(tmp_path).abandon()
    assert not lines


@pytest.mark.parametrize("text", [DEEP, '{"a":' * 100_000])
def test_a_mark_of_an_orderly_stop_that_nests_without_end_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / CLEAN_SHUTDOWN_FILE).write_text(text)
    assert read_clean_shutdown(OsDisk(), str(tmp_path)) is None


@pytest.mark.parametrize("text", ["", "[1]", "[[", '{"brokerEpoch": 1e999}', '{"brokerEpoch": NaN}'])
def test_a_mark_of_an_orderly_stop_without_an_epoch(tmp_path: Path, text: str) -> None:
    (tmp_path / CLEAN_SHUTDOWN_FILE).write_text(text)
    assert read_clean_shutdown(OsDisk(), str(tmp_path)) == NO_EPOCH


@pytest.mark.parametrize("epoch", [-1, 2**63])
def test_a_registration_with_an_epoch_that_nobody_has_tells_nothing(
    store: LogStore, tmp_path: Path, epoch: int
) -> None:
    store.abandon()
    path = tmp_path / REGISTRATION_FILE
    path.write_text(path.read_text().replace("broker.epoch=41", f"broker.epoch={epoch}"))
    again = opened(tmp_path)
    assert Registrations(OsDisk(), again, BOOT).previous_broker_epoch == ANYTHING_LOST
    again.abandon()


@pytest.mark.spec("P6")
@pytest.mark.parametrize("offset", [-1, -(10**30), 2**63, 10**30])
def test_a_mark_of_damage_at_no_offset_is_one_at_the_beginning(store: LogStore, tmp_path: Path, offset: int) -> None:
    store.abandon()
    (tmp_path / str(HERE) / REFETCH_FILE).write_text(f"{offset}\nx\n")
    mark = read_refetch_mark(OsDisk(), str(tmp_path / str(HERE)))
    assert mark is not None
    assert mark.offset == 0
    again = opened(tmp_path)
    log = log_of(again)
    assert log.corruption is not None
    log.truncate_fully_and_start_at(log.corruption.offset)
    log.refetched()
    again.abandon()


# -- while it is used -------------------------------------------------------------------------------------------------


@pytest.mark.spec("P6")
@pytest.mark.parametrize("name", CHECKPOINT_FILES)
def test_a_checkpoint_that_became_a_directory_is_written_anew(store: LogStore, tmp_path: Path, name: str) -> None:
    write_checkpoints(store, {HERE: 5})
    become_directory(tmp_path / name)
    log = log_of(store)
    append(log, b"more")
    log.flush()
    log.maybe_increment_log_start_offset(log.segments[1].base_offset)
    log.first_dirty_offset = 6
    with capture_logs() as lines:
        write_checkpoints(store, {HERE: 6})
    assert [line["path"] for line in lines] == [str(tmp_path / name)]
    assert store.online
    assert "here 0" in (tmp_path / name).read_text()
    assert (tmp_path / f"{name}.corrupt").is_dir()


@pytest.mark.parametrize("name", [SEGMENTS_FILE, "leader-epoch-checkpoint"])
def test_a_small_file_of_a_log_that_became_a_directory_is_written_anew(
    store: LogStore, tmp_path: Path, name: str
) -> None:
    log = log_of(store)
    path = tmp_path / str(HERE) / name
    become_directory(path)
    append(log, b"more", leader_epoch=3)
    log.roll()
    log.flush()
    assert path.is_file()
    assert not log.is_offline
    store.close({HERE: 11}, broker_epoch=41)
    again = opened(tmp_path)
    assert again.was_clean
    assert log_of(again).corruption is None
    assert len(all_values(log_of(again))) == 11
    again.abandon()


@pytest.mark.parametrize("name", [REGISTRATION_FILE, CLEAN_SHUTDOWN_FILE, f"{REGISTRATION_FILE}.tmp"])
def test_an_identity_file_that_became_a_directory_is_written_anew(store: LogStore, tmp_path: Path, name: str) -> None:
    registrations = Registrations(OsDisk(), store, BOOT)
    become_directory(tmp_path / name)
    registrations.write(42)
    assert store.online
    store.close({}, broker_epoch=42)
    again = opened(tmp_path)
    assert again.was_clean
    assert Registrations(OsDisk(), again, BOOT).previous_broker_epoch == 42
    again.abandon()


def test_a_mark_of_damage_replaces_a_directory(store: LogStore, tmp_path: Path) -> None:
    log = log_of(store)
    become_directory(tmp_path / str(HERE) / REFETCH_FILE)
    log.mark_damaged(log.segments[0], OSError("as if a read had failed"))
    assert not log.is_offline
    mark = read_refetch_mark(OsDisk(), log.directory)
    assert mark is not None
    assert "as if a read had failed" in mark.why


def test_a_file_is_replaced_on_the_simulated_disk_as_on_the_real_one() -> None:
    disk = SimulatedDisk().mount()
    disk.mkdir("/d/file")
    replace_file(disk, "/d/file", b"content")
    assert disk.read_bytes("/d/file") == b"content"
    assert disk.is_dir("/d/file.corrupt")


ACTS: dict[str, Callable[[Log], object]] = {
    "roll": lambda log: log.roll(),
    "flush": lambda log: log.flush(),
    "cut": lambda log: log.truncate_to(2),
    "restart": lambda log: log.truncate_fully_and_start_at(50),
    "mark": lambda log: log.mark_damaged(log.segments[0], OSError("as if a read had failed")),
}


@pytest.mark.spec("P6", "R12")
@pytest.mark.parametrize("become", [become_file, become_loop])
@pytest.mark.parametrize("what", ACTS)
def test_a_partition_whose_directory_became_something_else_is_damaged_alone(
    store: LogStore, what: str, become: Callable[[Path], None]
) -> None:
    log = log_of(store)
    append(log, b"more", leader_epoch=1)
    become(Path(log.directory))
    with pytest.raises(StorageFailure):
        ACTS[what](log)
    assert log.has_lost_files
    assert store.online
    append(log_of(store, OTHER), b"goes on")
    made = store.remake(HERE)
    append(made, b"fetched")
    made.flush()
    assert store.online


@pytest.mark.parametrize("become", [become_file, become_loop])
def test_a_look_finds_a_partition_whose_directory_became_something_else(
    store: LogStore, become: Callable[[Path], None]
) -> None:
    become(Path(log_of(store).directory))
    look = store.prepare_look()
    for log_ in store:
        look.add(log_)
    look.run()
    look.complete()
    assert log_of(store).has_lost_files
    assert not log_of(store, OTHER).has_lost_files


def test_without_the_log_directory_all_of_it_is_offline(store: LogStore, tmp_path: Path) -> None:
    become_file(tmp_path)
    with pytest.raises(StorageFailure):
        log_of(store).roll()
    assert not store.online


def test_a_high_watermark_survives_the_directory(store: LogStore, tmp_path: Path) -> None:
    become_directory(tmp_path / HIGH_WATERMARK_FILE)
    write_checkpoints(store, {HERE: 6})
    store.abandon()
    again = opened(tmp_path)
    assert again.high_watermark(HERE) == 6
    again.abandon()
