"""Metadata records: encoding, versions, and what is refused."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import ClassVar
from uuid import UUID

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.metadata import records
from minikafka.metadata.codec import MalformedError
from minikafka.metadata.records import (
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RegisterBrokerRecord,
    TopicRecord,
    UnknownRecordError,
    decode_record,
    encode_record,
)

TYPES = {cls.TYPE: cls for cls in Record.__subclasses__()}


@given(st.one_of([st.from_type(cls) for cls in TYPES.values()]))
def test_there_and_back(record: Record) -> None:
    value = encode_record(record) if _fits(record) else b""
    if value:
        assert decode_record(value) == record
        assert decode_record(memoryview(value)) == record
        assert type(decode_record(value)) is type(record)


def _fits(record: Record) -> bool:
    """msgpack has no numbers beyond 64 bits, and no lone surrogates."""
    with contextlib.suppress(OverflowError, UnicodeEncodeError):
        return bool(encode_record(record))
    return False


def test_types_are_those_that_were_given_out() -> None:
    """A type or a field that changes its place makes every existing log unreadable: append instead."""
    assert {number: cls.__name__ for number, cls in TYPES.items()} == {
        1: "MetadataVersionRecord",
        2: "ClusterIdRecord",
        3: "RegisterBrokerRecord",
        4: "BrokerChangeRecord",
        5: "UnregisterBrokerRecord",
        6: "TopicRecord",
        7: "RemoveTopicRecord",
        8: "PartitionRecord",
        9: "PartitionChangeRecord",
        10: "ConfigRecord",
        11: "ProducerIdsRecord",
        12: "FeatureLevelRecord",
        13: "ClientQuotaRecord",
        14: "FirstLeaderEpochRecord",
        15: "UserScramCredentialRecord",
        16: "RemoveUserScramCredentialRecord",
        17: "AccessControlEntryRecord",
        18: "RemoveAccessControlEntryRecord",
    }


def test_bytes_do_not_change() -> None:
    topic_id = UUID(int=7)
    assert encode_record(TopicRecord("t", topic_id)) == bytes.fromhex("940600a174c410") + topic_id.bytes
    partition = PartitionRecord(topic_id, 1, (1, 2), (2,), 2, 5, 6, (1,), (), (), ())
    assert msgpack.unpackb(encode_record(partition)) == [8, 0, topic_id.bytes, 1, [1, 2], [2], 2, 5, 6, [1], [], [], []]
    change = PartitionChangeRecord(topic_id, 1, leader=3)
    assert msgpack.unpackb(encode_record(change)) == [9, 0, topic_id.bytes, 1, None, 3, None, None, None, None, None]


def test_a_record_is_written_in_the_lowest_version_that_says_it_all() -> None:
    topic_id, directory = UUID(int=7), UUID(int=8)
    placed = PartitionChangeRecord(topic_id, 1, directories=(directory,))
    assert msgpack.unpackb(encode_record(placed)) == [9, 1, topic_id.bytes, 1, *[None] * 7, [directory.bytes]]
    unclean = PartitionChangeRecord(topic_id, 1, leader=3, unclean_leader_epoch=7)
    assert msgpack.unpackb(encode_record(unclean)) == [9, 2, topic_id.bytes, 1, None, 3, *[None] * 6, 7]
    registered = RegisterBrokerRecord(1, topic_id, 5, {})
    assert msgpack.unpackb(encode_record(registered))[1] == 0
    assert msgpack.unpackb(encode_record(replace(registered, previous_broker_epoch=0)))[1] == 1


@pytest.mark.parametrize(
    ("wire", "error", "problem"),
    [
        ([99, 0], UnknownRecordError, "type 99 is unknown here"),
        ([2, 1, "c"], UnknownRecordError, "ClusterIdRecord version 1 is unknown here"),
        ([2, -1, "c"], UnknownRecordError, "version -1"),
        ([2, 0], MalformedError, "ClusterIdRecord version 0 has 1 fields, not 0"),
        ([2, 0, "c", 1], MalformedError, "has 1 fields, not 2"),
        ([2, 0, 5], MalformedError, "ClusterIdRecord.cluster_id: str is expected"),
        ([2], MalformedError, "not a metadata record"),
        ([True, 0, "c"], MalformedError, "not a metadata record"),
        ({"a": 1}, MalformedError, "not a metadata record"),
    ],
)
def test_a_record_of_an_unknown_type_version_or_shape_is_refused(
    wire: object, error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        decode_record(msgpack.packb(wire))


@given(st.binary(max_size=40))
def test_any_bytes_decode_or_are_refused(value: bytes) -> None:
    with contextlib.suppress(MalformedError):
        assert isinstance(decode_record(value), Record)


def test_a_record_of_a_lower_version_takes_the_defaults_of_later_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Grown:
        TYPE: ClassVar[int] = 98
        VERSION: ClassVar[int] = 2
        first: int
        second: int = field(default=5, metadata={"since": 1})
        third: str | None = field(default=None, metadata={"since": 2})

    monkeypatch.setitem(records._BY_TYPE, 98, records._shape_of(Grown))  # type: ignore[arg-type]
    assert decode_record(msgpack.packb([98, 0, 1])) == Grown(1)  # type: ignore[comparison-overlap]
    assert decode_record(msgpack.packb([98, 1, 1, 2])) == Grown(1, 2)  # type: ignore[comparison-overlap]
    assert decode_record(msgpack.packb([98, 2, 1, 2, "x"])) == Grown(1, 2, "x")  # type: ignore[comparison-overlap]
    with pytest.raises(MalformedError, match="version 1 has 2 fields, not 3"):
        decode_record(msgpack.packb([98, 1, 1, 2, "x"]))
