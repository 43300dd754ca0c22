"""Creation of topics on first use, and of the topics of coordinators.

All missing topics of one request are created by one request to the controller, which bounds the number of partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Final

from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.event_log import get_logger
from minikafka.metadata.client_quotas import Client
from minikafka.metadata.controller.topics import PARTITIONS_PER_REQUEST_MAX
from minikafka.metadata.topic_names import check_topic_name
from minikafka.model import CONSUMER_OFFSETS_TOPIC, INTERNAL_TOPICS, TRANSACTION_STATE_TOPIC
from minikafka.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

log = get_logger()

CREATE_TIMEOUT_S: Final = 5.0
SEEN_TIMEOUT_S: Final = 2.0

_TRY_AGAIN: Final = frozenset(
    {ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED}
)
_THERE: Final = frozenset({ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS})

_REPLICATION_FACTOR: Final = {
    CONSUMER_OFFSETS_TOPIC: "offsets.topic.replication.factor",
    TRANSACTION_STATE_TOPIC: "transaction.state.log.replication.factor",
}

Errors = dict[str, ErrorCode]


class TopicCreation:
    """Creates topics through the controller; a topic under creation is not requested again."""

    def __init__(self, config: BrokerConfig, controller: ControllerClient, metadata: Metadata) -> None:
        self._config = config
        self._controller = controller
        self._metadata = metadata
        self._under_way: dict[str, asyncio.Future[Errors]] = {}  # result of the request, by topic

    async def create_missing(self, names: Collection[str], client: Client) -> Errors:
        """Create topics with default settings; returns the errors of those that do not exist afterwards.

        LEADER_NOT_AVAILABLE asks the client to try again: too few brokers are alive, the controller was not reached,
        the request named too many topics, or the client exceeds its quota of changes (KIP-599).
        """
        errors: Errors = {name: error for name in names if (error := _error_of(name)) is not ErrorCode.NONE}
        legal = [name for name in dict.fromkeys(names) if name not in errors]
        at_once = max(1, PARTITIONS_PER_REQUEST_MAX // self._config.num_partitions)
        errors |= dict.fromkeys(legal[at_once:], ErrorCode.LEADER_NOT_AVAILABLE)
        failed = await self._ensure([self._default(name) for name in legal[:at_once]], client)
        for name, error in failed.items():
            errors[name] = ErrorCode.LEADER_NOT_AVAILABLE if error in _TRY_AGAIN else error
        return errors

    async def create_internal(self, name: str) -> None:
        """Create the topic of a coordinator. KafkaError(COORDINATOR_NOT_AVAILABLE) with too few live brokers for it."""
        topic = self._internal(name)
        errors = await self._ensure([topic], None)
        if errors:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"{name} cannot be created now ({errors[name].name}); it needs {topic.replication_factor} live brokers"
                f" ({_REPLICATION_FACTOR[name]})",
            )

    async def _ensure(self, topics: Iterable[CreatableTopic], client: Client | None) -> Errors:
        """Create missing topics, wait for those under way; returns the errors of those that failed.

        ``client``: whose quota counts; None: no one's.
        """
        missing = [topic for topic in topics if self._metadata.image.topic(topic.name) is None]
        others = {topic.name: self._under_way[topic.name] for topic in missing if topic.name in self._under_way}
        errors = await self._create([topic for topic in missing if topic.name not in others], client)
        for name, outcome in others.items():
            error = (await asyncio.shield(outcome)).get(name)
            if error is not None:
                errors[name] = error
        return errors

    async def _create(self, topics: list[CreatableTopic], client: Client | None) -> Errors:
        if not topics:
            return {}
        outcome: asyncio.Future[Errors] = asyncio.get_running_loop().create_future()
        errors: Errors = {topic.name: ErrorCode.NOT_CONTROLLER for topic in topics}  # until the answer
        self._under_way |= dict.fromkeys(errors, outcome)
        try:
            errors = await self._request(topics, client)
        finally:
            for topic in topics:
                del self._under_way[topic.name]
            outcome.set_result(errors)
        return dict(errors)

    async def _request(self, topics: list[CreatableTopic], client: Client | None) -> Errors:
        request = CreateTopicsRequest(topics=topics, knows_quotas=True)
        if client is not None:
            request.user, request.client_id = client
        try:
            answer = await self._controller.call(request, CreateTopicsResponse, timeout_s=CREATE_TIMEOUT_S)
        except KafkaError as error:
            return {topic.name: error.code for topic in topics}
        created = [result.name for result in answer.topics if not result.error_code]
        if created:
            log.info("topics created on first use", topics=created[:10], count=len(created))
        there = {result.name for result in answer.topics if result.error_code in _THERE}
        await self._wait_for(lambda: all(self._metadata.image.topic(name) is not None for name in there))
        return {
            result.name: ErrorCode.of(result.error_code) for result in answer.topics if result.error_code not in _THERE
        }

    async def _wait_for(self, condition: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(SEEN_TIMEOUT_S):
                while not condition():
                    await self._metadata.wait_for(self._metadata.applied_offset + 1)
        except TimeoutError:
            return

    def _default(self, name: str) -> CreatableTopic:
        if name in INTERNAL_TOPICS:
            return self._internal(name)
        return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)

    def _internal(self, name: str) -> CreatableTopic:
        config = self._config
        settings = {"cleanup.policy": "compact"}
        if name == CONSUMER_OFFSETS_TOPIC:
            partitions, replicas = config.offsets_topic_num_partitions, config.offsets_topic_replication_factor
            settings["segment.bytes"] = str(config.offsets_topic_segment_bytes)
        else:
            partitions = config.transaction_state_log_num_partitions
            replicas = config.transaction_state_log_replication_factor
            settings["segment.bytes"] = str(config.transaction_state_log_segment_bytes)
            settings["min.insync.replicas"] = str(min(config.transaction_state_log_min_isr, replicas))
        return CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
        )


def _error_of(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
