"""Records of consumer groups: Apache Kafka's own bytes, and all that can be written."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.groups.consumer.records import (
    ClassicMetadata,
    ConsumerGroupRecord,
    CurrentAssignment,
    GroupEpoch,
    Kind,
    MemberState,
    ResolvedRegex,
    Subscription,
    TargetMetadata,
    Value,
    decode_consumer_record,
)
from minikafka.wire.errors import WireError

GOLDEN = Path(__file__).parents[3] / "golden" / "groups" / "kafka_consumer_records.rows"
ROWS = [
    (name, int(version), bytes.fromhex(text))
    for name, version, text in (line.split() for line in GOLDEN.read_text().splitlines() if not line.startswith("#"))
]
KEYS = {kind: encoded for name, kind, encoded in ROWS if name.endswith("Key")}
VALUES = [(name, encoded) for name, _, encoded in ROWS if name.endswith("Value")]
ONE, TWO = UUID("01020304-0506-0708-090a-0b0c0d0e0f10"), UUID("11121314-1516-1718-191a-1b1c1d1e1f20")
MEANT: list[tuple[Kind, str, Value]] = [
    (Kind.GROUP, "", GroupEpoch(7)),
    (Kind.GROUP, "", GroupEpoch(7, -5)),
    (Kind.TARGET_METADATA, "", TargetMetadata(7)),
    (Kind.TARGET_METADATA, "", TargetMetadata(7, 1_700_000_000_000)),
    (
        Kind.MEMBER,
        "mem",
        Subscription(
            instance_id="i",
            rack_id="r",
            client_id="c",
            client_host="/127.0.0.1",
            topic_names=("t", "u"),
            topic_regex="a.*",
            rebalance_timeout_ms=300_000,
            server_assignor="range",
        ),
    ),
    (
        Kind.MEMBER,
        "mem",
        Subscription(
            client_id="c",
            client_host="/127.0.0.1",
            topic_names=("t",),
            rebalance_timeout_ms=300_000,
            classic=ClassicMetadata(45_000, (("range", b"\1\2\3"),)),
        ),
    ),
    (Kind.TARGET, "mem", {ONE: frozenset({0, 1}), TWO: frozenset({5})}),
    (
        Kind.CURRENT,
        "mem",
        CurrentAssignment(
            member_epoch=7,
            previous_member_epoch=6,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned={ONE: {0: 3, 1: 7}},
            pending_revocation={TWO: {5: 4}},
        ),
    ),
    (
        Kind.CURRENT,
        "mem",
        CurrentAssignment(
            member_epoch=7,
            previous_member_epoch=6,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned={ONE: {0: 7, 1: 7}},
            pending_revocation={TWO: {5: 7}},
        ),
    ),
    (Kind.REGULAR_EXPRESSION, "a.*", ResolvedRegex(("t", "u"), 12, 1_700_000_000_000)),
]
WITHOUT_EPOCHS = 8
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
OWNED = st.dictionaries(st.uuids(), st.dictionaries(st.integers(0, 99), INT32, min_size=1, max_size=3), max_size=2)
RECORDS = st.one_of(
    st.builds(ConsumerGroupRecord, st.just(Kind.GROUP), TEXT, st.just(""), st.builds(GroupEpoch, INT32, INT64)),
    st.builds(
        ConsumerGroupRecord,
        st.just(Kind.TARGET),
        TEXT,
        TEXT,
        st.dictionaries(st.uuids(), st.frozensets(st.integers(0, 99), min_size=1, max_size=3), max_size=2),
    ),
    st.builds(
        ConsumerGroupRecord,
        st.just(Kind.CURRENT),
        TEXT,
        TEXT,
        st.none()
        | st.builds(
            CurrentAssignment,
            member_epoch=INT32,
            previous_member_epoch=INT32,
            state=st.sampled_from(MemberState),
            assigned=OWNED,
            pending_revocation=OWNED,
        ),
    ),
    st.builds(
        ConsumerGroupRecord,
        st.just(Kind.MEMBER),
        TEXT,
        TEXT,
        st.builds(
            Subscription,
            instance_id=st.none() | TEXT,
            client_id=TEXT,
            topic_names=st.lists(TEXT, max_size=3).map(lambda names: tuple(sorted(names))),
            topic_regex=TEXT,
            rebalance_timeout_ms=INT32,
        ),
    ),
)


@pytest.mark.parametrize("number", range(len(MEANT)))
def test_kafka_reads_what_is_written_and_the_other_way_round(number: int) -> None:
    kind, name, value = MEANT[number]
    record = ConsumerGroupRecord(kind, "grp", name, value)
    _, encoded = VALUES[number]
    assert decode_consumer_record(KEYS[kind], encoded) == record
    assert decode_consumer_record(KEYS[kind], None) == record._replace(value=None)
    if number != WITHOUT_EPOCHS:  # Kafka before 4.3 does not write them, and Kafka 4.3 and we do
        assert record.encode() == (KEYS[kind], encoded)


def test_a_state_of_a_newer_kafka_is_unknown() -> None:
    _, encoded = VALUES[7]
    newer = encoded[:10] + b"\x09" + encoded[11:]
    found = decode_consumer_record(KEYS[Kind.CURRENT], newer)
    assert found is not None
    assert isinstance(found.value, CurrentAssignment)
    assert found.value.state is MemberState.UNKNOWN


@given(record=RECORDS)
def test_a_record_is_read_as_it_was_written(record: ConsumerGroupRecord) -> None:
    assert decode_consumer_record(*record.encode()) == record


@given(record=RECORDS, data=st.data())
def test_a_damaged_record_is_a_wire_error(record: ConsumerGroupRecord, data: st.DataObject) -> None:
    key, value = record.encode()
    with pytest.raises(WireError):
        decode_consumer_record(key[: data.draw(st.integers(0, len(key) - 1))], value)
    if value is not None:
        with pytest.raises(WireError):
            decode_consumer_record(key, value[: data.draw(st.integers(0, len(value) - 1))])


def test_other_kinds_are_skipped() -> None:
    assert decode_consumer_record(b"\0\4\0\3grp", None) is None, "partitions of topics: nobody reads them any more"
    assert decode_consumer_record(b"\0\12\0\3grp", None) is None, "a share group"
