"""Effects of a :class:`~minikafka.replication.local_replica.LocalReplica`; its driver carries them out in order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias
from uuid import UUID

from minikafka.replication.isr import IsrProposal


@dataclass(frozen=True, slots=True)
class StopFollowing:
    """Take it out of its fetcher; drop answers that are still on their way (row R10)."""


@dataclass(frozen=True, slots=True)
class Follow:
    """Add it to the fetcher of its leader (row R9)."""

    leader_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class BeginEpoch:
    """Write the start of a leader epoch, at the log end, into the epoch cache (KIP-101)."""

    leader_epoch: int


@dataclass(frozen=True, slots=True)
class AnswerWaiting:
    """Try all requests that wait on the partition: they find the new leader, or the error."""


@dataclass(frozen=True, slots=True)
class HighWatermarkMoved:
    """Try requests that wait for it, at the end of this loop iteration (row D6)."""


@dataclass(frozen=True, slots=True)
class Leads:
    """This node became leader in a new epoch."""


@dataclass(frozen=True, slots=True)
class LeadsNoMore:
    """This node is no longer leader."""


@dataclass(frozen=True, slots=True)
class Propose:
    """Send the ISR proposal to the controller, which validates and commits it (row R20)."""

    proposal: IsrProposal


@dataclass(frozen=True, slots=True)
class Sync:
    """Sync the log, then call ``on_synced``."""


@dataclass(frozen=True, slots=True)
class Verify:
    """Verify the batches that a follower could not append, so many bytes from ``offset`` on; ``on_damage`` if bad.

    ``replica_id`` -1: batches that were sent to a consumer.
    """

    replica_id: int
    offset: int
    size_in_bytes: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Cut the log durably at ``offset``, or before it at a batch boundary, and answer ``on_cut``.

    ``is_refetch``: the log is damaged from there on.
    """

    offset: int
    is_refetch: bool = False


@dataclass(frozen=True, slots=True)
class Restart:
    """Drop the whole log durably, begin an empty one at ``offset``, and answer ``on_cut`` (row R13)."""

    offset: int


@dataclass(frozen=True, slots=True)
class Claim:
    """Tell the controller the directory of the replica (KIP-858)."""

    directory_id: UUID


@dataclass(frozen=True, slots=True)
class MarkWhole:
    """Remove the mark of damage."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the log."""


class Saying(Enum):
    """Events for the node's log. LOSS: acknowledged records may be gone on every replica."""

    LOSS_BY_DAMAGE = "leading with what is left of a damaged or missing log: no other replica has everything"
    LOSS_BY_TRUNCATION = "truncating below the high watermark: an unclean election gave committed records up"
    LOSS_BY_LEADING = "leading with less than a returning replica knows as committed: no in-sync replica has it"
    LOSS_BY_ELECTION = "leading by an unclean election: what only other replicas had is given up"
    FOLLOWER_DIVERGES = "the leader's log differs below the high watermark: this replica is damaged from there on"
    CLEANED_IN_VAIN = "the log is fetched as a whole: the cleaner dropped records for the sake of some that are cut off"
    FOLLOWER_FALLS_SHORT = "the leader's log begins behind the end of this in-sync replica: its tail is missing"
    LEADER_FALLS_SHORT = (
        "the log ended below the high watermark of a complete replica when this node began to lead: its tail is missing"
    )
    FOLLOWER_WAITS = "a replica knows more as committed than this leader has: it waits for complete replicas"
    EPOCHS_BEYOND_METADATA = "the log has later leader epochs than the cluster's metadata: damage from there on"


@dataclass(frozen=True, slots=True)
class Say:
    """Write the event to the node's log with two numbers: the offset (or epoch) found, and the expected one.

    ``unheard``: the complete replicas that have not fetched yet.
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
