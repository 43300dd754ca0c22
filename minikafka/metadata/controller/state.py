"""Shared state of the parts of the active controller."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, islice
from typing import Final
from uuid import UUID

from minikafka.config import BrokerConfig, TopicConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata import effective
from minikafka.metadata.controller.assignment import Rng
from minikafka.metadata.controller.partition_change import NOBODY, Circumstances
from minikafka.metadata.controller.sessions import Sessions
from minikafka.metadata.controller.standing import Standing
from minikafka.metadata.delta import replay_records
from minikafka.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from minikafka.metadata.records import Record
from minikafka.model import UNASSIGNED_DIRECTORY, OffsetAndEpoch

NO_LIMIT: Final = sys.maxsize
AcceptPartitions = Callable[[int], None]
"""Counts partitions that a request creates or deletes. KafkaError(THROTTLING_QUOTA_EXCEEDED): not now (KIP-599)."""
PORTION: Final = 500
"""Partitions looked at in one portion: to settle one takes some 20 microseconds."""


def accept_all(partitions: int) -> None:
    """No quota."""


def unknown_topic(name: str) -> KafkaError:
    """There is none of that name."""
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} not found")


def unknown_topic_id(topic_id: UUID) -> KafkaError:
    """There is none of that id."""
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic id {topic_id} not found")


class ControllerState:
    """The image with all records of this controller, committed or not; and the sessions."""

    def __init__(
        self,
        config: BrokerConfig,
        rng: Rng,
        image: MetadataImage,
        epoch: int,
        now_ms: int,
        replicas_per_broker_max: int = NO_LIMIT,
    ) -> None:
        self.rng = rng
        self.image = image
        self.epoch = epoch
        self.replicas_per_broker_max = replicas_per_broker_max
        self.sessions = Sessions(config.broker_session_timeout_ms, now_ms)
        self.static_config = config
        self.accept_partitions: AcceptPartitions = accept_all
        self._written: list[Record] = []
        self._postponed: deque[tuple[Iterator[Iterable[Record]], int]] = deque()
        self._configs_of = image.configs
        self._config: BrokerConfig | None = None
        self._topic_configs: dict[str, TopicConfig] = {}

    # -- writing ----------------------------------------------------------------------------------------------------

    @property
    def next_offset(self) -> int:
        """Offset of the next record."""
        return self.image.offset + 1

    def write(self, *records: Record) -> None:
        """Write records and replay them: the only way to change the image."""
        if records:
            last = OffsetAndEpoch(self.image.offset + len(records), self.epoch)
            self.image = replay_records(self.image, records, last)
            self._written += records

    def take_written(self) -> tuple[Record, ...]:
        """The records since the last call, for one batch of the metadata log."""
        written, self._written = self._written, []
        return tuple(written)

    # -- writing much -----------------------------------------------------------------------------------------------

    @property
    def has_postponed(self) -> bool:
        """True while a part of the present request is postponed."""
        return bool(self._postponed)

    def postpone(self, changes: Iterator[Iterable[Record]], at_once: int | None = None) -> None:
        """Write these records after the other decisions of the request; one item per examined partition or topic, so
        many in a portion (default: ``PORTION``).

        There may be 100,000. Postponed parts run in order, each on the image that the previous one left.
        """
        self._postponed.append((changes, PORTION if at_once is None else at_once))

    def write_portion(self) -> None:
        """Write the records of the next partitions."""
        changes, at_once = self._postponed[0]
        portion = list(islice(changes, at_once))
        self.write(*chain.from_iterable(portion))
        if len(portion) < at_once:
            self._postponed.popleft()

    # -- reading ----------------------------------------------------------------------------------------------------

    @property
    def config(self) -> BrokerConfig:
        """This node's settings, with the dynamic ones of the cluster. Asked for every topic of a request."""
        self._forget_old_configs()
        if self._config is None:
            self._config = effective.broker_config(self.image, self.static_config)
        return self._config

    def topic_config(self, topic: str) -> TopicConfig:
        """A topic's settings, as this node sees them. Called for every partition of a broker that comes or goes."""
        self._forget_old_configs()
        config = self._topic_configs.get(topic)
        if config is None:
            config = self._topic_configs[topic] = TopicConfig(self.image.topic_overrides(topic), self.config)
        return config

    def _forget_old_configs(self) -> None:
        if self._configs_of is not self.image.configs:
            self._configs_of, self._config, self._topic_configs = self.image.configs, None, {}

    def standing(self, broker_id: int) -> Standing:
        """The broker's present standing."""
        broker = self.image.broker(broker_id)
        if broker is None or broker.fenced or broker.in_controlled_shutdown:
            return Standing.UNAVAILABLE
        return Standing.AVAILABLE if self.sessions.is_heard(broker_id) else Standing.PRESUMED

    def is_offline(self, partition: PartitionImage, replica: int) -> bool:
        """True when the replica's log directory failed (KIP-858)."""
        broker = self.image.broker(replica)
        return broker is not None and not broker.is_online(partition.directory_id_of(replica))

    def circumstances(
        self,
        topic: TopicImage,
        partition: PartitionImage,
        *,
        lost: Collection[int] = NOBODY,
        gone: Collection[int] = NOBODY,
        unclean: bool = False,
    ) -> Circumstances:
        """Inputs of a partition's rule. ``lost`` brokers may have lost records, ``gone`` ones have none left.
        ``unclean``:
        an unclean election was requested."""
        config = self.topic_config(topic.name)
        offline = frozenset(replica for replica in partition.replicas if self.is_offline(partition, replica))
        return Circumstances(
            standing=lambda one: Standing.UNAVAILABLE if one in offline else self.standing(one),
            min_insync_replicas=config.min_insync_replicas,
            is_unclean_allowed=lambda: unclean or config.unclean_leader_election_enable,
            lost=offline.union(lost),
            gone=gone,
        )

    def directory_for(self, broker_id: int) -> UUID:
        """The log directory of a new replica on the broker: known in advance only if it has a single one."""
        broker = self.image.broker(broker_id)
        return broker.log_dirs[0] if broker is not None and len(broker.log_dirs) == 1 else UNASSIGNED_DIRECTORY

    def why_not_usable(self, broker_id: int) -> str | None:
        """The reason why a broker cannot get a replica to fetch now; None when it can."""
        broker = self.image.broker(broker_id)
        if broker is None:
            return "is not registered"
        if broker.fenced:
            return "is not alive"
        return "is stopping" if broker.in_controlled_shutdown else None

    def registered(self, broker_id: int, broker_epoch: int) -> BrokerImage:
        """The broker's current registration; KafkaError(STALE_BROKER_EPOCH) if it has another epoch."""
        broker = self.image.broker(broker_id)
        if broker is None:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered")
        if broker.broker_epoch != broker_epoch:
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"broker {broker_id} is registered in epoch {broker.broker_epoch}, not {broker_epoch}",
            )
        return broker

    def topic(self, name: str) -> TopicImage:
        """The topic of that name; KafkaError(UNKNOWN_TOPIC_OR_PARTITION) if none exists."""
        topic = self.image.topic(name)
        if topic is None:
            raise unknown_topic(name)
        return topic

    def topic_by_id(self, topic_id: UUID) -> TopicImage:
        """The topic of that id; KafkaError(UNKNOWN_TOPIC_ID) if none exists."""
        topic = self.image.topic_by_id(topic_id)
        if topic is None:
            raise unknown_topic_id(topic_id)
        return topic

    def new_topic_id(self) -> UUID:
        """A random id that no topic has."""
        while True:
            topic_id = UUID(int=self.rng.randrange(1 << 128), version=4)
            if topic_id not in self.image.topic_names:
                return topic_id
