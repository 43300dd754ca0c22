"""Subscribed topics of a consumer, and their partitions: a share of them in a group, otherwise all."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.client.checks import check_text
from minikafka.client.connections import Connections
from minikafka.client.consuming.commits import Commits
from minikafka.client.consuming.holdings import Holdings
from minikafka.client.consuming.membership import Membership
from minikafka.client.metadata import Metadata
from minikafka.model import EARLIEST, TopicPartition


class Subscription:
    """``membership`` and ``commits`` are None for a consumer without a group."""

    def __init__(
        self,
        connections: Connections,
        metadata: Metadata,
        holdings: Holdings,
        membership: Membership | None,
        commits: Commits | None,
        *,
        timeout_s: float,
    ) -> None:
        self._connections = connections
        self._metadata = metadata
        self._holdings = holdings
        self._membership = membership
        self._commits = commits
        self._timeout_s = timeout_s
        self._topics: tuple[str, ...] = ()  # none while partitions are assigned by hand

    async def subscribe(self, topics: tuple[str, ...]) -> None:
        """Read these topics. Raises UNKNOWN_TOPIC_OR_PARTITION when one is missing, unless in a group."""
        if not topics:
            raise ValueError("name at least one topic to subscribe to")
        for topic in topics:
            check_text("a topic", topic)
        if self._holdings.positions and not self._topics:
            raise RuntimeError("cannot subscribe: this consumer has manually assigned partitions")
        if self._membership is not None and self._commits is not None:
            self._topics = topics
            self._commits.is_subscribed = True
            self._metadata.topics |= set(topics)
            self._metadata.request_refresh()
            self._membership.subscribe(topics)
            return
        for topic in topics:
            await self._metadata.topic(topic, timeout_s=self._timeout_s, may_create=False)
        self._topics = topics
        self._holdings.assign(tp for topic in topics for tp in self._connections.cluster.partitions_of(topic))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions."""
        if self._topics:
            raise RuntimeError("cannot assign partitions: this consumer is subscribed to topics")
        wanted = list(partitions)
        self._metadata.topics |= {tp.topic for tp in wanted}
        self._holdings.assign(wanted)

    def on_metadata(self) -> None:
        """Topics or partitions may have been added."""
        if not self._topics:
            return
        cluster = self._connections.cluster
        if any(topic not in cluster.topics or not cluster.topics[topic].is_usable for topic in self._topics):
            self._metadata.request_refresh()  # until it is created, at the pace that metadata keeps
        if self._membership is not None:
            self._membership.on_metadata()
            return
        known = self._holdings.positions
        grown = [tp for topic in self._topics for tp in cluster.partitions_of(topic) if tp not in known]
        if grown:
            self._holdings.add(grown, reset_to=EARLIEST)
