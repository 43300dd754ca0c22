"""A round of voting: who was asked, who agreed, whether it is decided; and what the two roles that hold one share."""

from __future__ import annotations

from typing import ClassVar

from minikafka.raft.core import Core
from minikafka.raft.messages import Response, VoteRequest, VoteResponse
from minikafka.raft.role import Role, Transition


class Poll:
    """Asks every other voter once. Our own vote counts when epoch and vote are on disk (:meth:`grant_own`).

    A round is won with a majority that has our own vote in it, and lost when those who neither refused nor are out of
    reach are no majority any more. Without our own vote on disk the others' may be a majority, too, but a node that
    led with those, and crashed, would not know that it had stood, and could lead the epoch again with another log.

    A *provisional* vote is that of a voter which may have lost all that it ever acknowledged (:attr:`Core.is_new`). It
    counts only when every voter grants the round.
    """

    def __init__(self, core: Core, pre_vote: bool) -> None:
        self._core = core
        self._pre_vote = pre_vote
        self._request_ids: dict[int, int] = {}
        self.granted = {core.node_id} if core.is_durable else set()
        self.refused: set[int] = set()
        self._provisional = {core.node_id} if core.is_provisional(is_candidate_blank=core.is_blank) else set()

    def grant_own(self) -> None:
        """Our own vote is on disk."""
        self.granted.add(self._core.node_id)

    def open(self) -> None:
        """Ask the others."""
        core = self._core
        request = VoteRequest(core.cluster_id, core.node_id, core.epoch, core.log.end, self._pre_vote, core.is_blank)
        for voter in core.voters.others(core.node_id):
            self._request_ids[voter] = core.send(voter, request, at_once=True)

    def count(self, voter: int, request_id: int, response: VoteResponse) -> None:
        """Take an answer to this round; others (late, doubled) are ignored."""
        if self._request_ids.get(voter) == request_id:
            del self._request_ids[voter]
            granted = response.vote_granted and response.leader_epoch == self._core.epoch
            (self.granted if granted else self.refused).add(voter)
            if response.is_provisional:
                self._provisional.add(voter)

    def give_up(self, voter: int) -> None:
        """No answer of this voter will come."""
        if self._request_ids.pop(voter, None) is not None:
            self.refused.add(voter)

    @property
    def won(self) -> bool:
        """A majority granted it, ourselves among them; with provisional votes, all did."""
        voters = self._core.voters
        is_enough = len(self.granted - self._provisional) >= voters.majority or len(self.granted) == len(voters)
        return is_enough and self._core.node_id in self.granted

    @property
    def lost(self) -> bool:
        """Neither a majority nor all can grant it any more."""
        voters = self._core.voters
        return bool(self.refused) and len(voters) - len(self.refused | self._provisional) < voters.majority


class Round(Role):
    """A role that is one round of voting, and ends with it. Its clock starts when our own vote is on disk."""

    PRE_VOTE: ClassVar[bool]

    def __init__(self, core: Core, now_ms: int) -> None:
        super().__init__(core)
        self._deadline_ms = now_ms + core.election_timeout_ms() if core.is_durable else None
        self._poll = Poll(core, self.PRE_VOTE)

    def _on_won(self) -> Transition:
        """What follows a round won."""
        raise NotImplementedError

    def _on_failed(self) -> Transition:
        """What follows a round lost or out of time."""
        raise NotImplementedError

    def _on_lost(self, now_ms: int) -> Transition | None:
        """A round is lost: wait a random moment before the next."""
        at_ms = now_ms + self.core.election_backoff_ms()
        self._deadline_ms = at_ms if self._deadline_ms is None else min(self._deadline_ms, at_ms)
        return None

    def enter(self, now_ms: int) -> Transition | None:
        self._poll.open()
        return self._decide(now_ms)

    def next_deadline_ms(self) -> int | None:
        return self._deadline_ms

    def tick(self, now_ms: int) -> Transition | None:
        if self._deadline_ms is None or now_ms < self._deadline_ms:
            return None
        if not self._poll.lost:
            self.core.failed_rounds += 1
        return self._on_failed()

    def on_response(self, peer: int, request_id: int, message: Response, now_ms: int) -> Transition | None:
        if not isinstance(message, VoteResponse) or self._poll.lost:
            return None
        self._poll.count(peer, request_id, message)
        return self._decide(now_ms)

    def on_election_durable(self, now_ms: int) -> Transition | None:
        if self._deadline_ms is None:
            self._deadline_ms = now_ms + self.core.election_timeout_ms()
        if self._poll.lost:
            return None
        self._poll.grant_own()
        return self._decide(now_ms)

    def on_connection_lost(self, peer: int, refused: bool, now_ms: int) -> Transition | None:
        if self._poll.lost:
            return None
        self._poll.give_up(peer)
        return self._decide(now_ms)

    def _decide(self, now_ms: int) -> Transition | None:
        if self._poll.won:
            return self._on_won()
        if self._poll.lost:
            self.core.failed_rounds += 1
            return self._on_lost(now_ms)
        return None
