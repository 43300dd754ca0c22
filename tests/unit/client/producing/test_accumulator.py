"""Batches keep order, their bounds and their stamps, whatever becomes of them."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minikafka.client.producing.accumulator import Accumulator, Batch
from minikafka.client.producing.sequences import Sequences, Stamp
from minikafka.model import Compression, TopicPartition
from minikafka.records.batch import crc_is_valid, parse_header
from minikafka.records.build import build_batch
from minikafka.records.read import iter_records
from minikafka.records.record import Record

WHERE = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def make(
    *, batch_bytes: int = 200, linger_ms: int = 0, buffer_bytes: int = 1000, idempotent: bool = True
) -> Accumulator[int]:
    sequences = Sequences() if idempotent else None
    if sequences is not None:
        sequences.begin(7, 0)
    return Accumulator(batch_bytes=batch_bytes, linger_ms=linger_ms, buffer_bytes=buffer_bytes, sequences=sequences)


def append(accumulator: Accumulator[int], token: int, tp: TopicPartition = WHERE, *, size: int = 10) -> object:
    return accumulator.append(tp, None, b"%d" % token + b"." * size, 0, (), token, 0)


def ready(
    accumulator: Accumulator[int], now_ms: int = 0, epoch: int = 0, *, flushing: bool = False
) -> list[TopicPartition]:
    return list(accumulator.ready(now_ms, lambda tp: epoch, flushing=flushing))


def read(batch: Batch[int]) -> list[int]:
    header = parse_header(batch.encoded)
    assert crc_is_valid(batch.encoded, 0, header)
    return [int((record.value or b"").rstrip(b".")) for record in iter_records(batch.encoded, 0, header)]


def stamp_of(batch: Batch[int]) -> Stamp:
    header = parse_header(batch.encoded)
    return Stamp(header.producer_id, header.producer_epoch, header.base_sequence)


def test_records_share_a_batch_until_it_is_full() -> None:
    accumulator = make(batch_bytes=200)
    opened = [append(accumulator, token, size=30) for token in range(6)]
    assert opened[0] == (True, False)
    assert opened[1:].count((True, True)) == 2
    assert opened[1:].count((False, False)) == 3
    taken = []
    while ready(accumulator):
        batch = accumulator.take(WHERE)
        assert len(batch.encoded) <= 200
        taken += read(batch)
        accumulator.delivered(batch)
    assert taken == list(range(6))
    assert len(accumulator) == accumulator.buffered_bytes == 0


def test_a_record_larger_than_a_batch_gets_one_of_its_own() -> None:
    accumulator = make(batch_bytes=100)
    for token in range(3):
        append(accumulator, token, size=500)
    assert [accumulator.take(WHERE).tokens for _ in range(1)] == [[0]]
    assert len(accumulator) == 3


def test_batches_wait_for_more_until_they_are_old_or_full() -> None:
    accumulator = make(linger_ms=10)
    append(accumulator, 0)
    assert ready(accumulator, 9) == []
    assert accumulator.next_due_ms(9) == 10
    assert ready(accumulator, 9, flushing=True) == [WHERE]
    assert ready(accumulator, 10) == [WHERE]
    append(accumulator, 1, size=500)
    assert ready(accumulator, 0) == [WHERE], "the first of two batches is complete"


def test_one_batch_of_a_partition_is_in_flight_at_a_time() -> None:
    accumulator = make()
    append(accumulator, 0)
    first = accumulator.take(WHERE)
    append(accumulator, 1)
    append(accumulator, 2, OTHER)
    assert ready(accumulator) == [OTHER]
    accumulator.delivered(first)
    assert set(ready(accumulator)) == {OTHER, WHERE}


def test_what_failed_goes_first_and_unchanged() -> None:
    accumulator = make()
    append(accumulator, 0)
    batch = accumulator.take(WHERE)
    append(accumulator, 1)
    before = bytes(batch.encoded)
    accumulator.retry(batch, not_before_ms=50)
    append(accumulator, 2)
    assert ready(accumulator, 49, epoch=9) == []
    assert ready(accumulator, 49, flushing=True) == []
    assert accumulator.next_due_ms(0) == 50
    assert ready(accumulator, 50) == [WHERE]
    again = accumulator.take(WHERE)
    assert again is batch
    assert bytes(again.encoded) == before
    assert again.attempts == 2


def test_a_new_leader_ends_the_waiting() -> None:
    accumulator = make()
    append(accumulator, 0)
    accumulator.retry(accumulator.take(WHERE), not_before_ms=50, failed_leader_epoch=3)
    assert accumulator.awaits_leader(lambda tp: 3)
    assert ready(accumulator, 0, epoch=3) == []
    assert not accumulator.awaits_leader(lambda tp: 4)
    assert ready(accumulator, 0, epoch=4) == [WHERE]


def test_after_a_batch_that_was_given_up_the_epoch_is_new() -> None:
    accumulator = make()
    append(accumulator, 0)
    lost = accumulator.take(WHERE)
    append(accumulator, 1)
    accumulator.give_up(lost)
    batch = accumulator.take(WHERE)
    assert batch.stamp == stamp_of(batch) == Stamp(7, 1, 0)


def test_a_batch_is_numbered_anew_when_the_broker_lost_count() -> None:
    accumulator = make()
    append(accumulator, 0)
    accumulator.delivered(accumulator.take(WHERE))
    append(accumulator, 1)
    batch = accumulator.take(WHERE)
    assert stamp_of(batch) == Stamp(7, 0, 1)
    accumulator.renumber(batch)
    accumulator.retry(batch, not_before_ms=0)
    assert accumulator.take(WHERE) is batch
    assert stamp_of(batch) == Stamp(7, 1, 0)
    assert read(batch) == [1]


def test_without_an_id_only_what_is_numbered_is_sent() -> None:
    sequences = Sequences()
    accumulator: Accumulator[int] = Accumulator(batch_bytes=99, linger_ms=0, buffer_bytes=999, sequences=sequences)
    append(accumulator, 0)
    assert ready(accumulator) == []
    sequences.begin(7, 0)
    assert ready(accumulator) == [WHERE]


def test_without_idempotence_nothing_is_numbered() -> None:
    accumulator = make(idempotent=False)
    append(accumulator, 0)
    batch = accumulator.take(WHERE)
    assert stamp_of(batch) == (-1, -1, -1)
    accumulator.give_up(batch)


def test_old_batches_expire_in_order() -> None:
    accumulator = make(batch_bytes=100)
    for token, now_ms in enumerate([0, 0, 10]):
        accumulator.append(WHERE, None, b"." * 50, 0, (), token, now_ms)
    in_flight = accumulator.take(WHERE)
    assert [batch.tokens for batch in accumulator.expire(5)] == [[0], [1]]
    assert accumulator.expire(5) == []
    assert in_flight.is_expired
    assert accumulator.oldest_ms() == 10
    assert ready(accumulator, 100) == [], "nothing overtakes what is in flight"
    accumulator.give_up(in_flight)
    assert accumulator.take(WHERE).stamp == Stamp(7, 1, 0), "the expired one may have been written"


def test_a_batch_to_be_tried_again_expires_too() -> None:
    accumulator = make()
    append(accumulator, 0)
    accumulator.retry(accumulator.take(WHERE), not_before_ms=0)
    assert [batch.tokens for batch in accumulator.expire(5)] == [[0]]
    append(accumulator, 1)
    assert accumulator.take(WHERE).stamp == Stamp(7, 1, 0), "it may have been written"


def test_flushing_knows_what_was_there_when_it_began() -> None:
    accumulator = make()
    assert accumulator.oldest_serial() > accumulator.latest_serial
    append(accumulator, 0)
    latest = accumulator.latest_serial
    batch = accumulator.take(WHERE)
    append(accumulator, 1)
    assert accumulator.oldest_serial() <= latest
    accumulator.delivered(batch)
    assert accumulator.oldest_serial() > latest


def test_everything_can_be_taken_out() -> None:
    accumulator = make(batch_bytes=100)
    for token in range(3):
        append(accumulator, token, size=50)
    accumulator.take(WHERE)
    assert [batch.tokens for batch in accumulator.clear()] == [[0], [1], [2]]
    assert len(accumulator) == accumulator.buffered_bytes == 0


@pytest.mark.parametrize("compression", Compression)
def test_a_compressed_batch_counts_for_what_it_was(compression: Compression) -> None:
    accumulator: Accumulator[int] = Accumulator(
        batch_bytes=100_000, linger_ms=0, buffer_bytes=100_000, compression=compression
    )
    append(accumulator, 0, size=50_000)
    buffered = accumulator.buffered_bytes
    assert buffered > 50_000
    batch = accumulator.take(WHERE)
    assert accumulator.buffered_bytes == buffered
    assert (len(batch.encoded) < 10_000) == (compression is not Compression.NONE)
    accumulator.delivered(batch)
    assert accumulator.buffered_bytes == 0


def encoded(*tokens: int) -> bytearray:
    return build_batch([Record(-1, 5 + token, None, b"%d" % token) for token in tokens])


def test_an_encoded_batch_keeps_its_place_and_is_stamped() -> None:
    accumulator = make(linger_ms=1000)
    append(accumulator, 0)
    accumulator.append_encoded(WHERE, encoded(1, 2, 3), 1, 0)
    append(accumulator, 4)
    taken = []
    while ready(accumulator):
        taken.append(accumulator.take(WHERE))
        accumulator.delivered(taken[-1])
    assert [read(batch) for batch in taken] == [[0], [1, 2, 3]], "what may still grow lingers"
    taken.append(accumulator.take(WHERE))
    accumulator.delivered(taken[-1])
    assert read(taken[-1]) == [4]
    assert [batch.stamp for batch in taken] == [stamp_of(batch) for batch in taken]
    assert [batch.stamp for batch in taken] == [Stamp(7, 0, 0), Stamp(7, 0, 1), Stamp(7, 0, 4)]
    assert (taken[1].tokens, taken[1].timestamps) == ([1], [8])
    assert len(accumulator) == accumulator.buffered_bytes == 0


def test_an_encoded_batch_counts_for_its_bytes() -> None:
    accumulator = make(buffer_bytes=200)
    batch = encoded(1)
    accumulator.append_encoded(WHERE, batch, 1, 0)
    assert accumulator.buffered_bytes == len(batch)
    assert not accumulator.has_room(200)
    assert accumulator.size_of_first(WHERE) == len(batch)


def test_an_encoded_batch_is_tried_again_unchanged_and_renumbered_when_count_was_lost() -> None:
    accumulator = make()
    accumulator.append_encoded(WHERE, encoded(1, 2), 1, 0)
    batch = accumulator.take(WHERE)
    before = bytes(batch.encoded)
    accumulator.retry(batch, 0)
    assert bytes(accumulator.take(WHERE).encoded) == before
    accumulator.renumber(batch)
    accumulator.retry(batch, 0)
    assert stamp_of(accumulator.take(WHERE)) == Stamp(7, 1, 0)
    assert read(batch) == [1, 2]


def test_an_encoded_batch_that_was_never_sent_cannot_have_been_written() -> None:
    accumulator = make()
    accumulator.append_encoded(WHERE, encoded(1), 1, 0)
    assert len(accumulator.expire(1)) == 1
    append(accumulator, 2)
    assert accumulator.take(WHERE).stamp == Stamp(7, 0, 0)


def test_the_author_of_a_copied_batch_is_forgotten() -> None:
    accumulator = make(idempotent=False)
    copied = build_batch([Record(-1, 0, None, b"1")], producer_id=3, producer_epoch=1, base_sequence=8)
    accumulator.append_encoded(WHERE, copied, 1, 0)
    batch = accumulator.take(WHERE)
    assert stamp_of(batch) == (-1, -1, -1)
    assert read(batch) == [1]


class Machine(RuleBasedStateMachine):
    """Against plain lists of tokens per partition."""

    partitions = st.sampled_from([WHERE, OTHER])

    @initialize(linger_ms=st.sampled_from([0, 20]))
    def begin(self, linger_ms: int) -> None:
        self.accumulator = make(batch_bytes=300, linger_ms=linger_ms, buffer_bytes=2000)
        self.now_ms = 0
        self.next_token = 0
        self.expected: dict[TopicPartition, list[int]] = defaultdict(list)  # not settled yet, in order
        self.in_flight: dict[TopicPartition, Batch[int]] = {}
        self.stamped: dict[TopicPartition, tuple[Stamp, list[int]]] = {}

    @rule(tp=partitions, size=st.integers(0, 400))
    def append(self, tp: TopicPartition, size: int) -> None:
        if self.accumulator.has_room(size + 100):
            self.accumulator.append(
                tp, None, b"%d" % self.next_token + b"." * size, 0, (), self.next_token, self.now_ms
            )
            self.expected[tp].append(self.next_token)
            self.next_token += 1

    @rule(tp=partitions)
    def append_encoded(self, tp: TopicPartition) -> None:
        batch = encoded(self.next_token)
        if self.accumulator.has_room(len(batch)):
            self.accumulator.append_encoded(tp, batch, self.next_token, self.now_ms)
            self.expected[tp].append(self.next_token)
            self.next_token += 1

    @rule(ms=st.integers(1, 30))
    def wait(self, ms: int) -> None:
        self.now_ms += ms

    @rule(tp=partitions, flushing=st.booleans())
    def take(self, tp: TopicPartition, flushing: bool) -> None:
        if tp in self.accumulator.ready(self.now_ms, lambda _: 0, flushing=flushing):
            batch = self.accumulator.take(tp)
            assert read(batch) == batch.tokens == self.expected[tp][: len(batch.tokens)]
            assert stamp_of(batch) == batch.stamp
            if tp in self.stamped and self.stamped[tp][1] == batch.tokens:
                assert self.stamped[tp][0] == batch.stamp, "a retry has the stamp it had"
            assert batch.stamp is not None
            self.stamped[tp] = batch.stamp, list(batch.tokens)
            self.in_flight[tp] = batch

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), fate=st.sampled_from(["delivered", "retry", "renumber", "give up"]))
    def settle(self, data: st.DataObject, fate: str) -> None:
        tp = data.draw(st.sampled_from(sorted(self.in_flight)))
        batch = self.in_flight.pop(tp)
        if batch.is_expired and fate != "delivered":
            fate = "give up"
        if fate == "retry":
            self.accumulator.retry(batch, self.now_ms + 10)
            return
        if fate == "renumber":
            self.accumulator.renumber(batch)
            del self.stamped[tp]
            self.accumulator.retry(batch, self.now_ms)
            return
        if fate == "delivered":
            self.accumulator.delivered(batch)
        else:
            self.accumulator.give_up(batch)
        if not batch.is_expired:
            del self.expected[tp][: len(batch.tokens)]

    @rule(age_ms=st.integers(1, 100))
    def expire(self, age_ms: int) -> None:
        for batch in self.accumulator.expire(self.now_ms - age_ms):
            assert batch.created_ms < self.now_ms - age_ms
            for token in batch.tokens:
                self.expected[batch.tp].remove(token)

    @invariant()
    def is_bounded(self) -> None:
        left = sum(map(len, self.expected.values()))
        expired = sum(batch.is_expired for batch in self.in_flight.values())
        assert (len(self.accumulator) == 0) == (left + expired == 0) == (self.accumulator.buffered_bytes == 0)
        assert self.accumulator.buffered_bytes <= 2000 + 600
        oldest = self.accumulator.oldest_serial()
        assert (oldest > self.accumulator.latest_serial) == (left == 0)


Machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestMachine = Machine.TestCase
