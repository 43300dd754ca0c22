"""Which of two logs is the damaged one, when they differ below a high watermark (rows R13, R26).

A record below a high watermark is in the log of every *complete* replica (in ISR or ELR). So if two logs differ there,
one of them is damaged, or an unclean election gave the record up. A finding about the local log goes to its
:class:`~minikafka.replication.replica_condition.ReplicaCondition`. A loss is logged once.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from minikafka.model import NO_EPOCH
from minikafka.replication import replica_effects as do
from minikafka.replication.epochs import EpochLog
from minikafka.replication.leader import LeaderState
from minikafka.replication.replica_condition import ReplicaCondition
from minikafka.replication.replica_facts import CommittedPartition, Surroundings


class Finding(Enum):
    """Finding of a :class:`Judge`."""

    NOTHING = "no damage: go on"
    DAMAGE = "the local log is damaged"
    UNKNOWN = "not known yet: ask again later"


class Verdict(NamedTuple):
    """A finding, and its events for the node's log."""

    finding: Finding
    say: tuple[do.Say, ...] = ()


_NOTHING = Verdict(Finding.NOTHING)


class Judge:
    """See the module. One for each local replica."""

    __slots__ = ("_condition", "_local_id", "_lost_up_to", "_short_since_ms", "_surroundings", "_waited_in")

    def __init__(self, local_id: int, condition: ReplicaCondition, surroundings: Surroundings) -> None:
        self._local_id = local_id
        self._condition = condition
        self._surroundings = surroundings
        self._lost_up_to = 0  # a loss below this offset was logged already
        self._short_since_ms: int | None = None  # since then the leader's log begins after the end of the local one
        self._waited_in = NO_EPOCH  # leader epoch in which FOLLOWER_WAITS was logged

    def on_new_leader(self) -> None:
        """Another leader, or a new epoch: findings about the former leader's log no longer count."""
        self._short_since_ms = None

    def of_epochs(self, log: EpochLog, committed: CommittedPartition) -> tuple[do.Say, ...]:
        """Leader epochs that the cluster has not had yet are damage, from their start on: no checksum covers them."""
        if not has_epochs_beyond(log, committed):
            return ()
        begin = log.end_offset_for_epoch(committed.leader_epoch).offset
        if self._condition.is_damaged_from(begin):
            return ()
        self._condition.on_damage(begin)
        return (do.Say(do.Saying.EPOCHS_BEYOND_METADATA, log.latest_epoch, committed.leader_epoch),)

    def of_follower_ahead(
        self,
        leader: LeaderState,
        end: int,
        replica_id: int,
        high_watermark: int,
        last_fetched_epoch: int,
        committed: CommittedPartition,
    ) -> Verdict:
        """A follower knows committed records that this leader does not have; their logs agree up to ``end`` (KIP-1166).

        A complete follower has those records: this log is damaged from there on, and another replica shall lead. Any
        other follower may have no more than this leader. Once all complete replicas have fetched, it has to follow, and
        the loss is logged.
        """
        if replica_id in committed.complete:
            if self._condition.is_damaged_from(end):
                return _NOTHING  # the damage is known already
            return self._damaged(end, do.Saying.LEADER_FALLS_SHORT, high_watermark)
        if committed.is_void(replica_id, last_fetched_epoch) or high_watermark <= self._lost_up_to:
            return _NOTHING
        if unheard := leader.unheard(committed.complete - {self._local_id}):
            return self._waits(leader.leader_epoch, end, high_watermark, unheard)
        self._lost_up_to = high_watermark
        return Verdict(Finding.NOTHING, (do.Say(do.Saying.LOSS_BY_LEADING, end, high_watermark),))

    def refuses(
        self, leader: LeaderState, replica_id: int, last_fetched_epoch: int, committed: CommittedPartition
    ) -> bool:
        """Do not cut this follower to the local log: it is complete, or a complete replica may have its records.

        That complete replica has not fetched in this leader epoch yet. The others wait for it while it is in ISR or
        ELR: if one of them joined the ISR first, it would no longer count as complete.
        """
        if replica_id in committed.complete:
            return True
        if committed.is_void(replica_id, last_fetched_epoch):
            return False
        return bool(leader.unheard(committed.complete - {self._local_id}))

    def of_cut(self, offset: int, high_watermark: int, latest_epoch: int, committed: CommittedPartition) -> Verdict:
        """A follower's log, with last epoch ``latest_epoch``, differs from the leader's from ``offset`` on.

        Below the high watermark it may do so only after an unclean election. Otherwise this log is damaged, since the
        leader's is not.
        """
        if offset >= high_watermark:
            return _NOTHING
        if committed.is_void(self._local_id, latest_epoch):
            return Verdict(Finding.NOTHING, (do.Say(do.Saying.LOSS_BY_TRUNCATION, offset, high_watermark),))
        return self._damaged(offset, do.Saying.FOLLOWER_DIVERGES, high_watermark)

    def of_restart(
        self, end: int, leader_start: int, committed: CommittedPartition, now_ms: int, patience_ms: int
    ) -> Verdict:
        """The leader's log begins at ``leader_start``, after the ``end`` of a follower's log.

        A leader deletes only records that every complete replica has. If this replica is complete, its tail was lost.
        But a process that was stopped for long still knows an old ISR. So the finding is UNKNOWN until metadata of this
        moment has arrived, or ``patience_ms`` have passed.
        """
        since_ms, self._short_since_ms = self._short_since_ms, None
        if self._local_id not in committed.complete:
            return _NOTHING
        since_ms = now_ms if since_ms is None else since_ms
        if now_ms - since_ms < patience_ms and not self._surroundings.knows_metadata_of(since_ms):
            self._short_since_ms = since_ms
            return Verdict(Finding.UNKNOWN)
        return self._damaged(end, do.Saying.FOLLOWER_FALLS_SHORT, leader_start)

    def _waits(self, leader_epoch: int, end: int, high_watermark: int, unheard: tuple[int, ...]) -> Verdict:
        """Log the awaited replicas once per leader epoch: one that is gone for good needs an operator."""
        if leader_epoch == self._waited_in:
            return Verdict(Finding.UNKNOWN)
        self._waited_in = leader_epoch
        return Verdict(Finding.UNKNOWN, (do.Say(do.Saying.FOLLOWER_WAITS, end, high_watermark, unheard),))

    def _damaged(self, offset: int, what: do.Saying, expected: int) -> Verdict:
        self._condition.on_damage(offset)
        return Verdict(Finding.DAMAGE, (do.Say(what, offset, expected),))


def has_epochs_beyond(log: EpochLog, committed: CommittedPartition) -> bool:
    """The log has later leader epochs than the cluster."""
    return log.latest_epoch > committed.leader_epoch


def shared_end(leader: LeaderState, log_end_offset: int, last_fetched_epoch: int) -> int:
    """End of the records that follower and leader can have in common; -1 for an empty log, which may begin anywhere.

    A follower without records of the leader's epoch shares at most the records before that epoch: a leader that began
    with too few records may have written more since.
    """
    if last_fetched_epoch == NO_EPOCH or last_fetched_epoch >= leader.leader_epoch:
        return log_end_offset
    return leader.leader_epoch_start_offset
