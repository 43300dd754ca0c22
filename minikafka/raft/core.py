"""State of a node that outlives roles: identity, election state, log summary, high watermark, outbox."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from minikafka.errors import ErrorCode
from minikafka.raft.config import RaftConfig
from minikafka.raft.effects import (
    Effect,
    HighWatermark,
    PersistElection,
    ReadLog,
    ReadSnapshot,
    RepairCompleted,
    Respond,
    Send,
    WaitsForVoters,
)
from minikafka.raft.log import LogSummary
from minikafka.raft.messages import RESPONSE_TO, Request, Response
from minikafka.raft.state import ElectionState
from minikafka.raft.voters import VoterSet


class Rng(Protocol):
    """Source of randomness (``random.Random`` fits)."""

    def randrange(self, stop: int, /) -> int:
        """An integer from 0 to ``stop`` - 1."""


class BatchSpan(NamedTuple):
    """The place of one fetched batch in the log."""

    base_offset: int
    last_offset: int
    leader_epoch: int


BatchSpans = Callable[[bytes], Sequence[BatchSpan]]
"""Checks fetched batches (CRC, completeness) and says where they belong; ValueError when they are damaged."""


@dataclass(slots=True, kw_only=True, eq=False)
class Core:
    """Shared by the roles. ``election`` is replaced by ``quorum.py`` (see its table of transitions)
    and by ``complete_repair``."""

    node_id: int
    cluster_id: str
    voters: VoterSet
    rng: Rng
    batch_spans: BatchSpans
    log: LogSummary = field(default_factory=LogSummary)
    election: ElectionState = field(default_factory=ElectionState)
    config: RaftConfig = field(default_factory=RaftConfig)
    vote_disabled: bool = False
    is_new: bool = False  # no file of an earlier run exists: the cluster is new, or the disk is
    knows_of_records: bool = field(default=False, init=False)
    """A voter that is not blank, or a leader, has been heard of since the start."""
    high_watermark: int = field(init=False)
    failed_rounds: int = field(default=0, init=False)  # lost rounds of voting in a row; they space out the next ones
    failed_fetches: int = field(default=0, init=False)
    """Likewise, also across roles: an observer finds a dead leader and loses it again."""
    _first_election_at_ms: int | None = field(default=None, init=False)
    _persisted: ElectionState = field(init=False)  # the state that the driver was last told to write
    _durable: ElectionState = field(init=False)  # the state that it reported as written
    _outbox: list[Effect] = field(default_factory=list, init=False)
    _held: list[tuple[ElectionState, Effect]] = field(default_factory=list, init=False)
    _next_request_id: int = field(init=False)

    def __post_init__(self) -> None:
        self.high_watermark = 0 if self.log.snapshot is None else self.log.snapshot.snapshot_id.offset
        self._persisted = self._durable = self.election
        # A random start keeps answers to an earlier process from being taken for ours.
        self._next_request_id = self.rng.randrange(1 << 31)

    @property
    def epoch(self) -> int:
        """The highest epoch this node has seen."""
        return self.election.epoch

    @property
    def leader(self) -> int | None:
        """The leader of ``epoch``, if known."""
        return self.election.leader

    @property
    def is_voter(self) -> bool:
        """False for an observer, which only fetches."""
        return self.node_id in self.voters

    @property
    def may_campaign(self) -> bool:
        """True for a voter with a whole log: only it may vote or stand."""
        return self.is_voter and not self.vote_disabled

    @property
    def is_blank(self) -> bool:
        """A voter that never had a record, as far as it knows, nor has heard of one."""
        return self.is_new and self.log.log_end_offset == 0 and not self.knows_of_records

    def is_provisional(self, *, is_candidate_blank: bool) -> bool:
        """True when our vote counts only if all other voters agree.

        We may have acknowledged records before our disk was exchanged. Among all voters is one that still has them.
        If the candidate never had any record either, the cluster counts as new.
        """
        return self.is_new and not is_candidate_blank

    @property
    def is_durable(self) -> bool:
        """True when epoch and vote are on disk. Until then no election timeout runs, and the node does not fetch:
        a slow disk must not look like a silent node."""
        return self.election is self._durable or self.election[:2] == self._durable[:2]

    # The outbox

    def emit(self, effect: Effect) -> None:
        """Queue an effect."""
        self._outbox.append(effect)

    def emit_once_durable(self, effect: Effect) -> None:
        """Queue an effect that waits until the present epoch and vote are on disk."""
        if self.is_durable:
            self._outbox.append(effect)
        else:
            self._held.append((self.election, effect))

    def on_election_durable(self, state: ElectionState) -> None:
        """``state`` is on disk: release the effects that wait for it or an earlier one.

        A later state is as good as the awaited one: with a later epoch on disk, no other vote can be given in the
        earlier epoch.
        """
        if _order(state) <= _order(self._durable):
            return
        self._durable = state
        held, self._held = self._held, []
        for needed, effect in held:
            if _order(needed) <= _order(state):
                self._outbox.append(effect)
            else:
                self._held.append((needed, effect))

    def take_effects(self) -> list[Effect]:
        """All effects since the last call, in order. The write of the election state comes first, if it changed in a
        way that a restart must not forget."""
        effects, self._outbox = self._outbox, []
        if self.election is not self._persisted and self.election[:2] != self._persisted[:2]:
            self._persisted = self.election
            return [PersistElection(self.election), *effects]
        return effects

    def send(self, to: int, message: Request, *, at_once: bool = False) -> int:
        """Queue a request, and return the id of its answer. ``at_once``: it does not depend on log effects in the
        driver's queue."""
        request_id = self._next_request_id
        self._next_request_id += 1
        self.emit(Send(to, request_id, message, at_once))
        return request_id

    def respond(
        self, token: object, message: Response, read: ReadLog | ReadSnapshot | None = None, *, is_vote: bool = False
    ) -> None:
        """Queue an answer; a vote leaves when it is on disk."""
        answer = Respond(token, message, read)
        if is_vote:
            self.emit_once_durable(answer)
        else:
            self.emit(answer)

    def answer(self, token: object, request: type[Request], error: ErrorCode = ErrorCode.NONE) -> None:
        """Queue an answer with an error, the epoch and the leader only."""
        self.respond(token, RESPONSE_TO[request](error, self.epoch, self.leader))

    # Shared rules

    def advance_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark and tell the driver; it never falls."""
        risen = offset > self.high_watermark
        if risen:
            self.high_watermark = offset
            self.emit(HighWatermark(offset))
        return risen

    def has_waited_for(self, voters: Collection[int], now_ms: int) -> bool:
        """True when a first election need not wait for an answer of these voters any more.

        The wait begins with the first call: a majority agrees by then.
        """
        if self._first_election_at_ms is None:
            self._first_election_at_ms = now_ms + self.config.first_election_wait_ms
            self.emit(WaitsForVoters(tuple(sorted(voters)), self.config.first_election_wait_ms))
        return now_ms >= self._first_election_at_ms

    def complete_repair(self, leader: int) -> None:
        """The damaged log is whole again, or a new voter's log is. A vote of this epoch may have been lost with it: it
        counts as given to the leader, which won, and no other candidate gets one.
        """
        self.vote_disabled = self.is_new = False
        if self.election.voted_for is None:
            self.election = self.election._replace(voted_for=leader)
        self.emit_once_durable(RepairCompleted())

    def election_timeout_ms(self) -> int:
        """A random election timeout, so that voters do not stand at the same time."""
        return self.config.election_timeout_ms + self.rng.randrange(self.config.election_timeout_ms)

    def election_backoff_ms(self) -> int:
        """A random wait after a lost round; its bound doubles with each round lost in a row."""
        bound = self.config.election_jitter_ms << min(self.failed_rounds, 10)
        return 1 + self.rng.randrange(min(bound, self.config.election_backoff_max_ms))

    def retry_backoff_ms(self) -> int:
        """The pause after a failed fetch, or a failed search for the leader: it doubles, up to 16 times the first."""
        backoff_ms = self.config.retry_backoff_ms << min(self.failed_fetches, 4)
        self.failed_fetches += 1
        return backoff_ms

    def jitter_ms(self) -> int:
        """A small random wait, which also grows with rounds lost; it may be 0."""
        return self.election_backoff_ms() - 1


def _order(state: ElectionState) -> tuple[int, bool]:
    """Later states are greater: epochs rise, and a vote stays for its epoch."""
    return state.epoch, state.voted_for is not None
