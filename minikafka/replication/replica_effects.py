"""What a :class:`~minikafka.replication.local_replica.LocalReplica` asks its driver to do, in the order given."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias
from uuid import UUID

from minikafka.replication.isr import IsrProposal


@dataclass(frozen=True, slots=True)
class StopFollowing:
    """Take it out of its fetcher; what is on its way is dropped (row R10)."""


@dataclass(frozen=True, slots=True)
class Follow:
    """Fetch it from its leader (row R9)."""

    leader_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class BeginEpoch:
    """Note in the log that a leader epoch begins at its end (KIP-101)."""

    leader_epoch: int


@dataclass(frozen=True, slots=True)
class AnswerWaiting:
    """Try everything that waits on the partition: it finds who leads now, or the error."""


@dataclass(frozen=True, slots=True)
class AnswerProduces:
    """Try the produces that wait for acks: the ISR is too small now."""


@dataclass(frozen=True, slots=True)
class HighWatermarkMoved:
    """Try who waits for it, once this loop iteration is over (row D6)."""


@dataclass(frozen=True, slots=True)
class Leads:
    """This node leads, in a new epoch."""


@dataclass(frozen=True, slots=True)
class LeadsNoMore:
    """This node does not lead any more."""


@dataclass(frozen=True, slots=True)
class Propose:
    """Send the proposal to the controller (row R20)."""

    proposal: IsrProposal


@dataclass(frozen=True, slots=True)
class Sync:
    """Sync the log, and say so (``on_synced``)."""


@dataclass(frozen=True, slots=True)
class Verify:
    """Read again what a follower was sent in vain, so many bytes from ``offset`` on; ``on_damage`` if it is bad.

    ``replica_id`` -1: what a consumer was sent, perhaps in vain.
    """

    replica_id: int
    offset: int
    size_in_bytes: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Cut the log durably so that it ends at ``offset``, or before at a batch boundary, and answer ``on_cut``.

    ``is_refetch``: because it is damaged from there on.
    """

    offset: int
    is_refetch: bool = False


@dataclass(frozen=True, slots=True)
class Restart:
    """Drop the whole log durably, begin an empty one at ``offset``, and answer ``on_cut`` (row R13)."""

    offset: int


@dataclass(frozen=True, slots=True)
class Claim:
    """Tell the controller in which directory the replica is (KIP-858)."""

    directory_id: UUID


@dataclass(frozen=True, slots=True)
class MarkWhole:
    """Remove the mark of damage."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the log."""


class Saying(Enum):
    """Events for the log of the node, for people. A loss: acknowledged records may be gone on every replica."""

    LOSS_BY_DAMAGE = "leading with what is left of a damaged or missing log: no other replica has everything"
    LOSS_BY_TRUNCATION = "truncating below the high watermark: an unclean election gave committed records up"
    LOSS_BY_LEADING = "leading with less than a returning replica knows as committed: no in-sync replica has it"
    FOLLOWER_DIVERGES = "the leader's log differs below the high watermark: this replica is damaged from there on"
    FOLLOWER_FALLS_SHORT = "the leader's log begins behind the end of this in-sync replica: its tail is missing"
    LEADER_FALLS_SHORT = (
        "the log ended below the high watermark of a complete replica when this node began to lead: its tail is missing"
    )
    FOLLOWER_WAITS = "a replica knows more as committed than this leader has: it waits for complete replicas"
    EPOCHS_BEYOND_METADATA = "the log has later leader epochs than the cluster's metadata: damage from there on"


@dataclass(frozen=True, slots=True)
class Say:
    """Put it into the node's log, with two numbers: where (an offset, or an epoch), and what it should have been.

    ``unheard``: replicas that are waited for.
    """

    what: Saying
    at: int
    expected: int
    unheard: tuple[int, ...] = ()


ReplicaEffect: TypeAlias = (
    StopFollowing
    | Follow
    | BeginEpoch
    | AnswerWaiting
    | AnswerProduces
    | HighWatermarkMoved
    | Leads
    | LeadsNoMore
    | Propose
    | Sync
    | Verify
    | Cut
    | Restart
    | Claim
    | MarkWhole
    | Delete
    | Say
)
