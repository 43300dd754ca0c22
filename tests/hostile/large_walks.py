"""Requests that walk everything that a node with a large state has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Final, NamedTuple

import large_groups
from hostile_requests import MOST
from large_state import GROUPS, PARTITIONS, TOPICS
from live_wire import ALL, batch

from minikafka.metadata.records import ConfigResourceType
from minikafka.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from minikafka.wire.messages.alter_configs import AlterableConfig as ReplacingConfig
from minikafka.wire.messages.alter_configs import AlterConfigsRequest
from minikafka.wire.messages.alter_configs import AlterConfigsResource as ReplacedResource
from minikafka.wire.messages.delete_groups import DeleteGroupsRequest
from minikafka.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from minikafka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from minikafka.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from minikafka.wire.messages.describe_groups import DescribeGroupsRequest
from minikafka.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from minikafka.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from minikafka.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from minikafka.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from minikafka.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest
from minikafka.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from minikafka.wire.messages.list_config_resources import ListConfigResourcesRequest
from minikafka.wire.messages.list_groups import ListGroupsRequest
from minikafka.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minikafka.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from minikafka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from minikafka.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from minikafka.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.wire.schema import Message

RATES: Final = count(10**9)


class Walk(NamedTuple):
    """Requests that are sent at once, and answered."""

    version: int
    make: Callable[[], Iterable[Message]]
    is_repeatable: bool = True
    """It costs as much when it is sent again."""


REPLICAS: Final = ",".join(f"{partition}:1" for partition in range(4_500))
"""Nearly as long as a string may be."""


def one(version: int, make: Callable[[], Message]) -> Walk:
    return Walk(version, lambda: [make()])


def many(version: int, make: Callable[[], Iterable[Message]], *, is_repeatable: bool = True) -> Walk:
    return Walk(version, make, is_repeatable)


def once(version: int, make: Callable[[], Message]) -> Walk:
    """It takes away what it walks."""
    return Walk(version, lambda: [make()], is_repeatable=False)


def describe_producers() -> Message:
    asked = [TopicRequest(name=name, partition_indexes=list(PARTITIONS)) for name in TOPICS]
    return DescribeProducersRequest(topics=asked)


def list_offsets(timestamp: int) -> Message:
    asked = [ListOffsetsPartition(partition_index=n, timestamp=timestamp, current_leader_epoch=-1) for n in PARTITIONS]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=asked) for name in TOPICS])


def describe_configs(topics: Sequence[str]) -> Message:
    resources = [DescribeConfigsResource(resource_type=ConfigResourceType.TOPIC, resource_name=name) for name in topics]
    return DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=True)


def alter_configs(kind: ConfigResourceType, names: Iterable[str], setting: str, value: str) -> Message:
    configs = [AlterableConfig(name=setting, config_operation=0, value=value)]
    resources = [AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs) for name in names]
    return IncrementalAlterConfigsRequest(resources=resources)


def replace_configs() -> Message:
    configs = [ReplacingConfig(name="retention.ms", value="7200000")]
    kind = ConfigResourceType.TOPIC
    return AlterConfigsRequest(
        resources=[ReplacedResource(resource_type=kind, resource_name=name, configs=configs) for name in TOPICS]
    )


def alter_client_quotas(clients: Iterable[int] = range(3_000), *, remove: bool = False) -> Message:
    """Each time others than before."""
    op = OpData(key="consumer_byte_rate", value=float(next(RATES)), remove=remove)
    return AlterClientQuotasRequest(
        entries=[
            EntryData(entity=[EntityData(entity_type="client-id", entity_name=f"client-{n}")], ops=[op])
            for n in clients
        ]
    )


def describe_no_quotas() -> Message:
    """None has a user."""
    return DescribeClientQuotasRequest(components=[ComponentData(entity_type="user", match_type=2)])


def offset_for_leader_epoch() -> Message:
    asked = [OffsetForLeaderPartition(partition=n, current_leader_epoch=-1, leader_epoch=0) for n in PARTITIONS]
    topics = [OffsetForLeaderTopic(topic=name, partitions=asked) for name in TOPICS]
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)


def offset_fetch_of_all() -> Message:
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in GROUPS])


def offset_fetch_of_one() -> Message:
    """As many partitions of one group as a request may name."""
    topics = [OffsetFetchRequestTopics(name=TOPICS[0], partition_indexes=list(range(MOST - 2)))]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUPS[0], topics=topics)])


def produce() -> Message:
    data = [PartitionProduceData(index=n, records=bytes(batch(b"x" * 100))) for n in PARTITIONS]
    return ProduceRequest(
        acks=ALL, timeout_ms=30_000, topic_data=[TopicProduceData(name=name, partition_data=data) for name in TOPICS]
    )


def fetch(*, wait_ms: int = 0, offset: int = 0, max_bytes: int = 100, min_bytes: int = 1 << 20) -> Message:
    """All partitions, from the same offset."""
    asked = [FetchPartition(partition=n, fetch_offset=offset, partition_max_bytes=max_bytes) for n in PARTITIONS]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=16 << 20,
        topics=[FetchTopic(topic=name, partitions=asked) for name in TOPICS],
    )


def fetch_of_unknown() -> Message:
    asked = [FetchPartition(partition=n, partition_max_bytes=100) for n in range(MOST - 1)]
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=TOPICS[0], partitions=asked)])


def delete_records() -> Message:
    asked = [DeleteRecordsPartition(partition_index=n, offset=-1) for n in PARTITIONS]
    return DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=name, partitions=asked) for name in TOPICS], timeout_ms=30_000
    )


def describe_log_dirs_named() -> Message:
    named = [DescribableLogDirTopic(topic=TOPICS[0], partitions=list(range(MOST - 1)))]
    return DescribeLogDirsRequest(topics=named)


def elect_named() -> Message:
    named = [TopicPartitions(topic=TOPICS[0], partitions=list(range(MOST - 1)))]
    return ElectLeadersRequest(election_type=0, topic_partitions=named)


def metadata(names: Iterable[str] | None) -> Message:
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


WALKS: Final[dict[str, Walk]] = {
    "Metadata of all": one(9, lambda: metadata(None)),
    "Metadata by name": one(8, lambda: metadata(TOPICS)),
    "DescribeTopicPartitions": one(0, lambda: DescribeTopicPartitionsRequest(response_partition_limit=2000)),
    "DescribeConfigs": one(4, lambda: describe_configs(TOPICS)),
    "DescribeLogDirs of all": one(4, lambda: DescribeLogDirsRequest(topics=None)),
    "DescribeLogDirs, named": one(4, describe_log_dirs_named),
    "ListGroups": one(5, ListGroupsRequest),
    "ListGroups, filtered": one(5, lambda: ListGroupsRequest(states_filter=[f"State{n}" for n in range(MOST - 1000)])),
    "DescribeGroups": one(5, lambda: DescribeGroupsRequest(groups=list(GROUPS))),
    "FindCoordinator": one(4, lambda: FindCoordinatorRequest(key_type=0, coordinator_keys=list(GROUPS))),
    "OffsetFetch of all groups": one(8, offset_fetch_of_all),
    "OffsetFetch of one group": one(8, offset_fetch_of_one),
    "ListOffsets, latest": one(7, lambda: list_offsets(-1)),
    "ListOffsets, by time": one(7, lambda: list_offsets(5)),
    "OffsetForLeaderEpoch": one(4, offset_for_leader_epoch),
    "Produce": one(9, produce),
    "Fetch": one(11, fetch),
    "Fetch that waits": one(11, lambda: fetch(wait_ms=50, offset=1)),
    "Fetch of what is not there": one(11, fetch_of_unknown),
    "DeleteRecords": one(2, delete_records),
    "DescribeProducers": one(0, describe_producers),
    "ListPartitionReassignments": one(0, ListPartitionReassignmentsRequest),
    "ElectLeaders of all": one(2, lambda: ElectLeadersRequest(election_type=0, topic_partitions=None)),
    "ElectLeaders, named": one(2, elect_named),
    "ConsumerGroupHeartbeat, a crowd joins again": many(1, lambda: large_groups.joins("member")),
    "ConsumerGroupHeartbeat, others join": many(1, lambda: large_groups.joins("other", differ=True)),
    "ConsumerGroupHeartbeat, expressions": many(1, large_groups.expressions),
    "ConsumerGroupHeartbeat, told of much": one(1, large_groups.told_much),
    "ConsumerGroupHeartbeat, wanted much": many(1, large_groups.wanted_much),
    "ConsumerGroupDescribe": one(1, large_groups.describe),
    "ConsumerGroupHeartbeat, a crowd leaves": many(1, lambda: large_groups.leaves("member"), is_repeatable=False),
    "ListConfigResources": one(1, ListConfigResourcesRequest),
    "AlterConfigs of all topics": one(2, replace_configs),
    "AlterClientQuotas": one(1, alter_client_quotas),
    "DescribeClientQuotas of all": one(1, DescribeClientQuotasRequest),
    "DescribeClientQuotas of none": one(1, describe_no_quotas),
    "AlterClientQuotas, one more": one(1, lambda: alter_client_quotas(range(1))),
    "AlterClientQuotas, removed": one(1, lambda: alter_client_quotas(remove=True)),
    "A setting of the node": one(
        1, lambda: alter_configs(ConfigResourceType.BROKER, ["1"], "log.retention.ms", "7200000")
    ),
    "A setting of all topics": one(
        1, lambda: alter_configs(ConfigResourceType.TOPIC, TOPICS, "retention.ms", "7200000")
    ),
    "A long list of many topics": one(
        1,
        lambda: alter_configs(
            ConfigResourceType.TOPIC, TOPICS[:130], "leader.replication.throttled.replicas", REPLICAS
        ),
    ),
    "DeleteTopics, with offsets": once(
        6, lambda: DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in TOPICS[:300]], timeout_ms=30_000)
    ),
    "DeleteGroups": once(2, lambda: DeleteGroupsRequest(groups_names=list(GROUPS))),
    "DeleteTopics": once(
        6,
        lambda: DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in TOPICS[300:]], timeout_ms=30_000),
    ),
}
"""In this order: the last ones take away what the others walk."""
