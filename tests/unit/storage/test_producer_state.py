from __future__ import annotations

import pytest
from storage_batches import NOW_MS, OpenLog, all_values, append, batch, stage

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_OFFSET
from minikafka.records.batch import MAX_SEQUENCE, BatchHeader, parse_header
from minikafka.records.control import EndTxnMarker, build_end_txn_marker
from minikafka.storage import first_batches, producer_state
from minikafka.storage.log import Log
from minikafka.storage.producer_state import BATCHES_KEPT, ProducerState


def header(sequence: int, *, epoch: int = 0, count: int = 1, producer_id: int = 7, txn: bool = False) -> BatchHeader:
    values = [b"v"] * count
    return parse_header(batch(*values, producer=(producer_id, epoch, sequence), is_transactional=txn))


def state_after(*headers: BatchHeader) -> ProducerState:
    state, offset = ProducerState(), 100
    for each in headers:
        assert state.check(each) is None
        state.append(each, offset)
        offset += each.last_offset_delta + 1
    return state


def refused(state: ProducerState, refused_header: BatchHeader) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        state.check(refused_header)
    assert "producer" in str(caught.value)
    return caught.value.code


@pytest.mark.spec("P3")
def test_sequences_must_follow_each_other() -> None:
    state = state_after(header(0, count=3), header(3))
    assert state.check(header(4)) is None
    assert refused(state, header(5)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(state, header(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.spec("P3")
def test_any_of_the_last_five_batches_is_a_duplicate_and_older_ones_are_out_of_order() -> None:
    state = state_after(*[header(2 * at, count=2) for at in range(BATCHES_KEPT + 2)])
    for at in range(2, BATCHES_KEPT + 2):
        found = state.check(header(2 * at, count=2))
        assert found is not None
        assert (found.first_offset, found.last_offset) == (100 + 2 * at, 101 + 2 * at)
    assert refused(state, header(2, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(state, header(10, count=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.spec("T47")
def test_batches_without_a_sequence_are_no_repetitions_and_have_an_epoch() -> None:
    """Offsets of a group, which its coordinator writes in the transaction of a producer."""
    offsets = header(-1, txn=True)
    state = state_after(offsets, offsets, header(-1, epoch=2, txn=True))
    assert not state.has(header(-1, epoch=2, txn=True))
    assert refused(state, header(-1, epoch=1, txn=True)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(state, header(-1, epoch=2)) is ErrorCode.INVALID_TXN_STATE


def test_sequences_wrap_to_zero() -> None:
    state = state_after(header(MAX_SEQUENCE - 1, count=2))
    assert state.check(header(0)) is None
    assert refused(state, header(1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    across = state_after(header(MAX_SEQUENCE, count=3))
    entry = across.get(7)
    assert entry is not None
    assert entry.last_sequence == 1
    assert across.check(header(2)) is None


def test_an_old_epoch_is_fenced_and_a_new_one_begins_at_zero() -> None:
    state = state_after(header(0, epoch=3))
    assert refused(state, header(1, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(state, header(1, epoch=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(header(0, epoch=4)) is None
    state.append(header(0, epoch=4), 200)
    assert refused(state, header(1, epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert state.check(header(1, epoch=4)) is None


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert ProducerState().check(header(42)) is None


def test_idle_producers_expire_by_the_monotonic_clock_only() -> None:
    state = state_after(header(0), header(0, producer_id=8))
    assert state.remove_expired(1_000, 500) == 0
    state.append(header(1), 200)
    assert state.remove_expired(1_499, 500) == 0
    assert state.remove_expired(1_500, 500) == 1
    assert state.get(8) is None
    assert state.get(7) is not None
    assert state.remove_expired(1_999, 500) == 1


def test_an_open_transaction_does_not_expire() -> None:
    state = state_after(header(0, txn=True))
    state.remove_expired(0, 1)
    assert state.remove_expired(10**9, 1) == 0


def test_writing_outside_of_an_open_transaction_is_refused() -> None:
    state = state_after(header(0, txn=True))
    assert refused(state, header(1)) is ErrorCode.INVALID_TXN_STATE


# -- in a log -------------------------------------------------------------------------------------------------------


def produce(log: Log, sequence: int, *, producer_id: int = 7, epoch: int = 0, count: int = 1) -> object:
    values = [b"%d" % (sequence + at) for at in range(count)]
    return append(log, *values, producer=(producer_id, epoch, sequence))


@pytest.mark.spec("P3")
def test_a_duplicate_is_answered_with_the_old_offset_and_not_written(open_log: OpenLog) -> None:
    log = open_log()
    produce(log, 0, count=3)
    first = produce(log, 3, count=2)
    again = produce(log, 3, count=2)
    assert (first.base_offset, first.last_offset) == (3, 4)
    assert (again.base_offset, again.last_offset, again.duplicate) == (3, 4, True)
    assert log.log_end_offset == 5


def test_a_duplicate_of_a_batch_that_is_only_staged(open_log: OpenLog) -> None:
    log = open_log()
    stage(log, batch(b"a", producer=(7, 0, 0)))
    assert stage(log, batch(b"a", producer=(7, 0, 0))).duplicate
    log.commit()
    assert log.log_end_offset == 1


@pytest.mark.spec("P3")
@pytest.mark.parametrize("clean", [True, False])
def test_state_survives_a_restart(open_log: OpenLog, clean: bool) -> None:
    log = open_log(segment_bytes=300)
    for sequence in range(9):
        produce(log, sequence)
    produce(log, 0, producer_id=8, epoch=5)
    if clean:
        log.close()
    log = open_log(clean=clean, segment_bytes=300)
    assert produce(log, 8).duplicate
    assert produce(log, 9).base_offset == 10
    with pytest.raises(KafkaError) as caught:
        produce(log, 1, producer_id=8, epoch=4)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.spec("P3")
def test_a_follower_learns_the_state_it_needs_as_a_leader(open_log: OpenLog) -> None:
    log = open_log()
    for sequence in range(3):
        data = batch(b"v", producer=(7, 0, sequence), base_offset=sequence, leader_epoch=1)
        log.append_as_follower(memoryview(data))
    assert append(log, b"v", producer=(7, 0, 1), leader_epoch=2).base_offset == 1
    with pytest.raises(KafkaError) as caught:
        append(log, b"v", producer=(7, 0, 4), leader_epoch=2)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.spec("P3")
def test_truncation_takes_state_back(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=300)
    for sequence in range(8):
        produce(log, sequence)
    log.truncate_to(5)
    assert produce(log, 4).duplicate
    with pytest.raises(KafkaError):
        produce(log, 6)
    assert produce(log, 5).base_offset == 5
    log.truncate_fully_and_start_at(40)
    assert produce(log, 3).base_offset == 40


# -- transactions ---------------------------------------------------------------------------------------------------


def marker(log: Log, *, commit: bool = True, producer_id: int = 7, epoch: int = 0, coordinator_epoch: int = 0) -> None:
    data = build_end_txn_marker(producer_id, epoch, EndTxnMarker(commit, coordinator_epoch), timestamp=NOW_MS)
    stage(log, data)
    log.commit()


def test_the_last_stable_offset_waits_for_open_and_unreplicated_transactions(open_log: OpenLog) -> None:
    log = open_log()
    append(log, b"plain")
    assert log.last_stable_offset(1) == 1
    append(log, b"a", producer=(7, 0, 0), is_transactional=True)
    append(log, b"b", producer=(8, 0, 0), is_transactional=True)
    append(log, b"plain")
    assert log.last_stable_offset(4) == 1
    assert log.last_stable_offset(1) == 1
    marker(log)
    assert log.last_stable_offset(4) == 1, "the marker at 4 is not below the high watermark yet"
    assert log.last_stable_offset(5) == 2
    marker(log, producer_id=8, commit=False)
    assert log.last_stable_offset(6) == 6


@pytest.mark.parametrize("clean", [True, False])
def test_an_open_transaction_survives_a_restart(open_log: OpenLog, clean: bool) -> None:
    log = open_log()
    append(log, b"a", producer=(7, 0, 0), is_transactional=True)
    append(log, b"plain")
    if clean:
        log.close()
    log = open_log(clean=clean)
    assert log.last_stable_offset(2) == 0
    marker(log)
    assert log.last_stable_offset(3) == 3
    assert all_values(log)[0] == b"a"


def test_a_marker_of_an_old_coordinator_is_fenced(open_log: OpenLog) -> None:
    log = open_log()
    marker(log, coordinator_epoch=5)
    with pytest.raises(KafkaError) as caught:
        marker(log, coordinator_epoch=4)
    assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert log.log_end_offset == 1


def written(state: ProducerState, producer_id: int, sequence: int = 0, offset: int = 0) -> None:
    state.append(header(sequence, producer_id=producer_id), offset)


def ids(state: ProducerState) -> list[int]:
    return [entry.producer_id for entry in state.entries]


@pytest.mark.spec("P6")
def test_who_wrote_longest_ago_is_forgotten_first() -> None:
    state = ProducerState()
    for producer_id in range(4):
        written(state, producer_id)
    written(state, 0, 1)
    assert ids(state) == [1, 2, 3, 0]
    assert state.keep_newest(3) == 1
    assert ids(state) == [2, 3, 0]
    assert state.keep_newest(3) == 0
    assert state.check(header(0, producer_id=1)) is None, "it may begin anywhere"
    assert state.check(header(0, producer_id=0)) is not None, "a duplicate is known"


@pytest.mark.spec("P6")
def test_a_log_remembers_a_bounded_number_of_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that names 100,000 producer ids took 110 MB of each replica, and 0.3 s of the loop at each roll."""
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 20)
    monkeypatch.setattr(producer_state, "FORGOTTEN_AT_ONCE", 5)
    state = ProducerState()
    for number in range(1000):
        written(state, 1000 + number)
        written(state, 7, number)
        assert len(state) <= 21
    assert state.get(7) is not None
    assert ids(state)[-14:] == [*range(1987, 2000), 7]


@pytest.mark.spec("P6")
def test_open_transactions_are_not_looked_through_for_each_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower's fetch has thousands of small batches: with 10,000 open, each of a new producer took 0.3 ms."""
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 20)
    monkeypatch.setattr(producer_state, "FORGOTTEN_AT_ONCE", 5)
    keep, looks = ProducerState.keep_newest, []
    monkeypatch.setattr(ProducerState, "keep_newest", lambda state, count: looks.append(count) or keep(state, count))
    state = ProducerState()
    for producer_id in range(40):
        state.append(header(0, producer_id=producer_id, txn=True), producer_id)
    assert len(state) == 40
    assert len(looks) == 4, "at 20, 25, 30 and 35"
    for entry in state.entries:
        entry.current_txn_first_offset = NO_OFFSET
    state._ongoing.clear()
    for producer_id in range(40, 100):
        written(state, producer_id)
    assert len(state) <= 21


def test_an_open_transaction_is_not_forgotten() -> None:
    state = ProducerState()
    state.append(header(0, producer_id=1, txn=True), 0)
    for producer_id in (2, 3):
        written(state, producer_id)
    assert state.keep_newest(1) == 2
    assert ids(state) == [1]


@pytest.mark.spec("T22")
@pytest.mark.parametrize("forget", ["expire", "crowd out"])
def test_a_cut_opens_a_transaction_again_whose_producer_is_forgotten(open_log: OpenLog, forget: str) -> None:
    """Its marker came once more, found nothing open, and its aborted records were delivered."""
    log = open_log()
    stage(log, batch(b"x", producer=(7, 0, 0), is_transactional=True))
    abort = build_end_txn_marker(7, 0, EndTxnMarker(False, 0), timestamp=NOW_MS)
    stage(log, bytearray(abort))
    log.commit()
    if forget == "expire":
        for _ in range(3):
            log.remove_expired_producers(0, 0)
    else:
        log.producers.keep_newest(0)
    append(log, batch(b"y", producer=(8, 0, 0)))
    log.truncate_to(1)
    assert log.last_stable_offset(1) == 0
    stage(log, bytearray(abort))
    log.commit()
    assert log.aborted.between(0, 2) == [(7, 0, 1, 2)]


def test_of_those_who_had_transactions_one_is_remembered() -> None:
    state = ProducerState()
    for producer_id in (1, 2):
        state.append(header(0, producer_id=producer_id, txn=True), producer_id)
        marker = parse_header(build_end_txn_marker(producer_id, 0, EndTxnMarker(True, 0), timestamp=NOW_MS))
        state.end_transaction(marker, EndTxnMarker(True, 0), 10 + producer_id)
    written(state, 3)
    assert state.keep_newest(0) == 2
    assert ids(state) == [2]
    written(state, 4)
    assert state.keep_newest(0) == 1
    assert ids(state) == [2]
    assert state.has_transactions


# -- the first batch of a producer, which may be refused for now -------------------------------------------------------


def refusal(state: ProducerState, batch: BatchHeader) -> ErrorCode:
    try:
        state.check(batch)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


@pytest.mark.spec("T6")
def test_a_batch_behind_the_first_one_waits_for_it() -> None:
    state, later = ProducerState(), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    state.expect(header(5), 5)
    state.expect(header(6), 6)
    assert refusal(state, header(6)) is later
    assert refusal(state, header(6, epoch=1)) is ErrorCode.NONE
    assert refusal(state, header(5)) is ErrorCode.NONE
    state.expect(header(3), 3)
    assert refusal(state, header(5)) is later
    state.expect(header(1, epoch=1), 0)
    assert refusal(state, header(1, epoch=1)) is later
    state.expect(header(5), 5)
    assert refusal(state, header(1, epoch=1)) is later, "of the newest epoch"
    state.append(header(0, epoch=1), 0)
    assert refusal(state, header(1, epoch=1)) is ErrorCode.NONE
    state.expect(header(7, epoch=1), 7)
    assert refusal(state, header(1, epoch=1)) is ErrorCode.NONE, "it is known now"


def test_what_is_expected_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_batches, "EXPECTED_MAX", 3)
    state = ProducerState()
    for producer_id in range(5):
        state.expect(header(0, producer_id=producer_id), 0)
    assert [refusal(state, header(1, producer_id=each)) == 0 for each in range(5)] == [True, True, False, False, False]


# -- ends of transactions, for whoever asks a coordinator meanwhile ----------------------------------------------------


def end(state: ProducerState, *, epoch: int = 0) -> None:
    batch = parse_header(build_end_txn_marker(7, epoch, EndTxnMarker(True, 0), timestamp=NOW_MS))
    state.end_transaction(batch, EndTxnMarker(True, 0), 200)


@pytest.mark.spec("T6")
@pytest.mark.parametrize("forget", ["expire", "crowd out", "cut", "replace"])
@pytest.mark.parametrize("ends_before", [0, 1])
def test_a_producer_that_is_forgotten_after_an_end_does_not_look_as_before(forget: str, ends_before: int) -> None:
    """A leader asks, the transaction ends, the producer is forgotten, and, if it had ended before, ends again."""
    state = ProducerState()
    for _ in range(ends_before):
        end(state)
    noted = state.last_end_of(7)
    assert state.last_end_of(7) == noted
    end(state)
    match forget:
        case "expire":
            state.remove_expired(0, 0)
            state.remove_expired(0, 0)
        case "crowd out":
            state.keep_newest(0)
        case "cut":
            state.rewind({7: None})
        case "replace":
            state = ProducerState()
    assert state.last_end_of(7) != noted
    for _ in range(ends_before):
        end(state)
    assert state.last_end_of(7) != noted


def test_the_first_record_of_a_producer_is_no_end() -> None:
    state = ProducerState()
    noted = state.last_end_of(7)
    state.append(header(0, txn=True), 100)
    assert state.last_end_of(7) == noted
