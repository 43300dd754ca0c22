"""Pending offsets: which record is the committed offset when transactions end in any order."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from types import FrameType

import pytest

from minikafka.groups.offsets import CommittedOffset, PendingOffsets
from minikafka.groups.records import OffsetCommitValue
from minikafka.model import TopicPartition

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


def offset(number: int) -> CommittedOffset:
    return CommittedOffset(OffsetCommitValue(offset=number), 0)


def numbers(committed: dict[TopicPartition, CommittedOffset]) -> dict[TopicPartition, int]:
    return {at: each.value.offset for at, each in committed.items()}


def test_the_last_record_of_a_transaction_counts() -> None:
    pending = PendingOffsets()
    assert not pending
    for number in (1, 2):
        pending.add(7, ONE, offset(number))
    pending.add(7, TWO, offset(3))
    assert ONE in pending
    assert sorted(pending.partitions_of(7)) == [ONE, TWO]
    assert pending.partitions_of(8) == []
    assert numbers(pending.end(7, commits=True)) == {ONE: 2, TWO: 3}
    assert not pending
    assert pending.end(7, commits=True) == {}


def test_an_aborted_transaction_leaves_nothing() -> None:
    pending = PendingOffsets()
    pending.add(7, ONE, offset(1))
    pending.add(8, ONE, offset(2))
    assert pending.end(8, commits=False) == {}
    assert numbers(pending.end(7, commits=True)) == {ONE: 1}


def test_what_a_newer_record_has_overtaken_stays_pending_and_changes_nothing() -> None:
    pending = PendingOffsets()
    pending.add(7, ONE, offset(1))
    pending.overtake(ONE)
    assert ONE in pending
    assert pending.candidates(ONE) == []
    assert pending.end(7, commits=True) == {}
    assert ONE not in pending


def test_transactions_end_in_another_order_than_they_wrote() -> None:
    pending = PendingOffsets()
    for producer in (7, 8, 9):
        pending.add(producer, ONE, offset(producer))
    assert numbers(pending.end(8, commits=True)) == {ONE: 8}
    assert [each.value.offset for each in pending.candidates(ONE)] == [9]
    assert pending.end(7, commits=True) == {}
    assert numbers(pending.end(9, commits=True)) == {ONE: 9}


def test_a_tombstone_takes_all_of_its_partition() -> None:
    pending = PendingOffsets()
    for producer in (7, 8):
        pending.add(producer, ONE, offset(producer))
    pending.add(8, TWO, offset(3))
    pending.remove(ONE)
    pending.remove(ONE)
    pending.check()
    assert list(pending.partitions) == [TWO]
    assert pending.end(7, commits=True) == {}
    assert numbers(pending.end(8, commits=True)) == {TWO: 3}


def lines_run(act: Callable[[], object]) -> int:
    """How many lines of Python it takes, with all that it calls."""
    lines = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Callable[..., object]:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return lines


def test_a_commit_costs_the_same_however_many_transactions_are_open() -> None:
    """20,000 transactional ids of one client: a hundred commits of a partition held the node up for two seconds."""
    costs = []
    for others in (1, 500):
        pending = PendingOffsets()
        for producer in range(others + 1):
            pending.add(producer, ONE, offset(producer))
        overtaking = lines_run(lambda pending=pending: pending.overtake(ONE))  # type: ignore[misc]
        pending.add(others, ONE, offset(others))
        ending = lines_run(lambda pending=pending, last=others: pending.end(last, commits=True))  # type: ignore[misc]
        costs.append((overtaking, ending))
    assert costs[0] == costs[1]


@pytest.mark.spec("T41")
@pytest.mark.parametrize("seed", range(50))
def test_places_in_the_log_decide_as_in_apache_kafka(seed: int) -> None:
    """The twin numbers the records, as Kafka does with their offsets in the log."""
    random = Random(seed)
    pending, committed = PendingOffsets(), dict[TopicPartition, int]()
    twin_pending, twin = dict[tuple[int, TopicPartition], int](), dict[TopicPartition, int]()
    for number in range(200):
        producer, at = random.randrange(4), random.choice([ONE, TWO])
        match random.randrange(8):
            case 0 | 1 | 2 | 3:
                pending.add(producer, at, offset(number))
                twin_pending[producer, at] = number
            case 4:
                pending.overtake(at)
                committed[at] = twin[at] = number
            case 5:
                pending.remove(at)
                committed.pop(at, None)
                twin.pop(at, None)
                twin_pending = {key: value for key, value in twin_pending.items() if key[1] != at}
            case _:
                commits = random.random() < 0.7
                committed |= numbers(pending.end(producer, commits=commits))
                for where in (ONE, TWO):
                    record = twin_pending.pop((producer, where), -1)
                    if commits and record > twin.get(where, -1):
                        twin[where] = record
        pending.check()
        assert committed == twin
        assert set(pending.partitions) == {where for _, where in twin_pending}
