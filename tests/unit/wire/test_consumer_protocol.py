from __future__ import annotations

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

from minikafka.wire.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from minikafka.wire.errors import WireError
from minikafka.wire.messages.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionTopicPartition,
)

SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=["a", "b"],
    user_data=b"u",
    owned_partitions=[SubscriptionTopicPartition(topic="a", partitions=[0, 1])],
    generation_id=5,
    rack_id="r",
)
ASSIGNMENT = ConsumerProtocolAssignment(
    assigned_partitions=[AssignmentTopicPartition(topic="a", partitions=[0, 2])], user_data=None
)


@pytest.mark.parametrize("version", range(4))
def test_round_trips(version: int) -> None:
    assert decode_assignment(encode_assignment(ASSIGNMENT, version)) == ASSIGNMENT
    decoded = decode_subscription(encode_subscription(SUBSCRIPTION, version))
    assert decoded.topics == ["a", "b"]
    assert decoded.owned_partitions == (SUBSCRIPTION.owned_partitions if version >= 1 else [])
    assert decoded.generation_id == (5 if version >= 2 else -1)
    assert decoded.rack_id == ("r" if version >= 3 else None)


def test_blobs_of_a_real_client_are_read() -> None:
    subscription = decode_subscription(ConsumerProtocolMemberMetadata(0, ["a"], b"x").encode())
    assert subscription == ConsumerProtocolSubscription(topics=["a"], user_data=b"x")
    assignment = decode_assignment(ConsumerProtocolMemberAssignment(0, [("a", [0, 2])], b"").encode())
    assert assignment.assigned_partitions == ASSIGNMENT.assigned_partitions
    assert ConsumerProtocolMemberAssignment.decode(encode_assignment(ASSIGNMENT, 0)).assignment == [("a", [0, 2])]


def test_newer_versions_are_read_as_the_newest_known() -> None:
    blob = encode_subscription(SUBSCRIPTION)
    assert decode_subscription(b"\0\x09" + blob[2:] + b"what version 9 added") == SUBSCRIPTION


@pytest.mark.parametrize("blob", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\x05"])
def test_malformed_blobs(blob: bytes) -> None:
    with pytest.raises(WireError):
        decode_subscription(blob)
    with pytest.raises(WireError):
        decode_assignment(blob)
