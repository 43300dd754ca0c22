"""Planted bugs: each makes the machines, or what is around them, wrong in a way replication has really been wrong."""

from __future__ import annotations

from planted.registry import Suite
from replication_model import Cluster, Controller, trace_of
from replication_model import run as run_schedule

from minikafka.replication import epochs, fetch_state, isr
from minikafka.replication.epochs import Truncation
from minikafka.replication.leader import LeaderState
from minikafka.replication.replica_effects import BeginEpoch
from minikafka.replication.server_session import FetchSession

SUITE = Suite(
    "replication", "leaders, fetchers, epochs and ISR proposals of a partition", run_schedule, 50_000, trace=trace_of
)


def forget_epoch_starts(monkeypatch):
    carry_out = Cluster.carry_out

    def without_epochs(self, node, effects):
        carry_out(self, node, [effect for effect in effects if not isinstance(effect, BeginEpoch)])

    monkeypatch.setattr(Cluster, "carry_out", without_epochs)


@SUITE.plants(listed="truncate to the high watermark")
def truncate_to_the_high_watermark(monkeypatch):
    """A follower cuts its log to its own high watermark, which may lack what is committed (before KIP-101)."""

    def to_high_watermark(_asked_epoch, _answer, log):
        return Truncation(min(log.high_watermark, log.log_end_offset), True)

    monkeypatch.setattr(epochs, "truncation_offset", to_high_watermark)


@SUITE.plants(listed="skip OffsetForLeaderEpoch")
def skip_the_epoch_lookup(monkeypatch):
    """A follower fetches from its log end without asking whether the leader has the same log."""
    construct = fetch_state.PartitionFetchState.__init__

    def fetching_from_the_start(self, followed):
        construct(self, followed)
        self.start_fetching()

    monkeypatch.setattr(fetch_state.PartitionFetchState, "__init__", fetching_from_the_start)
    monkeypatch.setattr(epochs, "diverging_epoch", lambda *_: None)


@SUITE.plants()
def look_up_one_epoch_only(monkeypatch):
    """A follower that is told a smaller epoch cuts there and does not ask again (KIP-101 without KIP-279)."""
    truncation_offset = epochs.truncation_offset
    monkeypatch.setattr(epochs, "truncation_offset", lambda *args: Truncation(truncation_offset(*args).offset, True))
    monkeypatch.setattr(epochs, "diverging_epoch", lambda *_: None)


@SUITE.plants()
def cut_to_the_high_watermark_when_the_epoch_is_unknown(monkeypatch):
    """A follower whose epoch the leader does not know cuts to its high watermark."""
    forget_epoch_starts(monkeypatch)
    truncation_offset = epochs.truncation_offset

    def as_kafka_does(asked_epoch, answer, log):
        if answer.epoch < 0:
            return Truncation(min(log.high_watermark, log.log_end_offset), True)
        return truncation_offset(asked_epoch, answer, log)

    monkeypatch.setattr(epochs, "truncation_offset", as_kafka_does)


@SUITE.plants(listed="epoch cache lost on restart")
def lose_the_epoch_cache_on_restart(monkeypatch):
    """A restarted replica does not know where the epochs of its log begin."""
    start = Cluster.start

    def forgetful(self, node):
        node.log.epochs.clear()
        start(self, node)

    monkeypatch.setattr(Cluster, "start", forgetful)


@SUITE.plants(listed="unfenced fetch")
def serve_unfenced_fetches(monkeypatch):
    """A leader serves followers of other epochs, and counts what they claim."""
    monkeypatch.setattr(epochs, "check_leader_epoch", lambda *_: None)


@SUITE.plants(listed="eager ISR expand")
def expand_to_whoever_fetches(monkeypatch):
    """A replica joins the ISR with its first fetch."""

    def eagerly(self, replica_id, now_ms):
        replica = self._progress[replica_id]
        if replica.is_in_maximal_isr or not self._may_propose(now_ms):
            return None
        return self._propose(self._isr.committed | {replica_id})

    monkeypatch.setattr(LeaderState, "maybe_expand", eagerly)


@SUITE.plants()
def expand_before_the_start_of_the_epoch(monkeypatch):
    """A replica joins the ISR at the high watermark, short of where the leader's epoch begins."""
    construct = LeaderState.__init__

    def from_zero(self, *args, **kwargs):
        construct(self, *args, **{**kwargs, "leader_epoch_start_offset": 0})

    monkeypatch.setattr(LeaderState, "__init__", from_zero)


@SUITE.plants(listed="high watermark from the committed ISR only")
def count_the_committed_isr_only(monkeypatch):
    """The high watermark does not wait for whom the leader has proposed to add."""
    propose = isr.InSyncReplicas.propose

    def without_the_proposed(self, proposal):
        propose(self, proposal)
        self.maximal = self.committed

    monkeypatch.setattr(isr.InSyncReplicas, "propose", without_the_proposed)


@SUITE.plants(listed="ack before ISR")
def count_no_replica_but_the_leader(monkeypatch):
    """A write is acknowledged when the leader has it."""

    def alone(self, _now_ms):
        moved, self.high_watermark = self.high_watermark != self.log_end_offset, self.log_end_offset
        return moved

    monkeypatch.setattr(LeaderState, "maybe_advance_high_watermark", alone)


@SUITE.plants()
def shrink_before_the_controller_agrees(monkeypatch):
    """Whom the leader proposes away is not waited for any more."""
    maybe_shrink = LeaderState.maybe_shrink

    def at_once(self, now_ms):
        proposal = maybe_shrink(self, now_ms)
        if proposal is not None:
            self._isr.maximal = proposal.broker_ids
            self._on_membership_changed()
        return proposal

    monkeypatch.setattr(LeaderState, "maybe_shrink", at_once)


@SUITE.plants()
def forget_a_proposal_that_got_no_answer(monkeypatch):
    """A proposal that timed out is taken for refused, though the controller may yet accept it."""

    def forget(self, error, _fence):
        if error not in isr.STALE:
            self._settle()

    monkeypatch.setattr(isr.InSyncReplicas, "on_refused", forget)


@SUITE.plants()
def believe_a_refusal_after_no_answer(monkeypatch):
    """A refusal settles a proposal of which another copy is still on its way."""

    def believe(self, error, _fence):
        if error in isr.STALE:
            return None
        if error not in isr.REFUSED:
            return self.in_flight
        return self._settle()

    monkeypatch.setattr(isr.InSyncReplicas, "on_refused", believe)


@SUITE.plants(listed="stale ISR proposal accepted")
def accept_stale_proposals(monkeypatch):
    """The controller accepts a proposal that was made from an older state of the partition."""
    monkeypatch.setattr(Controller, "checks_partition_epoch", False)


@SUITE.plants()
def believe_fetches_of_dead_incarnations(monkeypatch):
    """A fetch of a broker's former life counts for its present one (before KIP-903)."""
    monkeypatch.setattr(Controller, "checks_broker_epoch", False)
    on_follower_fetch = LeaderState.on_follower_fetch
    monkeypatch.setattr(
        LeaderState,
        "on_follower_fetch",
        lambda self, replica, _epoch, *rest: on_follower_fetch(self, replica, 1, *rest),
    )


@SUITE.replaces(FetchSession, "note")
def a_change_of_a_settled_partition_is_not_noted(_self, _cached):
    """A leader does not look again at a partition without news when its log end, high watermark or ISR is another."""


@SUITE.replaces(LeaderState, "progress_in_sync")
def who_is_not_in_sync_is_settled(self, replica_id):
    """A leader stops looking at the fetches of a follower that is to join the ISR."""
    return self._progress.get(replica_id)


@SUITE.replaces(LeaderState, "progress_in_sync")
def nobody_looks_whether_records_may_be_committed_now(self, replica_id):
    """A leader does not notice that a replica that was joining is fenced, or has gone away."""
    return self._progress.get(replica_id) if replica_id in self._isr.committed else None
