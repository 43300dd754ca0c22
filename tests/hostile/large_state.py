"""A node with much of everything: partitions, segments of one log, groups with offsets. Built through its own APIs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from live_attack import Target
from live_cluster import eventually
from live_wire import Wire, api_key, batch, produce_request

from minikafka.errors import ErrorCode
from minikafka.wire.codec import encode
from minikafka.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest
from minikafka.wire.messages.metadata import MetadataRequest
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.wire.schema import Message

TOPICS: Final = [f"topic-{number:04}" for number in range(1_000)]
PARTITIONS: Final = range(3)
"""Of each topic."""
LONG: Final = "long"
"""A topic whose only partition has many segments."""
SEGMENTS: Final = 2_000
GROUPS: Final = [f"group-{number:04}" for number in range(2_000)]
TOPICS_OF_A_GROUP: Final = 10
PIPELINED: Final = 500


def build(target: Target) -> None:
    """Give a new node all of that."""
    with target.wire() as wire:
        create_topics(wire)
        pipelined(wire, produce_request(LONG, batch(b"x" * 1900)), 9, SEGMENTS)
        eventually(lambda: has_coordinator(wire), "a coordinator")
        commit_offsets(wire)


def create_topics(wire: Wire) -> None:
    """All of them, as fast as the controller lets clients make partitions."""
    for first in range(0, len(TOPICS), 500):
        new = [
            CreatableTopic(name=name, num_partitions=len(PARTITIONS), replication_factor=1)
            for name in TOPICS[first : first + 500]
        ]
        assert not {result.error_code for result in wire.ask(CreateTopicsRequest(topics=new), 7).topics} - {0}
    small = CreatableTopicConfig(name="segment.bytes", value="2000")
    long = CreatableTopic(name=LONG, num_partitions=1, replication_factor=1, configs=[small])
    assert not wire.ask(CreateTopicsRequest(topics=[long]), 7).topics[0].error_code
    eventually(lambda: is_led(wire), "the last topic to have a leader")


def is_led(wire: Wire) -> bool:
    return wire.produce(LONG, b"first") >= 0 and wire.produce(TOPICS[-1], b"first", partition=PARTITIONS[-1]) >= 0


def has_coordinator(wire: Wire) -> bool:
    """Every shard of the offsets topic is loaded."""
    found = wire.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=GROUPS), 4).coordinators
    if any(one.error_code for one in found):
        return False
    return all(wire.ask(commit_of(group), 8).topics[0].partitions[0].error_code == 0 for group in GROUPS[:200])


def commit_of(group: str) -> OffsetCommitRequest:
    """Offsets of some topics for a group without members."""
    first = GROUPS.index(group) % (len(TOPICS) - TOPICS_OF_A_GROUP)
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[OffsetCommitRequestPartition(partition_index=n, committed_offset=1) for n in PARTITIONS],
        )
        for name in TOPICS[first : first + TOPICS_OF_A_GROUP]
    ]
    return OffsetCommitRequest(group_id=group, topics=topics)


def commit_offsets(wire: Wire) -> None:
    for first in range(0, len(GROUPS), PIPELINED):
        send_and_receive(wire, [commit_of(group) for group in GROUPS[first : first + PIPELINED]], 8)


def pipelined(wire: Wire, request: Message, version: int, count: int) -> None:
    """The same request again and again."""
    body = encode(request, version)
    for first in range(0, count, PIPELINED):
        some = range(min(PIPELINED, count - first))
        for _ in some:
            wire.send_body(api_key(request), version, body)
        for _ in some:
            wire.receive_frame()


def send_and_receive(wire: Wire, requests: Iterable[Message], version: int) -> None:
    requests = list(requests)
    for request in requests:
        wire.send(request, version)
    for request in requests:
        answer = wire.receive(request, version)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def knows_everything(wire: Wire) -> bool:
    """After a restart: every partition has a leader."""
    topics = wire.ask(MetadataRequest(topics=None), 9).topics
    return len(topics) > len(TOPICS) and not any(p.error_code for topic in topics for p in topic.partitions)
