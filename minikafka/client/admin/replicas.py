"""Where replicas are and who leads: reassignment, elections, log directories, brokers that are gone.

A call that names several partitions answers for each: None when it was done, or the KafkaError that says why not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from minikafka.client.admin.base import AdminCalls, check, failure
from minikafka.client.broker_connection import BrokerConnection
from minikafka.client.cluster import Cluster
from minikafka.client.consuming.queries import indexes_by_topic
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from minikafka.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from minikafka.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from minikafka.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from minikafka.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

Outcomes = dict[TopicPartition, KafkaError | None]

ELECTION_TYPES: Final = {"preferred": 0, "unclean": 1}


class Reassignment(NamedTuple):
    """One that is under way: all replicas, those that come and those that will go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas when it is complete."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)


Reassignments = dict[TopicPartition, Reassignment]


class ReplicaSize(NamedTuple):
    """One replica in a log directory. ``is_future``: a copy that will take the place of the one elsewhere."""

    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirectory(NamedTuple):
    """A log directory of a broker; ``error`` says why it cannot be used. -1 bytes: not known."""

    path: str
    error: ErrorCode
    total_bytes: int
    usable_bytes: int
    replicas: dict[TopicPartition, ReplicaSize]


class ReplicaCalls(AdminCalls):
    """Calls about replicas."""

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> Outcomes:
        """Begin to move partitions to these brokers, the preferred leader first; None cancels (KIP-455).

        Returns when it has begun: :meth:`list_partition_reassignments` tells when it is complete.
        """
        topics = [
            ReassignableTopic(
                name=topic,
                partitions=[
                    ReassignablePartition(
                        partition_index=index, replicas=_listed(targets[TopicPartition(topic, index)])
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in indexes_by_topic(targets).items()
        ]
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self._timeout_ms, allow_replication_factor_change=allow_replication_factor_change, topics=topics
        )
        outcomes: Outcomes = {}

        async def attempt(connection: BrokerConnection) -> None:
            answer = await connection.call(request, AlterPartitionReassignmentsResponse, timeout_s=self._answer_s)
            check(answer.error_code, answer.error_message, "reassigning partitions")
            for topic in answer.responses:
                for each in topic.partitions:
                    tp = TopicPartition(topic.name, each.partition_index)
                    outcomes[tp] = failure(each.error_code, each.error_message, f"reassigning {tp}")

        await self._change(attempt, "reassigning partitions")
        return outcomes

    async def list_partition_reassignments(self, partitions: Iterable[TopicPartition] | None = None) -> Reassignments:
        """What is being reassigned, of these partitions or of all."""
        topics = None
        if partitions is not None:
            topics = [
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes)
                for topic, indexes in indexes_by_topic(dict.fromkeys(partitions)).items()
            ]
        request = ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms, topics=topics)
        found: Reassignments = {}

        async def attempt(connection: BrokerConnection) -> None:
            found.update(await self._list_at(connection, request))

        await self._change(attempt, "listing reassignments")
        return found

    async def describe_reassignments(self) -> tuple[Reassignments, Cluster]:
        """Everything that is being reassigned, and the cluster as the same broker describes it just after.

        Brokers hear of changes one after the other. One that has not heard of the end would still describe the replicas
        of a reassignment that another lists no more; to the same broker what it lists no more is complete.
        """
        request = ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms, topics=None)
        views: list[tuple[Reassignments, Cluster]] = []

        async def attempt(connection: BrokerConnection) -> None:
            ongoing = await self._list_at(connection, request)
            views.append((ongoing, await self._connections.refresh(None, broker=connection)))

        await self._change(attempt, "listing reassignments")
        return views[-1]

    async def _list_at(self, connection: BrokerConnection, request: ListPartitionReassignmentsRequest) -> Reassignments:
        answer = await connection.call(request, ListPartitionReassignmentsResponse, timeout_s=self._answer_s)
        check(answer.error_code, answer.error_message, "listing reassignments")
        return {
            TopicPartition(topic.name, each.partition_index): Reassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    async def elect_leaders(
        self, election_type: Literal["preferred", "unclean"], partitions: Iterable[TopicPartition] | None = None
    ) -> Outcomes:
        """Elect preferred leaders, or any live replica where nobody leads, for these partitions or for all (KIP-460).

        ELECTION_NOT_NEEDED: it has that leader. Of all partitions only those are answered for that needed one.
        """
        if election_type not in ELECTION_TYPES:
            raise ValueError(f"election_type is {election_type!r}; it must be one of {', '.join(ELECTION_TYPES)}")
        wanted = None
        if partitions is not None:
            wanted = [
                TopicPartitions(topic=topic, partitions=indexes)
                for topic, indexes in indexes_by_topic(dict.fromkeys(partitions)).items()
            ]
        request = ElectLeadersRequest(
            election_type=ELECTION_TYPES[election_type], topic_partitions=wanted, timeout_ms=self._timeout_ms
        )
        outcomes: Outcomes = {}

        async def attempt(connection: BrokerConnection) -> None:
            answer = await connection.call(request, ElectLeadersResponse, timeout_s=self._answer_s)
            check(answer.error_code, None, "electing leaders")
            for topic in answer.replica_election_results:
                for each in topic.partition_result:
                    tp = TopicPartition(topic.topic, each.partition_id)
                    outcomes[tp] = failure(each.error_code, each.error_message, f"electing a leader of {tp}")

        await self._change(attempt, "electing leaders")
        return outcomes

    async def describe_log_dirs(self, brokers: Iterable[int] | None = None) -> dict[int, list[LogDirectory]]:
        """The log directories of brokers (default: of all), and the replicas in them with their sizes. A broker that
        is not alive is left out."""
        found: dict[int, list[LogDirectory]] = {}
        for broker_id in sorted(await self._live_brokers() if brokers is None else brokers):
            described = await self._describe_log_dirs(broker_id)
            if described is not None:
                found[broker_id] = described
        return found

    async def _describe_log_dirs(self, broker_id: int) -> list[LogDirectory] | None:
        doing = f"describing the log directories of broker {broker_id}"

        async def attempt() -> list[LogDirectory] | None:
            if broker_id not in await self._live_brokers():
                return None
            connection = await self._connections.to_node(broker_id)
            request = DescribeLogDirsRequest(topics=None)
            answer = await connection.call(request, DescribeLogDirsResponse, timeout_s=self._answer_s)
            check(answer.error_code, None, doing)
            return [_log_directory(result) for result in answer.results]

        return await self._retrying(attempt, doing)

    async def alter_replica_log_dirs(self, broker_id: int, paths: Mapping[TopicPartition, str]) -> Outcomes:
        """Have a broker move replicas of its own to these directories; a replica that it does not have yet is to be
        made there. Returns when it has begun; :meth:`describe_log_dirs` shows future replicas until they are moved.
        """
        by_path: dict[str, list[TopicPartition]] = {}
        for tp, path in paths.items():
            by_path.setdefault(path, []).append(tp)
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path,
                    topics=[
                        AlterReplicaLogDirTopic(name=topic, partitions=indexes)
                        for topic, indexes in indexes_by_topic(partitions).items()
                    ],
                )
                for path, partitions in by_path.items()
            ]
        )

        async def attempt() -> Outcomes:
            await self._live_brokers()
            connection = await self._connections.to_node(broker_id)
            answer = await connection.call(request, AlterReplicaLogDirsResponse, timeout_s=self._answer_s)
            return {
                tp: failure(each.error_code, None, f"moving {tp} on broker {broker_id}")
                for topic in answer.results
                for each in topic.partitions
                for tp in (TopicPartition(topic.topic_name, each.partition_index),)
            }

        return await self._retrying(attempt, f"moving replicas of broker {broker_id}")

    async def unregister_broker(self, broker_id: int) -> None:
        """Forget a broker that is gone for good. INVALID_REQUEST while it is alive."""
        request = UnregisterBrokerRequest(broker_id=broker_id)

        async def attempt(connection: BrokerConnection) -> None:
            answer = await connection.call(request, UnregisterBrokerResponse, timeout_s=self._answer_s)
            check(answer.error_code, answer.error_message, f"unregistering broker {broker_id}")

        await self._change(attempt, f"unregistering broker {broker_id}", done_before=ErrorCode.BROKER_ID_NOT_REGISTERED)

    async def _live_brokers(self) -> list[int]:
        """The ids of the live brokers, without any topic."""
        return sorted((await self._connections.refresh([])).brokers)


def _listed(replicas: Sequence[int] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)


def _log_directory(result: DescribeLogDirsResult) -> LogDirectory:
    replicas = {
        TopicPartition(topic.name, each.partition_index): ReplicaSize(
            each.partition_size, each.offset_lag, each.is_future_key
        )
        for topic in result.topics
        for each in topic.partitions
    }
    return LogDirectory(
        result.log_dir, ErrorCode.of(result.error_code), result.total_bytes, result.usable_bytes, replicas
    )
