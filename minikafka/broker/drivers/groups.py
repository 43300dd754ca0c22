"""The group coordinators of this node: the shards of ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Final
from uuid import UUID

from minikafka.broker.authorizer import Authorizer
from minikafka.broker.drivers.group_topics import GroupTopics, concerns_groups
from minikafka.broker.drivers.shards import Shard, Shards
from minikafka.broker.logs import one_line
from minikafka.broker.partition import Partition
from minikafka.broker.patterns import Patterns
from minikafka.broker.ports import Ports
from minikafka.broker.replicas import Replicas, StagedMarker
from minikafka.config import BrokerConfig, GroupConfig
from minikafka.errors import KafkaError
from minikafka.event_log import get_logger
from minikafka.groups.consumer.question import AssignmentQuestion
from minikafka.groups.coordinator import GroupCoordinator
from minikafka.groups.effects import MakeAssignment, ResolveRegexes
from minikafka.groups.memory import Memory
from minikafka.groups.settings import ConsumerTimes, CoordinatorSettings, MigrationPolicy
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.effective import broker_config, concern_brokers, group_config
from minikafka.metadata.image import MetadataImage
from minikafka.model import CONSUMER_OFFSETS_TOPIC, NO_PRODUCER_ID, TopicPartition
from minikafka.records.batch import BatchHeader
from minikafka.records.control import parse_end_txn_marker
from minikafka.records.record import Record
from minikafka.security.acls import AclOperation, ResourceType

log = get_logger()

GroupShard = Shard[GroupCoordinator]

TOLD_APART_MS: Final = 60_000


class Groups(Shards[GroupCoordinator]):
    """Found by group id."""

    def __init__(
        self,
        ports: Ports,
        replicas: Replicas,
        image: Callable[[], MetadataImage],
        patterns: Patterns,
        authorizer: Authorizer,
    ) -> None:
        super().__init__(CONSUMER_OFFSETS_TOPIC, self._new, ports, replicas, image)
        self._config = ports.config
        self._settings = _settings(ports.config)
        self._topics = GroupTopics(image)
        self._memory = Memory(ports.config.group_memory_max_bytes, self._tell_of_members)
        self._offsets_memory = Memory(ports.config.offsets_memory_max_bytes, self._tell_of_offsets)
        self._silent_until_ms: dict[Memory, int] = {}
        self._patterns = patterns
        self._authorizer = authorizer
        self.replay = _replay
        self.carry_out = self._answer

    def on_leading(self, partition: Partition) -> None:
        """This node became leader of a partition."""
        super().on_leading(partition)
        tp = partition.topic_partition
        if tp.topic == CONSUMER_OFFSETS_TOPIC:
            self._replicas.marker_listeners[tp] = partial(self._on_marker, self._shards[tp.partition])

    def on_leading_no_more(self, tp: TopicPartition) -> None:
        """Another node leads it, or it was deleted."""
        if tp.topic == CONSUMER_OFFSETS_TOPIC:
            self._replicas.marker_listeners.pop(tp, None)
        super().on_leading_no_more(tp)

    def _on_marker(self, shard: GroupShard, marker: StagedMarker) -> None:
        """The end of a transaction is on its way to the log, in which it takes effect in its place."""
        shard.when_committed(
            marker.offset,
            lambda now_ms: shard.coordinator.on_marker(marker.producer_id, now_ms, commits=marker.commits),
        )

    def last_end_of(self, partition: TopicPartition, producer_id: int) -> int:
        """A number that is another one after each end of a transaction of the producer in that partition.

        What the transaction's coordinator says may be old when its answer comes. If a transaction has ended since it
        was asked, records could get into the log behind the marker of theirs, and nobody would end them (row T48).
        """
        return self._replicas.last_end_of(partition, producer_id)

    def _new(self, _partition: Partition) -> GroupCoordinator:
        clock = self._ports.clock
        return GroupCoordinator(
            self._settings,
            lambda: str(self._ports.new_uuid()),
            clock.stamp_ms,
            self._topic_id_of,
            self._topics,
            self._times_of,
            clock.age_ms,
            self._memory,
            self._offsets_memory,
        )

    def _tell_of_members(self) -> None:
        memory = self._memory
        if self._may_tell(memory):
            why = f"they take {memory.held_bytes} bytes in all groups; group.memory.max.bytes={memory.limit_bytes}"
            log.warning("members of groups are refused", why=why)

    def _tell_of_offsets(self) -> None:
        memory = self._offsets_memory
        if self._may_tell(memory):
            limit = f"new ones get three quarters of offsets.memory.max.bytes={memory.limit_bytes}"
            why = f"they take {memory.held_bytes} bytes in all groups; {limit}"
            log.warning("commits of groups are refused", why=why)

    def _may_tell(self, memory: Memory) -> bool:
        """Once in a while: a client asks again and again."""
        now_ms = self._ports.clock.monotonic_ms()
        if now_ms < self._silent_until_ms.get(memory, 0):
            return False
        self._silent_until_ms[memory] = now_ms + TOLD_APART_MS
        return True

    def _times_of(self, group_id: str) -> ConsumerTimes:
        """Settings of the group's own, held within the bounds of this node (row G13)."""
        config = group_config(self._image(), group_id, self._config)
        return ConsumerTimes(
            config.bounded(GroupConfig.consumer_session_timeout_ms),
            config.bounded(GroupConfig.consumer_heartbeat_interval_ms),
            config.bounded(GroupConfig.consumer_assignment_interval_ms),
        )

    def _topic_id_of(self, name: str) -> UUID | None:
        topic = self._image().topic(name)
        return None if topic is None else topic.topic_id

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Offsets of deleted topics are dropped, and consumer groups look at their topics and settings again."""
        if concern_brokers(delta.configs):
            self._config = broker_config(delta.after, self._ports.config)
        if concerns_groups(delta):
            for shard in self:
                shard.coordinator.on_topics_changed()
        if delta.deleted_topics:
            for shard in self:
                shard.step(shard.coordinator.on_topics_deleted(self._ports.clock.monotonic_ms()))

    def _answer(self, shard: GroupShard, effect: object) -> None:
        """Begin to find the answer to a question."""
        if self._ports.tasks.is_closed:
            return
        if isinstance(effect, ResolveRegexes):
            self._ports.tasks.start(self._match(shard, effect), "regular expressions of a group")
        else:
            assert isinstance(effect, MakeAssignment)
            self._ports.tasks.start(self._assign(shard, effect.question), "target assignment of a group")

    async def _assign(self, shard: GroupShard, question: AssignmentQuestion) -> None:
        targets = await self._ports.threads.assign(question.answer)
        shard.step(shard.coordinator.on_assigned(question, targets, self._ports.clock.monotonic_ms()))

    async def _match(self, shard: GroupShard, question: ResolveRegexes) -> None:
        """An expression that takes too long matches nothing; members were let in with good ones only."""
        found: dict[str, tuple[str, ...]] = {}
        for regex in question.regexes:
            try:
                topics = await self._patterns.matching(regex, self._image().topics(), attrgetter("name"))
            except KafkaError as error:
                log.warning("regular expression not resolved", group=question.group_id, why=one_line(error))
                topics = []
            found[regex] = tuple(topic.name for topic in topics if self._is_visible(topic.name, question))
        now_ms = self._ports.clock.monotonic_ms()
        shard.step(shard.coordinator.on_regexes_resolved(question.group_id, found, question.version, now_ms))

    def _is_visible(self, topic: str, question: ResolveRegexes) -> bool:
        return self._authorizer.is_allowed(
            question.user, question.host, AclOperation.DESCRIBE, ResourceType.TOPIC, topic
        )


def _replay(coordinator: GroupCoordinator, batch: BatchHeader, record: Record, now_ms: int) -> bool:
    if batch.is_control:
        marker = parse_end_txn_marker(record)
        if marker is not None:
            coordinator.on_marker(batch.producer_id, now_ms, commits=marker.is_commit)
        return marker is not None
    if record.key is None:
        return False
    producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER_ID
    return coordinator.replay(record.key, record.value, now_ms, producer_id)


def _settings(config: BrokerConfig) -> CoordinatorSettings:
    return CoordinatorSettings(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        max_size=config.group_max_size,
        consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        consumer_assignment_interval_ms=config.group_consumer_assignment_interval_ms,
        consumer_max_size=config.group_consumer_max_size,
        consumer_assignors=config.group_consumer_assignors,
        consumer_migration_policy=MigrationPolicy(config.group_consumer_migration_policy),
        consumer_regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_commit_timeout_ms=config.offsets_commit_timeout_ms,
    )
