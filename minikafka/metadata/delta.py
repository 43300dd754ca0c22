"""Records applied to an image: the next image and its differences.

Theory: :class:`ImageBuilder` starts with the given image, and copies a dictionary at its first change. So one change
costs a shallow copy of each dictionary that it touches, and a batch of changes costs the same. The earlier image stays
unchanged.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Set
from dataclasses import dataclass, fields, replace
from functools import singledispatchmethod
from typing import Final, Generic, TypeVar
from uuid import UUID

from minikafka.metadata.codec import MalformedError
from minikafka.metadata.features import SUPPORTED
from minikafka.metadata.image import (
    BROKER_FIELDS,
    PARTITION_FIELDS,
    BrokerImage,
    ConfigResource,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from minikafka.metadata.records import (
    FIRST_LEADER_EPOCHS,
    METADATA_VERSION,
    AccessControlEntryRecord,
    BrokerChangeRecord,
    ClientQuotaRecord,
    ClusterIdRecord,
    ConfigRecord,
    ConfigResourceType,
    FeatureLevelRecord,
    FirstLeaderEpochRecord,
    MetadataVersionRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnknownRecordError,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from minikafka.model import NO_EPOCH, OffsetAndEpoch, TopicPartition
from minikafka.sasl.scram import ScramCredential

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    """The differences of two images, by name. A topic that was deleted and created again is in both lists."""

    before: MetadataImage
    after: MetadataImage
    brokers: frozenset[int] = frozenset()
    """Brokers registered, changed or gone."""
    created_topics: frozenset[str] = frozenset()
    deleted_topics: tuple[TopicImage, ...] = ()
    """As they were before, with the id that went."""
    partitions: Set[TopicPartition] = frozenset()
    """Partitions created or changed, in order; those of deleted topics are not among them."""
    configs: frozenset[ConfigResource] = frozenset()
    """Resources with a value set or removed; those of deleted topics are not among them."""


def replay_records(image: MetadataImage, records: Iterable[Record], last: OffsetAndEpoch) -> MetadataImage:
    """The image after ``records``; ``last`` is the offset of the last one.

    Raises MalformedError when a record does not fit the image (an unknown topic or broker): the log is damaged.
    It does not find the differences: they take a look at every partition of a topic, this only at those of the records.
    """
    builder = ImageBuilder(image)
    for record in records:
        builder.replay(record)
    return builder.build(last)


def differences(
    before: MetadataImage,
    after: MetadataImage,
    topics: Iterable[str] | None = None,
    configs: Iterable[ConfigResource] | None = None,
) -> Generator[None, None, MetadataDelta]:
    """The differences of two images in the given topics and resources (default: all).

    A node that loads a snapshot compares its old image with the new one. That may take long: a generator lets the
    caller do other work between two topics.
    """
    names = set(before.topics_by_name) | set(after.topics_by_name) if topics is None else set(topics)
    resources = set(before.configs) | set(after.configs) if configs is None else set(configs)
    brokers = set(before.brokers) | set(after.brokers) if before.brokers is not after.brokers else set()
    created: set[str] = set()
    deleted: list[TopicImage] = []
    partitions: dict[TopicPartition, None] = {}  # an ordered set
    for name in sorted(names):
        yield
        old, new = before.topic(name), after.topic(name)
        if old is new:
            continue
        if old is not None and (new is None or new.topic_id != old.topic_id):
            deleted.append(old)
            old = None
        if new is not None:
            if old is None:
                created.add(name)
            partitions.update(dict.fromkeys(_changed_partitions(old, new)))
    return MetadataDelta(
        before,
        after,
        brokers=frozenset(i for i in brokers if before.brokers.get(i) != after.brokers.get(i)),
        created_topics=frozenset(created),
        deleted_topics=tuple(deleted),
        partitions=partitions.keys(),
        configs=frozenset(r for r in resources if _exists(after, r) and before.config_of(r) != after.config_of(r)),
    )


def _changed_partitions(old: TopicImage | None, new: TopicImage) -> list[TopicPartition]:
    known = old.partitions if old is not None else {}
    return [
        TopicPartition(new.name, index)
        for index, now in sorted(new.partitions.items())
        if (before := known.get(index)) is not now and before != now
    ]


def _exists(image: MetadataImage, resource: ConfigResource) -> bool:
    return resource.resource_type is not ConfigResourceType.TOPIC or image.topic(resource.name) is not None


class _Draft(Generic[K, V]):
    """A mapping that is copied at its first change."""

    __slots__ = ("_owned", "now")

    def __init__(self, original: Mapping[K, V]) -> None:
        self.now = original
        self._owned: dict[K, V] | None = None

    def own(self) -> dict[K, V]:
        if self._owned is None:
            self.now = self._owned = dict(self.now)
        return self._owned


class ImageBuilder:
    """The next image while it is built. Only :meth:`replay` turns records into state."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._brokers = _Draft(image.brokers)
        self._topics = _Draft(image.topics_by_name)
        self._topic_names = _Draft(image.topic_names)
        self._configs = _Draft(image.configs)
        self._partitions: dict[str, dict[int, PartitionImage]] = {}
        self._cluster_id = image.cluster_id
        self._metadata_version = image.metadata_version
        self._next_producer_id = image.next_producer_id
        self._features = _Draft(image.features)
        self._client_quotas = _Draft(image.client_quotas)
        self._first_leader_epoch = image.first_leader_epoch
        self._scram_credentials = _Draft(image.scram_credentials)
        self._acls = _Draft(image.acls)
        self.touched_topics: set[str] = set()
        self.touched_configs: set[ConfigResource] = set()

    def finish(self, last: OffsetAndEpoch) -> Generator[None, None, MetadataDelta]:
        """The differences that the records made, by :func:`differences`. The builder cannot be used afterwards."""
        return differences(self._image, self.build(last), self.touched_topics, self.touched_configs)

    def build(self, last: OffsetAndEpoch) -> MetadataImage:
        """The image after the replayed records. The builder cannot be used afterwards."""
        return MetadataImage(
            last.offset,
            last.epoch,
            self._cluster_id,
            self._metadata_version,
            self._brokers.now,
            self._topics.now,
            self._topic_names.now,
            self._configs.now,
            self._next_producer_id,
            self._features.now,
            self._client_quotas.now,
            self._first_leader_epoch,
            self._scram_credentials.now,
            self._acls.now,
        )

    @singledispatchmethod
    def replay(self, record: Record) -> None:
        """Replay one record."""
        raise AssertionError(f"no replay for {type(record).__name__}")

    @replay.register
    def _(self, record: MetadataVersionRecord) -> None:
        if record.metadata_version > METADATA_VERSION:
            raise UnknownRecordError(
                f"metadata version {record.metadata_version} is in force, {METADATA_VERSION} is the newest known here; "
                "this node needs a newer minikafka"
            )
        self._metadata_version = record.metadata_version

    @replay.register
    def _(self, record: ClusterIdRecord) -> None:
        self._cluster_id = record.cluster_id

    @replay.register
    def _(self, record: ProducerIdsRecord) -> None:
        self._next_producer_id = record.next_producer_id

    @replay.register
    def _(self, record: FeatureLevelRecord) -> None:
        if record.level > SUPPORTED.get(record.name, 0):
            raise UnknownRecordError(f"{record.name} is at level {record.level}; this node needs a newer minikafka")
        self._features.own()[record.name] = record.level
        if not record.level:
            del self._features.own()[record.name]

    @replay.register
    def _(self, record: FirstLeaderEpochRecord) -> None:
        self._first_leader_epoch = record.leader_epoch

    @replay.register
    def _(self, record: RegisterBrokerRecord) -> None:
        self._brokers.own()[record.broker_id] = BrokerImage(*BROKER_FIELDS(record))

    @replay.register
    def _(self, record: BrokerChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        if record.fenced is not None:
            broker = replace(broker, fenced=record.fenced)
            if not record.fenced:  # it uses this registration from now on, and has written it down
                broker = replace(broker, previous_broker_epoch=NO_EPOCH)
        if record.in_controlled_shutdown is not None:
            broker = replace(broker, in_controlled_shutdown=record.in_controlled_shutdown)
        if record.log_dirs is not None:
            broker = replace(broker, log_dirs=record.log_dirs)
        self._brokers.own()[record.broker_id] = broker

    @replay.register
    def _(self, record: UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        del self._brokers.own()[record.broker_id]

    @replay.register
    def _(self, record: TopicRecord) -> None:
        topics, names = self._topics.own(), self._topic_names.own()
        if record.name in topics or record.topic_id in names:
            raise MalformedError(f"topic {record.name} ({record.topic_id}) is created twice")
        self._partitions[record.name] = {}
        topics[record.name] = TopicImage(record.name, record.topic_id, self._partitions[record.name])
        names[record.topic_id] = record.name
        self.touched_topics.add(record.name)

    @replay.register
    def _(self, record: RemoveTopicRecord) -> None:
        topic = self._topic(record.topic_id)
        del self._topics.own()[topic.name]
        del self._topic_names.own()[topic.topic_id]
        self._partitions.pop(topic.name, None)
        if self._metadata_version >= FIRST_LEADER_EPOCHS:
            epochs = (partition.leader_epoch for partition in topic.partitions.values())
            self._first_leader_epoch = max(self._first_leader_epoch, max(epochs, default=NO_EPOCH) + 1)
        self.touched_topics.add(topic.name)
        resource = ConfigResource(ConfigResourceType.TOPIC, topic.name)
        if resource in self._configs.now:
            del self._configs.own()[resource]
            self.touched_configs.add(resource)

    @replay.register
    def _(self, record: PartitionRecord) -> None:
        self._own_partitions(record.topic_id)[record.partition] = PartitionImage(*PARTITION_FIELDS(record))

    @replay.register
    def _(self, record: PartitionChangeRecord) -> None:
        partitions = self._own_partitions(record.topic_id)
        partition = partitions.get(record.partition)
        if partition is None:
            raise MalformedError(f"change of partition {record.partition}: topic {record.topic_id} does not have it")
        partitions[record.partition] = _changed(partition, record)

    @replay.register
    def _(self, record: ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        configs = self._configs.own()
        values = dict(configs.get(resource, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if values:
            configs[resource] = values
        else:
            configs.pop(resource, None)
        self.touched_configs.add(resource)

    @replay.register
    def _(self, record: ClientQuotaRecord) -> None:
        quotas = self._client_quotas.own()
        values = dict(quotas.get(record.entity, {}))
        if record.value is None:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            quotas[record.entity] = values
        else:
            quotas.pop(record.entity, None)

    @replay.register
    def _(self, record: UserScramCredentialRecord) -> None:
        users = self._scram_credentials.own()
        credential = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
        users[record.user] = {**users.get(record.user, {}), record.mechanism: credential}

    @replay.register
    def _(self, record: RemoveUserScramCredentialRecord) -> None:
        users = self._scram_credentials.own()
        left = dict(users.get(record.user, {}))
        if left.pop(record.mechanism, None) is None:
            raise MalformedError(f"user {record.user!r} has no {record.mechanism.mechanism_name} credential to remove")
        if left:
            users[record.user] = left
        else:
            del users[record.user]

    @replay.register
    def _(self, record: AccessControlEntryRecord) -> None:
        self._acls.own()[record.acl_id] = record.acl

    @replay.register
    def _(self, record: RemoveAccessControlEntryRecord) -> None:
        if self._acls.own().pop(record.acl_id, None) is None:
            raise MalformedError(f"ACL {record.acl_id} is removed, which does not exist")

    def _broker(self, broker_id: int, broker_epoch: int) -> BrokerImage:
        broker = self._brokers.now.get(broker_id)
        if broker is None or broker.broker_epoch != broker_epoch:
            raise MalformedError(f"a change of broker {broker_id} in epoch {broker_epoch}, which is not registered")
        return broker

    def _topic(self, topic_id: UUID) -> TopicImage:
        name = self._topic_names.now.get(topic_id)
        if name is None:
            raise MalformedError(f"a change of topic {topic_id}, which does not exist")
        return self._topics.now[name]

    def _own_partitions(self, topic_id: UUID) -> dict[int, PartitionImage]:
        topic = self._topic(topic_id)
        if topic.name not in self._partitions:
            self._partitions[topic.name] = dict(topic.partitions)
            self._topics.own()[topic.name] = replace(topic, partitions=self._partitions[topic.name])
            self.touched_topics.add(topic.name)
        return self._partitions[topic.name]


CHANGEABLE: Final = tuple(each.name for each in fields(PartitionChangeRecord))[2:]


def _changed(partition: PartitionImage, change: PartitionChangeRecord) -> PartitionImage:
    """Each change is a new partition epoch; naming a leader is a new leader epoch."""
    given = {name: value for name in CHANGEABLE if (value := getattr(change, name)) is not None}
    return replace(
        partition,
        partition_epoch=partition.partition_epoch + 1,
        leader_epoch=partition.leader_epoch + ("leader" in given),
        **given,
    )
