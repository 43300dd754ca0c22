"""An immutable view of brokers, topics and leaders, from the last Metadata responses (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from minikafka.errors import ErrorCode
from minikafka.model import NO_EPOCH, NO_NODE, ZERO_TOPIC_ID, Endpoint, TopicPartition
from minikafka.wire.messages.metadata import MetadataResponse, MetadataResponseTopic


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition as its cluster describes it; ``leader`` is -1 while there is none."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic, or the error of its description."""

    name: str
    topic_id: UUID
    error: ErrorCode
    is_internal: bool
    partitions: dict[int, PartitionView]

    @property
    def is_usable(self) -> bool:
        """True when it was described and has partitions."""
        return self.error is ErrorCode.NONE and bool(self.partitions)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Brokers by id, the controller's id, and the requested topics."""

    cluster_id: str | None = None
    controller_id: int = NO_NODE
    brokers: dict[int, Endpoint] = field(default_factory=dict)
    racks: dict[int, str | None] = field(default_factory=dict)
    topics: dict[str, TopicView] = field(default_factory=dict)

    @classmethod
    def of(cls, response: MetadataResponse) -> Cluster:
        """Read a response of any version."""
        return cls(
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            brokers={broker.node_id: Endpoint(broker.host, broker.port) for broker in response.brokers},
            racks={broker.node_id: broker.rack for broker in response.brokers},
            topics={topic.name: _topic_view(topic.name, topic) for topic in response.topics if topic.name is not None},
        )

    def merged_with(self, newer: Cluster, *, every_topic: bool = False) -> Cluster:
        """This view with ``newer`` merged in. Topics outside the newer request are kept, unless it was for all topics.

        An older leader (a smaller leader epoch in the same topic) is ignored: two brokers may answer in either order
        (KIP-320). An empty list of brokers is ignored, too: the broker that answered has just started.
        """
        topics = {} if every_topic else dict(self.topics)
        for name, topic in newer.topics.items():
            known = self.topics.get(name)
            topics[name] = topic if known is None else _with_newest_leaders(known, topic)
        if not newer.brokers:
            return Cluster(self.cluster_id, self.controller_id, self.brokers, self.racks, topics)
        return Cluster(newer.cluster_id, newer.controller_id, newer.brokers, newer.racks, topics)

    def partition(self, tp: TopicPartition) -> PartitionView | None:
        """The partition, if its topic was described."""
        topic = self.topics.get(tp.topic)
        return None if topic is None else topic.partitions.get(tp.partition)

    def leader_of(self, tp: TopicPartition) -> int:
        """The leader's node id; -1 without a leader, or while it is unknown."""
        view = self.partition(tp)
        return NO_NODE if view is None else view.leader

    def leader_epoch_of(self, tp: TopicPartition) -> int:
        """The newest leader epoch known, -1 when unknown."""
        view = self.partition(tp)
        return NO_EPOCH if view is None else view.leader_epoch

    def topic_id_of(self, topic: str) -> UUID:
        """The topic's id, zero while unknown."""
        view = self.topics.get(topic)
        return ZERO_TOPIC_ID if view is None else view.topic_id

    def leaders_replaced_in(self, newer: Cluster) -> set[Endpoint]:
        """Brokers that lead some partition here, and no longer lead it in ``newer``."""
        return {
            self.brokers[partition.leader]
            for name, topic in self.topics.items()
            for index, partition in topic.partitions.items()
            if partition.leader in self.brokers
            and newer.leader_epoch_of(TopicPartition(name, index)) > partition.leader_epoch
            and newer.leader_of(TopicPartition(name, index)) != partition.leader
        }

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """The topic's partitions in order, empty while unknown."""
        view = self.topics.get(topic)
        return [] if view is None else [TopicPartition(topic, index) for index in sorted(view.partitions)]


def _topic_view(name: str, topic: MetadataResponseTopic) -> TopicView:
    return TopicView(
        name=name,
        topic_id=topic.topic_id,
        error=ErrorCode.of(topic.error_code),
        is_internal=topic.is_internal,
        partitions={
            partition.partition_index: PartitionView(
                leader=partition.leader_id,
                leader_epoch=partition.leader_epoch,
                replicas=tuple(partition.replica_nodes),
                in_sync_replicas=tuple(partition.isr_nodes),
                offline_replicas=tuple(partition.offline_replicas),
            )
            for partition in topic.partitions
        },
    )


def _with_newest_leaders(known: TopicView, newer: TopicView) -> TopicView:
    if newer.error is not ErrorCode.NONE or ZERO_TOPIC_ID in (known.topic_id, newer.topic_id):
        return newer
    if known.topic_id != newer.topic_id:
        return newer
    partitions = {
        index: older
        if (older := known.partitions.get(index)) is not None and older.leader_epoch > partition.leader_epoch
        else partition
        for index, partition in newer.partitions.items()
    }
    return TopicView(newer.name, newer.topic_id, newer.error, newer.is_internal, partitions)
