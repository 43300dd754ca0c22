"""The transaction coordinators of this node: the shards of ``__transaction_state``."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from minikafka.broker.drivers.markers import Markers
from minikafka.broker.drivers.shards import Shard, Shards
from minikafka.broker.logs import one_line
from minikafka.broker.partition import Partition
from minikafka.broker.peers import Peers
from minikafka.broker.ports import Ports
from minikafka.broker.producer_ids import ProducerIds
from minikafka.broker.replicas import Replicas
from minikafka.config import BrokerConfig
from minikafka.errors import KafkaError
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.features import TRANSACTION_VERSION
from minikafka.metadata.image import MetadataImage
from minikafka.model import TRANSACTION_STATE_TOPIC
from minikafka.transactions.coordinator import TransactionCoordinator
from minikafka.transactions.effects import SendMarkers
from minikafka.transactions.settings import TransactionSettings

log = structlog.get_logger(__name__)

TransactionShard = Shard[TransactionCoordinator]


class Transactions(Shards[TransactionCoordinator]):
    """Found by transactional id."""

    def __init__(
        self,
        ports: Ports,
        replicas: Replicas,
        image: Callable[[], MetadataImage],
        peers: Peers,
        producer_ids: ProducerIds,
    ) -> None:
        super().__init__(TRANSACTION_STATE_TOPIC, self._new, ports, replicas, image)
        self._settings = _settings(ports.config)
        self._producer_ids = producer_ids
        self.markers = Markers(ports, replicas, image, peers)
        self.carry_out = self._markers_to

    @property
    def timeout_max_ms(self) -> int:
        """No transaction may take longer."""
        return self._settings.max_timeout_ms

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Partitions have other leaders: markers go to them."""
        self.markers.on_metadata(delta)

    def _new(self, _partition: Partition) -> TransactionCoordinator:
        return TransactionCoordinator(
            self._settings, self._ports.clock.wall_ms, self._take_producer_id, self._transaction_version
        )

    def _transaction_version(self) -> int:
        return self._image().features.get(TRANSACTION_VERSION, 0)

    def _take_producer_id(self) -> int:
        try:
            return self._producer_ids.take()
        except KafkaError:
            if not self._ports.tasks.is_closed:
                self._ports.tasks.start(self._fetch_producer_ids(), "producer ids")
            raise

    async def _fetch_producer_ids(self) -> None:
        try:
            await self._producer_ids.ensure()
        except KafkaError as error:
            log.warning("no producer ids", why=one_line(error))

    def _markers_to(self, shard: TransactionShard, effect: object) -> None:
        assert isinstance(effect, SendMarkers)
        self.markers.send(shard, effect)


def _settings(config: BrokerConfig) -> TransactionSettings:
    return TransactionSettings(
        max_timeout_ms=config.transaction_max_timeout_ms,
        id_expiration_ms=config.transactional_id_expiration_ms,
        expiry_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
    )
