"""The effects that the driver carries out.

There are three outboxes:

- :class:`PersistElection` goes into a slot. The driver writes the latest state, skips superseded ones, and reports the
  written one by ``RaftNode.on_election_durable(state)``. The machine holds back dependent effects until then.
- A :class:`Send` or :class:`Respond` with ``at_once`` waits for no other effect: an election must not wait for writes
  to the log.
- All others are carried out one after another, in order, also across calls: the driver has one queue. A *durable* one
  is on disk (fsynced) before the next one starts. Appends are not durable: the driver writes them, fsyncs several at
  once, and reports by ``RaftNode.on_flushed(effect.end)``. The machine holds back dependent effects until then.
"""

from __future__ import annotations

from dataclasses import dataclass

from minikafka.model import OffsetAndEpoch
from minikafka.raft.messages import FetchResponse, FetchSnapshotResponse, Request, Response
from minikafka.raft.state import ElectionState


@dataclass(frozen=True, slots=True)
class PersistElection:
    """Replace the ``quorum-state`` file; call ``on_election_durable`` with ``state`` once it is on disk."""

    state: ElectionState


@dataclass(frozen=True, slots=True)
class Append:
    """As leader: write ``values`` as one batch of ``epoch`` at ``base_offset``."""

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
    """As follower: write the leader's batches unchanged; ``base_offset`` is the log end offset."""

    base_offset: int
    records: bytes
    end: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Durable. Drop the records at and above ``offset``, after a running fsync of the log has ended."""

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
    starts at its offset, and replace the state of the state machine by it."""

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
    """Fill ``records`` with whole batches from ``offset`` on: at least one, and at most ``max_bytes``."""

    offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class ReadSnapshot:
    """Fill ``data`` with at most ``max_bytes`` of the snapshot's file from ``position`` on."""

    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Respond:
    """Answer the request of this token; fill the message first by ``read``, if any."""

    token: object
    message: Response
    read: ReadLog | ReadSnapshot | None = None

    @property
    def at_once(self) -> bool:
        """True unless it depends on the log: then it waits for earlier effects on the log."""
        return not isinstance(self.message, FetchResponse | FetchSnapshotResponse)

    def filled(self, data: bytes) -> FetchResponse | FetchSnapshotResponse:
        """The message with the bytes that were read."""
        assert isinstance(self.message, FetchResponse | FetchSnapshotResponse)
        return self.message.filled(data)


@dataclass(frozen=True, slots=True)
class HighWatermark:
    """Records below ``offset`` are committed: apply them, complete the proposals that end at or below it."""

    offset: int


@dataclass(frozen=True, slots=True)
class BecameLeader:
    """This node leads ``epoch``. It may act as the active controller once it has applied the record at
    ``epoch_start_offset`` (its LeaderChange): only then its state is the cluster's."""

    epoch: int
    epoch_start_offset: int


@dataclass(frozen=True, slots=True)
class LostLeadership:
    """This node no longer leads ``epoch``. Uncommitted proposals have an unknown outcome: fail them with that error."""

    epoch: int


@dataclass(frozen=True, slots=True)
class BecameFollower:
    """``leader`` leads ``epoch``; commands are forwarded to it."""

    leader: int
    epoch: int


@dataclass(frozen=True, slots=True)
class LeaderUnknown:
    """No leader is known; ``epoch`` is the latest seen."""

    epoch: int


@dataclass(frozen=True, slots=True)
class WaitsForVoters:
    """The first election of a cluster waits for an answer of these voters, up to ``at_most_ms``. Tell the operator."""

    voters: tuple[int, ...]
    at_most_ms: int


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
    | WaitsForVoters
    | RepairCompleted
)
