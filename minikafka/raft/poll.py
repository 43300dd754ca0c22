"""A round of voting, and the base of the two roles that hold one."""

from __future__ import annotations

from typing import ClassVar

from minikafka.raft.core import Core
from minikafka.raft.messages import Response, VoteRequest, VoteResponse
from minikafka.raft.role import Role, Transition


class Poll:
    """Asks every other voter once. Our own vote counts once epoch and vote are on disk (:meth:`grant_own`).

    A round is won by a majority that includes our own vote. It is lost once the voters that have neither refused nor
    become unreachable are no majority. The others alone may be a majority, too. But a node that led without its own
    vote on disk, and crashed, would not know of its candidacy, and could lead the epoch again with another log.

    A *provisional* vote comes from a voter that may have lost every record it acknowledged (:attr:`Core.is_new`). It
    counts only if every voter grants the round.

    A *blank* voter (:attr:`Core.is_blank`) asks for the first election of its cluster. If any voter knows of records,
    it is not the first. So a round of its pre-votes needs an answer of every voter, though not every grant. Voters that
    do not answer in many rounds are not waited for any longer (:meth:`Core.has_waited_for`).
    """

    def __init__(self, core: Core, pre_vote: bool) -> None:
        self._core = core
        self._pre_vote = pre_vote
        self._request_ids: dict[int, int] = {}
        self.granted = {core.node_id} if core.is_durable else set()
        self.refused: set[int] = set()
        self._is_blank = core.is_blank
        self.unanswered = set(core.voters.others(core.node_id))
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
        """Count an answer to this round; late and repeated ones are ignored."""
        if self._request_ids.get(voter) == request_id:
            del self._request_ids[voter]
            if not response.error_code:  # otherwise it has not looked at its log
                self.unanswered.discard(voter)
            granted = response.vote_granted and response.leader_epoch == self._core.epoch
            (self.granted if granted else self.refused).add(voter)
            if response.is_provisional:
                self._provisional.add(voter)

    def give_up(self, voter: int) -> None:
        """This voter will not answer."""
        if self._request_ids.pop(voter, None) is not None:
            self.refused.add(voter)

    @property
    def won(self) -> bool:
        """True when a majority granted it, including ourselves; with provisional votes, when all did."""
        return self._has_enough and not self._must_hear_all

    @property
    def lacks_answers_only(self) -> bool:
        """True when a majority agrees to a first election, and some of the others have not answered."""
        return self._has_enough and self._must_hear_all

    @property
    def _has_enough(self) -> bool:
        voters = self._core.voters
        is_enough = len(self.granted - self._provisional) >= voters.majority or len(self.granted) == len(voters)
        return is_enough and self._core.node_id in self.granted and not self._is_mistaken

    @property
    def _must_hear_all(self) -> bool:
        """Those who have not answered may have records."""
        return self._is_blank and self._pre_vote and bool(self.unanswered)

    @property
    def _is_mistaken(self) -> bool:
        """It began as a first election, and we have heard of records since."""
        return self._is_blank and not self._core.is_blank

    @property
    def lost(self) -> bool:
        """True when neither a majority nor all voters can grant it any more, or it should not have been asked for."""
        voters = self._core.voters
        is_short = bool(self.refused) and len(voters) - len(self.refused | self._provisional) < voters.majority
        return is_short or self._is_mistaken


class Round(Role):
    """A role for one round of voting. Its timeout begins once our own vote is on disk."""

    PRE_VOTE: ClassVar[bool]

    def __init__(self, core: Core, now_ms: int) -> None:
        super().__init__(core)
        self._deadline_ms = now_ms + core.election_timeout_ms() if core.is_durable else None
        self._poll = Poll(core, self.PRE_VOTE)

    def _on_won(self) -> Transition:
        """The transition after a won round."""
        raise NotImplementedError

    def _on_failed(self) -> Transition:
        """The transition after a lost round or a timeout."""
        raise NotImplementedError

    def _on_lost(self, now_ms: int) -> Transition | None:
        """The round is lost: wait for a random time before the next."""
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
        if self._poll.lacks_answers_only and self.core.has_waited_for(self._poll.unanswered, now_ms):
            return self._on_won()
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
