"""A broker accepts every batch that is numbered so, once, whatever happened to those before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.client.producing.sequences import MAX_EPOCH, SEQUENCE_MASK, Sequences, Stamp
from minikafka.errors import KafkaError
from minikafka.model import TopicPartition
from minikafka.records.batch import parse_header
from minikafka.records.build import build_batch
from minikafka.records.record import Record
from minikafka.storage.producer_state import ProducerState

WHERE = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def begun(epoch: int = 0) -> Sequences:
    sequences = Sequences()
    sequences.begin(7, epoch)
    return sequences


def test_an_id_is_needed_first() -> None:
    sequences = Sequences()
    assert sequences.needs_producer_id
    sequences.begin(7, 3)
    assert not sequences.needs_producer_id
    assert sequences.stamp(WHERE, 1) == Stamp(7, 3, 0)


def test_partitions_are_numbered_apart() -> None:
    sequences = begun()
    assert [sequences.stamp(WHERE, 10).base_sequence for _ in range(3)] == [0, 10, 20]
    assert sequences.stamp(OTHER, 1) == Stamp(7, 0, 0)


def test_sequence_numbers_wrap_to_zero() -> None:
    sequences = begun()
    sequences.stamp(WHERE, SEQUENCE_MASK)
    assert sequences.stamp(WHERE, 2).base_sequence == SEQUENCE_MASK
    assert sequences.stamp(WHERE, 1).base_sequence == 1


def test_a_new_epoch_is_of_one_partition() -> None:
    sequences = begun()
    sequences.stamp(WHERE, 5)
    sequences.stamp(OTHER, 5)
    sequences.start_over(WHERE)
    assert sequences.stamp(WHERE, 1) == Stamp(7, 1, 0)
    assert sequences.stamp(OTHER, 1) == Stamp(7, 0, 5)


def test_after_the_last_epoch_there_is_a_new_id() -> None:
    sequences = begun(MAX_EPOCH)
    sequences.stamp(WHERE, 1)
    sequences.stamp(OTHER, 1)
    sequences.start_over(WHERE)
    assert sequences.needs_producer_id
    sequences.begin(8, 0)
    assert sequences.stamp(WHERE, 1) == Stamp(8, 0, 0)
    assert sequences.stamp(OTHER, 1) == Stamp(7, MAX_EPOCH, 1)
    sequences.start_over(OTHER)
    assert not sequences.needs_producer_id, "the id it exhausted was not the current one"
    assert sequences.stamp(OTHER, 1) == Stamp(8, 0, 0)


class Log:
    """A broker's log of one partition, as far as a producer's numbers go."""

    def __init__(self) -> None:
        self.producers = ProducerState()
        self.written: list[int] = []
        self.end = 0

    def append(self, stamp: Stamp, number: int, count: int) -> None:
        """Write batch ``number``, unless it is known. Raises KafkaError."""
        records = [Record(-1, 0, None, b"") for _ in range(count)]
        header = parse_header(build_batch(records, **stamp._asdict()))
        if self.producers.check(header) is None:
            self.producers.append(header, self.end)
            self.end += count
            self.written.append(number)


FATES = st.sampled_from(["written", "answer lost", "request lost", "refused", "given up", "written, then given up"])


@pytest.mark.spec("P3")
@given(st.lists(st.tuples(FATES, st.integers(1, 5)), max_size=60), st.sampled_from([0, MAX_EPOCH - 2]))
def test_a_broker_takes_every_batch_once_and_in_order(fates: list[tuple[str, int]], epoch: int) -> None:
    """One batch after the other is tried until it is written, refused or given up, as the sender does it."""
    sequences, log = begun(epoch), Log()
    late: list[tuple[Stamp, int, int]] = []
    expected = []
    for number, (fate, count) in enumerate(fates):
        if sequences.needs_producer_id:
            sequences.begin(100 + number, 0)
        stamp = sequences.stamp(WHERE, count)
        if fate == "refused":
            sequences.start_over(WHERE)
            continue
        if fate == "given up":
            late.append((stamp, number, count))
            sequences.start_over(WHERE)
            continue
        log.append(stamp, number, count)
        expected.append(number)
        if fate == "answer lost":
            log.append(stamp, number, count)  # the retry
        elif fate == "written, then given up":
            sequences.start_over(WHERE)
        if fate == "written":
            for stale, stale_number, stale_count in late:
                # A copy of a batch that was given up arrives now: a newer epoch has written, so it is turned away.
                if stale.producer_id == stamp.producer_id:
                    with pytest.raises(KafkaError):
                        log.append(stale, stale_number, stale_count)
    assert log.written == expected
