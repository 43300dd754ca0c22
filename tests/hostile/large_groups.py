"""Large consumer groups of the newer protocol, and requests about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hostile_requests import HALF, MOST
from large_state import GROUPS, TOPICS
from live_cluster import eventually
from live_wire import Wire

from minikafka.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from minikafka.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, HeartbeatTopicPartitions
from minikafka.wire.schema import Message

CROWD: Final = "crowd"
MEMBERS: Final = 300
TOPICS_OF_A_MEMBER: Final = 100
"""What one member gets is a hundredth of it: the target assignments of all change with each that comes."""
EXPRESSIONS: Final = 31
"""As many as a group may have; each matches all topics."""


def heartbeat(group: str, member: str, epoch: int, **fields: object) -> Message:
    """Who joins has five minutes, and no partitions."""
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 300_000, "topic_partitions": [], "subscribed_topic_names": []} | fields
    return ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **fields)


def gather(wire: Wire) -> None:
    """The crowd joins, all at once."""
    first, *others = joins("member")
    eventually(lambda: wire.ask(first, 1).error_code == 0, "a coordinator of the crowd")
    others = list(others)
    for request in others:
        wire.send(request, 1)
    codes = {wire.receive(request, 1).error_code for request in others}
    assert codes == {0}


def joins(name: str, *, differ: bool = False) -> Iterable[Message]:
    """Of many members; in a group of their own, each without one of the topics, if they ``differ``."""
    for number in range(MEMBERS):
        wanted = TOPICS[:TOPICS_OF_A_MEMBER]
        if differ:
            del wanted[number % TOPICS_OF_A_MEMBER]
        group = "mixed crowd" if differ else CROWD
        yield heartbeat(group, f"{name}-{number}", 0, subscribed_topic_names=wanted)


def expressions() -> Iterable[Message]:
    """Members that want everything, each in its own words."""
    for _ in range(3):
        for number in range(EXPRESSIONS):
            yield heartbeat("readers", f"reader-{number}", 0, subscribed_topic_regex=f"topic-.*|{number}")


def told_much() -> Message:
    """Of a member that is not there."""
    told = [HeartbeatTopicPartitions(partitions=list(range(MOST - 1)))]
    return heartbeat(CROWD, "nobody", 7, topic_partitions=told)


def wanted_much() -> Iterable[Message]:
    """More names than a group may have, by members whose requests are as large as they may be."""
    names = [f"{'t' * 750}-{n}" for n in range(HALF)]
    return (heartbeat("greedy", f"greedy-{number}", 0, subscribed_topic_names=names) for number in range(4))


def describe() -> Message:
    """The crowd, and many that are none."""
    return ConsumerGroupDescribeRequest(group_ids=[CROWD, *GROUPS])


def leaves(name: str) -> Iterable[Message]:
    return (heartbeat(CROWD, f"{name}-{number}", -1) for number in range(MEMBERS))
