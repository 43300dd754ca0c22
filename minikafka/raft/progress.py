"""The replicas' progress as the leader sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from minikafka.raft.messages import FetchRequest


@dataclass(slots=True)
class ReplicaProgress:
    """Progress of a voter or observer, by its fetches.

    ``end_offset`` is the last fetch's offset and may go back: a replica with a damaged disk does not count for records
    that it has lost.
    """

    last_fetch_ms: int
    end_offset: int = 0
    last_caught_up_ms: int = -1  # never
    log_end_offset_at_last_fetch: int = 0

    def record_fetch(self, offset: int, log_end_offset: int, now_ms: int) -> None:
        """Note a fetch that continues the leader's log (row R17)."""
        if offset >= log_end_offset:
            self.last_caught_up_ms = now_ms
        elif offset >= self.log_end_offset_at_last_fetch > 0:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end_offset = offset
        self.log_end_offset_at_last_fetch = log_end_offset
        self.last_fetch_ms = now_ms


class ParkedFetch(NamedTuple):
    """A fetch that waits for news."""

    token: object
    request: FetchRequest
    deadline_ms: int


class QuorumReplica(NamedTuple):
    """A voter or an observer; times are monotonic milliseconds, -1 when unknown."""

    replica_id: int
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class QuorumInfo(NamedTuple):
    """The answer to DescribeQuorum (KIP-836). Only the leader knows the replicas' progress."""

    leader_id: int  # -1 when unknown
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...] = ()
    observers: tuple[QuorumReplica, ...] = ()
