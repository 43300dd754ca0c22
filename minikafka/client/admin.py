"""Topics, their settings, groups and the cluster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeVar

from minikafka.client.backoff import retrying
from minikafka.client.broker_connection import BrokerConnection
from minikafka.client.cluster import Cluster, TopicView
from minikafka.client.connections import Connections
from minikafka.client.consuming.coordinator import Coordinator
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.wire.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from minikafka.wire.errors import WireError
from minikafka.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from minikafka.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from minikafka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from minikafka.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from minikafka.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from minikafka.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from minikafka.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

T = TypeVar("T")

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
CLUSTER_DEFAULT: Final = -1
SET: Final = 0
DELETE: Final = 1
SOURCE_DEFAULT: Final = 5
ANSWER_MARGIN_S: Final = 1.0
NO_TOPIC: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
PROPAGATION_S: Final = 1.0  # a broker may hear of a new topic later than the one that created it
DEAD: Final = "Dead"


class ConfigEntry(NamedTuple):
    """One setting: its value, and whether that is Kafka's own default. Sensitive values are None."""

    name: str
    value: str | None
    is_default: bool


class GroupMember(NamedTuple):
    """One member of a group and what it reads."""

    member_id: str
    client_id: str
    client_host: str
    group_instance_id: str | None
    assignment: tuple[TopicPartition, ...]


class GroupView(NamedTuple):
    """One group. ``state`` is Empty, PreparingRebalance, CompletingRebalance, Stable or Dead."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...]


class Admin:
    """``async with Admin("127.0.0.1:19092") as admin: await admin.create_topic("t", partitions=3)``.

    Every method raises KafkaError with the cluster's reason. What may pass (no leader yet, a broker that died) is tried
    again for ``request_timeout_ms``.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str = "minikafka-admin",
        request_timeout_ms: int = 30_000,
        rng: random.Random | None = None,
    ) -> None:
        self._rng = random.Random() if rng is None else rng
        self._timeout_ms = request_timeout_ms
        self._timeout_s = request_timeout_ms / 1000
        self._connections = Connections(
            bootstrap_servers, client_id=client_id, rng=self._rng, request_timeout_s=self._timeout_s
        )

    async def start(self) -> None:
        """Connect. Raises KafkaError when no broker answers."""
        try:
            await self._connections.bootstrap()
        except BaseException:
            await self._connections.close()
            raise

    async def close(self) -> None:
        """Disconnect."""
        await self._connections.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # -- the cluster and its topics ---------------------------------------------------------------------------------

    async def describe_cluster(self) -> Cluster:
        """Brokers, controller, and every topic with its partitions."""
        return await self._retrying(lambda: self._connections.refresh(None), "describing the cluster")

    async def list_topics(self, *, internal: bool = False) -> list[TopicView]:
        """Every topic, by name."""
        cluster = await self.describe_cluster()
        return [topic for _, topic in sorted(cluster.topics.items()) if internal or not topic.is_internal]

    async def describe_topics(self, names: Iterable[str]) -> list[TopicView]:
        """The named topics, in the order asked for; one that cannot be described carries its error."""
        wanted = list(names)
        views: list[TopicView] = []

        async def attempt() -> None:
            cluster = await self._connections.refresh(wanted)
            views[:] = [cluster.topics[name] for name in wanted]
            if any(view.error is NO_TOPIC for view in views):
                raise KafkaError(NO_TOPIC)

        try:
            await self._retrying(attempt, "describing topics", final=NO_TOPIC, believed_after_s=PROPAGATION_S)
        except KafkaError as error:
            if error.code is not NO_TOPIC:
                raise
        return views

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = CLUSTER_DEFAULT,
        replication_factor: int = CLUSTER_DEFAULT,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic; -1 takes the cluster's default. TOPIC_ALREADY_EXISTS when it is there."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=self._timeout_ms)

        async def attempt(connection: BrokerConnection) -> None:
            answer = await connection.call(request, CreateTopicsResponse, timeout_s=self._answer_s)
            _check(answer.topics[0].error_code, answer.topics[0].error_message, f"creating topic {name!r}")

        await self._change(attempt, f"creating topic {name!r}", done_before=ErrorCode.TOPIC_ALREADY_EXISTS)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its data. UNKNOWN_TOPIC_OR_PARTITION when there is none."""
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=self._timeout_ms
        )

        async def attempt(connection: BrokerConnection) -> None:
            answer = await connection.call(request, DeleteTopicsResponse, timeout_s=self._answer_s)
            result = answer.responses[0]
            _check(result.error_code, result.error_message, f"deleting topic {name!r}")

        await self._change(attempt, f"deleting topic {name!r}", done_before=NO_TOPIC, final=NO_TOPIC)

    async def create_partitions(self, name: str, total: int) -> None:
        """Give a topic more partitions, ``total`` in all. INVALID_PARTITIONS when it has as many."""
        topic = CreatePartitionsTopic(name=name, count=total, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=self._timeout_ms)

        async def attempt(connection: BrokerConnection) -> None:
            answer = await connection.call(request, CreatePartitionsResponse, timeout_s=self._answer_s)
            result = answer.results[0]
            _check(result.error_code, result.error_message, f"adding partitions to {name!r}")

        await self._change(
            attempt,
            f"adding partitions to {name!r}",
            done_before=ErrorCode.INVALID_PARTITIONS,
            final=NO_TOPIC,
        )

    # -- settings ---------------------------------------------------------------------------------------------------

    async def describe_configs(self, topic: str) -> list[ConfigEntry]:
        """Every setting of a topic, by name."""

        async def attempt() -> list[ConfigEntry]:
            return await self._describe_resource(await self._connections.to_controller(), TOPIC_RESOURCE, topic)

        return await self._retrying(attempt, f"describing {topic!r}", final=NO_TOPIC, believed_after_s=PROPAGATION_S)

    async def describe_broker_configs(self, node_id: int) -> list[ConfigEntry]:
        """Every setting of a broker, by name, from itself."""

        async def attempt() -> list[ConfigEntry]:
            connection = await self._connections.to_node(node_id)
            return await self._describe_resource(connection, BROKER_RESOURCE, str(node_id))

        return await self._retrying(attempt, f"describing broker {node_id}")

    async def alter_configs(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a topic; None takes one back to its default. The others stay (KIP-339)."""
        resource = AlterConfigsResource(
            resource_type=TOPIC_RESOURCE,
            resource_name=topic,
            configs=[
                AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
                for name, value in changes.items()
            ],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])

        async def attempt(connection: BrokerConnection) -> None:
            answer = await connection.call(request, IncrementalAlterConfigsResponse, timeout_s=self._answer_s)
            result = answer.responses[0]
            _check(result.error_code, result.error_message, f"changing settings of {topic!r}")

        await self._change(attempt, f"changing settings of {topic!r}", final=NO_TOPIC)

    async def _describe_resource(self, connection: BrokerConnection, kind: int, name: str) -> list[ConfigEntry]:
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        request = DescribeConfigsRequest(resources=[resource])
        answer = await connection.call(request, DescribeConfigsResponse, timeout_s=self._answer_s)
        result = answer.results[0]
        _check(result.error_code, result.error_message, f"describing {name!r}")
        return sorted(
            ConfigEntry(entry.name, entry.value, entry.config_source == SOURCE_DEFAULT) for entry in result.configs
        )

    # -- groups -----------------------------------------------------------------------------------------------------

    async def list_groups(self) -> list[tuple[str, str]]:
        """Every group as (id, state), by id: each broker is asked for those it coordinates."""

        async def attempt() -> dict[str, str]:
            found: dict[str, str] = {}
            for node_id in sorted((await self._connections.refresh([])).brokers):
                connection = await self._connections.to_node(node_id)
                answer = await connection.call(ListGroupsRequest(), ListGroupsResponse, timeout_s=self._answer_s)
                _check(answer.error_code, None, f"listing the groups of broker {node_id}")
                found |= {group.group_id: group.group_state for group in answer.groups}
            return found

        return sorted((await self._retrying(attempt, "listing groups")).items())

    async def describe_group(self, group_id: str) -> GroupView:
        """A group and its members. GROUP_ID_NOT_FOUND when there is none."""
        coordinator = Coordinator(self._connections, group_id)

        async def attempt() -> GroupView:
            answer = await coordinator.call(DescribeGroupsRequest(groups=[group_id]), DescribeGroupsResponse)
            coordinator.check(answer.groups[0].error_code, "describing it")
            return _group_view(answer.groups[0])

        found = await self._retrying(attempt, f"describing group {group_id!r}")
        if found.state == DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id!r}")
        return found

    async def delete_group(self, group_id: str) -> None:
        """Delete a group that has no members, with its offsets. NON_EMPTY_GROUP or GROUP_ID_NOT_FOUND otherwise."""
        coordinator = Coordinator(self._connections, group_id)

        async def attempt() -> None:
            answer = await coordinator.call(DeleteGroupsRequest(groups_names=[group_id]), DeleteGroupsResponse)
            coordinator.check(answer.results[0].error_code, "deleting it")

        await self._retrying(attempt, f"deleting group {group_id!r}")

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _retrying(
        self,
        attempt: Callable[[], Awaitable[T]],
        doing: str,
        *,
        final: ErrorCode = ErrorCode.NONE,
        believed_after_s: float = 0,
    ) -> T:
        """Repeat while there is hope. ``final`` is an error that is retriable elsewhere but means what it says here,
        if it is still there after ``believed_after_s``."""
        loop = asyncio.get_running_loop()
        first_seen_s: float | None = None

        async def attempt_once() -> T | KafkaError:
            nonlocal first_seen_s
            try:
                return await attempt()
            except KafkaError as error:
                if error.code is not final:
                    raise
                first_seen_s = loop.time() if first_seen_s is None else first_seen_s
                if loop.time() - first_seen_s < believed_after_s:
                    raise
                return error

        found = await retrying(attempt_once, timeout_s=self._timeout_s, rng=self._rng, doing=doing)
        if isinstance(found, KafkaError):
            raise found
        return found

    async def _change(
        self,
        attempt: Callable[[BrokerConnection], Awaitable[None]],
        doing: str,
        *,
        done_before: ErrorCode = ErrorCode.NONE,
        final: ErrorCode = ErrorCode.NONE,
    ) -> None:
        """Have the controller change something.

        ``done_before`` is what it says when the change was made already. After an attempt whose outcome is not known
        that is success: it was most likely ours.
        """
        may_be_done = False

        async def attempt_once() -> None:
            nonlocal may_be_done
            connection = await self._connections.to_controller()
            try:
                await attempt(connection)
            except KafkaError as error:
                if error.code is done_before and may_be_done:
                    return
                may_be_done |= error.code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT)
                if error.code is ErrorCode.NOT_CONTROLLER:
                    await self._connections.refresh([])
                raise

        await self._retrying(attempt_once, doing, final=final)

    @property
    def _answer_s(self) -> float:
        return self._timeout_s + ANSWER_MARGIN_S


def _check(code: int, message: str | None, doing: str) -> None:
    if code:
        error = ErrorCode.of(code)
        raise KafkaError(error, message or f"{doing} failed")


def _group_view(group: DescribedGroup) -> GroupView:
    members = []
    for member in group.members:
        partitions: tuple[TopicPartition, ...] = ()
        if group.protocol_type == PROTOCOL_TYPE and member.member_assignment:
            partitions = _read_partitions(member.member_assignment)
        members.append(
            GroupMember(member.member_id, member.client_id, member.client_host, member.group_instance_id, partitions)
        )
    return GroupView(group.group_id, group.group_state, group.protocol_type, group.protocol_data, tuple(members))


def _read_partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    try:
        topics = decode_assignment(assignment).assigned_partitions
    except WireError:
        return ()
    return tuple(TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions)
