"""Groups go to the partitions that Kafka puts them in."""

from __future__ import annotations

from pathlib import Path

import pytest

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
