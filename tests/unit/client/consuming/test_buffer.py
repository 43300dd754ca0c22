"""Records are taken in the order in which they came, per partition, and each once."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from minikafka.client.consuming.buffer import FetchBuffer
from minikafka.client.consuming.fetched import Fetched
from minikafka.client.consuming.positions import Position
from minikafka.errors import KafkaError
from minikafka.model import TopicPartition
from minikafka.records.build import build_batch
from minikafka.records.record import Record
from minikafka.wire.messages.fetch import PartitionData


def position(partition: int = 0) -> Position:
    made = Position(TopicPartition("t", partition))
    made.on_leader_epoch(0)
    made.seek(0, 0)
    return made


def answer(at: Position, *counts: int, damage: bool = False) -> Fetched:
    """What a fetch from where ``at`` stands brings: a batch per count."""
    data, offset = b"", at.fetched.offset
    for count in counts:
        records = [Record(-1, 0, None, b"") for _ in range(count)]
        data += build_batch(records, base_offset=offset, leader_epoch=0)
        offset += count
    if damage:
        data = data[:-1] + b"?"
    return Fetched(at, PartitionData(records=data), check_crcs=True)


def offsets(buffer: FetchBuffer, limit: int = 100) -> list[int]:
    return [record.offset for record in buffer.take(limit)]


def test_answers_are_taken_in_order() -> None:
    buffer, first, second = FetchBuffer(), position(0), position(1)
    buffer.add(answer(first, 2))
    buffer.add(answer(second, 1))
    buffer.add(answer(first, 3))
    assert (first.waiting, second.waiting, len(buffer)) == (2, 1, 3)
    assert [(r.partition, r.offset) for r in buffer.take(100)] == [(0, 0), (0, 1)]
    assert (first.waiting, len(buffer)) == (1, 2)
    assert [(r.partition, r.offset) for r in buffer.take(100)] == [(1, 0)]
    assert offsets(buffer, 2) == [2, 3]
    assert first.waiting == 1
    assert offsets(buffer, 2) == [4]
    assert offsets(buffer) == []
    assert (first.waiting, second.waiting, len(buffer)) == (0, 0, 0)


def test_what_is_paused_stays() -> None:
    buffer, first, second = FetchBuffer(), position(0), position(1)
    buffer.add(answer(first, 1))
    buffer.add(answer(second, 1))
    first.is_paused = True
    assert [record.partition for record in buffer.take(9)] == [1]
    assert offsets(buffer) == []
    first.is_paused = False
    assert offsets(buffer) == [0]


@pytest.mark.spec("E4")
def test_what_may_be_lost_is_held_back_until_the_new_leader_answered() -> None:
    buffer, at = FetchBuffer(), position()
    buffer.add(answer(at, 2))
    at.on_leader_epoch(1)
    assert offsets(buffer) == []
    at.on_epoch_end(at.fetched)
    assert offsets(buffer) == [0, 1]


def test_what_is_stale_goes() -> None:
    buffer, at = FetchBuffer(), position()
    buffer.add(answer(at, 2))
    buffer.add(answer(at, 2))
    at.seek(1)
    assert (at.waiting, len(buffer)) == (0, 2)
    buffer.add(answer(at, 1))
    assert offsets(buffer) == [1]
    assert (at.waiting, len(buffer)) == (0, 0)
    buffer.add(answer(at, 1))
    at.seek(0)
    buffer.drop_stale()
    assert len(buffer) == 0


def test_after_damage_the_partition_is_read_again() -> None:
    buffer, at = FetchBuffer(), position()
    buffer.add(answer(at, 1, 2, damage=True))
    buffer.add(answer(at, 2))
    assert offsets(buffer) == [0]
    with pytest.raises(KafkaError, match="arrived damaged"):
        buffer.take(9)
    assert at.fetched == at.consumed == (1, 0)
    assert offsets(buffer) == []
    buffer.add(answer(at, 2, 2))
    assert offsets(buffer) + offsets(buffer) == [1, 2, 3, 4]


def test_batches_are_taken_an_answer_at_a_time() -> None:
    buffer, first, second = FetchBuffer(), position(0), position(1)
    buffer.add(answer(first, 2, 1))
    buffer.add(answer(second, 1))
    buffer.add(answer(first, 3))
    assert offsets(buffer, 1) == [0]
    second.is_paused = True
    taken = [buffer.take_batches(), buffer.take_batches()]
    assert [(t.tp.partition, t.start_offset, t.end_offset) for t in taken if t] == [(0, 1, 3), (0, 3, 6)]
    assert buffer.take_batches() is None
    second.is_paused = False
    assert buffer.take_batches() is not None
    assert (first.waiting, second.waiting, len(buffer)) == (0, 0, 0)


def test_after_damaged_batches_the_partition_is_read_again() -> None:
    buffer, at = FetchBuffer(), position()
    buffer.add(answer(at, 1, 2, damage=True))
    buffer.add(answer(at, 2))
    assert buffer.take_batches() is not None
    with pytest.raises(KafkaError, match="arrived damaged"):
        buffer.take_batches()
    assert at.fetched == at.consumed == (1, 0)
    assert buffer.take_batches() is None


class Machine(RuleBasedStateMachine):
    """Against the offsets that each partition must hand out next."""

    indexes = st.integers(0, 2)

    @initialize()
    def begin(self) -> None:
        self.buffer = FetchBuffer()
        self.positions = [position(index) for index in range(3)]
        self.next = [0, 0, 0]

    @rule(index=indexes, counts=st.lists(st.integers(1, 4), min_size=1, max_size=3))
    def fetch(self, index: int, counts: list[int]) -> None:
        self.buffer.add(answer(self.positions[index], *counts))

    @rule(limit=st.integers(1, 9))
    def take(self, limit: int) -> None:
        records = self.buffer.take(limit)
        assert len(records) <= limit
        assert len({record.partition for record in records}) <= 1
        for record in records:
            assert record.offset == self.next[record.partition]
            assert not self.positions[record.partition].is_paused
            self.next[record.partition] += 1

    @rule()
    def take_batches(self) -> None:
        if (taken := self.buffer.take_batches()) is not None:
            assert not self.positions[taken.tp.partition].is_paused
            assert taken.start_offset == self.next[taken.tp.partition]
            assert taken.batches[0][1].next_offset > taken.start_offset
            self.next[taken.tp.partition] = taken.end_offset

    @rule(index=indexes, back=st.integers(0, 5))
    def seek(self, index: int, back: int) -> None:
        self.next[index] = max(0, self.next[index] - back)
        self.positions[index].seek(self.next[index], 0)

    @rule(index=indexes)
    def pause_or_resume(self, index: int) -> None:
        self.positions[index].is_paused = not self.positions[index].is_paused

    @invariant()
    def positions_tell_what_waits(self) -> None:
        for at, offset in zip(self.positions, self.next, strict=True):
            assert at.consumed.offset == offset
            assert (at.waiting > 0) == (at.fetched.offset > at.consumed.offset)
            assert at.waiting <= len(self.buffer)


Machine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestMachine = Machine.TestCase
