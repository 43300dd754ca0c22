"""What the machine tells its driver to do.

There are three outboxes:

- :class:`PersistElection` is for a slot. The driver writes the latest state, skips those that were superseded before
  their turn came, and says what is on disk by ``RaftNode.on_election_durable(state)``; the machine holds back what
  depends on it.
- A :class:`Send` or :class:`Respond` that is ``at_once`` waits for nothing: what elects a leader must not wait for what
  is written to a log.
- All others are done one after another, in the order given, also across calls: the driver keeps one queue. One marked
  *durable* is on disk (fsynced) before the next one starts. Appends are not durable: the driver writes them, fsyncs
  when it likes (one fsync for many), and says so by ``RaftNode.on_flushed(effect.end)``; the machine holds back what
  depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from minikafka.model import OffsetAndEpoch
from minikafka.raft.messages import FetchResponse, FetchSnapshotResponse, Request, Response
from minikafka.raft.state import ElectionState


@dataclass(frozen=True, slots=True)
class PersistElection:
    """Replace the ``quorum-state`` file, and give ``state`` to ``on_election_durable`` when that is on disk."""

    state: ElectionState


@dataclass(frozen=True, slots=True)
class Append:
    """As leader: write one batch holding ``values`` at ``base_offset``, stamped with ``epoch``."""

    base_offset: int
    epoch: int
    values: tuple[bytes, ...]

    @property
    def end(self) -> OffsetAndEpoch:
        """The log's end once this is written; give it to ``on_flushed`` when it is on disk."""
        return OffsetAndEpoch(self.base_offset + len(self.values), self.epoch)


@dataclass(frozen=True, slots=True)
class AppendLeaderChange:
    """As leader: write the LeaderChange control record that opens its epoch (KIP-595)."""

    base_offset: int
    epoch: int
    leader: int
    voters: tuple[int, ...]
    granted_by: tuple[int, ...]

    @property
    def end(self) -> OffsetAndEpoch:
        """The log's end once this is written; give it to ``on_flushed`` when it is on disk."""
        return OffsetAndEpoch(self.base_offset + 1, self.epoch)


@dataclass(frozen=True, slots=True)
class AppendFetched:
    """As follower: write the leader's batches as they are; ``base_offset`` is the log end offset."""

    base_offset: int
    records: bytes
    end: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Durable. Drop the records at and above ``offset``. A running fsync of the log is waited for first."""

    offset: int


@dataclass(frozen=True, slots=True)
class AdvanceLogStart:
    """Drop records below ``offset`` (a snapshot covers them), and the snapshots below it."""

    offset: int


@dataclass(frozen=True, slots=True)
class WriteSnapshot:
    """Write ``data`` at ``position`` of the snapshot being received; position 0 starts it anew."""

    snapshot_id: OffsetAndEpoch
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """Durable. The received snapshot is complete: check it, give it its name, replace the log by an empty one that
    starts at its offset, and load it into the state machine in place of all that was there."""

    snapshot_id: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request to a node; its answer comes back by ``on_response`` with the same ``request_id``."""

    to: int
    request_id: int
    message: Request
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class ReadLog:
    """Whole batches from ``offset`` on, at most ``max_bytes`` but at least one batch, go in ``records``."""

    offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class ReadSnapshot:
    """At most ``max_bytes`` of the snapshot's file from ``position`` on go in ``data``."""

    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Respond:
    """Answer the request that came with this token; ``read`` says with what the message is to be filled first."""

    token: object
    message: Response
    read: ReadLog | ReadSnapshot | None = None

    @property
    def at_once(self) -> bool:
        """True unless it speaks of the log, and so waits for what is done to the log before it."""
        return not isinstance(self.message, FetchResponse | FetchSnapshotResponse)

    def filled(self, data: bytes) -> FetchResponse | FetchSnapshotResponse:
        """The message with what was read."""
        assert isinstance(self.message, FetchResponse | FetchSnapshotResponse)
        return self.message.filled(data)


@dataclass(frozen=True, slots=True)
class HighWatermark:
    """Records below ``offset`` are committed: apply them, complete the proposals that end at or below it."""

    offset: int


@dataclass(frozen=True, slots=True)
class BecameLeader:
    """This node leads ``epoch``. It may act as the active controller once it has applied everything up to and
    including the record at ``epoch_start_offset`` (its LeaderChange): only then is its state the cluster's."""

    epoch: int
    epoch_start_offset: int


@dataclass(frozen=True, slots=True)
class LostLeadership:
    """This node no longer leads ``epoch``. Proposals not committed yet have an unknown outcome: fail them so."""

    epoch: int


@dataclass(frozen=True, slots=True)
class BecameFollower:
    """``leader`` leads ``epoch``; commands are forwarded to it."""

    leader: int
    epoch: int


@dataclass(frozen=True, slots=True)
class LeaderUnknown:
    """Nobody is known to lead; ``epoch`` is the latest seen."""

    epoch: int


@dataclass(frozen=True, slots=True)
class RepairCompleted:
    """Durable. The damaged log is whole again: remove the mark that kept this node from voting."""


Effect = (
    PersistElection
    | Append
    | AppendLeaderChange
    | AppendFetched
    | TruncateTo
    | AdvanceLogStart
    | WriteSnapshot
    | InstallSnapshot
    | Send
    | Respond
    | HighWatermark
    | BecameLeader
    | LostLeadership
    | BecameFollower
    | LeaderUnknown
    | RepairCompleted
)
