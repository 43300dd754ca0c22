"""Partitions that a command line names, looked up in the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minikafka.cli.options import Target
    from minikafka.client import Admin
    from minikafka.model import TopicPartition


async def find_partitions(admin: Admin, wanted: Mapping[str, Sequence[int]], cluster: Target) -> list[TopicPartition]:
    """The partitions of topics, all of a topic where no index is given. KafkaError where one is not there."""
    from minikafka.errors import ErrorCode, KafkaError
    from minikafka.model import TopicPartition

    found = []
    for view in await admin.describe_topics(sorted(wanted)):
        if view.error:
            hint = f"topic {view.name!r} not found; {cluster.command('topic list')} shows those that are there"
            raise KafkaError(view.error, hint)
        for index in wanted[view.name] or sorted(view.partitions):
            if index not in view.partitions:
                last = len(view.partitions) - 1
                message = f"partition {index} not found: topic {view.name!r} has partitions 0 to {last}"
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
            found.append(TopicPartition(view.name, index))
    return found
