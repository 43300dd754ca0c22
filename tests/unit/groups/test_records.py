"""The records of the offsets topic against bytes that Kafka's own classes wrote, and against themselves."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.groups.records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    GroupRecord,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
    decode_record,
)
from minikafka.wire.errors import WireError

ROWS = [
    line.split()
    for line in (Path(__file__).parents[2] / "golden" / "groups" / "kafka_records.rows").read_text().splitlines()
    if not line.startswith(("#", "partition"))
]
KAFKA = {(name, int(version)): bytes.fromhex(text) for name, version, text in ROWS}
OFFSET_KEY, GROUP_KEY = KAFKA["OffsetCommitKey", 1], KAFKA["GroupMetadataKey", 2]
VERSIONS = range(5)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
OFFSETS = st.builds(
    OffsetCommitRecord,
    st.builds(OffsetCommitKey, group=TEXT, topic=TEXT, partition=INT32),
    st.none()
    | st.builds(OffsetCommitValue, offset=INT64, leader_epoch=INT32, metadata=TEXT, commit_timestamp=INT64)
    | st.builds(OffsetCommitValue, offset=INT64, metadata=TEXT, commit_timestamp=INT64, expire_timestamp=INT64),
)
MEMBER = st.builds(
    MemberMetadata,
    member_id=TEXT,
    group_instance_id=st.none() | TEXT,
    client_id=TEXT,
    client_host=TEXT,
    rebalance_timeout=INT32,
    session_timeout=INT32,
    subscription=st.binary(max_size=20),
    assignment=st.binary(max_size=20),
)
GROUP_RECORDS = st.builds(
    GroupMetadataRecord,
    st.builds(GroupMetadataKey, group=TEXT),
    st.none()
    | st.builds(
        GroupMetadataValue,
        protocol_type=TEXT,
        generation=INT32,
        protocol=st.none() | TEXT,
        leader=st.none() | TEXT,
        current_state_timestamp=INT64,
        members=st.lists(MEMBER, max_size=3),
    ),
)


def offset_value(version: int) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=1 << 40,
        metadata="mété",
        commit_timestamp=1_700_000_000_123,
        leader_epoch=5 if version >= 3 else -1,
        expire_timestamp=1_700_000_009_999 if version == 1 else -1,
    )


def group_value(version: int) -> GroupMetadataValue:
    members = [
        MemberMetadata(
            member_id=f"m{index}-é",
            group_instance_id="i0" if version >= 3 and index == 0 else None,
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout=300_000 if version >= 1 else 10_000,  # one timeout for both in version 0
            session_timeout=10_000,
            subscription=bytes([0, 1, index]),
            assignment=b"\xff\2",
        )
        for index in range(2)
    ]
    timestamp = 1_700_000_000_123 if version >= 2 else -1
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader="m0-é",
        current_state_timestamp=timestamp,
        members=members,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_offset_values_of_every_version_are_read(version: int) -> None:
    record = decode_record(OFFSET_KEY, KAFKA["OffsetCommitValue", version])
    assert record == OffsetCommitRecord(
        OffsetCommitKey(group="grp", topic="orders", partition=12), offset_value(version)
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_group_values_of_every_version_are_read(version: int) -> None:
    record = decode_record(GROUP_KEY, KAFKA["GroupMetadataValue", version])
    assert record == GroupMetadataRecord(GroupMetadataKey(group="grp"), group_value(version))


@pytest.mark.parametrize("version", VERSIONS)
def test_empty_groups_of_every_version_are_read(version: int) -> None:
    record = decode_record(GROUP_KEY, KAFKA["EmptyGroupMetadataValue", version])
    empty = GroupMetadataValue(protocol_type="consumer", generation=8, protocol=None, leader=None)
    assert record == GroupMetadataRecord(GroupMetadataKey(group="grp"), empty)


@pytest.mark.parametrize("version", [0, 1])
def test_both_versions_of_an_offset_key_are_read(version: int) -> None:
    record = decode_record(KAFKA["OffsetCommitKey", version], None)
    assert record == OffsetCommitRecord(OffsetCommitKey(group="grp", topic="orders", partition=12), None)


@pytest.mark.parametrize("version", [1, 4])
def test_offsets_are_written_as_kafka_writes_them(version: int) -> None:
    key = OffsetCommitKey(group="grp", topic="orders", partition=12)
    written = OffsetCommitRecord(key, offset_value(version)).encode()
    assert written == (OFFSET_KEY, KAFKA["OffsetCommitValue", version])


def test_the_id_of_the_topic_is_a_tagged_field() -> None:
    """As Kafka 4.1 has it: tag 0, 16 bytes; whoever does not know it reads on."""
    value = offset_value(4)
    value.topic_id = UUID(int=7)
    record = OffsetCommitRecord(OffsetCommitKey(group="grp", topic="orders", partition=12), value)
    encoded = record.encode()
    assert encoded.value == KAFKA["OffsetCommitValue", 4][:-1] + b"\x01\x00\x10" + UUID(int=7).bytes
    assert decode_record(*encoded) == record


def test_groups_are_written_as_kafka_writes_them() -> None:
    written = GroupMetadataRecord(GroupMetadataKey(group="grp"), group_value(3)).encode()
    assert written == (GROUP_KEY, KAFKA["GroupMetadataValue", 3])


@given(record=OFFSETS | GROUP_RECORDS)
def test_what_is_written_is_read(record: GroupRecord) -> None:
    if isinstance(record, OffsetCommitRecord) and record.value is not None and record.value.expire_timestamp != -1:
        assert record.value.leader_epoch == -1  # version 1 has an expiry, but no epoch
    assert decode_record(*record.encode()) == record


@given(key=st.binary(max_size=20), value=st.none() | st.binary(max_size=40))
def test_bytes_that_are_no_record_are_refused(key: bytes, value: bytes | None) -> None:
    with suppress(WireError):
        decode_record(key, value)


@given(record=OFFSETS | GROUP_RECORDS, data=st.data())
def test_a_record_that_is_cut_off_is_refused(record: GroupRecord, data: st.DataObject) -> None:
    key, value = record.encode()
    with pytest.raises(WireError):
        decode_record(key[: data.draw(st.integers(0, len(key) - 1))], value)
    if value is not None:
        with pytest.raises(WireError):
            decode_record(key, value[: data.draw(st.integers(0, len(value) - 1))])


def test_kinds_that_are_not_known_are_skipped() -> None:
    assert decode_record(b"\0\12whatever", b"") is None
