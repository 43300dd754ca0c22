"""The transaction coordinators of this node: the shards of ``__transaction_state``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from minikafka.broker.drivers.markers import Markers
from minikafka.broker.drivers.shards import Shard, Shards
from minikafka.broker.logs import one_line
from minikafka.broker.pacing import PerTurn
from minikafka.broker.partition import Partition
from minikafka.broker.peers import Peers
from minikafka.broker.ports import Ports
from minikafka.broker.producer_ids import ProducerIds
from minikafka.broker.replicas import Replicas
from minikafka.config import BrokerConfig
from minikafka.coordination.effects import Write
from minikafka.coordination.phase import Phase
from minikafka.errors import KafkaError
from minikafka.event_log import get_logger
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.features import TRANSACTION_VERSION
from minikafka.metadata.image import MetadataImage
from minikafka.model import TRANSACTION_STATE_TOPIC
from minikafka.transactions.coordinator import TransactionCoordinator
from minikafka.transactions.effects import AskAgain, Refused, SendMarkers, WriteLarge
from minikafka.transactions.limits import Memory
from minikafka.transactions.records import encode_in_portions
from minikafka.transactions.settings import TransactionSettings

log = get_logger()

TOLD_APART_MS: Final = 60_000

TransactionShard = Shard[TransactionCoordinator]


def _future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True)
class Additions:
    """Requests under way that add to a transaction of one id; its end goes behind them."""

    under_way: set[asyncio.Future[None]] = field(default_factory=set)
    may_ask_again: asyncio.Future[None] = field(default_factory=_future)
    """Done at the next AskAgain. Look it up before asking, so that none is missed."""

    def let_ask_again(self) -> None:
        """Wake those that wait."""
        self.may_ask_again.set_result(None)
        self.may_ask_again = _future()


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
        self._memory = Memory(ports.config.transaction_memory_max_bytes)
        self._per_turn = PerTurn(1)
        self._silent_until_ms = 0
        self.additions: dict[str, Additions] = {}
        """By transactional id."""
        self.waiting = 0
        """Of all additions, those that wait until they may ask again."""
        self.markers = Markers(ports, replicas, image, peers)
        self.carry_out = self._carry_out

    @property
    def timeout_max_ms(self) -> int:
        """No transaction may take longer."""
        return self._settings.max_timeout_ms

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Partitions have other leaders: markers go to them."""
        self.markers.on_metadata(delta)

    def _new(self, partition: Partition) -> TransactionCoordinator:
        return TransactionCoordinator(
            self._settings,
            self._ports.clock.stamp_ms,
            self._take_producer_id,
            self._transaction_version,
            self._memory,
            lambda: partition.config.segment_bytes,
            lambda tp: self._image().partition(tp) is not None,
            self._ports.clock.age_ms,
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

    def _carry_out(self, shard: TransactionShard, effect: object) -> None:
        match effect:
            case SendMarkers():
                self.markers.send(shard, effect)
            case WriteLarge():
                if not self._ports.tasks.is_closed:
                    self._ports.tasks.start(self._write_large(shard, effect), "large transaction")
            case Refused(transactional_id, why):
                self._tell(transactional_id, why)
            case AskAgain(transactional_id):
                if additions := self.additions.get(transactional_id):
                    additions.let_ask_again()
            case _:
                raise AssertionError(f"nobody carries out {effect}")

    async def _write_large(self, shard: TransactionShard, effect: WriteLarge) -> None:
        """Make the record in portions, one in each turn of the loop for all shards."""
        portions = encode_in_portions(effect.transaction)
        while True:
            await self._per_turn.wait()
            if shard.coordinator.phase is Phase.RESIGNED:
                return
            try:
                next(portions)
            except StopIteration as made:
                shard.step((Write(effect.write_id, (made.value,)),))
                return

    def _tell(self, transactional_id: str, why: str) -> None:
        """Once in a while: a client asks again and again."""
        now_ms = self._ports.clock.monotonic_ms()
        if now_ms >= self._silent_until_ms:
            self._silent_until_ms = now_ms + TOLD_APART_MS
            log.warning("a transaction is refused", transactional_id=transactional_id, why=why)


def _settings(config: BrokerConfig) -> TransactionSettings:
    return TransactionSettings(
        max_timeout_ms=config.transaction_max_timeout_ms,
        id_expiration_ms=config.transactional_id_expiration_ms,
        expiry_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
    )
