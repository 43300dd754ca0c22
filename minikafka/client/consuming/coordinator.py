"""The coordinator of a group: finds the broker, calls it, and finds it again after a move."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, TypeVar

from minikafka.client.broker_connection import PATIENCE_S
from minikafka.client.connections import Connections
from minikafka.client.consuming.queries import commit_topics, indexes_by_topic
from minikafka.client.errors import UnreachableError
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Endpoint, OffsetAndEpoch, TopicPartition
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from minikafka.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from minikafka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopics, OffsetFetchResponse
from minikafka.wire.schema import Message

R = TypeVar("R", bound=Message)

NO_GENERATION: Final = -1
GROUP_KEY: Final = 0
FIND_TIMEOUT_S: Final = 5.0
MAX_VERSION_BY_NAME: Final = 9  # newer OffsetCommits name topics by id
MAX_VERSION_OF_ONE_GROUP: Final = 7  # newer OffsetFetches ask for several groups
_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class Coordinator:
    """The coordinator of one group. Every call raises KafkaError; a retriable one may be repeated as it is."""

    def __init__(self, connections: Connections, group_id: str) -> None:
        self._connections = connections
        self._endpoint: Endpoint | None = None
        self.group_id = group_id

    async def call(
        self,
        request: Message,
        response_type: type[R],
        *,
        purpose: str = "group",
        timeout_s: float | None = None,
        patience_s: float = PATIENCE_S,
        at_most: int | None = None,
    ) -> R:
        """One attempt. Requests that the coordinator holds need a ``purpose``, and so a connection, of their own."""
        timeout_s = self._connections.request_timeout_s if timeout_s is None else timeout_s
        try:
            if self._endpoint is None:
                self._endpoint = await self._find()
            connection = await self._connections.to_endpoint(self._endpoint, purpose)
            return await connection.call(
                request, response_type, timeout_s=timeout_s, patience_s=patience_s, at_most=at_most
            )
        except KafkaError as error:
            if isinstance(error, UnreachableError) or error.code is ErrorCode.REQUEST_TIMED_OUT:
                self.forget()
            raise

    def check(self, code: int, doing: str) -> None:
        """Raise KafkaError for an error code in an answer; after a move the next call finds the coordinator again."""
        if not code:
            return
        error = ErrorCode.of(code)
        if error in _MOVED:
            self.forget()
        raise KafkaError(error, f"group {self.group_id!r}: {doing} failed")

    def forget(self) -> None:
        """Find the coordinator again at the next call."""
        self._endpoint = None

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndEpoch],
        *,
        generation_id: int = NO_GENERATION,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        """Store offsets, as a member of a generation, or for a group that has no members."""
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            group_instance_id=group_instance_id,
            topics=commit_topics(offsets),
        )
        answer = await self.call(request, OffsetCommitResponse, at_most=MAX_VERSION_BY_NAME)
        for topic in answer.topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                self.check(partition.error_code, f"committing an offset of {tp}")

    async def committed(
        self, partitions: Collection[TopicPartition] | None, *, require_stable: bool = False
    ) -> dict[TopicPartition, OffsetAndEpoch]:
        """The group's stored offsets, all of them for None; partitions without one are left out."""
        request = OffsetFetchRequest(
            group_id=self.group_id,
            topics=None
            if partitions is None
            else [
                OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
                for topic, indexes in indexes_by_topic(partitions).items()
            ],
            require_stable=require_stable,
        )
        answer = await self.call(request, OffsetFetchResponse, at_most=MAX_VERSION_OF_ONE_GROUP)
        self.check(answer.error_code, "fetching committed offsets")
        found = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                self.check(partition.error_code, f"fetching the committed offset of {tp}")
                if partition.committed_offset >= 0:
                    found[tp] = OffsetAndEpoch(partition.committed_offset, partition.committed_leader_epoch)
        return found

    async def _find(self) -> Endpoint:
        request = FindCoordinatorRequest(key=self.group_id, key_type=GROUP_KEY, coordinator_keys=[self.group_id])
        connection = await self._connections.to_any()
        answer = await connection.call(request, FindCoordinatorResponse, timeout_s=FIND_TIMEOUT_S)
        found = answer.coordinators[0] if answer.coordinators else answer
        self.check(found.error_code, "finding its coordinator")
        return Endpoint(found.host, found.port)
