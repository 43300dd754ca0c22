"""Batches of a cleaned log tell where its leader epochs began: a follower, or a start, may have nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from at_once import compact
from storage_batches import NOW_MS, all_values, batch, stage

from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.replication.epochs import diverging_epoch
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import OsDisk
from minikafka.storage.epochs import FILE_NAME, EpochEntry
from minikafka.storage.last_stop import LastStop
from minikafka.storage.log import Log

COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0, segment_bytes=600)
EPOCHS = [EpochEntry(0, 0), EpochEntry(1, 10), EpochEntry(2, 20), EpochEntry(4, 40)]
KEPT = [*range(10), *range(50, 55), *range(70, 80)]
"""Offsets of the records that nothing supersedes: none is of epoch 1 or 2, nor at the beginning of epoch 4."""


@pytest.fixture
def cleaned(tmp_path: Path) -> Log:
    log = opened(tmp_path / "cleaned")
    for offset in range(80):
        key = b"once %d" % offset if offset in KEPT[:15] else b"again %d" % (offset % 10)
        epoch = max(entry.epoch for entry in EPOCHS if entry.start_offset <= offset)
        stage(log, batch(b"x" * 50, keys=(key,)), leader_epoch=epoch)
        log.commit()
    clean(log)
    log.roll()
    clean(log)  # once more: this pass meets what the first one left
    assert list(all_values(log)) == KEPT
    assert log.epochs.entries == EPOCHS
    return log


def opened(directory: Path, *, is_clean: bool = True) -> Log:
    directory.mkdir(exist_ok=True)
    tp = TopicPartition("orders", 0)
    return Log.open(OsDisk(), str(directory), tp, COMPACT, last_stop=LastStop(is_clean=is_clean))


def clean(log: Log) -> None:
    log.flush()
    assert compact(log, log.log_end_offset, NOW_MS)


def fetched(leader: Log, directory: Path) -> Log:
    """What a follower has that began with nothing."""
    log = opened(directory)
    while log.log_end_offset < leader.log_end_offset:
        log.append_as_follower(memoryview(bytearray(leader.read(log.log_end_offset, 2000).read())))
    return log


@pytest.mark.spec("E1", "E2")
def test_who_fetches_a_cleaned_log_knows_where_its_epochs_began(cleaned: Log, tmp_path: Path) -> None:
    """As a leader it left a returning replica what this had written alone: epoch 4 seemed to begin at 50."""
    leader = fetched(cleaned, tmp_path / "fetched")
    assert leader.epochs.entries == EPOCHS
    assert list(all_values(leader)) == KEPT
    assert diverging_epoch(leader, 45, last_fetched_epoch=2) == OffsetAndEpoch(40, 2)


@pytest.mark.spec("E1", "R26")
def test_a_whole_replica_does_not_differ_from_one_that_was_fetched(cleaned: Log, tmp_path: Path) -> None:
    """A replica that was away since epoch 1 was taken for damaged from the beginning of that epoch on."""
    leader = fetched(cleaned, tmp_path / "fetched")
    assert diverging_epoch(leader, 20, last_fetched_epoch=1) is None


@pytest.mark.spec("E1")
@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "power cut"])
def test_a_cleaned_log_whose_epoch_file_is_lost_knows_its_epochs(cleaned: Log, *, is_clean: bool) -> None:
    cleaned.close()
    directory = Path(cleaned.directory)
    (directory / FILE_NAME).unlink()
    assert opened(directory, is_clean=is_clean).epochs.entries == EPOCHS
