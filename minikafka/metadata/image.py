"""The cluster's metadata at one offset of the metadata log. Immutable; the next image shares the unchanged parts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from minikafka.metadata.records import ConfigResourceType, PartitionRecord, QuotaEntity, RegisterBrokerRecord
from minikafka.model import NO_EPOCH, NO_NODE, NO_OFFSET, UNASSIGNED_DIRECTORY, Endpoint, TopicPartition
from minikafka.sasl.scram import ScramCredential, ScramMechanism
from minikafka.security.acls import AclBinding

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class ConfigResource(NamedTuple):
    """The owner of a configuration: a topic, a group, a broker by id, or every broker (name "")."""

    resource_type: ConfigResourceType
    name: str


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A registered broker. ``log_dirs`` are the ids of its online log directories; empty: not reported."""

    broker_id: int
    incarnation_id: UUID
    broker_epoch: int
    listeners: Mapping[str, Endpoint]
    rack: str | None
    log_dirs: tuple[UUID, ...]
    fenced: bool
    in_controlled_shutdown: bool
    previous_broker_epoch: int = NO_EPOCH
    """The registration that its log directories name until it is unfenced for the first time; -1 from then on, and when
    there is none."""

    @property
    def is_live(self) -> bool:
        """True while it may lead, be in sync, and be named to clients. In controlled shutdown it is still reachable."""
        return not self.fenced

    def is_online(self, directory: UUID) -> bool:
        """False when the log directory failed. An unknown one counts as online (KIP-858)."""
        return directory == UNASSIGNED_DIRECTORY or not self.log_dirs or directory in self.log_dirs


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """A partition's assignment and state.

    ``leader`` is -1 while it is offline; the ISR may be empty then. ``elr``: replicas outside of the ISR with every
    committed record. ``last_known_elr``: the last leader, while there is no leader (KIP-966). During a reassignment
    ``replicas`` are the target's, then ``removing_replicas``; ``adding_replicas`` are new (KIP-455).
    ``directories`` has one log directory per replica, or is empty (KIP-858). ``unclean_leader_epoch`` is the leader
    epoch of the last unclean election, -1 without one: it excuses cuts below a high watermark (row R26).
    ``first_leader_epoch`` is what it began with: a log with an earlier one is of a topic that had the name before.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    directories: tuple[UUID, ...] = ()
    unclean_leader_epoch: int = NO_EPOCH
    first_leader_epoch: int = 0

    @property
    def is_reassigning(self) -> bool:
        """True during a reassignment."""
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """The assignment after completion of the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.removing_replicas)

    @property
    def original_replicas(self) -> tuple[int, ...]:
        """The assignment after a cancellation of the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.adding_replicas)

    def directory_id_of(self, replica: int) -> UUID:
        """The log directory of a replica, if the cluster knows it."""
        if replica not in self.replicas or not self.directories:
            return UNASSIGNED_DIRECTORY
        return self.directories[self.replicas.index(replica)]

    @property
    def preferred_leader(self) -> int:
        """The first assigned replica."""
        return self.replicas[0]

    @property
    def is_offline(self) -> bool:
        """True while it has no leader."""
        return self.leader == NO_NODE


def _names(kind: type[DataclassInstance]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


# An image and its record have the same fields in the same order: none is copied by hand.
BROKER_FIELDS: Final = attrgetter(*_names(BrokerImage))
PARTITION_FIELDS: Final = attrgetter(*_names(PartitionImage))
assert _names(RegisterBrokerRecord) == _names(BrokerImage)
assert _names(PartitionRecord)[2:] == _names(PartitionImage)


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic: its partitions by index, from 0 without a gap."""

    name: str
    topic_id: UUID
    partitions: Mapping[int, PartitionImage]


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The state after the record at ``offset``, which was written in ``epoch``.

    The mappings are read only: other images share them.
    """

    offset: int = NO_OFFSET
    epoch: int = NO_EPOCH
    cluster_id: str = ""
    metadata_version: int = 0
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    topics_by_name: Mapping[str, TopicImage] = field(default_factory=dict)
    topic_names: Mapping[UUID, str] = field(default_factory=dict)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0
    features: Mapping[str, int] = field(default_factory=dict)
    """Levels in force, by name; those at 0 are not in it."""
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    first_leader_epoch: int = 0
    """What new partitions begin with: later than all leader epochs of deleted ones."""
    scram_credentials: Mapping[str, Mapping[ScramMechanism, ScramCredential]] = field(default_factory=dict)
    """By user."""
    acls: Mapping[UUID, AclBinding] = field(default_factory=dict)

    def topic(self, name: str) -> TopicImage | None:
        """The topic of that name."""
        return self.topics_by_name.get(name)

    def topic_by_id(self, topic_id: UUID) -> TopicImage | None:
        """The topic of that id."""
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics_by_name[name]

    def topics(self) -> Collection[TopicImage]:
        """All topics, in no particular order."""
        return self.topics_by_name.values()

    def partition(self, tp: TopicPartition) -> PartitionImage | None:
        """The partition; None for an unknown topic or index."""
        topic = self.topics_by_name.get(tp.topic)
        return None if topic is None else topic.partitions.get(tp.partition)

    def partitions(self) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        """Every partition of the cluster with its topic and index."""
        for topic in self.topics_by_name.values():
            for index, partition in topic.partitions.items():
                yield topic, index, partition

    def broker(self, broker_id: int) -> BrokerImage | None:
        """The registered broker of that id, live or not."""
        return self.brokers.get(broker_id)

    def live_brokers(self) -> list[BrokerImage]:
        """The brokers that are not fenced, by id."""
        return [broker for _, broker in sorted(self.brokers.items()) if broker.is_live]

    def is_live(self, broker_id: int) -> bool:
        """True when the broker is registered and not fenced."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_live

    def config_of(self, resource: ConfigResource) -> Mapping[str, str]:
        """The dynamic settings of a resource; may be empty."""
        return self.configs.get(resource, {})

    def scram_credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """What a node knows of a user's password by a mechanism; None: there is none."""
        return self.scram_credentials.get(user, {}).get(mechanism)

    def topic_overrides(self, name: str) -> Mapping[str, str]:
        """The settings of a topic, for :class:`minikafka.config.TopicConfig`."""
        return self.config_of(ConfigResource(ConfigResourceType.TOPIC, name))


EMPTY_IMAGE: Final = MetadataImage()
