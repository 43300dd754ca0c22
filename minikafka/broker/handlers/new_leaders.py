"""Who leads a partition instead of this node, told with the refusal: clients need not ask for metadata (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeVar

from minikafka.broker.drivers.metadata import Metadata
from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode
from minikafka.model import Endpoint, TopicPartition

TELLING: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


Row = TypeVar("Row", covariant=True)


class NewLeader(NamedTuple):
    """Another node, and where it is reached by the listener that the request came by."""

    leader_id: int
    epoch: int
    endpoint: Endpoint
    rack: str | None


class _Makes(Protocol[Row]):
    def __call__(self, *, node_id: int, host: str, port: int, rack: str | None) -> Row: ...


@dataclass(frozen=True, slots=True)
class NewLeaders:
    """Finds them in this node's metadata."""

    config: BrokerConfig
    metadata: Metadata

    def find(self, tp: TopicPartition, error: int, listener: str) -> NewLeader | None:
        """Who leads ``tp``, if ``error`` is one that this mends and another node does."""
        image = self.metadata.image
        if error not in TELLING or (partition := image.partition(tp)) is None:
            return None
        leader = image.broker(partition.leader)
        if leader is None or leader.broker_id == self.config.node_id:  # nobody, or this node has yet to begin
            return None
        endpoint = leader.listeners.get(listener)
        return endpoint and NewLeader(leader.broker_id, partition.leader_epoch, endpoint, leader.rack)


def reached_at(row: _Makes[Row], leaders: Iterable[NewLeader]) -> list[Row]:
    """A ``NodeEndpoint`` of the response for each node among the leaders."""
    return [
        row(node_id=node_id, host=leader.endpoint.host, port=leader.endpoint.port, rack=leader.rack)
        for node_id, leader in {leader.leader_id: leader for leader in leaders}.items()
    ]
