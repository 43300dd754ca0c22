"""Which log is the damaged one, where two differ below a high watermark (rows R13, R26).

A record below a high watermark is in the log of every *complete* replica, in ISR or ELR. So one of two logs that differ
there is damaged, or an unclean election gave the record up. What is found about the local log goes to its
:class:`~minikafka.replication.replica_condition.ReplicaCondition`; a loss is said once.
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
    """What a :class:`Judge` found."""

    NOTHING = "nothing stands against what was asked"
    DAMAGE = "the local log is damaged"
    UNKNOWN = "what it depends on is not known yet"


class Verdict(NamedTuple):
    """A finding, and what people are to be told of it."""

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
        self._lost_up_to = 0  # the loss of what lies below was said
        self._short_since_ms: int | None = None  # the leader's log began behind the local one
        self._waited_in = NO_EPOCH  # the leader epoch in which it was said that a follower waits

    def on_new_leader(self) -> None:
        """Another leader, or a new epoch: what the former one had says nothing any more."""
        self._short_since_ms = None

    def of_epochs(self, log: EpochLog, committed: CommittedPartition) -> tuple[do.Say, ...]:
        """Leader epochs that the cluster has not had yet: no checksum covers them. They are damage where they begin."""
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
        """A follower knows records as committed that this leader, which shares ``end`` with it, lacks (KIP-1166).

        One that is complete has them: this log is damaged from there on, and another shall lead. Others may have no
        more than this one: when all that are complete were heard they have to follow, and the loss is said.
        """
        if replica_id in committed.complete:
            if self._condition.is_damaged_from(end):
                return _NOTHING  # as is known
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
        """Such a follower is not to be cut to this log: it is complete, or another that is may have what it has.

        That one has not been heard since this leader leads. While it is in ISR or ELR the others wait for it: the one
        that was taken into the ISR before would make it count no more.
        """
        if replica_id in committed.complete:
            return True
        if committed.is_void(replica_id, last_fetched_epoch):
            return False
        return bool(leader.unheard(committed.complete - {self._local_id}))

    def of_cut(self, offset: int, high_watermark: int, latest_epoch: int, committed: CommittedPartition) -> Verdict:
        """A follower's log, which ends in ``latest_epoch``, leaves the leader's at ``offset``.

        Not below the high watermark, unless an unclean election made that void: else this log is damaged, since the
        leader is not.
        """
        if offset >= high_watermark:
            return _NOTHING
        if committed.is_void(self._local_id, latest_epoch):
            return Verdict(Finding.NOTHING, (do.Say(do.Saying.LOSS_BY_TRUNCATION, offset, high_watermark),))
        return self._damaged(offset, do.Saying.FOLLOWER_DIVERGES, high_watermark)

    def of_restart(
        self, end: int, leader_start: int, committed: CommittedPartition, now_ms: int, patience_ms: int
    ) -> Verdict:
        """The leader's log begins at ``leader_start``, behind the ``end`` of a follower's.

        A leader deletes only what every complete replica has. If this is one, its tail is lost. But a process that was
        stopped for long wakes up in the ISR that it knew: nothing is known before the metadata of that moment is, or
        ``patience_ms`` have passed.
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
        """Once in a leader epoch it is said for whom: one that is gone for good is waited for until somebody acts."""
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
    """Where a follower ends at the latest in what this leader has, too.

    That is where the leader's epoch began, for one that has nothing of it: a leader that began with too little may have
    written more since. -1: an empty log, which may begin anywhere.
    """
    if last_fetched_epoch == NO_EPOCH or last_fetched_epoch >= leader.leader_epoch:
        return log_end_offset
    return leader.leader_epoch_start_offset
