"""Records that are not what the header of their batch says. Its checksum is right: its producer sent it so, and brokers
do not look inside when they append it."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from at_once import compact, offset_for_timestamp, offset_of_max_timestamp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from simulator.disk import SimulatedDisk
from storage_batches import NOW_MS, batch, headers_in, read_all, stage

from minikafka.model import TopicPartition
from minikafka.records.batch import HEADER_SIZE, parse_header, write_header
from minikafka.records.read import iter_records
from minikafka.records.record import encode_record
from minikafka.records.validate import BatchLimits, validate_produce
from minikafka.storage.config import LogConfig
from minikafka.storage.log import Log

INT64_MAX = (1 << 63) - 1
INT64_MIN = -(1 << 63)
EDGES = [0, 1, -1, 1 << 31, 1 << 32, 1 << 62, INT64_MAX - NOW_MS, INT64_MAX, INT64_MIN, 1 << 64]
FAR = BatchLimits(timestamp_after_max_ms=INT64_MAX)
TOPIC = TopicPartition("t", 0)
COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0, delete_retention_ms=1_000)


class Told(NamedTuple):
    """What a producer sends of a record."""

    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    value: bytes | None


tolds = st.builds(
    Told,
    st.integers(-1, 3) | st.sampled_from(EDGES),
    st.sampled_from(EDGES),
    st.sampled_from([None, b"a", b"b"]),
    st.sampled_from([None, b"v"]),
)


def lying(tolds: list[Told], base_timestamp: int = NOW_MS, max_timestamp: int = NOW_MS) -> bytearray:
    """A batch of these, with a header that a broker takes."""
    made = batch(*[b""] * len(tolds))[:HEADER_SIZE]
    header = parse_header(made)._replace(base_timestamp=base_timestamp, max_timestamp=max_timestamp)
    for told in tolds:
        made += encode_record(told.offset_delta, told.timestamp_delta, told.key, told.value, ())
    write_header(made, header)
    assert validate_produce(made, FAR, 9, NOW_MS)
    return made


def open_log() -> Log:
    return Log.open(SimulatedDisk().mount(), "/t-0", TOPIC, COMPACT)


def put(log: Log, *batches: bytearray) -> None:
    for made in batches:
        stage(log, made)
        log.commit()
    log.roll()
    log.flush()


@settings(deadline=None)
@given(
    st.lists(st.lists(tolds, min_size=1, max_size=3), min_size=1, max_size=4),
    st.sampled_from([(NOW_MS, NOW_MS), (INT64_MIN, NOW_MS), (INT64_MAX, INT64_MAX), (-1, INT64_MAX), (-1, -1)]),
)
@example([[Told(0, INT64_MAX, b"a", None)]], (NOW_MS, NOW_MS))  # the cleaner's task ended, and with it all nodes
def test_they_hurt_neither_the_cleaner_nor_who_looks_for_a_time(
    batches: list[list[Told]], times: tuple[int, int]
) -> None:
    log = open_log()
    for later_ms in (0, 10_000, 20_000):
        put(log, *(lying(tolds, *times) for tolds in batches))
        found = [offset_for_timestamp(log, wanted) for wanted in (0, 1, NOW_MS - 1, NOW_MS, INT64_MAX)]
        for answer in filter(None, [*found, offset_of_max_timestamp(log)]):
            assert INT64_MIN <= answer.timestamp <= INT64_MAX
            assert log.log_start_offset <= answer.offset < log.log_end_offset
        compact(log, log.log_end_offset, NOW_MS + later_ms)
        assert log.corruption is None
        assert headers_in(read_all(log))[-1].next_offset <= log.log_end_offset


def test_a_record_beyond_its_batch_takes_no_other_with_it() -> None:
    """It superseded the one before, and was dropped itself: nothing was left of the key."""
    log = open_log()
    put(log, batch(b"first", keys=(b"a",)), lying([Told(1 << 40, 0, b"a", b"second"), Told(1, 0, b"b", b"v")]))
    compact(log, log.log_end_offset, NOW_MS)
    data, values = read_all(log), []
    for header in headers_in(data):
        values += [record.value for record in iter_records(data, 0, header)]
        data = data[header.size_in_bytes :]
    assert values == [b"first", b"second", b"v"]


@pytest.mark.parametrize("told", [Told(0, INT64_MAX, b"a", b"v"), Told(1 << 40, 0, b"a", b"v")])
def test_the_header_stands_for_a_record_that_no_answer_can_name(told: Told) -> None:
    log = open_log()
    put(log, lying([told, Told(1, 0, b"b", b"v")], base_timestamp=NOW_MS - 10))
    assert offset_for_timestamp(log, NOW_MS - 5) == (NOW_MS, 0, 0)
