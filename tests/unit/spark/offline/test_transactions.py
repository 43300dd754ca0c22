"""What read_committed readers of log directories get."""

from __future__ import annotations

from typing import Any

import pytest
from log_files import Logs, batch

from minikafka.errors import KafkaError
from minikafka.model import TopicPartition
from minikafka.records.control import EndTxnMarker, build_end_txn_marker
from minikafka.spark.offline.data_source import read_segment
from minikafka.spark.offline.options import LogOptions
from minikafka.spark.offline.segments import plan
from minikafka.storage.disk import OsDisk

WHERE = TopicPartition("t", 0)


def committed(logs: Logs, **given: str) -> list[int]:
    """The offsets that are read."""
    return [row["offset"] for row in rows(logs, **given)]


def rows(logs: Logs, **given: str) -> list[dict[str, Any]]:
    given = {"path": str(logs.path), "upTo": "end", "kafka.isolation.level": "read_committed"} | given
    options = LogOptions.parse(given)
    return [
        row for task in plan(OsDisk(), options) for found in read_segment(task, options) for row in found.to_pylist()
    ]


def written(offset: int, producer: int) -> bytes:
    """One record in a transaction."""
    return batch(offset, 1, producer=producer, is_transactional=True)


def marker(offset: int, producer: int, *, commits: bool = False) -> bytes:
    return bytes(build_end_txn_marker(producer, 1, EndTxnMarker(commits, 0), timestamp=0, base_offset=offset))


def test_aborted_records_are_left_out(logs: Logs) -> None:
    """Of two producers at once, over the bounds of segments; one writes without transactions meanwhile."""
    logs.segment(WHERE, 0, written(0, 1), written(1, 2), batch(2, 1))
    logs.segment(WHERE, 3, written(3, 1), marker(4, 2, commits=True), written(5, 2))
    logs.segment(WHERE, 6, marker(6, 1), written(7, 1), marker(8, 1, commits=True), marker(9, 2))
    assert committed(logs) == [1, 2, 7]
    assert committed(logs, includeControlBatches="true") == [1, 2, 4, 6, 7, 8, 9]
    assert committed(logs, **{"kafka.isolation.level": "read_uncommitted"}) == [0, 1, 2, 3, 5, 7]


def test_it_ends_at_the_last_stable_offset(logs: Logs) -> None:
    """Of what is read: a marker above the high watermark ends no transaction."""
    logs.segment(WHERE, 0, batch(0, 1), written(1, 1), batch(2, 1))
    logs.segment(WHERE, 3, written(3, 2), marker(4, 1, commits=True), batch(5, 1))
    assert committed(logs) == [0, 1, 2]
    logs.high_watermarks({WHERE: 4})
    assert committed(logs, upTo="highWatermark") == [0]


def test_a_transaction_that_began_before_the_log_start(logs: Logs) -> None:
    logs.segment(WHERE, 4, written(4, 1), written(5, 1), marker(6, 1), batch(7, 1))
    logs.log_starts({WHERE: 5})
    assert committed(logs) == [7]


@pytest.mark.parametrize("at", [11, 22, 45, 70])
@pytest.mark.parametrize("damaged", [0, 1])
def test_damage_is_told_though_it_hides_the_end_of_a_transaction(logs: Logs, damaged: int, at: int) -> None:
    batches = [written(0, 1), marker(1, 1, commits=True), batch(2, 1)]
    data = bytearray(batches[damaged])
    data[at] ^= 1
    batches[damaged] = bytes(data)
    logs.segment(WHERE, 0, *batches)
    with pytest.raises(KafkaError, match=f"damaged from offset {damaged} on"):
        committed(logs)
    found = rows(logs, mode="permissive")
    assert [row["offset"] for row in found if row["damage"] is None] in ([0, 2], [2], [])
