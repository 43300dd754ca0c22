"""Planted bugs: each makes the machines, or what is around them, wrong in a way replication has really been wrong.

Each takes pytest's ``monkeypatch``. The schedules must notice every one of :data:`SABOTAGES`.
"""

from __future__ import annotations

from replication_model import Cluster, Controller

from minikafka.replication import epochs, fetch_state, fetcher, isr
from minikafka.replication.epochs import Truncation
from minikafka.replication.leader import LeaderState


def forget_epoch_starts(monkeypatch):
    become_leader = Cluster.lead

    def lead(self, node, metadata):
        node.log.begin_epoch = lambda _epoch: None
        try:
            become_leader(self, node, metadata)
        finally:
            del node.log.begin_epoch

    monkeypatch.setattr(Cluster, "lead", lead)


def truncate_to_the_high_watermark(monkeypatch):
    def to_high_watermark(_asked_epoch, _answer, log):
        return Truncation(min(log.high_watermark, log.log_end_offset), True)

    monkeypatch.setattr(fetcher, "truncation_offset", to_high_watermark)


def skip_the_epoch_lookup(monkeypatch):
    construct = fetch_state.PartitionFetchState.__init__

    def fetching_from_the_start(self, followed):
        construct(self, followed)
        self.start_fetching()

    monkeypatch.setattr(fetch_state.PartitionFetchState, "__init__", fetching_from_the_start)
    monkeypatch.setattr(epochs, "diverging_epoch", lambda *_: None)


def look_up_one_epoch_only(monkeypatch):
    """KIP-101 without KIP-279."""
    monkeypatch.setattr(
        fetcher, "truncation_offset", lambda *args: Truncation(epochs.truncation_offset(*args).offset, True)
    )
    monkeypatch.setattr(epochs, "diverging_epoch", lambda *_: None)


def cut_to_the_high_watermark_when_the_epoch_is_unknown(monkeypatch):
    forget_epoch_starts(monkeypatch)

    def as_kafka_does(asked_epoch, answer, log):
        if answer.epoch < 0:
            return Truncation(min(log.high_watermark, log.log_end_offset), True)
        return epochs.truncation_offset(asked_epoch, answer, log)

    monkeypatch.setattr(fetcher, "truncation_offset", as_kafka_does)


def lose_the_epoch_cache_on_restart(monkeypatch):
    start = Cluster.start

    def forgetful(self, node):
        node.log.epochs.clear()
        start(self, node)

    monkeypatch.setattr(Cluster, "start", forgetful)


def serve_unfenced_fetches(monkeypatch):
    monkeypatch.setattr(epochs, "check_leader_epoch", lambda *_: None)


def expand_to_whoever_fetches(monkeypatch):
    def eagerly(self, replica_id, now_ms):
        replica = self._progress[replica_id]
        if replica.is_in_maximal_isr or not self._may_propose(now_ms):
            return None
        return self._propose(self._isr.committed | {replica_id})

    monkeypatch.setattr(LeaderState, "maybe_expand", eagerly)


def expand_before_the_start_of_the_epoch(monkeypatch):
    construct = LeaderState.__init__

    def from_zero(self, *args, **kwargs):
        construct(self, *args, **{**kwargs, "leader_epoch_start_offset": 0})

    monkeypatch.setattr(LeaderState, "__init__", from_zero)


def count_the_committed_isr_only(monkeypatch):
    propose = isr.InSyncReplicas.propose

    def without_the_proposed(self, proposal):
        propose(self, proposal)
        self.maximal = self.committed

    monkeypatch.setattr(isr.InSyncReplicas, "propose", without_the_proposed)


def count_no_replica_but_the_leader(monkeypatch):
    def alone(self, _now_ms):
        moved, self.high_watermark = self.high_watermark != self.log_end_offset, self.log_end_offset
        return moved

    monkeypatch.setattr(LeaderState, "maybe_advance_high_watermark", alone)


def shrink_before_the_controller_agrees(monkeypatch):
    maybe_shrink = LeaderState.maybe_shrink

    def at_once(self, now_ms):
        proposal = maybe_shrink(self, now_ms)
        if proposal is not None:
            self._isr.maximal = proposal.broker_ids
            self._on_membership_changed()
        return proposal

    monkeypatch.setattr(LeaderState, "maybe_shrink", at_once)


def forget_a_proposal_that_got_no_answer(monkeypatch):
    def forget(self, error, _fence):
        if error not in isr.STALE:
            self._settle()

    monkeypatch.setattr(isr.InSyncReplicas, "on_refused", forget)


def believe_a_refusal_after_no_answer(monkeypatch):
    def believe(self, error, _fence):
        if error in isr.STALE:
            return None
        if error not in isr.REFUSED:
            return self.in_flight
        return self._settle()

    monkeypatch.setattr(isr.InSyncReplicas, "on_refused", believe)


def accept_stale_proposals(monkeypatch):
    monkeypatch.setattr(Controller, "checks_partition_epoch", False)


def believe_fetches_of_dead_incarnations(monkeypatch):
    monkeypatch.setattr(Controller, "checks_broker_epoch", False)
    on_follower_fetch = LeaderState.on_follower_fetch
    monkeypatch.setattr(
        LeaderState,
        "on_follower_fetch",
        lambda self, replica, _epoch, *rest: on_follower_fetch(self, replica, 1, *rest),
    )


SABOTAGES = [
    truncate_to_the_high_watermark,
    skip_the_epoch_lookup,
    look_up_one_epoch_only,
    cut_to_the_high_watermark_when_the_epoch_is_unknown,
    lose_the_epoch_cache_on_restart,
    serve_unfenced_fetches,
    expand_to_whoever_fetches,
    expand_before_the_start_of_the_epoch,
    count_the_committed_isr_only,
    count_no_replica_but_the_leader,
    shrink_before_the_controller_agrees,
    forget_a_proposal_that_got_no_answer,
    believe_a_refusal_after_no_answer,
    accept_stale_proposals,
    believe_fetches_of_dead_incarnations,
]
