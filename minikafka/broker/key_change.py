"""Certificates of a node that runs are changed as in Kafka: their settings are set, to a new file or to the same again.

The node that is named looks at the files before anything is written down: what cannot be used is refused with the
reason, and what it has stays. What it takes up is what the metadata say, so that of two clients at once neither undoes
what the other did; it has changes wait for each other, since each is looked at with what was there before. Files are
read in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from minikafka.broker.credentials import warn_of_readers
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.threads import RunInThread
from minikafka.broker.tls import Contexts, Tls
from minikafka.config import BrokerConfig, ConfigError
from minikafka.errors import ErrorCode, KafkaError
from minikafka.event_log import get_logger
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.effective import broker_config, concern_brokers
from minikafka.metadata.image import ConfigResource, MetadataImage
from minikafka.metadata.records import ConfigResourceType
from minikafka.net.tasks import TaskOwner
from minikafka.wire.messages.incremental_alter_configs import AlterableConfig

log = get_logger()

FILES: Final = (BrokerConfig.ssl_keystore_location, BrokerConfig.ssl_truststore_location)
_NAMES: Final = frozenset(row.name for row in FILES)
_DELETE: Final = 1


class Change(Protocol):
    """Of a setting, in either of Kafka's two requests."""

    name: str


class KeyChange:
    """Of one node. ``tls`` is None where no listener speaks it."""

    def __init__(
        self,
        config: BrokerConfig,
        metadata: Metadata,
        tls: Tls | None,
        run_in_thread: RunInThread,
        tasks: TaskOwner,
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._tls = tls
        self._run_in_thread = run_in_thread
        self._tasks = tasks
        self._taking_up = asyncio.Lock()
        self.turn = asyncio.Lock()
        """For a change: from the look at its files until they are taken up."""
        self._used = _files(config)

    @staticmethod
    def concerns(changes: Iterable[Change]) -> bool:
        """Whether these changes of a broker's settings are about its files."""
        return any(change.name in _NAMES for change in changes)

    async def check(self, broker: str, changes: Iterable[AlterableConfig]) -> BrokerConfig:
        """The settings after these changes. KafkaError: INVALID_CONFIG if the files cannot be used, INVALID_REQUEST."""
        own = dict(self._metadata.image.config_of(ConfigResource(ConfigResourceType.BROKER, broker)))
        for change in changes:
            if change.config_operation == _DELETE:
                own.pop(change.name, None)
            elif change.value is not None:
                own[change.name] = change.value
        return await self.checked(broker, own)

    async def checked(self, broker: str, own: Mapping[str, str]) -> BrokerConfig:
        """The settings with these dynamic ones. KafkaError as of :meth:`check`."""
        if broker != str(self._config.node_id):
            message = f"this is node {self._config.node_id}; ask node {broker or 'by node'} to change its certificates"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        config = self._config.overridden(own, {})
        try:
            if self._tls is not None:
                await self._run_in_thread(partial(self._tls.check, config))
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
        return config

    def is_in_force(self, config: BrokerConfig, image: MetadataImage) -> bool:
        """Whether the metadata say of the files what these settings do."""
        return _files(broker_config(image, self._config)) == _files(config)

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Settings of this node may have changed."""
        if concern_brokers(delta.configs):
            files = _files(broker_config(delta.after, self._config))
            if files != self._used:
                self._used = files
                self._tasks.start(self.take_up(), "certificates")

    async def take_up(self) -> None:
        """Read the files: the settings were set, maybe to what they were, with something else in the files."""
        tls = self._tls
        if tls is None:
            return

        def read() -> Contexts:
            contexts = tls.contexts_of(config)
            warn_of_readers(config, [BrokerConfig.ssl_keystore_location])
            return contexts

        async with self._taking_up:
            config = broker_config(self._metadata.image, self._config)
            try:
                tls.use(await self._run_in_thread(read))
            except ConfigError as error:
                log.error("certificates not renewed", why=str(error))
                return
        log.info("certificates renewed", key_store=config.ssl_keystore_location)


def _files(config: BrokerConfig) -> tuple[Any, ...]:
    return tuple(getattr(config, row.attribute) for row in FILES)
