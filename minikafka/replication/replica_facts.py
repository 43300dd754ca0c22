"""Inputs of a local replica: its log, committed metadata, settings, and queries to the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol
from uuid import UUID

from minikafka.model import NO_EPOCH, NO_NODE
from minikafka.replication.epochs import EpochLog
from minikafka.replication.progress import UNKNOWN_BROKER_EPOCH


class LocalLog(EpochLog, Protocol):
    """The replica's log, read only."""

    @property
    def recovery_point(self) -> int:
        """First offset that is not synced."""

    @property
    def is_cleaned(self) -> bool:
        """Records may be gone for the sake of later ones with the same key (``cleanup.policy=compact``)."""


class CommittedPartition(NamedTuple):
    """The partition in committed metadata."""

    leader_id: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    directory_id: UUID
    """Directory of this node's replica, as the cluster knows it (KIP-858)."""
    unclean_leader_epoch: int = NO_EPOCH
    """Leader epoch of the last unclean election (outside ISR and ELR); -1: there was no such election."""
    last_leader_id: int = NO_NODE
    """While nobody leads: who led last, if its records are not gone."""

    @property
    def complete(self) -> frozenset[int]:
        """Replicas with every committed record, as far as the controller knows (KIP-966)."""
        return frozenset((*self.isr, *self.elr))

    def gave_up(self, before: CommittedPartition) -> bool:
        """True when this leader was elected uncleanly since ``before``, and is not the last one, which returned and has
        whatever is left."""
        is_new = before.unclean_leader_epoch < self.unclean_leader_epoch  # the leader epoch may be one later
        return is_new and (bool(before.complete) or before.last_leader_id != self.leader_id)

    def is_void(self, replica_id: int, latest_epoch: int) -> bool:
        """The replica may still have committed records that an unclean election gave up.

        Its log ends in ``latest_epoch``, before that election. A complete replica became complete after it.
        """
        return latest_epoch < self.unclean_leader_epoch and replica_id not in self.complete


class ReplicaSettings(NamedTuple):
    """Settings of topic and broker for one replica; times in milliseconds."""

    min_insync_replicas: int
    flush_messages: int
    lag_time_max_ms: int


class Surroundings(NamedTuple):
    """Queries to the node. Answers are never kept."""

    is_eligible: Callable[[int, int], bool]
    """(replica id, broker epoch): committed metadata would let that incarnation into an ISR now."""
    broker_epoch: Callable[[], int] = lambda: UNKNOWN_BROKER_EPOCH
    is_leaving: Callable[[], bool] = lambda: False
    """This node is in controlled shutdown."""
    knows_metadata_of: Callable[[int], bool] = lambda _at_ms: True
    """(monotonic ms): all metadata committed by then is known here. False in a process that was just stopped."""
