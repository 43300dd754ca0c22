from __future__ import annotations

import struct
from pathlib import Path

import pytest
from at_once import delete_old_segments
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


def test_each_of_the_last_five_batches_is_a_duplicate_after_a_restart() -> None:
    """Apache Kafka refuses all but the last as out of order."""
    state = ProducerState()
    headers = [parse_header(batch(b"v", producer=(7, 1, sequence))) for sequence in range(6)]
    for offset, header in enumerate(headers):
        state.append(header, offset)
    loaded = decode_snapshot(encode_snapshot(state))
    assert [found and found.last_offset for found in map(loaded.check, headers[1:])] == [1, 2, 3, 4, 5]
    assert encode_snapshot(loaded) == encode_snapshot(state)


def test_kafka_reads_the_last_row_of_a_producer() -> None:
    state = golden_state()
    state.append(parse_header(batch(b"v", timestamp=1_700_000_003_755, producer=(7, 1, 940))), 940)
    state.append(parse_header(batch(b"v", timestamp=1_700_000_003_756, producer=(8, 0, 0))), 941)
    rows = struct.iter_unpack(">qhiqiqiq", encode_snapshot(state)[10:])
    assert {row[0]: row[2:4] for row in rows} == {7: (940, 940), 8: (0, 941)}


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_producer_may_repeat_what_was_in_flight_at_a_restart(open_log: OpenLog, *, is_clean: bool) -> None:
    log = open_log(segment_bytes=250)  # a few batches: snapshots are in between
    for sequence in range(6):
        append(log, b"%d" % sequence, producer=(7, 0, sequence))
    if is_clean:
        log.close()
    reopened = open_log(segment_bytes=250, clean=is_clean, was_killed=not is_clean)
    repeated = [append(reopened, b"%d" % sequence, producer=(7, 0, sequence)) for sequence in range(1, 6)]
    assert all(each.duplicate for each in repeated)


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
    delete_old_segments(log, 5, 0)
    assert min(files.offsets()) >= log.segments[0].base_offset
    log.truncate_fully_and_start_at(0)
    assert files.offsets() == []


def test_snapshots_of_many_producers_are_no_larger_than_the_log(open_log: OpenLog) -> None:
    """Each roll wrote one, of all producers: the most of what was written, and hundreds of milliseconds of the loop."""
    log = open_log(segment_bytes=250)
    for producer_id in range(300):
        append(log, b"v", producer=(producer_id, 0, 0))
    directory = Path(log.directory)
    logs, snapshots = (sum(file.stat().st_size for file in directory.glob(f"*.{kind}")) for kind in ("log", "snapshot"))
    assert 0 < snapshots <= 2 * logs
    reopened = open_log(segment_bytes=250, clean=False, was_killed=True)
    assert all(append(reopened, b"v", producer=(producer_id, 0, 0)).duplicate for producer_id in range(300))


def test_producers_are_known_after_a_kill_whose_batches_are_deleted(open_log: OpenLog) -> None:
    """Not every segment has a snapshot of its own: the one before the first segment was deleted with the others."""
    log = open_log(segment_bytes=250)
    for producer_id in range(300):
        append(log, b"v", producer=(producer_id, 0, 0))
    last = SnapshotFiles(log.disk, log.directory).offsets()[-1]
    first = log.segments.closed[-1].base_offset
    assert last < first
    log.maybe_increment_log_start_offset(first)
    assert delete_old_segments(log, 300, 0)
    assert log.segments[0].base_offset == first
    reopened = open_log(segment_bytes=250, clean=False, was_killed=True, log_start_offset=first)
    assert [entry.producer_id for entry in reopened.producers.entries] == [*range(300)]
