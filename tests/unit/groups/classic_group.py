"""Classic groups whose members speak as consumers do, and such members of consumer groups."""

from __future__ import annotations

from typing import Any

from classic_client import assigned
from consumer_driver import ConsumerDriver, Owned

from minikafka.wire.consumer_protocol import encode_assignment, encode_subscription
from minikafka.wire.messages.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionTopicPartition,
)


def metadata(*owned: int, version: int = 3) -> bytes:
    """Of a member that subscribes to "t", and has these partitions."""
    has = [SubscriptionTopicPartition(topic="t", partitions=list(owned))] if owned else []
    return encode_subscription(ConsumerProtocolSubscription(topics=["t"], owned_partitions=has), version)


def assignment(*partitions: int, user_data: bytes | None = None) -> bytes:
    """Of these partitions of "t"."""
    each = AssignmentTopicPartition(topic="t", partitions=list(partitions))
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=[each], user_data=user_data))


def classic_group(driver: ConsumerDriver, *instances: str | None, protocol: str = "range", **join: Any) -> list[str]:
    """A stable classic group: of two members each has two of the four partitions."""
    protocols = {protocol: metadata()}
    names = [f"c{number}" for number in range(len(instances))]
    tokens = [
        driver.join(name, instance=each, protocols=protocols, **join)
        for name, each in zip(names, instances, strict=True)
    ]
    first = tokens[0]
    if len(names) > 1:
        first = driver.join(names[0], member=first.member_id, instance=instances[0], protocols=protocols, **join)
    members = [first.member_id, *(driver.answers[token].member_id for token in tokens[1:])]
    share = 4 // len(members)
    shares = {name: assignment(*range(at * share, (at + 1) * share)) for at, name in enumerate(members)}
    for name, each in zip(reversed(members), reversed(instances), strict=True):
        driver.sync(name, first.generation_id, shares, instance=each)
    return members


def partitions(owned: Owned | None) -> list[int]:
    """The partitions, which are told."""
    assert owned is not None
    return sorted(index for _, index in owned)


def rejoin(driver: ConsumerDriver, member: str, *owned: int, **join: Any) -> tuple[int, list[int]]:
    """JoinGroup and SyncGroup of a member that has these; the generation, and what it has then."""
    joined = driver.join(member=member, protocols={"range": metadata(*owned)}, **join)
    assert (joined.error_code, joined.leader, joined.members) == (0, "", [])
    synced = driver.sync(joined.member_id, joined.generation_id, protocol_type="consumer", protocol="range")
    assert synced.error_code == 0
    return joined.generation_id, partitions(assigned(driver.some, synced))
