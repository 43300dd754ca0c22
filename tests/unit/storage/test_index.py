from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.storage.index import DamagedIndexError, OffsetEntry, OffsetIndex, TimeEntry, TimeIndex

BASE = 10_000


@st.composite
def offset_entries(draw: st.DrawFn) -> list[OffsetEntry]:
    steps = draw(st.lists(st.tuples(st.integers(1, 1000), st.integers(61, 5000)), max_size=30))
    entries, offset, position = [], BASE - 1, -61
    for offset_step, position_step in steps:
        offset, position = offset + offset_step, position + position_step
        entries.append(OffsetEntry(offset, position))
    return entries


@st.composite
def time_entries(draw: st.DrawFn) -> list[TimeEntry]:
    steps = draw(st.lists(st.tuples(st.integers(1, 2**40), st.integers(0, 1000)), max_size=30))
    entries, timestamp, offset = [], -1, BASE
    for time_step, offset_step in steps:
        timestamp, offset = timestamp + time_step, offset + offset_step
        entries.append(TimeEntry(timestamp, offset))
    return entries


def offset_index(entries: list[OffsetEntry]) -> OffsetIndex:
    index = OffsetIndex(BASE)
    for entry in entries:
        index.append(*entry)
    return index


def time_index(entries: list[TimeEntry]) -> TimeIndex:
    index = TimeIndex(BASE)
    for entry in entries:
        index.maybe_append(*entry)
    return index


@given(offset_entries(), st.integers(BASE - 10, BASE + 40_000))
def test_offset_lookup_is_the_last_entry_at_or_before(entries: list[OffsetEntry], offset: int) -> None:
    index = offset_index(entries)
    assert index.lookup(offset) == max((entry for entry in entries if entry.offset <= offset), default=None)
    assert index.boundary_at_or_before(offset) == max(
        (entry.position for entry in entries if entry.position <= offset), default=0
    )


@given(offset_entries())
def test_offset_index_is_kafkas_bytes_and_comes_back(entries: list[OffsetEntry]) -> None:
    data = offset_index(entries).encode()
    assert data == b"".join(struct.pack(">ii", offset - BASE, position) for offset, position in entries)
    decoded = OffsetIndex.decode(BASE, data, 10**6)
    assert [decoded[at] for at in range(len(decoded))] == entries
    assert decoded.last == (entries[-1] if entries else None)


@given(offset_entries(), st.integers(0, 100_000))
def test_offset_index_truncates_by_position(entries: list[OffsetEntry], position: int) -> None:
    index = offset_index(entries)
    index.truncate(position)
    assert [index[at] for at in range(len(index))] == [entry for entry in entries if entry.position < position]


@given(time_entries(), st.integers(-1, 2**44))
def test_time_lookup_is_the_last_entry_before(entries: list[TimeEntry], timestamp: int) -> None:
    expected = max((entry for entry in entries if entry.timestamp < timestamp), default=None)
    assert time_index(entries).lookup(timestamp) == expected


@given(time_entries())
def test_time_index_is_kafkas_bytes_and_comes_back(entries: list[TimeEntry]) -> None:
    data = time_index(entries).encode()
    assert data == b"".join(struct.pack(">qi", timestamp, offset - BASE) for timestamp, offset in entries)
    decoded = TimeIndex.decode(BASE, data)
    assert [decoded[at] for at in range(len(decoded))] == entries


@given(time_entries(), st.integers(BASE, BASE + 30_000))
def test_time_index_truncates_by_offset(entries: list[TimeEntry], offset: int) -> None:
    index = time_index(entries)
    index.truncate(offset)
    assert [index[at] for at in range(len(index))] == [entry for entry in entries if entry.offset < offset]


def test_time_index_ignores_a_timestamp_that_did_not_grow() -> None:
    index = time_index([TimeEntry(100, BASE + 1)])
    index.maybe_append(100, BASE + 5)
    index.maybe_append(99, BASE + 6)
    assert len(index) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"1234567",
        struct.pack(">iiii", 5, 100, 5, 200),
        struct.pack(">iiii", 5, 200, 6, 100),
        struct.pack(">ii", -1, 0),
        struct.pack(">ii", 1, 1000),
        bytes(16),
    ],
    ids=["cut", "offset repeats", "position falls", "before the segment", "behind the file", "zeros"],
)
def test_what_cannot_be_an_offset_index_is_refused(data: bytes) -> None:
    with pytest.raises(DamagedIndexError):
        OffsetIndex.decode(BASE, data, 1000)


@pytest.mark.parametrize(
    "data",
    [b"12345678901", struct.pack(">qiqi", 5, 1, 5, 2), struct.pack(">qiqi", 5, 2, 6, 1), struct.pack(">qi", 5, -1)],
    ids=["cut", "time repeats", "offset falls", "before the segment"],
)
def test_what_cannot_be_a_time_index_is_refused(data: bytes) -> None:
    with pytest.raises(DamagedIndexError):
        TimeIndex.decode(BASE, data)
