"""What the driver asks the cluster: which topics there are, and from where to where they reach."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from minikafka.client import Admin
from minikafka.client.cluster import TopicView
from minikafka.errors import KafkaError
from minikafka.model import TopicPartition
from minikafka.spark.cluster import EARLIEST, LATEST, ClientSettings, cluster_of
from minikafka.spark.loop import LoopThread
from minikafka.spark.pipelines.archive.manifest import OffsetRange

_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics as they were when they were looked at; of each partition the first offset and the one past the last."""

    ids: dict[str, str]
    extent: dict[TopicPartition, OffsetRange]
    epochs: dict[TopicPartition, int]
    """Of the ends: a log that is truncated while it is read is noticed by them."""

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has."""
        return sum(tp.topic == topic for tp in self.extent)


def cluster_id(bootstrap_servers: str) -> str:
    """Which cluster that is. Raises KafkaError when no broker answers."""

    async def ask() -> str:
        async with Admin(bootstrap_servers) as admin:
            return (await admin.describe_cluster()).cluster_id or ""

    with closing(LoopThread("topics")) as loop:
        return loop.call(ask(), timeout_s=_TIMEOUT_S, doing="asking for the cluster")


def look_at(client: ClientSettings, names: Sequence[str]) -> Topics:
    """Look at topics. Raises KafkaError, in words that say how to create it, when one is not there."""
    with closing(LoopThread("topics")) as loop:
        views = loop.call(
            _described(client.bootstrap_servers, names), timeout_s=_TIMEOUT_S, doing="looking at the topics"
        )
    partitions = [TopicPartition(view.name, partition) for view in views for partition in sorted(view.partitions)]
    cluster = cluster_of(client)
    first, end = cluster.offsets(partitions, EARLIEST), cluster.offsets(partitions, LATEST)
    extent = {tp: OffsetRange(first[tp].offset, end[tp].offset) for tp in partitions}
    ids = {view.name: str(view.topic_id) for view in views}
    return Topics(ids, extent, {tp: end[tp].epoch for tp in partitions})


async def _described(bootstrap_servers: str, names: Sequence[str]) -> list[TopicView]:
    async with Admin(bootstrap_servers) as admin:
        views = await admin.describe_topics(names)
        for view in views:
            if view.error:
                hint = f"create it with: minikafka topic create {view.name}"
                raise KafkaError(view.error, f"topic {view.name!r} not found; {hint}")
        return views
