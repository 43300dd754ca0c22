"""Looking at a log directory offline: whole ones have nothing, every damage is seen, and nothing is changed.

What is damage is what a start of the node takes for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from at_once import compact, delete_old_segments
from simulator.disk import SimulatedDisk
from storage_batches import NOW_MS, append, stage
from storage_damage import BOOT, OTHER, ROOT, STOPS, TOPIC_ID, WAYS, WHERE, cases, leave, open_store

from minikafka.model import ZERO_TOPIC_ID
from minikafka.records.batch import parse_header, write_header
from minikafka.records.build import build_batch
from minikafka.records.control import EndTxnMarker, build_end_txn_marker
from minikafka.records.record import Record
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk
from minikafka.storage.examination import Finding, Findings, Severity, examine_directory
from minikafka.storage.examination.facts import is_running
from minikafka.storage.registration import Registrations

READING: Final = {"exists", "is_dir", "listdir", "open_read", "read_bytes", "size"}


class ReadOnly:
    """A disk that cannot be changed, and fails who tries."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        assert name in READING, f"{name} is not for who only reads"
        return getattr(self._disk, name)


def examine(disk: Disk, *, decodes: bool = False) -> list[Finding]:
    findings = Findings()
    examine_directory(ReadOnly(disk), ROOT, BOOT, findings, decodes=decodes)
    return findings.found


@pytest.fixture(scope="module", params=STOPS)
def left(request: pytest.FixtureRequest) -> SimulatedDisk:
    platter, _whole = leave(request.param)
    return platter


@pytest.mark.parametrize("decodes", [False, True])
def test_what_a_process_leaves_is_whole(left: SimulatedDisk, decodes: bool) -> None:
    assert examine(left.mount(), decodes=decodes) == []


def test_what_is_read_is_counted() -> None:
    findings = Findings()
    read: list[int] = []
    findings.on_read = read.append
    disk = leave("stopped")[0].mount()
    examine_directory(disk, ROOT, BOOT, findings)
    names = [f"{ROOT}/{tp}/{name}" for tp in (WHERE, OTHER) for name in disk.listdir(f"{ROOT}/{tp}")]
    logs = [name for name in names if name.endswith(".log")]
    assert (findings.partitions, findings.segments, findings.batches) == (2, len(logs), 17)
    assert sum(read) == findings.bytes_read == sum(disk.size(name) for name in logs)


def test_every_damage_is_seen(left: SimulatedDisk) -> None:
    """Whatever makes a start mark the log as damaged. That an id is another topic's is for metadata to tell."""
    for name, way in cases(left.mount()):
        platter = left.copy()
        disk = platter.mount()
        WAYS[way](disk, f"{ROOT}/{WHERE}/{name}")
        try:
            found = examine(disk)
            is_damaged = start_finds_damage(platter.copy().mount())
            assert Severity.DAMAGE in {each.severity for each in found} or not is_damaged, found
        except Exception as error:
            error.add_note(f"{name}: {way}")
            raise


@pytest.mark.parametrize("name", ["00000000000000000000.txnindex", "00000000000000000012.txnindex"])
def test_an_index_of_aborted_transactions_that_is_gone_is_seen(name: str) -> None:
    disk = leave("stopped")[0].mount()
    disk.unlink(f"{ROOT}/{WHERE}/{name}")
    (found,) = examine(disk)
    assert (found.severity, found.path) == (Severity.MENDED, f"{ROOT}/{WHERE}/{name}")
    assert found.what == "not the one that was written; made again from the batches"


def test_an_index_of_aborted_transactions_that_is_gone_with_the_list_is_damage() -> None:
    """A start takes it for one of a segment in which nothing was aborted, and readers would get what was."""
    disk = leave("stopped")[0].mount()
    disk.unlink(f"{ROOT}/{WHERE}/00000000000000000012.txnindex")
    disk.unlink(f"{ROOT}/{WHERE}/segments")
    found = [each for each in examine(disk) if each.path.endswith(".txnindex")]
    assert [each.severity for each in found] == [Severity.DAMAGE]
    assert "is not in it: readers of committed records get its records" in found[0].what


def start_finds_damage(disk: Disk) -> bool:
    store = open_store(disk)
    log = store.get(WHERE)
    store.abandon()
    return log is None or log.corruption is not None or log.topic_id == ZERO_TOPIC_ID


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "meta.properties", "registration"]
)
@pytest.mark.parametrize("way", ["cut", "zeros", "a directory"])
def test_damage_to_a_file_of_the_directory_is_seen(name: str, way: str) -> None:
    disk = leave("stopped")[0].mount()
    WAYS[way](disk, f"{ROOT}/{name}")
    assert f"{ROOT}/{name}" in {each.path for each in examine(disk)}


def test_a_log_that_is_gone_is_missed() -> None:
    disk = leave("stopped")[0].mount()
    disk.remove_tree(f"{ROOT}/{WHERE}")
    (found,) = examine(disk)
    assert (found.severity, found.path) == (Severity.DAMAGE, f"{ROOT}/{WHERE}")
    assert found.what.startswith("missing: the log had records up to offset ")


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_log_that_was_cleaned_is_whole(how: str) -> None:
    """With its gaps, without the aborted records that the cleaner took, and with an empty batch as its newest."""
    disk = SimulatedDisk().mount()
    store = open_store(disk)
    Registrations(disk, store, BOOT).write(41)
    policy = frozenset({"compact"})
    config = LogConfig(
        segment_bytes=400, index_interval_bytes=100, cleanup_policy=policy, min_cleanable_dirty_ratio=0.0
    )
    log = store.create(WHERE, TOPIC_ID, config)
    append(log, b"v", keys=(b"0",), producer=(9, 0, 0), timestamp=NOW_MS + 1)
    for number in range(24):
        key, producer = b"%d" % (number % 3), (5 + number % 2, 0, number // 2)
        append(log, b"v" * 30, keys=(key,), producer=producer, is_transactional=number % 8 == 1)
        if number % 8 == 1:
            stage(log, build_end_txn_marker(producer[0], 0, EndTxnMarker(False, 0), timestamp=NOW_MS))
            log.commit()
    log.flush()
    assert compact(log, log.log_end_offset, NOW_MS)
    if how == "stopped":
        store.close({WHERE: log.log_end_offset}, broker_epoch=41)
    else:
        store.abandon()
    left_over, gaps = examine(disk, decodes=True)
    assert (left_over.severity, gaps.severity) == (Severity.NOTE, Severity.NOTE)
    assert left_over.what.endswith("files left over from an unfinished step; a start finishes or removes them")
    assert gaps.what.endswith("compaction leaves such gaps")


def test_a_segment_whose_end_was_cleaned_is_whole() -> None:
    """The snapshot behind it tells of a batch that the cleaner took: its producer wrote again."""
    disk = SimulatedDisk().mount()
    store = open_store(disk)
    Registrations(disk, store, BOOT).write(41)
    config = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=200, min_cleanable_dirty_ratio=0.0)
    log = store.create(WHERE, TOPIC_ID, config)
    for sequence in range(3):
        append(log, b"v" * 60, keys=(b"other",))
        append(log, b"v" * 60, keys=(b"same",), producer=(9, 0, sequence))
    log.roll()
    log.flush()
    assert compact(log, log.log_end_offset, NOW_MS)
    store.close({WHERE: log.log_end_offset}, broker_epoch=41)
    assert {found.severity for found in examine(disk)} <= {Severity.NOTE}


@pytest.mark.parametrize("has_more", [True, False])
@pytest.mark.parametrize("is_aborted", [True, False])
def test_a_transaction_that_began_before_the_log_is_whole(has_more: bool, is_aborted: bool) -> None:
    """A start finds no record of it, or a later first one: it is over, or begins later than its snapshot says."""
    disk = SimulatedDisk().mount()
    store = open_store(disk)
    Registrations(disk, store, BOOT).write(41)
    log = store.create(WHERE, TOPIC_ID, LogConfig(cleanup_policy=frozenset({"delete"})))
    append(log, b"v", producer=(9, 0, 0), is_transactional=True)
    log.roll()
    append(log, b"x")
    if has_more:
        append(log, b"v", producer=(9, 0, 1), is_transactional=True)
    log.flush()
    log.delete_records(1, log.log_end_offset)
    delete_old_segments(log, log.log_end_offset, NOW_MS)
    log.flush()
    store.abandon()
    store = open_store(disk)
    again = store.get(WHERE)
    assert again is not None
    if is_aborted:
        stage(again, build_end_txn_marker(9, 0, EndTxnMarker(False, 0), timestamp=NOW_MS))
        again.commit()
    store.close({WHERE: again.log_end_offset}, broker_epoch=41)
    assert examine(disk, decodes=True) == []


@pytest.mark.parametrize("log_start", [1, 2])
def test_a_transaction_that_began_before_the_start_in_a_segment_is_whole(log_start: int) -> None:
    """After a cut the state is what the batches from the log start on tell; the first segment has more of them."""
    disk = SimulatedDisk().mount()
    store = open_store(disk)
    Registrations(disk, store, BOOT).write(41)
    log = store.create(WHERE, TOPIC_ID, LogConfig(cleanup_policy=frozenset({"delete"})))
    for sequence in range(2):
        append(log, b"v", producer=(9, 0, sequence), is_transactional=True)
    append(log, b"x")
    log.delete_records(log_start, log.log_end_offset)
    log.truncate_to(2)
    append(log, b"x")
    log.roll()
    stage(log, build_end_txn_marker(9, 0, EndTxnMarker(False, 0), timestamp=NOW_MS))
    log.commit()
    log.roll()
    store.close({WHERE: log.log_end_offset}, broker_epoch=41)
    found = [each for each in examine(disk) if each.severity is not Severity.NOTE]
    assert found == []


def test_headers_of_records_are_decoded_however_many_there_are() -> None:
    disk = SimulatedDisk().mount()
    store = open_store(disk)
    Registrations(disk, store, BOOT).write(41)
    log = store.create(WHERE, TOPIC_ID, LogConfig())
    broken = build_batch([Record(0, NOW_MS, None, b"v", (("h", b""),) * 101)])
    at = len(broken) - 1
    assert broken[at] == 0, "the length of the last value"
    broken[at] = 2
    write_header(broken, parse_header(broken))
    stage(log, broken)
    log.commit()
    store.close({WHERE: log.log_end_offset}, broker_epoch=41)
    assert examine(disk) == []
    (found,) = examine(disk, decodes=True)
    assert "the headers of a record are not as long as it says" in found.what


def test_a_log_without_timestamps_is_whole() -> None:
    """Its time indexes have entries for none so far, at the beginning of the segment."""
    disk = SimulatedDisk().mount()
    store = open_store(disk)
    Registrations(disk, store, BOOT).write(41)
    log = store.create(WHERE, TOPIC_ID, LogConfig(index_interval_bytes=10))
    for _ in range(3):
        append(log, b"v", b"w", timestamp=-1)
    log.roll()
    store.close({WHERE: log.log_end_offset}, broker_epoch=41)
    assert examine(disk) == []


def test_a_node_that_runs_is_seen_by_its_lock(tmp_path: Path) -> None:
    lock = tmp_path / ".lock"
    locks = tmp_path / "locks"
    locks.write_text("1: FLOCK  ADVISORY  WRITE 7 00:1f:1 0 EOF\n")
    assert not is_running(str(tmp_path), str(locks))
    lock.touch()
    assert not is_running(str(tmp_path), str(locks))
    locks.write_text(f"1: FLOCK  ADVISORY  WRITE 7 00:1f:{lock.stat().st_ino} 0 EOF\n")
    assert is_running(str(tmp_path), str(locks))
