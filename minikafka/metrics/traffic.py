"""Bytes and messages in and out, by topic and in all. All counters only grow, also when partitions leave the node."""

from __future__ import annotations


class TopicTraffic:
    """One topic's share; its partitions on this node have the object in common."""

    __slots__ = ("bytes_in", "bytes_out", "messages_in", "partitions")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.messages_in = 0
        self.bytes_out = 0
        self.partitions = 0

    def add(self, other: TopicTraffic) -> None:
        """Count what ``other`` counted."""
        self.bytes_in += other.bytes_in
        self.messages_in += other.messages_in
        self.bytes_out += other.bytes_out


class Traffic:
    """The traffic of one node: clients' by topic, that between replicas in all."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicTraffic] = {}
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self._gone = TopicTraffic()

    def enter(self, topic: str) -> TopicTraffic:
        """One more partition of the topic is on this node."""
        traffic = self.topics.get(topic)
        if traffic is None:
            traffic = self.topics[topic] = TopicTraffic()
        traffic.partitions += 1
        return traffic

    def leave(self, topic: str) -> None:
        """One partition less; with the last the topic's own figures go."""
        traffic = self.topics[topic]
        traffic.partitions -= 1
        if not traffic.partitions:
            del self.topics[topic]
            self._gone.add(traffic)

    def total(self) -> TopicTraffic:
        """All topics together, those that left included."""
        total = TopicTraffic()
        for traffic in (self._gone, *self.topics.values()):
            total.add(traffic)
        return total
