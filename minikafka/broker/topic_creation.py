"""Topics that come into being because somebody names them: on first use, and the offsets topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.commands import ConfigValue, CreateTopics, CreateTopicsResult, NewTopic
from minikafka.model import CONSUMER_OFFSETS_TOPIC, INTERNAL_TOPICS

log = structlog.get_logger(__name__)

CREATE_TIMEOUT_S: Final = 5.0
SEEN_TIMEOUT_S: Final = 2.0
OFFSETS_SEGMENT_BYTES: Final = 104_857_600

_TRY_AGAIN: Final = frozenset({ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.NOT_CONTROLLER})


class TopicCreation:
    """Creates topics through the controller; several requests for the same name are one."""

    def __init__(self, config: BrokerConfig, controller: ControllerClient, metadata: Metadata) -> None:
        self._config = config
        self._controller = controller
        self._metadata = metadata
        self._under_way: dict[str, asyncio.Lock] = {}

    async def create_missing(self, names: Iterable[str]) -> dict[str, ErrorCode]:
        """Create topics with default settings; why each that could not be created was not."""
        return {name: error for name in names if (error := await self._create_missing(name)) is not ErrorCode.NONE}

    async def create_offsets_topic(self) -> None:
        """Create the offsets topic. KafkaError(COORDINATOR_NOT_AVAILABLE) while too few brokers are alive for it."""
        topic = self._offsets_topic()
        error = await self._once(topic)
        if error is not ErrorCode.NONE:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"{CONSUMER_OFFSETS_TOPIC} cannot be created now ({error.name}); it needs"
                f" {topic.replication_factor} live brokers (offsets.topic.replication.factor)",
            )

    async def _create_missing(self, name: str) -> ErrorCode:
        if name == CONSUMER_OFFSETS_TOPIC:
            error = await self._once(self._offsets_topic())
        else:
            error = await self._once(NewTopic(name))
        if error in _TRY_AGAIN:
            return ErrorCode.LEADER_NOT_AVAILABLE
        return error

    async def _once(self, topic: NewTopic) -> ErrorCode:
        lock = self._under_way.setdefault(topic.name, asyncio.Lock())
        try:
            async with lock:
                if self._metadata.image.topic(topic.name) is not None:
                    return ErrorCode.NONE
                return await self._create(topic)
        finally:
            if not lock.locked():
                self._under_way.pop(topic.name, None)

    async def _create(self, topic: NewTopic) -> ErrorCode:
        try:
            answer = await self._controller.call(CreateTopics((topic,)), timeout_s=CREATE_TIMEOUT_S)
        except KafkaError as error:
            return error.code
        result: CreateTopicsResult = answer.topics[0]
        if result.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            return result.error
        if result.error is ErrorCode.NONE:
            log.info("topic created on first use", topic=topic.name)
        await self._wait_for(lambda: self._metadata.image.topic(topic.name) is not None)
        return ErrorCode.NONE

    async def _wait_for(self, condition: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(SEEN_TIMEOUT_S):
                while not condition():
                    await self._metadata.wait_for(self._metadata.applied_offset + 1)
        except TimeoutError:
            return

    def _offsets_topic(self) -> NewTopic:
        assert CONSUMER_OFFSETS_TOPIC in INTERNAL_TOPICS
        return NewTopic(
            CONSUMER_OFFSETS_TOPIC,
            self._config.offsets_topic_num_partitions,
            self._config.offsets_topic_replication_factor,
            configs=(
                ConfigValue("cleanup.policy", "compact"),
                ConfigValue("segment.bytes", str(OFFSETS_SEGMENT_BYTES)),
            ),
        )
