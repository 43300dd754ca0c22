"""Unattached: no leader is known in this epoch.

A voter waits for a leader or a candidate until its election timeout, then turns prospective. The timeout begins once
its vote is on disk: the candidate cannot have won before. Meanwhile it looks for the leader: it fetches from one voter
after another, first from the leader in its ``quorum-state``, until one names the leader. An observer, or a voter with a
damaged log, looks for ever.
"""

from __future__ import annotations

from typing import ClassVar

from minikafka.raft.core import Core
from minikafka.raft.messages import FetchRequest, Response
from minikafka.raft.role import Role, ToProspective, Transition


class Unattached(Role):
    """See the module's docstring. ``search_at_ms``: the time to ask the next voter."""

    NAME: ClassVar[str] = "unattached"

    def __init__(self, core: Core, now_ms: int, search_at_ms: int, remembered_leader: int | None = None) -> None:
        super().__init__(core)
        self._election_deadline_ms = self._election_due_ms(now_ms) if core.is_durable else None
        self._others = core.voters.others(core.node_id)
        self._search_at_ms = search_at_ms
        self._ask_first = remembered_leader
        self._asked: tuple[int, int] | None = None

    def _election_due_ms(self, now_ms: int) -> int | None:
        core = self.core
        if not core.may_campaign:
            return None
        return now_ms if len(core.voters) == 1 else now_ms + core.election_timeout_ms()

    def enter(self, now_ms: int) -> Transition | None:
        return self.tick(now_ms)

    def on_election_durable(self, now_ms: int) -> Transition | None:
        if self._election_deadline_ms is None:
            self._election_deadline_ms = self._election_due_ms(now_ms)
        return self.tick(now_ms)

    def may_vote(self) -> bool:
        return True

    def follows(self, leader: int, source: int) -> bool:
        return True

    def next_deadline_ms(self) -> int | None:
        election_at_ms = self._election_deadline_ms
        if not self._can_search():
            return election_at_ms
        return self._search_at_ms if election_at_ms is None else min(self._search_at_ms, election_at_ms)

    def tick(self, now_ms: int) -> Transition | None:
        if self._election_deadline_ms is not None and now_ms >= self._election_deadline_ms:
            return ToProspective()
        if now_ms >= self._search_at_ms and self._can_search():
            self._search(now_ms)
        return None

    def _can_search(self) -> bool:
        # Every fetch claims that our log is on disk, also one that only looks for the leader.
        return bool(self._others) and self.core.log.flushed and self.core.is_durable

    def _search(self, now_ms: int) -> None:
        core, others = self.core, self._others
        target = self._ask_first if self._ask_first in others else others[core.rng.randrange(len(others))]
        self._ask_first = None
        request = FetchRequest(core.cluster_id, core.node_id, core.epoch, core.log.end, core.high_watermark, 0, 0)
        self._asked = (target, core.send(target, request))
        self._search_at_ms = now_ms + core.config.request_timeout_ms

    def on_response(self, peer: int, request_id: int, message: Response, now_ms: int) -> Transition | None:
        if self._asked == (peer, request_id):
            self._search_again(now_ms)
        return None

    def on_connection_lost(self, peer: int, refused: bool, now_ms: int) -> Transition | None:
        if self._asked is not None and self._asked[0] == peer:
            self._search_again(now_ms)
        return None

    def _search_again(self, now_ms: int) -> None:
        self._asked = None
        self._search_at_ms = now_ms + self.core.retry_backoff_ms() + self.core.jitter_ms()
