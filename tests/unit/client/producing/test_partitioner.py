"""Keys go where every other client sends them; records without a key stick to a partition, then move on."""

from __future__ import annotations

import random
from collections import Counter
from uuid import UUID

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from minikafka.client.cluster import PartitionView, TopicView
from minikafka.client.producing.partitioner import Partitioner, murmur2
from minikafka.errors import ErrorCode


def topic(*leaders: int, name: str = "t") -> TopicView:
    partitions = {index: PartitionView(leader, 0, (1,), (1,)) for index, leader in enumerate(leaders)}
    return TopicView(name, UUID(int=1), ErrorCode.NONE, False, partitions)


@given(st.binary(max_size=40))
def test_the_hash_is_that_of_other_clients(key: bytes) -> None:
    assert murmur2(key) == aiokafka_murmur2(key) & 0xFFFFFFFF
    assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("key", "expected"),
    [  # from Apache Kafka's UtilsTest
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_that_of_java(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF


@given(st.binary(max_size=20), st.integers(1, 30))
def test_a_key_goes_to_its_partition_even_if_it_has_no_leader(key: bytes, count: int) -> None:
    partitioner = Partitioner(random.Random(1))
    expected = (murmur2(key) & 0x7FFFFFFF) % count
    assert partitioner.choose(key, topic(*[1] * count)) == expected
    assert partitioner.choose(key, topic(*[-1] * count)) == expected


def test_records_without_a_key_stick_until_the_batch_is_complete() -> None:
    partitioner = Partitioner(random.Random(1))
    first = partitioner.choose(None, topic(1, 1, 1))
    assert all(partitioner.choose(None, topic(1, 1, 1)) == first for _ in range(20))
    partitioner.move_on("t", (first + 1) % 3)
    assert partitioner.choose(None, topic(1, 1, 1)) == first, "another partition's batch does not matter"
    partitioner.move_on("t", first)
    assert partitioner.choose(None, topic(1, 1, 1)) != first


def test_topics_do_not_disturb_each_other() -> None:
    partitioner = Partitioner(random.Random(1))
    first = partitioner.choose(None, topic(1, 1, 1))
    other = partitioner.choose(None, topic(1, 1, 1, name="other"))
    partitioner.move_on("other", other)
    assert partitioner.choose(None, topic(1, 1, 1)) == first


def test_a_partition_that_lost_its_leader_is_left() -> None:
    partitioner = Partitioner(random.Random(1))
    first = partitioner.choose(None, topic(1, 1, 1))
    leaders = [1, 1, 1]
    leaders[first] = -1
    assert partitioner.choose(None, topic(*leaders)) != first


def test_without_any_leader_some_partition_is_chosen() -> None:
    assert Partitioner(random.Random(1)).choose(None, topic(-1, -1)) in (0, 1)


def test_a_single_partition_is_chosen_again_and_again() -> None:
    partitioner = Partitioner(random.Random(1))
    for _ in range(3):
        assert partitioner.choose(None, topic(1)) == 0
        partitioner.move_on("t", 0)


def test_batches_spread_evenly() -> None:
    partitioner = Partitioner(random.Random(1))
    chosen: Counter[int] = Counter()
    for _ in range(3000):
        partition = partitioner.choose(None, topic(1, 1, 1))
        chosen[partition] += 1
        partitioner.move_on("t", partition)
    assert all(900 < count < 1100 for count in chosen.values())
