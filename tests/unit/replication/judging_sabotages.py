"""Planted bugs of who is cut when two logs differ below a high watermark."""

from __future__ import annotations

from judging_model import run, trace_of
from planted.registry import Suite

from minikafka.errors import ErrorCode
from minikafka.replication import replica_effects as do
from minikafka.replication.epochs import truncation_offset
from minikafka.replication.fetcher import ReplicaFetcher
from minikafka.replication.judging import Finding, Judge
from minikafka.replication.leader import LeaderState
from minikafka.replication.local_replica import LocalReplica
from minikafka.replication.lookups import EpochLookup

SUITE = Suite("judging", "who is cut when a log lost its tail or has false epochs", run, 20_000, trace=trace_of)


@SUITE.replaces(LocalReplica, "truncate")
def a_follower_believes_its_leader(self, offset, _now_ms):
    """It is cut below its high watermark at once, as it once was, while it is in the ISR."""
    say = [do.Say(do.Saying.LOSS_BY_TRUNCATION, offset, self.high_watermark)]
    return [*(say if offset < self.high_watermark else []), self._begin(do.Cut(offset))]


@SUITE.replaces(LocalReplica, "is_behind")
def a_leader_believes_its_own_log(_self, _high_watermark, _last_fetched_epoch):
    """One that lost its tail has the whole ISR cut to it, as it once had."""
    return False


@SUITE.replaces(Judge, "refuses")
def who_knows_more_waits_for_ever(_judge, _leader, replica_id, last_fetched_epoch, committed):
    """A follower out of the ISR is kept waiting when all who are complete were heard long since."""
    return replica_id in committed.complete or not committed.is_void(replica_id, last_fetched_epoch)


@SUITE.replaces(EpochLookup, "_cut_to_common")
def a_look_up_alone_cuts(self, state, end):
    """The leader is not told what the follower knows, before the follower is cut."""
    truncation = truncation_offset(state.asked_epoch, end, state.log)
    if truncation.is_complete:
        state.start_fetching()
    return [self._states.cut(state, truncation.offset)]


@SUITE.replaces(ReplicaFetcher, "on_epochs_fall")
def an_epoch_is_right_if_the_leader_has_it_anywhere(self, tp, _epoch, now_ms):
    """A follower whose last record has an epoch of later ones asks for ever, and never comes back into the ISR."""
    return self.on_append_failed(tp, ErrorCode.INVALID_RECORD, now_ms)


@SUITE.replaces(LocalReplica, "truncate")
def what_was_cleaned_stays_when_its_reason_goes(self, offset, now_ms):
    """A compacted log is cut like any other, as it once was: what it dropped for the sake of what goes is lost."""
    found = self._judge.of_cut(offset, self.high_watermark, self.log.latest_epoch, self._committed)
    if found.finding is Finding.DAMAGE:
        return self._after(found, now_ms)
    return [*found.say, self._begin(do.Cut(offset))]


@SUITE.plants()
def replicas_join_before_the_isr_was_heard(monkeypatch):
    """Two short replicas take each other into the ISR and elect each other, while a whole one is never heard."""
    maybe_expand = LeaderState.maybe_expand

    def eagerly(self, replica_id, now_ms):
        unheard = [one for one in self._remotes if one.log_end_offset < 0]
        for one in unheard:
            one.log_end_offset = 0
        proposal = maybe_expand(self, replica_id, now_ms)
        for one in unheard:
            one.log_end_offset = -1
        return proposal

    monkeypatch.setattr(LeaderState, "maybe_expand", eagerly)
