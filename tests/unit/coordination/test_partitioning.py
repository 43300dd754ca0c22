"""Groups go to the partitions that Kafka puts them in."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.coordination.partitioning import java_string_hash, partition_for

ROWS = [
    line.split(" ")[1:]
    for line in (Path(__file__).parents[2] / "golden" / "groups" / "kafka_records.rows").read_text().splitlines()
    if line.startswith("partition")
]


@pytest.mark.parametrize(("partitions", "expected", "group"), ROWS)
def test_a_group_has_its_coordinator_where_kafka_puts_it(partitions: str, expected: str, group: str) -> None:
    assert partition_for(bytes.fromhex(group).decode(), int(partitions)) == int(expected)


def test_the_hash_is_a_signed_int32() -> None:
    assert java_string_hash("hello") == 99162322
    assert java_string_hash("polygenelubricants") == -(2**31)
    assert java_string_hash("") == 0


@given(st.text(max_size=3) | st.text(st.sampled_from("a\0\uffff\U00010000\ud800"), min_size=120, max_size=700))
def test_long_texts_are_hashed_in_chunks(text: str) -> None:
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = 31 * value + int.from_bytes(units[at : at + 2])
    assert java_string_hash(text) == (value + (1 << 31)) % (1 << 32) - (1 << 31)
