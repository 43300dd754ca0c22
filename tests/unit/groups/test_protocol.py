"""The consumer protocol against kafka-python, and against bytes that are none."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment as TheirAssignment
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription as TheirSubscription

from minikafka.groups.protocol import (
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


@pytest.mark.parametrize("version", range(4))
def test_subscriptions_are_those_of_other_clients(version: int) -> None:
    ours = ConsumerProtocolSubscription(
        topics=["a", "b"],
        user_data=b"x",
        owned_partitions=[SubscriptionTopicPartition(topic="a", partitions=[0, 3])] if version >= 1 else [],
        generation_id=7 if version >= 2 else -1,
        rack_id="r" if version >= 3 else None,
    )
    theirs = TheirSubscription(
        version=version,
        topics=["a", "b"],
        user_data=b"x",
        owned_partitions=[("a", [0, 3])],
        generation_id=7,
        rack_id="r",
    ).encode()
    assert encode_subscription(ours, version) == theirs
    assert decode_subscription(theirs) == ours


@pytest.mark.parametrize("version", range(4))
def test_assignments_are_those_of_other_clients(version: int) -> None:
    ours = ConsumerProtocolAssignment(
        assigned_partitions=[AssignmentTopicPartition(topic="a", partitions=[0, 3])], user_data=b"x"
    )
    theirs = TheirAssignment(version=version, assigned_partitions=[("a", [0, 3])], user_data=b"x").encode()
    assert encode_assignment(ours, version) == theirs
    assert decode_assignment(theirs) == ours


def test_who_the_leader_left_out_has_an_empty_assignment() -> None:
    assert decode_assignment(b"") == ConsumerProtocolAssignment()


def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    newer = b"\0\x09" + encode_subscription(ConsumerProtocolSubscription(topics=["a"]))[2:] + b"more"
    assert decode_subscription(newer).topics == ["a"]


@given(buf=st.binary(max_size=30))
def test_bytes_that_are_none_are_refused(buf: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        with suppress(WireError):
            decode(buf)


def test_negative_versions_are_refused() -> None:
    with pytest.raises(WireError):
        decode_subscription(b"\xff\xff\0\0\0\0")
