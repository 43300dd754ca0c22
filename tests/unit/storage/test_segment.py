from __future__ import annotations

import os

import pytest
from at_once import offset_for_timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from simulator.disk import SimulatedDisk
from storage_batches import NOW_MS, OpenLog, append, batch, headers_in, values_in

from minikafka.records.batch import parse_header
from minikafka.storage import positions
from minikafka.storage.disk import Disk, OsDisk
from minikafka.storage.errors import BadBatchError
from minikafka.storage.segment import Segment
from minikafka.storage.segment_cache import SegmentCache
from minikafka.storage.segment_names import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX
from minikafka.storage.tail import CAPACITY, Tail
from minikafka.storage.verifying import verify


def make_segment(disk: Disk, directory: str, *, cache: SegmentCache | None = None) -> Segment:
    segment = Segment(disk, directory, 100, cache=cache or SegmentCache(), index_interval_bytes=200)
    segment.create()
    return segment


def fill(segment: Segment, sizes: list[int]) -> list[tuple[int, int, int]]:
    """Append batches of so many records; (base offset, position, end position) of each."""
    placed = []
    for count in sizes:
        values = [b"v" * 20] * count
        base, position = segment.next_offset, segment.size
        data = batch(*values, base_offset=base, timestamp=NOW_MS + base)
        segment.append([data], [(base + count - 1, len(data), parse_header(data).max_timestamp)])
        placed.append((base, position, segment.size))
    return placed


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=40),
    st.booleans(),
    st.data(),
)
def test_bounds_agree_with_a_naive_twin(sizes: list[int], sealed: bool, data: st.DataObject) -> None:
    disk = SimulatedDisk().mount()
    disk.mkdir("/d")
    segment = make_segment(disk, "/d")
    placed = fill(segment, sizes)
    if sealed:
        segment.seal()
        segment.cool()
    start = data.draw(st.integers(100, segment.next_offset - 1))
    limit = data.draw(st.integers(start, segment.next_offset))
    max_bytes = data.draw(st.integers(0, segment.size + 10))
    begin, end = positions.bounds(segment, start, max_bytes, limit, min_one_batch=True)

    expected_begin = next(position for base, position, _ in reversed(placed) if base <= start)
    boundaries = {position for _, position, _ in placed} | {segment.size}
    cut = next((position for base, position, _ in reversed(placed) if base <= limit), 0)
    cut = segment.size if limit == segment.next_offset else cut
    assert begin == expected_begin
    assert end in boundaries
    assert begin <= end <= max(begin, cut)
    if begin < cut:
        first_end = min(boundary for boundary in boundaries if boundary > begin)
        assert end >= first_end, "at least one batch"
        assert end - begin <= max(max_bytes, first_end - begin)
        if max_bytes >= cut - begin:
            assert end == cut, "all that fits"
    assert positions.bounds(segment, start, 0, limit, min_one_batch=False) == (begin, begin)


@given(st.integers(1, 3 * CAPACITY))
@settings(max_examples=20, deadline=None)
def test_the_tail_remembers_the_newest_batches_only(count: int) -> None:
    tail = Tail(0)
    for at in range(count):
        tail.add(2 * at + 1, 100 * at)
    end = 100 * count
    assert len(tail._positions) < CAPACITY
    for offset in range(max(tail.first_offset, 2 * count - 50), 2 * count):
        assert tail.position_of(offset, end) == offset // 2 * 100
    assert tail.position_of(2 * count, end) == end
    assert tail.boundary_at_or_before(end) == 100 * (count - 1)
    assert tail.boundary_after(100 * (count - 1), end) == end
    assert tail.boundary_after(50, end) == -1


def test_a_closed_segment_is_read_through_its_indexes(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=3000, index_interval_bytes=300)
    for at in range(60):
        append(log, b"%d" % at * 10)
    for segment in log.segments.closed:
        segment.cool()
    for at in range(60):
        first = headers_in(log.read(at, 1).read())
        assert [header.base_offset for header in first] == [at]


@pytest.mark.parametrize("kind", [OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX])
@pytest.mark.parametrize("damage", ["missing", "cut", "zeros", "shifted", "garbage"])
def test_a_damaged_index_is_rebuilt(open_log: OpenLog, disk: OsDisk, kind: str, damage: str) -> None:
    log = open_log(segment_bytes=4000, index_interval_bytes=300)
    for at in range(60):
        append(log, b"%d" % at * 10, timestamp=NOW_MS + at)
    log.close()
    path = log.segments[0].path(kind)
    data = disk.read_bytes(path)
    damaged = {
        "cut": data[:-3],
        "zeros": bytes(len(data)),
        "shifted": data[:3] + b"\x01" + data[4:7] + bytes([data[7] ^ 3]) + data[8:],
        "garbage": os.urandom(len(data)),
    }
    if damage == "missing":
        disk.unlink(path)
    else:
        disk.write_bytes(path, damaged[damage])
    log = open_log()
    for at in range(60):
        data = log.read(at, 1).read()
        assert min(values_in(data)) == at
    if damage != "shifted" or kind != ".timeindex":
        for at in range(60):
            found = offset_for_timestamp(log, NOW_MS + at)
            assert found is not None
            assert found.offset == at


def test_only_recently_read_segments_keep_a_descriptor(open_log: OpenLog, disk: OsDisk, directory: str) -> None:
    cache = SegmentCache(capacity=2)
    segments = []
    for base in (0, 100, 200):
        segment = Segment(disk, directory, base, cache=cache, index_interval_bytes=4096)
        segment.create()
        fill(segment, [2])
        segment.seal()
        segment.cool()
        segments.append(segment)
    for segment in segments:
        assert positions.find(segment, segment.base_offset) is not None
    assert [segment._file is not None for segment in segments] == [False, True, True]
    held = segments[1].file
    positions.find(segments[0], 0)
    positions.find(segments[2], 200)
    assert segments[1]._file is None
    assert held.pread(4, 0), "whoever holds the file can still read it"


def test_verify_reads_what_was_not_written_by_this_process_once(open_log: OpenLog, disk: OsDisk) -> None:
    log = open_log()
    for at in range(5):
        append(log, b"%d" % at)
    path, size = log.segments[0].path(LOG_SUFFIX), log.size_in_bytes
    log.close()
    log = open_log()
    segment = log.segments[0]
    verify(segment, 0, size)
    data = bytearray(disk.read_bytes(path))
    data[70] ^= 1
    disk.write_bytes(path, data)
    verify(segment, 0, size)
    with pytest.raises(BadBatchError):
        verify(open_log(clean=True).segments[0], 0, size)


def test_a_segment_is_renamed_with_its_log_file_last(disk: OsDisk, directory: str) -> None:
    segment = make_segment(disk, directory)
    fill(segment, [3])
    segment.seal()
    assert [path.rsplit(".", 2)[-2] for path in segment.detach()] == ["index", "timeindex", "txnindex", "log"]
    assert all(name.endswith(".deleted") for name in disk.listdir(directory))
