"""Messages to the wire and back; and whatever else comes is refused by name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.errors import ErrorCode
from minikafka.model import OffsetAndEpoch
from minikafka.raft import MalformedMessageError, message_from_wire
from minikafka.raft.messages import (
    _RULES_OF,
    REQUESTS,
    RESPONSES,
    FetchRequest,
    FetchResponse,
    Message,
    VoteResponse,
)

int32 = st.integers(0, 2**31 - 1)
int64 = st.integers(0, 2**63 - 1)
pairs = st.builds(OffsetAndEpoch, int64, int32)
BY_ANNOTATION: dict[str, st.SearchStrategy[Any]] = {
    "Text": st.text(max_size=20),
    "NodeId": int32,
    "NodeId | None": st.none() | int32,
    "NodeIds": st.lists(int32, max_size=5).map(tuple),
    "Epoch": int32,
    "Offset": int64,
    "Size": int32,
    "Flag": st.booleans(),
    "Blob": st.binary(max_size=40),
    "ErrorCode": st.sampled_from(ErrorCode),
    "OffsetAndEpoch": pairs,
    "OffsetAndEpoch | None": st.none() | pairs,
}


def of_class(cls: type[Message]) -> st.SearchStrategy[Message]:
    return st.builds(cls, **{field.name: BY_ANNOTATION[field.type] for field in fields(cls)})  # type: ignore[arg-type,index]


messages = st.sampled_from([*REQUESTS, *RESPONSES]).flatmap(of_class)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=8,
)


@given(messages)
def test_a_message_survives_the_wire(message: Message) -> None:
    packed = msgpack.packb(message.to_wire())
    assert message_from_wire(msgpack.unpackb(packed)) == message


@given(messages, st.data())
def test_a_message_with_a_wrong_field_is_refused_or_means_itself(message: Message, data: st.DataObject) -> None:
    wire = message.to_wire()
    at = data.draw(st.integers(0, len(wire) - 1))
    wire[at] = data.draw(values)
    try:
        decoded = message_from_wire(wire)
    except MalformedMessageError:
        return
    assert message_from_wire(decoded.to_wire()) == decoded


@given(values)
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(MalformedMessageError):
        message_from_wire(value)


@pytest.mark.parametrize(
    ("wire", "complaint"),
    [
        (None, "begins with its name"),
        ([], "begins with its name"),
        (["Elect"], "unknown message 'Elect'"),
        (["BeginQuorumEpoch", "c", 1], "has 3 fields, got 2"),
        (["BeginQuorumEpoch", "c", 1, 2, 3], "has 3 fields, got 4"),
        (["BeginQuorumEpoch", "c", 1, True], r"BeginQuorumEpoch.leader_epoch: expected an integer from 0"),
        (["BeginQuorumEpoch", "c", -1, 2], r"BeginQuorumEpoch.leader_id"),
        (["BeginQuorumEpoch", b"c", 1, 2], r"cluster_id: expected str"),
        (["BeginQuorumEpoch", "c" * 256, 1, 2], r"cluster_id: expected str"),
        (["Vote", "c", 1, 2, [3], False, False], r"Vote.last: expected offset and epoch"),
        (["Vote", "c", 1, 2, [3, 1, 4], False, False], r"Vote.last: expected offset and epoch"),
        (["Vote", "c", 1, 2, [3, 1], 0, False], r"Vote.pre_vote: expected bool"),
        (["EndQuorumEpoch", "c", 1, 2, list(range(1001))], r"a list of node ids"),
    ],
)
def test_the_complaint_names_what_is_wrong(wire: object, complaint: str) -> None:
    with pytest.raises(MalformedMessageError, match=complaint):
        message_from_wire(wire)


def test_an_earlier_version_understands_votes_and_is_understood() -> None:
    """While nodes are upgraded one after the other, they elect controllers. What such a voter refuses, has records."""
    wire = ["VoteAnswer", 0, 1, None, False, False]
    answer = VoteResponse(ErrorCode.NONE, 1, None)
    assert answer.to_wire() == wire
    assert message_from_wire(wire) == answer
    assert answer.tells_of_records
    for wrong in (wire[:-1], [*wire, True, False], [*wire, 1]):
        with pytest.raises(MalformedMessageError):
            message_from_wire(wrong)


def test_an_unknown_error_code_is_an_unknown_error() -> None:
    wire = FetchResponse(ErrorCode.NONE, 1, None).to_wire()
    wire[1] = 9999
    decoded = message_from_wire(wire)
    assert isinstance(decoded, FetchResponse)
    assert decoded.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_every_field_has_a_rule() -> None:
    assert {len(rules) for rules in _RULES_OF.values()} >= {3, 4}
    assert [name for name, _ in _RULES_OF[FetchRequest]][:3] == ["cluster_id", "replica_id", "leader_epoch"]
