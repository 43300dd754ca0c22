from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from random import Random
from struct import Struct
from typing import Any, cast

import pytest
from at_once import delete_old_segments
from crc32c import crc32c
from storage_batches import NOW_MS, OpenLog, append, stage

from minikafka.errors import KafkaError
from minikafka.model import TopicPartition
from minikafka.records.batch import parse_header
from minikafka.records.build import build_batch
from minikafka.records.control import EndTxnMarker, build_end_txn_marker
from minikafka.records.record import Record
from minikafka.storage import aborted, cleaned_transactions, transaction_index
from minikafka.storage.cleaned_transactions import CleanedTransactions
from minikafka.storage.disk import OsDisk
from minikafka.storage.index import DamagedIndexError
from minikafka.storage.last_stop import LastStop
from minikafka.storage.log import Log
from minikafka.storage.segment_cache import SegmentCache
from minikafka.storage.segment_list import SEGMENTS_FILE, parse_segments
from minikafka.storage.segment_names import LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX
from minikafka.storage.transaction_index import NO_ABORTED, AbortedTransaction, TransactionIndex

KAFKA = Path(__file__).parents[2] / "golden" / "transactions" / "kafka_aborted.txnindex"
"""What Apache Kafka 4.3.1's TransactionIndex writes of ENTRIES."""
ENTRIES = [
    AbortedTransaction(7, 90, 104, 98),
    AbortedTransaction(4_000_000_000, 98, 110, 111),
    AbortedTransaction(7, 112, 115, 116),
]
FIRST, SECOND, THIRD = ENTRIES


def index_of(*entries: AbortedTransaction) -> TransactionIndex:
    index = TransactionIndex()
    for entry in entries:
        index.append(entry)
    return index


@pytest.mark.spec("T20")
def test_the_file_is_kafkas() -> None:
    data = KAFKA.read_bytes()
    assert index_of(*ENTRIES).encode() == data
    assert list(TransactionIndex.decode(100, 116, data)) == ENTRIES
    assert (index_of(*ENTRIES).size_in_bytes, len(data)) == (102, 102)


@pytest.mark.parametrize(
    ("start_offset", "end_offset", "found"),
    [
        (0, 90, []),
        (0, 91, [FIRST]),
        (100, 104, [FIRST, SECOND]),
        (104, 105, [FIRST, SECOND]),
        (105, 112, [SECOND]),
        (105, 113, [SECOND, THIRD]),
        (111, 112, []),
        (116, 200, []),
    ],
)
def test_transactions_that_overlap_a_range(start_offset: int, end_offset: int, found: list[AbortedTransaction]) -> None:
    assert index_of(*ENTRIES).between(start_offset, end_offset) == found


def random_entries(random: Random, count: int) -> list[AbortedTransaction]:
    """Some transactions stay open while many others begin and end."""
    open_since: dict[int, int] = {}
    entries: list[AbortedTransaction] = []
    offset = 0
    while len(entries) < count:
        producer_id = random.choice([1, 2, 3, 3, 4, 4, 4])
        if producer_id not in open_since:
            open_since[producer_id] = offset
        elif producer_id > 1 or random.random() < 0.02:
            first = open_since.pop(producer_id)
            entries.append(AbortedTransaction(producer_id, first, offset, min(open_since.values(), default=offset + 1)))
        offset += random.randint(1, 3)
    return entries


def test_blocks_of_entries_are_passed_over_and_none_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_index, "BLOCK", 8)
    random = Random(1)
    entries = random_entries(random, 200)
    index = index_of(*entries)
    for keep in (200, 160, 155):  # whole blocks, and a part of one
        cut_at = entries[keep].last_offset if keep < 200 else entries[-1].last_offset + 1
        index.truncate(cut_at)
        for _ in range(500):
            start, end = sorted(random.choices(range(cut_at + 5), k=2))
            left = [each for each in entries if start <= each.last_offset < cut_at and each.first_offset < end]
            assert index.between(start, end) == left
        assert index.checksum == crc32c(index.encode())


def test_a_transaction_that_stays_open_does_not_make_the_search_long() -> None:
    """A hundred thousand that were aborted since then lie behind the range, and each was looked at."""

    class CountedArray(array):  # type: ignore[type-arg]
        reads = 0

        def __getitem__(self, at: Any) -> Any:
            CountedArray.reads += 1
            return super().__getitem__(at)

    ended = [AbortedTransaction(2, 1 + 2 * at, 2 + 2 * at, 0) for at in range(100_000)]
    index = index_of(*ended, AbortedTransaction(1, 0, 300_000, 300_001))
    index._first_offsets = CountedArray("q", index._first_offsets)
    assert index.between(1, 3) == [ended[0], AbortedTransaction(1, 0, 300_000, 300_001)]
    assert CountedArray.reads < 1_000


def test_the_search_is_over_with_a_marker_that_leaves_nothing_open_before_the_end() -> None:
    assert index_of(*ENTRIES).last_stable_offset == 116
    assert TransactionIndex().last_stable_offset == -1
    assert index_of(*ENTRIES).end_of_markers(104, 2) == 111
    assert index_of(*ENTRIES).end_of_markers(105, 3) is None


def test_markers_from_an_offset_on_are_cut() -> None:
    index = index_of(*ENTRIES)
    index.truncate(110)
    assert list(index) == [FIRST]


def test_the_checksum_is_that_of_the_file() -> None:
    assert index_of(*ENTRIES).checksum == crc32c(KAFKA.read_bytes())
    assert TransactionIndex().checksum == NO_ABORTED


ENTRY = Struct(">hqqqq")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        bytes(34),
        ENTRY.pack(1, 7, 90, 104, 98),
        ENTRY.pack(0, -7, 90, 104, 98),
        ENTRY.pack(0, 7, 104, 104, 98),
        ENTRY.pack(0, 7, -1, 104, 98),
        ENTRY.pack(0, 7, 90, 99, 98),
        ENTRY.pack(0, 7, 90, 116, 98),
        ENTRY.pack(0, 7, 90, 104, 98) * 2,
        ENTRY.pack(0, 7, 90, 104, 98) + ENTRY.pack(0, 8, 90, 105, 97),
    ],
)
def test_what_cannot_be_an_index(data: bytes) -> None:
    with pytest.raises(DamagedIndexError):
        TransactionIndex.decode(100, 116, data)


# -- in a log ---------------------------------------------------------------------------------------------------------


def write(log: Log, producer_id: int, sequence: int = 0) -> None:
    append(log, b"v", producer=(producer_id, 0, sequence), is_transactional=True)


def end(log: Log, producer_id: int, *, commit: bool = False) -> None:
    stage(log, build_end_txn_marker(producer_id, 0, EndTxnMarker(commit, 0), timestamp=NOW_MS))
    log.commit()


def indexes(disk: OsDisk, directory: str) -> list[str]:
    return [name for name in disk.listdir(directory) if name.endswith(TRANSACTION_INDEX_SUFFIX)]


def across_segments(open_log: OpenLog) -> Log:
    """Producer 7 aborts in the third segment what it began in the first; the second has nothing aborted."""
    log = open_log()
    write(log, 7)
    write(log, 8)
    end(log, 8)
    log.roll()
    append(log, b"3")
    log.roll()
    end(log, 7)
    write(log, 9)
    end(log, 9, commit=True)
    log.roll()
    log.flush()
    return log


FOUND = [AbortedTransaction(8, 1, 2, 0), AbortedTransaction(7, 0, 4, 5)]


@pytest.mark.spec("T20")
def test_only_segments_in_which_a_transaction_was_aborted_have_the_file(
    open_log: OpenLog, disk: OsDisk, directory: str
) -> None:
    log = across_segments(open_log)
    names = ["00000000000000000000.txnindex", "00000000000000000004.txnindex"]
    assert indexes(disk, directory) == names
    assert log.aborted.between(3, 4) == FOUND[1:], "its records are before and its marker behind"
    assert log.aborted.between(0, 7) == FOUND
    assert log.aborted.between(5, 7) == []
    log.truncate_to(4)
    assert log.aborted.between(0, 4) == FOUND[:1]
    log.close()
    assert indexes(disk, directory) == names[:1]


def damaged(disk: OsDisk, path: str, damage: str) -> None:
    data = bytearray(disk.read_bytes(path))
    if damage in ("removed", "a directory"):
        disk.unlink(path)
    if damage == "a directory":
        disk.mkdir(path)
    if damage == "another producer":
        data[9] ^= 1
    changed = {
        "cut": data[:-1],
        "an entry less": data[: -ENTRY.size],
        "emptied": b"",
        "garbage": bytes(len(data)),
        "another producer": data,
    }
    if damage in changed:
        disk.write_bytes(path, changed[damage])


DAMAGE = ["none", "cut", "an entry less", "removed", "emptied", "garbage", "another producer", "a directory"]


@pytest.mark.parametrize("damage", DAMAGE)
def test_an_active_index_is_read_at_a_start(open_log: OpenLog, disk: OsDisk, directory: str, damage: str) -> None:
    log = open_log()
    for producer_id in (7, 8):
        write(log, producer_id)
        end(log, producer_id)
    log.close()
    damaged(disk, f"{directory}/00000000000000000000.txnindex", damage)
    log = open_log()
    assert log.aborted.between(0, 4) == [AbortedTransaction(7, 0, 1, 2), AbortedTransaction(8, 2, 3, 4)]
    log.flush()
    log.close()
    log = open_log()
    damaged(disk, f"{directory}/00000000000000000000.txnindex", "removed")
    assert len(log.aborted.between(0, 4) or []) == 2


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_closed_index_is_read_when_it_is_asked_for(
    open_log: OpenLog, disk: OsDisk, directory: str, damage: str
) -> None:
    across_segments(open_log).close()
    path = f"{directory}/00000000000000000004.txnindex"
    data = disk.read_bytes(path)
    log = open_log()
    damaged(disk, path, damage)
    assert log.aborted.between(0, 3) is None
    job = log.aborted.prepare(0, 4)
    assert job is not None
    job.run()
    log.complete_read(job)
    assert log.aborted.between(0, 4) == FOUND
    assert log.aborted.prepare(0, 4) is None
    assert disk.read_bytes(path) == data, "it is there again"


def test_what_was_made_again_is_listed_by_the_next_stop(open_log: OpenLog, disk: OsDisk, directory: str) -> None:
    """If it differs from what was lost, or the list was an older one, each start made it again."""
    across_segments(open_log).close()
    path = f"{directory}/{SEGMENTS_FILE}"
    rows = parse_segments(disk.read_bytes(path))
    content = disk.read_bytes(path).replace(b" %d\n" % rows[0].aborted, b" 1\n").partition(b"\n")[2]
    disk.write_bytes(path, b"%08x\n" % crc32c(content) + content)
    log = open_log()
    log.flush()
    job = log.aborted.prepare(0, 2)
    assert job is not None
    job.run()
    log.complete_read(job)
    log.close()
    assert parse_segments(disk.read_bytes(path)) == rows


def test_an_index_that_has_gone_is_not_missed(open_log: OpenLog, disk: OsDisk, directory: str) -> None:
    """What tells that nothing was aborted was read again at each look-up, once it had left memory."""
    across_segments(open_log).close()
    disk.write_bytes(f"{directory}/00000000000000000003.txnindex", b"")
    log = open_log()
    job = log.aborted.prepare(0, 7)
    assert job is not None
    job.run()
    log.complete_read(job)
    for segment in log.segments:
        segment.cool()
        assert list(segment.aborted) == [
            one for one in FOUND if segment.base_offset <= one.last_offset < segment.next_offset
        ]


def test_an_empty_index_goes_where_nothing_was_aborted(open_log: OpenLog, disk: OsDisk, directory: str) -> None:
    across_segments(open_log).close()
    disk.write_bytes(f"{directory}/00000000000000000003.txnindex", b"")
    for _ in range(2):
        log = open_log()
        job = log.aborted.prepare(0, 7)
        assert job is not None
        job.run()
        log.complete_read(job)
        assert log.aborted.between(0, 7) == FOUND
        log.close()
        assert "00000000000000000003.txnindex" not in indexes(disk, directory)


@pytest.mark.spec("T20")
def test_an_index_that_is_made_again_has_what_lies_below_the_log_start(
    open_log: OpenLog, disk: OsDisk, directory: str
) -> None:
    """A kill may undo a DeleteRecords of the last seconds, and the index of that time stays."""
    across_segments(open_log).close()
    path = f"{directory}/00000000000000000000.txnindex"
    data = disk.read_bytes(path)
    disk.write_bytes(path, data[:-1])
    log = open_log(log_start_offset=2)
    job = log.aborted.prepare(2, 4)
    assert job is not None
    job.run()
    log.complete_read(job)
    assert disk.read_bytes(path) == data


def test_a_job_reads_no_further_than_it_must(open_log: OpenLog) -> None:
    log = open_log()
    for producer_id in range(5):
        write(log, producer_id)
        end(log, producer_id)
        log.roll()
    log.close()
    log = open_log()
    job = log.aborted.prepare(0, 2)
    assert job is not None
    job.run()
    log.complete_read(job)
    assert [segment.known_aborted.index is None for segment in log.segments] == [False, True, True, True, True, False]
    assert log.aborted.between(0, 2) == [AbortedTransaction(0, 0, 1, 2)]
    assert log.aborted.between(0, 3) is None


def test_a_job_from_before_a_segment_was_closed_tells_nothing_of_it(open_log: OpenLog) -> None:
    """What was aborted meanwhile was forgotten, and written without: readers of committed records got it for good."""
    log = open_log()
    write(log, 7)
    end(log, 7)
    write(log, 8)
    job = log.prepare_timestamp_lookup(NOW_MS)
    job.run()
    end(log, 8)
    log.roll()
    log.complete_read(job)
    told = [AbortedTransaction(7, 0, 1, 2), AbortedTransaction(8, 2, 3, 4)]
    assert log.aborted.between(0, 4) == told
    log.close()
    assert list(open_log().segments[0].aborted) == told


def test_a_job_from_before_an_index_was_written_does_not_take_it_for_another(
    open_log: OpenLog, disk: OsDisk, directory: str
) -> None:
    """It was made again at each start, since the list had the checksum of none."""
    log = across_segments(open_log)
    write(log, 10)
    end(log, 10)
    log.roll()
    job = log.prepare_timestamp_lookup(NOW_MS + 1)
    job.run()
    log.flush()
    log.complete_read(job)
    for segment in log.segments.closed:
        segment.cool()
    data = disk.read_bytes(f"{directory}/00000000000000000007.txnindex")
    assert log.segments[3].known_aborted.checksum == crc32c(data)


def with_cache(disk: OsDisk, directory: str, capacity: int) -> Log:
    where, last_stop = TopicPartition("orders", 0), LastStop(is_clean=True)
    return Log.open(disk, directory, where, cache=SegmentCache(capacity), last_stop=last_stop)


def test_more_indexes_than_stay_in_memory_are_looked_into(disk: OsDisk, directory: str) -> None:
    """Transactions were open while others were aborted in many segments: a reader got nothing, for ever."""
    log = with_cache(disk, directory, 3)
    for producer_id in range(9):
        write(log, producer_id)
    for producer_id in range(9):
        end(log, producer_id)
        log.roll()
    log.close()
    log = with_cache(disk, directory, 3)
    for start in (0, 2):
        assert log.aborted.between(start, 9) is None
        job = log.aborted.prepare(start, 9)
        assert job is not None
        job.run()
        write(log, 50)
        log.roll()
        end(log, 50)
        log.complete_read(job)
        assert [one.producer_id for one in log.aborted.between(start, 9) or []] == [*range(9)]
        assert log.aborted.between(start, 9) is None, "it is told once"


def test_an_index_that_cannot_count_is_not_read_again(
    disk: OsDisk, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = with_cache(disk, directory, 3)
    write(log, 99)
    for producer_id in range(9):
        write(log, producer_id)
        end(log, producer_id)
        log.roll()
    log.close()
    log = with_cache(disk, directory, 3)
    load, loads = aborted.load_aborted, []
    monkeypatch.setattr(aborted, "load_aborted", lambda one, *more: loads.append(one.base_offset) or load(one, *more))
    for end_offset in (1, 3):
        job = log.aborted.prepare(0, end_offset)
        assert job is not None
        job.run()
        log.complete_read(job)
        assert log.aborted.between(0, end_offset) == [AbortedTransaction(0, 1, 2, 0)][: end_offset - 1]
    assert len(loads) == 9 + 1


def test_a_job_from_before_a_cut_tells_nothing(disk: OsDisk, directory: str) -> None:
    log = Log.open(disk, directory, TopicPartition("orders", 0), cache=SegmentCache(1))
    write(log, 99)
    for producer_id in range(3):
        write(log, producer_id)
        end(log, producer_id)
        log.roll()
    log.flush()
    for segment in log.segments.closed:
        segment.cool()
    job = log.aborted.prepare(0, 7)
    assert job is not None
    job.run()
    log.complete_read(job)
    log.truncate_to(6)
    assert log.aborted.between(0, 6) is None


def test_a_damaged_segment_tells_nothing_of_aborted_transactions(open_log: OpenLog, disk: OsDisk) -> None:
    log = across_segments(open_log)
    log.close()
    log = open_log()
    segment = log.segments[2]
    disk.write_bytes(segment.path(TRANSACTION_INDEX_SUFFIX), b"x")
    data = bytearray(disk.read_bytes(segment.path(LOG_SUFFIX)))
    data[16] ^= 0xFF
    disk.write_bytes(segment.path(LOG_SUFFIX), data)
    job = log.aborted.prepare(4, 5)
    assert job is not None
    job.run()
    with pytest.raises(KafkaError):
        log.complete_read(job)
    assert log.corruption is not None
    assert log.corruption.offset == 4


def test_an_active_segment_is_closed_when_its_index_is_full(open_log: OpenLog) -> None:
    log = open_log(segment_index_bytes=2 * 34)
    for producer_id in range(5):
        write(log, producer_id)
        end(log, producer_id)
    assert [segment.base_offset for segment in log.segments] == [0, 5, 9]
    assert log.aborted.between(0, 10) == [AbortedTransaction(at, 2 * at, 2 * at + 1, 2 * at + 2) for at in range(5)]


@pytest.mark.spec("T24")
def test_one_answer_has_so_many_markers_at_most(open_log: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aborted, "MARKERS_AT_ONCE", 2)
    log = open_log()
    for producer_id in range(5):
        write(log, producer_id)
        end(log, producer_id)
    assert [log.aborted.read_limit(offset, 9) for offset in (0, 1, 3, 6, 7)] == [4, 4, 6, 9, 9]
    assert open_log().aborted.read_limit(20, 30) == 30


@pytest.mark.spec("T24")
def test_one_answer_has_so_many_markers_though_their_index_left_memory(
    disk: OsDisk, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aborted, "MARKERS_AT_ONCE", 2)
    log = with_cache(disk, directory, 1)
    write(log, 99)
    for producer_id in range(9):
        write(log, producer_id)
        end(log, producer_id)
        if producer_id > 4:
            log.roll()
    log.close()
    log = with_cache(disk, directory, 1)
    job = log.aborted.prepare(0)
    assert job is not None
    job.run()
    log.complete_read(job)
    assert log.segments[0].known_aborted.index is None
    assert log.aborted.read_limit(0, 11) == 5
    assert [one.producer_id for one in log.aborted.between(0, 5) or []] == [0, 1]


@pytest.mark.spec("T22")
@pytest.mark.parametrize("clean", [True, False])
def test_an_open_transaction_of_deleted_segments_does_not_hold_back_for_ever(open_log: OpenLog, clean: bool) -> None:
    """Its marker went with a segment that had no snapshot of its own: those come after so many bytes only."""
    log = open_log(cleanup_policy=frozenset({"delete"}))
    for producer_id in range(9):
        append(log, b"v", producer=(producer_id, 0, 0))
    write(log, 10)
    log.roll()
    end(log, 10, commit=True)
    log.roll()
    append(log, b"x")
    log.flush()
    assert log.snapshots.offsets() == [10]
    log.delete_records(11, 12)
    delete_old_segments(log, 12, NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [11]
    log = open_log(clean=clean, recovery_point=12, log_start_offset=11)
    assert log.last_stable_offset(12) == 12


@pytest.mark.spec("T21")
def test_the_last_stable_offset_is_in_the_log(open_log: OpenLog) -> None:
    log = open_log()
    write(log, 7)
    append(log, b"1")
    append(log, b"2")
    log.delete_records(2, 3)
    assert log.last_stable_offset(3) == 2


def test_a_follower_has_the_same_index(open_log: OpenLog, disk: OsDisk, tmp_path: Path) -> None:
    log = across_segments(open_log)
    copy = Log.open(disk, str(tmp_path / "copy"), log.topic_partition)
    while copy.log_end_offset < log.log_end_offset:
        copy.append_as_follower(memoryview(log.read(copy.log_end_offset, 1 << 20).read()))
    assert copy.aborted.between(0, 7) == FOUND
    assert len(copy.segments) == 1
    copy.close()
    data = disk.read_bytes(f"{copy.directory}/00000000000000000000.txnindex")
    assert data == index_of(*FOUND).encode()


def test_the_cleaner_looks_ahead_once(open_log: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one transaction was open, others were aborted in 1,000 segments: half a million loads took 20 s."""
    log = open_log()
    write(log, 99)
    for producer_id in range(20):
        write(log, producer_id)
        end(log, producer_id)
        log.roll()
    end(log, 99)
    log.roll()
    log.flush()
    loads: list[int] = []
    monkeypatch.setattr(
        cleaned_transactions,
        "load_aborted",
        lambda segment, *_: loads.append(segment.base_offset) or segment.aborted,
    )
    transactions = CleanedTransactions(log.segments.closed, log.snapshots, 0)
    told = []
    for segment in log.segments.closed:
        transactions.enter(segment.base_offset, segment.next_offset)
        told.append({producer_id for producer_id in range(100) if producer_id in transactions._aborted})
    assert told == [*({at, 99} for at in range(20)), {99}]
    assert len(loads) < 3 * 21


class NeverWalked(list[AbortedTransaction]):
    def __iter__(self) -> Iterator[AbortedTransaction]:
        raise AssertionError("10,000 of one producer took 5 s for 10,000 batches")


def test_the_cleaner_does_not_walk_over_all_aborted_transactions_of_a_producer() -> None:
    transactions = CleanedTransactions([], cast(Any, None), 0)
    transactions._aborted = {7: NeverWalked(AbortedTransaction(7, 3 * at, 3 * at + 1, 3 * at + 2) for at in range(50))}
    header = parse_header(build_batch([Record(0, 0, b"k", b"v")], producer_id=7, is_transactional=True))
    aborted = [transactions.is_aborted(header._replace(base_offset=offset)) for offset in range(150)]
    assert aborted == [True, False, False] * 50
    transactions.on_batch(header)
    assert transactions.on_marker(header._replace(base_offset=31)) == (True, AbortedTransaction(7, 30, 31, 32))
