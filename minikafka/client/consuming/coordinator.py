"""The offsets of a group, at its coordinator."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from minikafka.client.connections import Connections
from minikafka.client.consuming.queries import commit_topics, indexes_by_topic
from minikafka.client.key_coordinator import GROUP, KeyCoordinator
from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from minikafka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopics, OffsetFetchResponse

NO_GENERATION: Final = -1
MAX_VERSION_BY_NAME: Final = 9  # newer OffsetCommits name topics by id
MAX_VERSION_OF_ONE_GROUP: Final = 7  # newer OffsetFetches ask for several groups


class Coordinator(KeyCoordinator):
    """The coordinator of one group."""

    def __init__(self, connections: Connections, group_id: str) -> None:
        super().__init__(connections, group_id, GROUP)
        self.group_id = group_id

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
