"""What a leader knows of the replicas that fetch from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from minikafka.raft.messages import FetchRequest


@dataclass(slots=True)
class ReplicaProgress:
    """One voter's or observer's progress, as its fetches tell it.

    ``end_offset`` is the last fetch's offset and may go back: a replica that lost part of its log (its disk was
    damaged) must not be counted for what it no longer has.
    """

    last_fetch_ms: int
    end_offset: int = 0
    last_caught_up_ms: int = -1  # never
    log_end_offset_at_last_fetch: int = 0

    def record_fetch(self, offset: int, log_end_offset: int, now_ms: int) -> None:
        """Take a fetch that continues the leader's log (semantics R17)."""
        if offset >= log_end_offset:
            self.last_caught_up_ms = now_ms
        elif offset >= self.log_end_offset_at_last_fetch > 0:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end_offset = offset
        self.log_end_offset_at_last_fetch = log_end_offset
        self.last_fetch_ms = now_ms


class ParkedFetch(NamedTuple):
    """A fetch that found nothing new and waits for it."""

    token: object
    request: FetchRequest
    deadline_ms: int


class QuorumReplica(NamedTuple):
    """A voter or an observer; times are milliseconds of the clock that the leader is driven with, -1 when not known."""

    replica_id: int
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class QuorumInfo(NamedTuple):
    """The answer to DescribeQuorum (KIP-836). Only the leader knows the replicas' progress."""

    leader_id: int  # -1 when not known
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...] = ()
    observers: tuple[QuorumReplica, ...] = ()
