"""Where rows go, against the client's partitioner, one key at a time."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.client.producing.partitioner import murmur2
from minikafka.errors import KafkaError
from minikafka.spark.sink.placing import Placed, Placing, murmur2_of

KEYS = st.lists(st.one_of(st.none(), st.binary(max_size=20), st.binary(min_size=250, max_size=300)), max_size=40)


def places(placing: Placing, keys: object, asked: object = None, rows: int = 0, turn: int = 1000) -> dict[int, int]:
    """The partition of each row."""
    count = rows or len(keys)  # type: ignore[arg-type]
    return {
        int(row): partition
        for partition, chosen in placing.place(keys, asked, count, turn)
        for row in (range(count) if chosen is None else chosen)
    }


@given(KEYS, st.integers(0, 5))
def test_hashes_of_a_column_are_those_of_its_keys(keys: list[bytes | None], sliced: int) -> None:
    array = pa.array(keys, pa.binary())[sliced:]
    found = murmur2_of(array).tolist()
    assert [(key, hashed) for key, hashed in zip(keys[sliced:], found, strict=True) if key is not None] == [
        (key, murmur2(key)) for key in keys[sliced:] if key is not None
    ]


def test_keys_of_the_reference() -> None:
    """Of Kafka's own tests."""
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"abc": 479470107}
    hashed = murmur2_of(pa.array(list(known), pa.binary())).tolist()
    assert hashed == [expected & 0xFFFFFFFF for expected in known.values()]


@given(KEYS.filter(bool), st.integers(1, 7), st.integers(0, 99))
def test_every_row_is_placed_once_and_keys_by_their_hash(keys: list[bytes | None], count: int, seed: int) -> None:
    placed = places(Placing("t", count, random.Random(seed)), pa.array(keys, pa.binary()))
    assert sorted(placed) == list(range(len(keys)))
    for row, key in enumerate(keys):
        assert 0 <= placed[row] < count
        if key is not None:
            assert placed[row] == (murmur2(key) & 0x7FFFFFFF) % count


def test_rows_of_a_partition_keep_their_order() -> None:
    keys = pa.array([str(number % 10).encode() for number in range(1000)], pa.binary())
    for _, rows in Placing("t", 3, random.Random(1)).place(keys, None, 1000, 10):
        assert rows is not None
        assert list(rows) == sorted(rows)


def test_rows_without_a_key_stick_and_move_on() -> None:
    placing = Placing("t", 3, random.Random(1))
    placed = places(placing, None, rows=7, turn=2)
    first = placed[0]
    assert [placed[row] for row in range(7)] == [(first + turn) % 3 for turn in (0, 0, 1, 1, 2, 2, 0)]
    assert places(placing, None, rows=1, turn=2) == {0: (first + 1) % 3}, "the next rows go on elsewhere"


def test_a_column_of_partitions_decides_before_the_key() -> None:
    keys = pa.array([b"21", b"21", None], pa.binary())
    asked = pa.array([4, None, 0], pa.int32())
    by_key = (murmur2(b"21") & 0x7FFFFFFF) % 5
    assert places(Placing("t", 5, random.Random(1)), keys, asked) == {0: 4, 1: by_key, 2: 0}


@pytest.mark.parametrize("wrong", [5, -1])
def test_a_partition_that_there_is_not(wrong: int) -> None:
    with pytest.raises(KafkaError, match=f"t has partitions 0 to 4, not {wrong}"):
        list(Placing("t", 5, random.Random(1)).place(None, pa.array([0, wrong], pa.int32()), 2, 10))


def test_all_in_one_partition_need_no_copy() -> None:
    assert list(Placing("t", 1, random.Random(1)).place(None, None, 3, 1)) == [Placed(0, None)]
