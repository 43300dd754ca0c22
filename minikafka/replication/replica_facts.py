"""What a local replica is told, and what it may ask of the node around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol
from uuid import UUID

from minikafka.model import NO_EPOCH
from minikafka.replication.epochs import EpochLog
from minikafka.replication.progress import UNKNOWN_BROKER_EPOCH


class LocalLog(EpochLog, Protocol):
    """What is asked of the replica's log."""

    @property
    def recovery_point(self) -> int:
        """First offset that is not synced."""


class CommittedPartition(NamedTuple):
    """What committed metadata says of the partition."""

    leader_id: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    directory_id: UUID
    """Where the cluster takes this node's replica to be (KIP-858)."""
    unclean_leader_epoch: int = NO_EPOCH
    """The leader epoch that the last election outside of ISR and ELR began; -1: there was none."""

    @property
    def complete(self) -> frozenset[int]:
        """Who has every committed record, as far as the controller knows (KIP-966)."""
        return frozenset((*self.isr, *self.elr))

    def is_void(self, replica_id: int, latest_epoch: int) -> bool:
        """An unclean election may have made committed records void that the replica still has.

        Its log ends in ``latest_epoch``, before that election. Whoever is complete became so after it.
        """
        return latest_epoch < self.unclean_leader_epoch and replica_id not in self.complete


class ReplicaSettings(NamedTuple):
    """The settings of topic and broker that decide here; times in milliseconds."""

    min_insync_replicas: int
    flush_messages: int
    lag_time_max_ms: int


class Surroundings(NamedTuple):
    """What is asked of the node whenever it matters, never remembered."""

    is_eligible: Callable[[int, int], bool]
    """(replica id, broker epoch): would committed metadata let that process into an ISR now?"""
    broker_epoch: Callable[[], int] = lambda: UNKNOWN_BROKER_EPOCH
    is_leaving: Callable[[], bool] = lambda: False
    """This node is in controlled shutdown."""
    knows_metadata_of: Callable[[int], bool] = lambda _at_ms: True
    """(monotonic ms): is all metadata known that was committed by then? Not in a process that was just stopped."""
