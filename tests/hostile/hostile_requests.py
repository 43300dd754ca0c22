"""Requests with as many elements as a node lets pass, for every API whose requests are lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from minikafka.broker.context import CLIENT_ELEMENTS_MAX
from minikafka.wire.messages.alter_configs import AlterableConfig as ReplacingConfig
from minikafka.wire.messages.alter_configs import AlterConfigsRequest
from minikafka.wire.messages.alter_configs import AlterConfigsResource as ReplacedResource
from minikafka.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from minikafka.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.wire.messages.delete_groups import DeleteGroupsRequest
from minikafka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from minikafka.wire.messages.describe_groups import DescribeGroupsRequest
from minikafka.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from minikafka.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from minikafka.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest
from minikafka.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from minikafka.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minikafka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from minikafka.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from minikafka.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from minikafka.wire.schema import Message

MOST: Final = CLIENT_ELEMENTS_MAX
HALF: Final = MOST // 2
"""For lists of lists: each element brings one more."""

Names = Sequence[str]
Request = tuple[Callable[[], Message], int]
"""What makes it, and its version."""


def names(count: int) -> list[str]:
    """Short and distinct."""
    return [f"{number:x}" for number in range(count)]


def changed(setting: str) -> list[AlterConfigsResource]:
    """Of more brokers than there are, a fourth of the largest request: each element brings one more."""
    configs = [AlterableConfig(name=setting, value="1")]
    return [AlterConfigsResource(resource_type=4, resource_name=name, configs=configs) for name in names(HALF // 2)]


def replaced(setting: str) -> list[ReplacedResource]:
    """The same in the older request."""
    configs = [ReplacingConfig(name=setting, value="1")]
    return [ReplacedResource(resource_type=4, resource_name=name, configs=configs) for name in names(HALF // 2)]


def list_offsets(timestamp: int) -> Message:
    asked = [ListOffsetsPartition(partition_index=n, timestamp=timestamp, current_leader_epoch=-1) for n in range(HALF)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="honest", partitions=asked)])


def metadata(topics: Names, *, may_create: bool = False) -> Message:
    named = [MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest(topics=named, allow_auto_topic_creation=may_create)


def offset_commit(topic: str) -> Message:
    partitions = [OffsetCommitRequestPartition(partition_index=n, committed_offset=1) for n in range(MOST - 1)]
    return OffsetCommitRequest(group_id="group", topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)])


def txn_offset_commit(topic: str) -> Message:
    partitions = [TxnOffsetCommitRequestPartition(partition_index=n, committed_offset=1) for n in range(MOST - 1)]
    topics = [TxnOffsetCommitRequestTopic(name=topic, partitions=partitions)]
    return TxnOffsetCommitRequest(transactional_id="x", group_id="group", producer_id=1, topics=topics)


def offset_fetch_of_partitions() -> Message:
    topics = [OffsetFetchRequestTopics(name="honest", partition_indexes=list(range(MOST - 2)))]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="group", topics=topics)])


def offset_for_leader_epoch() -> Message:
    asked = [OffsetForLeaderPartition(partition=n, current_leader_epoch=-1, leader_epoch=0) for n in range(MOST - 1)]
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderTopic(topic="honest", partitions=asked)])


def produce() -> Message:
    topics = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=b"")]) for name in names(HALF)
    ]
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics)


def fetch() -> Message:
    topics = [FetchTopic(topic=name, partitions=[FetchPartition(partition=0)]) for name in names(HALF)]
    return FetchRequest(max_wait_ms=0, topics=topics)


LARGEST: Final[dict[str, Request]] = {
    "Metadata, one topic": (lambda: metadata(["honest"] * MOST), 9),
    "Metadata, no topic": (lambda: metadata(names(MOST)), 9),
    "DescribeTopicPartitions": (
        lambda: DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in names(MOST)]),
        0,
    ),
    "ListOffsets, latest": (lambda: list_offsets(-1), 7),
    "ListOffsets, by time": (lambda: list_offsets(5), 7),
    "ListOffsets, newest": (lambda: list_offsets(-3), 7),
    "DescribeConfigs, one topic": (
        lambda: DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=2, resource_name="honest")] * MOST
        ),
        4,
    ),
    "DescribeConfigs, no topic": (
        lambda: DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=2, resource_name=name) for name in names(MOST)]
        ),
        4,
    ),
    "OffsetFetch, one group": (offset_fetch_of_partitions, 8),
    "OffsetFetch, many groups": (
        lambda: OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in names(MOST)]
        ),
        8,
    ),
    "OffsetCommit, unknown partitions": (lambda: offset_commit("honest"), 8),
    "OffsetCommit, unknown topic": (lambda: offset_commit("missing"), 8),
    "TxnOffsetCommit, unknown partitions": (lambda: txn_offset_commit("honest"), 5),
    "FindCoordinator": (lambda: FindCoordinatorRequest(key_type=0, coordinator_keys=names(MOST)), 4),
    "DescribeGroups": (lambda: DescribeGroupsRequest(groups=names(MOST)), 5),
    "DeleteGroups": (lambda: DeleteGroupsRequest(groups_names=names(MOST)), 2),
    "DeleteTopics": (
        lambda: DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names(MOST)], timeout_ms=1000),
        6,
    ),
    "CreateTopics, none that may be": (
        lambda: CreateTopicsRequest(
            topics=[CreatableTopic(name=f"{name}/", num_partitions=1, replication_factor=1) for name in names(MOST)],
            timeout_ms=1000,
        ),
        7,
    ),
    "CreatePartitions": (
        lambda: CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=3) for name in names(MOST)], timeout_ms=1000
        ),
        3,
    ),
    "IncrementalAlterConfigs": (
        lambda: IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=2, resource_name=name) for name in names(MOST)]
        ),
        1,
    ),
    "AlterConfigs, half of them about certificates": (
        lambda: AlterConfigsRequest(resources=[*replaced("log.retention.ms"), *replaced("ssl.keystore.location")]),
        2,
    ),
    "IncrementalAlterConfigs, half of them about certificates": (
        lambda: IncrementalAlterConfigsRequest(
            resources=[*changed("log.retention.ms"), *changed("ssl.keystore.location")]
        ),
        1,
    ),
    "OffsetForLeaderEpoch": (offset_for_leader_epoch, 4),
    "DescribeLogDirs": (
        lambda: DescribeLogDirsRequest(
            topics=[DescribableLogDirTopic(topic=name, partitions=[0]) for name in names(HALF)]
        ),
        4,
    ),
    "Produce": (produce, 9),
    "Fetch": (fetch, 11),
}
