from __future__ import annotations

import pytest
from storage_batches import OpenLog, append, batch

from minikafka.records.batch import parse_header
from minikafka.storage.disk import OsDisk
from minikafka.storage.producer_state import ProducerState
from minikafka.storage.snapshots import DamagedSnapshotError, SnapshotFiles, decode_snapshot, encode_snapshot

# One producer, as Apache Kafka 3.9 reads and prints it: id 7, epoch 1, sequences 936-939, last offset 939.
GOLDEN = bytes.fromhex(
    "0001"  # version
    "9b3fda09"  # CRC-32C of all that follows
    "00000001"  # one entry
    "0000000000000007"  # producer id
    "0001"  # epoch
    "000003ab"  # last sequence
    "00000000000003ab"  # last offset
    "00000003"  # offset delta
    "0000018bcfe576aa"  # timestamp
    "ffffffff"  # coordinator epoch
    "ffffffffffffffff"  # first offset of an open transaction
)


def golden_state() -> ProducerState:
    state = ProducerState()
    values = [b"v"] * 4
    state.append(parse_header(batch(*values, timestamp=1_700_000_003_754, producer=(7, 1, 936))), 936)
    return state


def test_the_file_is_kafkas() -> None:
    assert encode_snapshot(golden_state()) == GOLDEN


def test_a_snapshot_comes_back() -> None:
    state = decode_snapshot(GOLDEN)
    entry = state.get(7)
    assert entry is not None
    assert (entry.epoch, entry.last_sequence, entry.last_offset) == (1, 939, 939)
    assert entry.batches[0].first_sequence == 936
    assert encode_snapshot(state) == GOLDEN


def test_every_damaged_byte_is_noticed() -> None:
    for at in range(len(GOLDEN)):
        damaged = bytearray(GOLDEN)
        damaged[at] ^= 0x40
        with pytest.raises(DamagedSnapshotError):
            decode_snapshot(bytes(damaged))
        with pytest.raises(DamagedSnapshotError):
            decode_snapshot(GOLDEN[:at])


def test_an_open_transaction_is_kept() -> None:
    state = ProducerState()
    state.append(parse_header(batch(b"v", producer=(9, 0, 0), is_transactional=True)), 50)
    loaded = decode_snapshot(encode_snapshot(state))
    assert loaded.first_unstable_offset(100) == 50


def test_one_is_taken_at_every_roll_and_the_newest_usable_one_is_loaded(
    open_log: OpenLog, disk: OsDisk, directory: str
) -> None:
    log = open_log(segment_bytes=250)
    for sequence in range(6):
        append(log, b"%d" % sequence, producer=(7, 0, sequence))
    files = SnapshotFiles(disk, directory)
    bases = [segment.base_offset for segment in log.segments]
    assert files.offsets() == bases[1:]
    disk.write_bytes(f"{directory}/{bases[-1]:020d}.snapshot", b"torn")
    loaded = files.load(log.segments, 0, log.log_end_offset).get(7)
    assert loaded is not None
    assert loaded.last_sequence == 5
    assert files.offsets() == bases[1:-1], "the torn one is removed"


def test_snapshots_go_with_the_offsets_they_describe(open_log: OpenLog, disk: OsDisk, directory: str) -> None:
    log = open_log(segment_bytes=250)
    for sequence in range(9):
        append(log, b"%d" % sequence, producer=(7, 0, sequence))
    files = SnapshotFiles(disk, directory)
    log.truncate_to(5)
    assert max(files.offsets()) <= 5
    log.maybe_increment_log_start_offset(4)
    log.delete_old_segments(5, 0)
    assert min(files.offsets()) >= log.segments[0].base_offset
    log.truncate_fully_and_start_at(0)
    assert files.offsets() == []
