"""Planted bugs of a local replica: of its roles, cuts, syncs and damage."""

from __future__ import annotations

from local_replica_model import LocalReplicaCluster, run, trace_of
from planted.registry import Suite

from minikafka.metadata.controller import partition_change, partitions
from minikafka.replication import replica_effects as do
from minikafka.replication.local_replica import LocalReplica
from minikafka.replication.replica_condition import Condition, ReplicaCondition

SUITE = Suite("local replica", "roles, cuts, syncs, damage and moves of local replicas", run, 50_000, trace=trace_of)


@SUITE.plants()
def a_new_leader_counts_what_is_not_synced(monkeypatch):
    """With flush.messages=1 its high watermark begins at its unsynced end, as it once did."""
    lead = LocalReplica._lead

    def eagerly(self, committed, now_ms):
        monkeypatch.setattr(LocalReplica, "_counted_end", lambda self: self.log.log_end_offset)
        effects = lead(self, committed, now_ms)
        monkeypatch.setattr(LocalReplica, "_counted_end", counted_end)
        return effects

    counted_end = LocalReplica._counted_end
    monkeypatch.setattr(LocalReplica, "_lead", eagerly)


@SUITE.plants()
def what_is_written_counts_before_it_is_synced(monkeypatch):
    """flush.messages asks for syncs, and nobody waits for them."""
    monkeypatch.setattr(LocalReplica, "_counted_end", lambda self: self.log.log_end_offset)


@SUITE.plants()
def damage_is_cut_before_the_controller_knows(monkeypatch):
    """A damaged replica believes what it knows of the ISR, as it once did: it may have been let in meanwhile."""

    def at_once(self, committed):
        return self.now is Condition.DAMAGED and self._local_id not in committed.complete

    monkeypatch.setattr(ReplicaCondition, "must_refetch", at_once)


@SUITE.plants()
def a_replica_begins_anew_in_the_same_leader_epoch(monkeypatch):
    """A fetch that it sent before it was cut may let it join the ISR."""
    change_record = partition_change.change_record

    def in_the_same(topic_id, index, before, after, _gone=()):
        return change_record(topic_id, index, before, after)

    monkeypatch.setattr(partitions, "change_record", in_the_same)


@SUITE.plants()
def damage_is_kept_to_oneself(monkeypatch):
    """A damaged replica is cut while it is in the ISR, and claims nothing."""
    monkeypatch.setattr(ReplicaCondition, "must_refetch", lambda self, _committed: self.now is Condition.DAMAGED)


@SUITE.plants()
def damage_does_not_outlive_its_process(monkeypatch):
    """A process that starts registers as having lost nothing, and leads with what recovery left of its log."""
    monkeypatch.setattr(LocalReplicaCluster, "previous_broker_epoch", lambda _self, node: node.broker_epoch)
    replica = LocalReplicaCluster.local_replica

    def whole(self, node):
        made = replica(self, node)
        made.condition = ReplicaCondition(node.id, None)
        return made

    monkeypatch.setattr(LocalReplicaCluster, "local_replica", whole)


@SUITE.plants()
def roles_change_while_the_log_is_cut(monkeypatch):
    """Metadata that comes during a cut is acted on at once."""

    def at_once(self, now_ms):
        committed = self._committed
        if committed is None or self.is_offline:
            return []
        effects = self._claims(committed)
        if committed.leader_id == self._local_id:
            return effects + self._lead(committed, now_ms)
        if self.cut is not None:
            return effects + (self._resign(committed) if self.leader is not None else [])
        return effects + self._follow(committed)

    monkeypatch.setattr(LocalReplica, "_take_role", at_once)


@SUITE.plants()
def a_damaged_replica_is_never_refetched(monkeypatch):
    """It stays out of the ISR for good."""
    monkeypatch.setattr(ReplicaCondition, "must_refetch", lambda _self, _committed: False)


@SUITE.plants()
def what_is_fetched_again_and_again_is_not_looked_at(monkeypatch):
    """A leader whose own bytes went bad goes on sending them, as it once did: no follower gets on."""
    monkeypatch.setattr(LocalReplica, "on_records_sent", lambda *_: [])


@SUITE.plants()
def a_moved_replica_does_not_say_where_it_is(monkeypatch):
    """The cluster takes it to be in the directory that it left."""
    on_moved = LocalReplica.on_moved

    def silently(self, log, directory_id, now_ms):
        return [each for each in on_moved(self, log, directory_id, now_ms) if not isinstance(each, do.Claim)]

    monkeypatch.setattr(LocalReplica, "on_moved", silently)
    claims = LocalReplica._claims
    monkeypatch.setattr(
        LocalReplica,
        "_claims",
        lambda self, committed: claims(self, committed) if self.condition.now is not Condition.WHOLE else [],
    )
