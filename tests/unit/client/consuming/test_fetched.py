"""What a fetch brought is decoded as it is taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.client.consuming.fetched import Fetched
from minikafka.client.consuming.positions import Position
from minikafka.client.records import ConsumerRecord, FetchedBatches
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.records.batch import HEADER_SIZE, parse_header, write_header
from minikafka.records.build import build_batch
from minikafka.records.control import EndTxnMarker, build_end_txn_marker
from minikafka.records.read import iter_records
from minikafka.records.record import Record, encode_record
from minikafka.wire.messages.fetch import AbortedTransaction, PartitionData

WHERE = TopicPartition("t", 3)


def position_at(offset: int) -> Position:
    position = Position(WHERE)
    position.seek(offset)
    return position


def batch(
    base_offset: int, count: int = 1, epoch: int = 0, producer_id: int = -1, transactional: bool = False
) -> bytes:
    records = [Record(-1, 100 + n, b"k", b"v%d" % (base_offset + n), (("h", b"x"),)) for n in range(count)]
    built = build_batch(
        records,
        base_offset=base_offset,
        leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=0 if transactional else -1,
        base_sequence=base_offset if transactional else -1,
        is_transactional=transactional,
    )
    return bytes(built)


def marker(offset: int, producer_id: int, *, commit: bool) -> bytes:
    return bytes(build_end_txn_marker(producer_id, 0, EndTxnMarker(commit, 0), timestamp=0, base_offset=offset))


def fetched(position: Position, *batches: bytes, aborted: list[tuple[int, int]] | None = None) -> Fetched:
    transactions = None
    if aborted is not None:
        transactions = [AbortedTransaction(producer_id=who, first_offset=offset) for who, offset in aborted]
    data = PartitionData(records=b"".join(batches), aborted_transactions=transactions)
    found = Fetched(position, data, check_crcs=True)
    position.on_fetched(found.end)
    return found


def take_all(found: Fetched, limit: int = 1000) -> list[ConsumerRecord]:
    records = []
    while taken := found.take(limit):
        records += taken
    assert found.is_exhausted
    return records


def test_a_record_has_its_place() -> None:
    (record,) = take_all(fetched(position_at(7), batch(7, epoch=5)))
    assert record == ConsumerRecord("t", 3, 7, 100, b"k", b"v7", (("h", b"x"),), 5)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(1, 7), st.data())
def test_records_come_in_order_however_they_are_taken(counts: list[int], limit: int, data: st.DataObject) -> None:
    total = sum(counts)
    start = data.draw(st.integers(0, total - 1))
    position = position_at(start)
    bases = [sum(counts[:index]) for index in range(len(counts))]
    found = fetched(position, *(batch(base, count) for base, count in zip(bases, counts, strict=True)))
    assert found.end == (total, 0)
    offsets = []
    while taken := found.take(limit):
        assert len(taken) <= limit
        offsets += [record.offset for record in taken]
        assert position.consumed.offset == offsets[-1] + 1
    assert offsets == list(range(start, total))


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch() -> None:
    found = fetched(position_at(0), batch(0, 2), batch(2, 2)[:-1])
    assert found.end.offset == 2
    assert len(take_all(found)) == 2
    assert fetched(position_at(0), batch(0)[:-1]).is_exhausted


def test_the_position_goes_behind_what_compaction_took() -> None:
    position = position_at(0)
    whole = batch(0, 3)
    take_all(fetched(position, whole))
    assert position.consumed == (3, 0)


def test_the_epoch_is_that_of_the_last_record() -> None:
    position = position_at(0)
    found = fetched(position, batch(0, 2, epoch=1), batch(2, 2, epoch=4))
    found.take(1)
    assert position.consumed == (1, 1)
    take_all(found)
    assert position.consumed == found.end == OffsetAndEpoch(4, 4)


def test_damage_is_found_before_its_batch_and_not_before() -> None:
    damaged = bytearray(batch(2, 2))
    damaged[-1] ^= 1
    position = position_at(0)
    found = fetched(position, batch(0, 2), bytes(damaged))
    assert len(found.take(10)) == 2
    with pytest.raises(KafkaError, match="t-3: the batch at offset 2 arrived damaged") as raised:
        found.take(10)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
    assert position.consumed.offset == 2


def test_damage_may_be_overlooked() -> None:
    damaged = bytearray(batch(0))
    damaged[17] ^= 1  # the checksum itself
    found = Fetched(position_at(0), PartitionData(records=bytes(damaged)), check_crcs=False)
    found.position.on_fetched(found.end)
    assert len(take_all(found)) == 1


def test_bytes_that_are_no_batch() -> None:
    with pytest.raises(KafkaError, match="no record batch"):
        Fetched(position_at(0), PartitionData(records=b"\0" * 100), check_crcs=True)


def test_it_is_stale_after_a_seek() -> None:
    position = position_at(0)
    found = fetched(position, batch(0))
    assert not found.is_stale
    position.seek(0)
    assert found.is_stale


def test_markers_are_not_handed_out_but_passed() -> None:
    position = position_at(0)
    records = take_all(fetched(position, batch(0, producer_id=1, transactional=True), marker(1, 1, commit=True)))
    assert [record.offset for record in records] == [0]
    assert position.consumed.offset == 2


def test_aborted_transactions_are_left_out() -> None:
    """Producers 1 and 2 interleave; 1 aborts, then writes and commits; 2 commits; 3 is not transactional."""
    log = [
        batch(0, 2, producer_id=1, transactional=True),
        batch(2, 1, producer_id=2, transactional=True),
        batch(3, 1, producer_id=1, transactional=True),
        batch(4, 1),
        marker(5, 1, commit=False),
        batch(6, 1, producer_id=1, transactional=True),
        marker(7, 1, commit=True),
        marker(8, 2, commit=True),
    ]
    committed = [2, 4, 6]
    assert [r.offset for r in take_all(fetched(position_at(0), *log, aborted=[(1, 0)]))] == committed
    assert [r.offset for r in take_all(fetched(position_at(0), *log))] == [0, 1, 2, 3, 4, 6]
    assert [r.offset for r in take_all(fetched(position_at(3), *log[2:], aborted=[(1, 0)]))] == [4, 6]


def test_two_aborted_transactions_of_one_producer() -> None:
    log = [
        batch(0, producer_id=1, transactional=True),
        marker(1, 1, commit=False),
        batch(2, producer_id=1, transactional=True),
        marker(3, 1, commit=True),
        batch(4, producer_id=1, transactional=True),
        marker(5, 1, commit=False),
    ]
    assert [r.offset for r in take_all(fetched(position_at(0), *log, aborted=[(1, 4), (1, 0)]))] == [2]


# -- in batches -----------------------------------------------------------------------------------------------------


def offsets_in(taken: FetchedBatches) -> list[int]:
    """Of the records that the caller is to use."""
    return [
        record.offset
        for at, header in taken.batches
        for record in iter_records(taken.buffer, at, header)
        if taken.start_offset <= record.offset < taken.end_offset
    ]


def test_batches_are_taken_all_at_once_as_they_came() -> None:
    position = position_at(1)
    position.high_watermark = 9
    sent = batch(0, 3, epoch=1) + batch(3, 2, epoch=4)
    found = fetched(position, sent)
    taken = found.take_batches()
    assert taken is not None
    assert (taken.tp, bytes(taken.buffer), taken.high_watermark) == (WHERE, sent, 9)
    assert (taken.start_offset, taken.end_offset) == (1, 5)
    assert [header.base_offset for _, header in taken.batches] == [0, 3]
    assert offsets_in(taken) == [1, 2, 3, 4]
    assert position.consumed == OffsetAndEpoch(5, 4)
    assert found.is_exhausted
    assert found.take_batches() is None


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.data())
def test_batches_go_on_where_records_ended(counts: list[int], data: st.DataObject) -> None:
    total = sum(counts)
    start = data.draw(st.integers(0, total - 1))
    bases = [sum(counts[:index]) for index in range(len(counts))]
    found = fetched(position_at(start), *(batch(base, count) for base, count in zip(bases, counts, strict=True)))
    offsets = [record.offset for record in found.take(data.draw(st.integers(1, 6)))]
    taken = found.take_batches()
    if taken is not None:
        assert taken.start_offset == offsets[-1] + 1
        offsets += offsets_in(taken)
    assert offsets == list(range(start, total))
    assert found.is_exhausted


def test_damage_ends_the_batches_before_it() -> None:
    damaged = bytearray(batch(2, 2))
    damaged[-1] ^= 1
    position = position_at(0)
    found = fetched(position, batch(0, 2), bytes(damaged), batch(4))
    taken = found.take_batches()
    assert taken is not None
    assert offsets_in(taken) == [0, 1]
    assert not found.is_exhausted
    with pytest.raises(KafkaError, match="t-3: the batch at offset 2 arrived damaged"):
        found.take_batches()
    assert position.consumed.offset == 2


def test_batches_leave_out_markers_and_aborted_transactions() -> None:
    log = [
        batch(0, 2, producer_id=1, transactional=True),
        batch(2, 1, producer_id=2, transactional=True),
        marker(3, 1, commit=False),
        batch(4, 1),
        marker(5, 2, commit=True),
    ]
    taken = fetched(position_at(0), *log, aborted=[(1, 0)]).take_batches()
    assert taken is not None
    assert offsets_in(taken) == [2, 4]
    assert taken.end_offset == 6


def test_the_position_moves_even_when_every_batch_is_left_out() -> None:
    position = position_at(0)
    taken = fetched(position, marker(0, 1, commit=True)).take_batches()
    assert taken is not None
    assert (taken.batches, taken.start_offset, taken.end_offset) == ((), 0, 1)
    assert position.consumed.offset == 1


@pytest.mark.parametrize("deltas", [(0, 2, 1), (0, 0, 1), (-1, 0, 1), (0, 1, 3), (0, 1 << 65, 2)])
@pytest.mark.parametrize("limit", [1, 1000])
def test_a_record_with_an_offset_that_is_not_its_own_is_an_error(deltas: tuple[int, ...], limit: int) -> None:
    """Any producer may send it. One far behind the batch moved the position there, or failed an assertion."""
    sent = bytearray(batch(2, 3)[:HEADER_SIZE])
    for delta in deltas:
        sent += encode_record(delta, 0, b"k", b"v")
    write_header(sent, parse_header(sent))
    position = position_at(0)
    found = fetched(position, batch(0, 2), bytes(sent), batch(5))
    with pytest.raises(KafkaError, match="3 records at offset 2 cannot be read: a record has an offset outside"):
        take_all(found, limit)
    assert position.consumed.offset == 2
