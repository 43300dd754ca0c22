"""The cluster and its topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from minikafka.client.admin import base
from minikafka.client.admin.base import NO_TOPIC, AdminCalls, check
from minikafka.client.broker_connection import BrokerConnection
from minikafka.client.cluster import Cluster, TopicView
from minikafka.errors import ErrorCode, KafkaError
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
from minikafka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

CLUSTER_DEFAULT: Final = -1


class TopicCalls(AdminCalls):
    """Calls about topics."""

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
            await self._retrying(attempt, "describing topics", final=NO_TOPIC, believed_after_s=base.PROPAGATION_S)
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
            check(answer.topics[0].error_code, answer.topics[0].error_message, f"creating topic {name!r}")

        await self._change(attempt, f"creating topic {name!r}", done_before=ErrorCode.TOPIC_ALREADY_EXISTS)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its data. UNKNOWN_TOPIC_OR_PARTITION when there is none."""
        await self.delete_topics([name])

    async def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics in one request, each on its own. Raises the first error."""
        names = list(names)
        states = [DeleteTopicState(name=name) for name in names]
        request = DeleteTopicsRequest(topics=states, topic_names=names, timeout_ms=self._timeout_ms)

        async def attempt(connection: BrokerConnection) -> None:
            answer = await connection.call(request, DeleteTopicsResponse, timeout_s=self._answer_s)
            for result in answer.responses:
                check(result.error_code, result.error_message, f"deleting topic {result.name!r}")

        what = f"deleting topic {names[0]!r}" if len(names) == 1 else f"deleting {len(names)} topics"
        await self._change(attempt, what, done_before=NO_TOPIC, final=NO_TOPIC)

    async def create_partitions(self, name: str, total: int) -> None:
        """Give a topic more partitions, ``total`` in all. INVALID_PARTITIONS when it has as many."""
        topic = CreatePartitionsTopic(name=name, count=total, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=self._timeout_ms)

        async def attempt(connection: BrokerConnection) -> None:
            answer = await connection.call(request, CreatePartitionsResponse, timeout_s=self._answer_s)
            result = answer.results[0]
            check(result.error_code, result.error_message, f"adding partitions to {name!r}")

        await self._change(
            attempt,
            f"adding partitions to {name!r}",
            done_before=ErrorCode.INVALID_PARTITIONS,
            final=NO_TOPIC,
        )
