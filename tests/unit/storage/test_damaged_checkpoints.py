"""The text files that say where a log starts and which leader wrote what, with a bit flipped after an orderly stop.

Neither may cost a record: a wrong start is adopted by followers, and where an epoch seems to end, they cut their logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from uuid import UUID

import pytest
from simulator.disk import SimulatedDisk
from storage_batches import OpenLog, all_values, append

from minikafka.model import TopicPartition
from minikafka.storage.checkpoints import LOG_START_FILE, format_rows
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk, OsDisk
from minikafka.storage.epochs import FILE_NAME
from minikafka.storage.log import Log
from minikafka.storage.log_store import LogStore
from minikafka.storage.registration import Registrations

WHERE: Final = TopicPartition("t", 0)
TOPIC_ID: Final = UUID(int=7)
BOOT: Final = "boot"
ROOT: Final = "/data"
START: Final = 3


def open_store(disk: Disk) -> LogStore:
    return LogStore.open(
        disk,
        [ROOT],
        node_id=1,
        cluster_id="c",
        new_uuid=lambda: UUID(int=99),
        boot_id=BOOT,
        config_for=lambda _where: LogConfig(),
    )


def flips(data: bytes) -> Iterator[bytes]:
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        yield bytes(damaged)


def log_in(store: LogStore) -> Log:
    log = store.get(WHERE)
    assert log is not None
    return log


@pytest.fixture
def stopped() -> SimulatedDisk:
    """Ten records of three epochs, of which the first three were deleted."""
    platter = SimulatedDisk()
    store = open_store(platter.mount())
    Registrations(platter.mount(), store, BOOT).write(41)
    log = store.create(WHERE, TOPIC_ID, LogConfig())
    for number in range(10):
        append(log, b"%d" % number, leader_epoch=number // 2)
    log.delete_records(START, 10)
    store.close({WHERE: 10}, broker_epoch=41)
    return platter


@pytest.mark.spec("R22")
def test_no_bit_of_the_log_start_costs_a_record(stopped: SimulatedDisk) -> None:
    """Deleted records may come back: then the replica does not count before it has followed."""
    path = f"{ROOT}/{LOG_START_FILE}"
    for damaged in flips(stopped.mount().read_bytes(path)):
        disk = stopped.copy().mount()
        disk.write_bytes(path, damaged)
        store = open_store(disk)
        log, registrations = log_in(store), Registrations(disk, store, BOOT)
        assert (log.log_start_offset, log.log_end_offset, log.corruption) == (0, 10, None), damaged
        assert log.epoch_entries == [(epoch, 2 * epoch) for epoch in range(5)], "of what came back, too"
        assert TOPIC_ID not in registrations.whole_replicas()
        store.abandon()
    store = open_store(disk)
    registrations = Registrations(disk, store, BOOT)
    assert TOPIC_ID not in registrations.whole_replicas(), "the next start knows it, too"
    registrations.write(42)
    assert TOPIC_ID in registrations.whole_replicas()
    log_in(store).maybe_increment_log_start_offset(START)  # as the leader says
    store.close({WHERE: 10}, broker_epoch=42)
    store = open_store(disk)
    assert log_in(store).log_start_offset == START
    assert TOPIC_ID in Registrations(disk, store, BOOT).whole_replicas()
    store.abandon()


def test_a_log_start_that_can_be_read_costs_no_claim(stopped: SimulatedDisk) -> None:
    disk = stopped.mount()
    disk.write_bytes(f"{ROOT}/{LOG_START_FILE}", format_rows([["t", "0", str(START)]]))  # as an older version writes it
    store = open_store(disk)
    log = log_in(store)
    assert (log.log_start_offset, log.epoch_entries[0]) == (START, (1, START))
    assert TOPIC_ID in Registrations(disk, store, BOOT).whole_replicas()
    store.abandon()


@pytest.mark.spec("E1")
def test_no_bit_of_the_epoch_file_makes_another_history(stopped: SimulatedDisk) -> None:
    path = f"{ROOT}/{WHERE}/{FILE_NAME}"
    store = open_store(stopped.copy().mount())
    expected = log_in(store).epoch_entries
    assert expected == [(1, 3), (2, 4), (3, 6), (4, 8)]
    for damaged in flips(stopped.mount().read_bytes(path)):
        disk = stopped.copy().mount()
        disk.write_bytes(path, damaged)
        store = open_store(disk)
        log = log_in(store)
        assert (log.epoch_entries, log.log_end_offset, log.corruption) == (expected, 10, None), damaged
        assert TOPIC_ID in Registrations(disk, store, BOOT).whole_replicas()
        store.close({WHERE: 10}, broker_epoch=42)
        assert disk.read_bytes(path) == stopped.mount().read_bytes(path), "it is written anew"


@pytest.mark.spec("E1")
@pytest.mark.parametrize("rows", ["1 0", "2147483648 0", f"{10**30} 0", "2 0"])
def test_an_epoch_file_without_a_checksum_must_name_the_epoch_of_the_last_batch(
    open_log: OpenLog, disk: OsDisk, directory: str, rows: str
) -> None:
    """Of Kafka or an older version: a follower that asks where epoch 0 ends would be told 0, and cut everything."""
    log = open_log()
    append(log, b"a", b"b")
    append(log, b"c")
    log.begin_epoch(1)  # led, and wrote nothing: that is no contradiction
    log.close()
    disk.write_bytes(f"{directory}/{FILE_NAME}", f"0\n1\n{rows}\n".encode())
    log = open_log(clean=True, recovery_point=3)
    assert log.epoch_entries == [(0, 0)]
    assert log.end_offset_for_epoch(0) == (3, 0)
    assert (log.corruption, all_values(log)) == (None, {0: b"a", 1: b"b", 2: b"c"})
    log.close()
    assert disk.read_bytes(f"{directory}/{FILE_NAME}").startswith(b"0\n1\n0 0\ncrc32c ")


def test_an_epoch_that_was_begun_and_never_written_costs_no_scan(
    open_log: OpenLog, disk: OsDisk, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log()
    append(log, b"a")
    log.begin_epoch(1)
    log.close()
    assert disk.read_bytes(f"{directory}/{FILE_NAME}").startswith(b"0\n2\n0 0\n1 1\n")

    def scan(*_: object) -> None:
        raise AssertionError("the files are believed")

    monkeypatch.setattr("minikafka.storage.recovery.scan_batches", scan)
    assert open_log(clean=True, recovery_point=1).epoch_entries == [(0, 0)]
