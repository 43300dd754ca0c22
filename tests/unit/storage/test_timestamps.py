from __future__ import annotations

from at_once import compact, offset_for_timestamp, offset_of_max_timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from simulator.disk import SimulatedDisk
from storage_batches import OpenLog, append, stage

from minikafka.model import Compression, TopicPartition
from minikafka.records.build import build_batch
from minikafka.records.record import Record
from minikafka.storage.config import LogConfig
from minikafka.storage.last_stop import LastStop
from minikafka.storage.log import Log

TIMES = st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=4), min_size=1, max_size=25)


@settings(max_examples=60, deadline=None)
@given(TIMES, st.floats(0, 1), st.sampled_from([Compression.NONE, Compression.ZSTD]), st.booleans(), st.booleans())
def test_lookups_agree_with_a_naive_twin(
    batches: list[list[int]], start_at: float, compression: Compression, clean: bool, restart: bool
) -> None:
    disk = SimulatedDisk().mount()
    config = LogConfig(
        segment_bytes=400,
        index_interval_bytes=100,
        cleanup_policy=frozenset({"compact"}),
        min_cleanable_dirty_ratio=0.0,
    )
    tp = TopicPartition("t", 0)
    log = Log.open(disk, "/t-0", tp, config)
    twin: list[tuple[int, int]] = []  # (timestamp, offset)
    for times in batches:
        twin += [(time, len(twin) + at) for at, time in enumerate(times)]
        some = twin[-len(times) :]  # no two have the same key: all stay
        records = [Record(0, time, b"%d" % offset, b"v" * 10 if time % 5 else None) for time, offset in some]
        stage(log, build_batch(records, compression=compression), leader_epoch=3)
        log.commit()
    if clean:
        put_delete_horizons(log)
    if restart:
        log.close()
        log = Log.open(disk, "/t-0", tp, config, last_stop=LastStop(is_clean=True))
    start = round(start_at * len(twin))
    log.maybe_increment_log_start_offset(start)
    live = [entry for entry in twin if entry[1] >= start]
    for time in range(-1, 62):
        expected = next(((at, offset, 3) for at, offset in live if at >= time), None)
        assert offset_for_timestamp(log, time) == expected
    largest = max((time for time, _ in live), default=None)
    assert offset_of_max_timestamp(log) == (
        None if largest is None else next((at, offset, 3) for at, offset in live if at == largest)
    )


def put_delete_horizons(log: Log) -> None:
    """Where there are tombstones: the cleaner's first pass, which writes the time at which they go into the header."""
    log.roll()
    log.flush()
    assert compact(log, log.log_end_offset, 100)


def test_an_empty_log_has_no_times(open_log: OpenLog) -> None:
    log = open_log()
    assert offset_for_timestamp(log, 0) is None
    assert offset_of_max_timestamp(log) is None
    append(log, b"a", timestamp=5)
    assert offset_for_timestamp(log, 6) is None


def test_a_segment_that_a_cut_emptied_has_no_times() -> None:
    """A start after an orderly stop took its time index for that of what came later: who looked for a time was sent
    behind records of that time, and nobody found the largest one."""
    disk, tp = SimulatedDisk().mount(), TopicPartition("t", 0)
    log = Log.open(disk, "/t-0", tp)
    append(log, b"v", timestamp=1)
    log.roll()
    for _ in range(5):
        append(log, b"v", timestamp=50)
    log.roll()
    log.flush()
    log.truncate_to(1)
    log.close()
    log = Log.open(disk, "/t-0", tp, last_stop=LastStop(is_clean=True, recovery_point=1))
    assert offset_of_max_timestamp(log) == (1, 0, 0)
    for timestamp in (70, 60):
        append(log, b"v", timestamp=timestamp)
    assert offset_for_timestamp(log, 60) == (70, 1, 0)
