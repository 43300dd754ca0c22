"""Where replicas go: evenness and racks, checked by counting anew (row C5)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.assignment import Candidate, Load, assign_replicas

pytestmark = pytest.mark.spec("C5")


def brokers(count: int, racks: int = 0) -> list[Candidate]:
    return [Candidate(number, f"r{number % racks}" if racks else None, True) for number in range(count)]


def spread(counts: Counter[int], candidates: Sequence[Candidate]) -> int:
    """How far the most and the least burdened broker are apart."""
    each = [counts[broker.broker_id] for broker in candidates]
    return max(each) - min(each)


@given(st.data())
def test_even_over_brokers_and_racks(data: st.DataObject) -> None:
    racks = data.draw(st.integers(0, 4))
    count = data.draw(st.integers(1, 3)) * max(racks, 1) if racks else data.draw(st.integers(1, 9))
    factor = data.draw(st.integers(1, min(count, 5)))
    partitions = data.draw(st.integers(1, 40))
    candidates = brokers(count, racks)
    assigned = assign_replicas(partitions, factor, candidates, random.Random(data.draw(st.integers(0, 99))))
    assert len(assigned) == partitions
    for replicas in assigned:
        assert len(set(replicas)) == factor
        in_rack = Counter(replica % racks for replica in replicas) if racks else Counter()
        assert not racks or len(in_rack) == min(factor, racks), "as many racks as there can be"
        assert not racks or max(in_rack.values()) - min([in_rack[rack] for rack in range(racks)]) <= 1
    assert spread(Counter(replicas[0] for replicas in assigned), candidates) <= 1
    assert spread(Counter(replica for replicas in assigned for replica in replicas), candidates) <= 2


def test_what_a_leader_leaves_goes_to_many() -> None:
    candidates = brokers(6)
    assigned = assign_replicas(60, 3, candidates, random.Random(1))
    for leader in range(6):
        heirs = Counter(replicas[1] for replicas in assigned if replicas[0] == leader)
        assert len(heirs) >= 4, f"the partitions of broker {leader} go to {heirs} when it fails"


def test_topics_of_one_partition_are_even_over_the_cluster() -> None:
    candidates, load = brokers(3), Load()
    for _ in range(100):
        assign_replicas(1, 2, candidates, random.Random(1), cluster=load)
    assert spread(load.leads, candidates) <= 1
    assert spread(load.replicas, candidates) <= 1


def test_more_partitions_continue_the_spread() -> None:
    candidates = brokers(4)
    first = assign_replicas(3, 2, candidates, random.Random(1))
    more = assign_replicas(5, 2, candidates, random.Random(2), existing=first)
    assert spread(Counter(replicas[0] for replicas in [*first, *more]), candidates) == 0
    assert spread(Counter(one for replicas in [*first, *more] for one in replicas), candidates) <= 1


def test_racks_of_different_sizes_come_before_evenness() -> None:
    candidates = [Candidate(1, "a", True), Candidate(2, "b", True), Candidate(3, "b", True), Candidate(4, "b", True)]
    assigned = assign_replicas(12, 2, candidates, random.Random(1))
    assert all(1 in replicas for replicas in assigned)
    assert spread(Counter(replicas[0] for replicas in assigned), candidates) == 0


def test_fenced_brokers_get_replicas_only_where_there_is_no_other_and_never_lead() -> None:
    candidates = [Candidate(1, None, True), Candidate(2, None, True), Candidate(3, None, False)]
    assert all(3 not in replicas for replicas in assign_replicas(9, 2, candidates, random.Random(1)))
    assert all(replicas[0] != 3 for replicas in assign_replicas(9, 3, candidates, random.Random(1)))
    by_rack = [Candidate(1, "a", True), Candidate(2, "a", True), Candidate(3, "b", False)]
    assert all(3 in replicas[1:] for replicas in assign_replicas(9, 2, by_rack, random.Random(1)))


def test_the_same_seed_gives_the_same_assignment_in_whatever_order_brokers_come() -> None:
    forth, back = brokers(5, 2), brokers(5, 2)[::-1]
    assert assign_replicas(7, 3, forth, random.Random(4)) == assign_replicas(7, 3, back, random.Random(4))


@pytest.mark.parametrize(
    "candidates",
    [[], brokers(2), [Candidate(number, None, False) for number in range(3)]],
    ids=["none", "few", "fenced"],
)
def test_refuses_what_cannot_be(candidates: list[Candidate]) -> None:
    with pytest.raises(KafkaError) as raised:
        assign_replicas(1, 3, candidates, random.Random(1))
    assert raised.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_mix_of_brokers_with_and_without_rack() -> None:
    candidates = [Candidate(1, None, True), Candidate(2, "a", True), Candidate(3, None, True)]
    assert all(2 in replicas for replicas in assign_replicas(4, 2, candidates, random.Random(1)))
