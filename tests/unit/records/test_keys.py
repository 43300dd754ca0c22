"""Keys and positions of records, against the decoder that makes records of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.errors import KafkaError
from minikafka.records.batch import HEADER_SIZE, parse_header
from minikafka.records.build import build_batch
from minikafka.records.keys import iter_keys
from minikafka.records.read import iter_records, read_body
from minikafka.records.record import Record

BYTES = st.none() | st.binary(max_size=300)
RECORDS = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(0, 1 << 40),
        BYTES,
        BYTES,
        st.lists(st.tuples(st.text(max_size=3), BYTES), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=20,
)


@given(records=RECORDS)
def test_they_are_those_of_the_records(records: list[Record]) -> None:
    batch = build_batch(records, base_offset=70)
    header = parse_header(batch)
    body = read_body(batch, 0, header)
    found = list(iter_keys(body, header))
    assert [
        (header.base_offset + delta, header.base_timestamp + time, key, is_tombstone)
        for delta, time, key, is_tombstone, *_positions in found
    ] == [(record.offset, record.timestamp, record.key, record.value is None) for record in iter_records(batch)]
    assert b"".join(body[begin:end] for *_, begin, _rest, end in found) == body


@given(records=RECORDS, at=st.integers(0, 1 << 20), byte=st.integers(0, 255), cut=st.integers(0, 3))
def test_whatever_the_bytes_are_they_are_records_or_refused(
    records: list[Record], at: int, byte: int, cut: int
) -> None:
    batch = build_batch(records)
    header = parse_header(batch)
    body = bytearray(batch[HEADER_SIZE : len(batch) - cut])
    if body:
        body[at % len(body)] = byte
    try:
        found = list(iter_keys(bytes(body), header))
    except KafkaError:
        return
    assert len(found) == header.record_count
    assert b"".join(bytes(body[begin:end]) for *_, begin, _rest, end in found) == bytes(body)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b"", 1),
        (b"\xff" * 12, 1),
        (b"\x0a\0\0\0\x03", 1),  # a key of length -2
        (b"\x0a\0\0\x01\x01\x01\0", 1),  # an offset before the batch
        (b"\x04\0\0\0\x01\x01\0", 1),  # it ends before its value
        (b"\x0c\0\0\0\x01\x01\0", 2),
        (b"\x0c\0\0\0\x01\x01\0\0", 1),
    ],
)
def test_what_is_no_record(body: bytes, count: int) -> None:
    header = parse_header(build_batch([Record(0, 0, None, None)]))._replace(record_count=count)
    with pytest.raises(KafkaError):
        list(iter_keys(body, header))
