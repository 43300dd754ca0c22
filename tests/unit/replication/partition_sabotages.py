"""Planted bugs of the whole: replicas, controller and what they agree on."""

from __future__ import annotations

from partition_model import PartitionCluster, RealController, run, trace_of
from planted.registry import Suite

from minikafka.metadata.controller import partition_change, partitions, reassignments
from minikafka.model import NO_EPOCH
from minikafka.replication.leader import LeaderState
from minikafka.replication.server_session import CachedPartition

SUITE = Suite(
    "partition", "replicas with the real controller: elections, ELR, reassignment", run, 50_000, trace=trace_of
)


@SUITE.plants()
def removal_keeps_the_leader_epoch(monkeypatch):
    """A replica that is removed and added again may fetch meanwhile from a log that it is about to delete."""
    change_record = partition_change.change_record

    def with_the_old_leader(topic_id, index, before, after, gone=()):
        record = change_record(topic_id, index, before, after, gone)
        if record is not None and record.leader == before.leader:
            object.__setattr__(record, "leader", None)
        return record

    monkeypatch.setattr(partition_change, "change_record", with_the_old_leader)
    monkeypatch.setattr(partitions, "change_record", with_the_old_leader)


@SUITE.plants()
def a_replica_is_dropped_before_enough_others_have_its_records(monkeypatch):
    """A reassignment that is replaced or cancelled leaves the ISR below the minimum, with what was committed above."""
    monkeypatch.setattr(reassignments, "_check_copies", lambda *_: None)


@SUITE.plants()
def a_machine_that_lost_power_stays_in_sync(monkeypatch):
    """Registering after a power cut is taken for registering after a kill."""
    register = RealController.register
    monkeypatch.setattr(
        RealController,
        "register",
        lambda self, broker_id, _previous: (
            register(self, broker_id, self.image.broker(broker_id).broker_epoch)
            if "t" in self.image.topics_by_name
            else register(self, broker_id, NO_EPOCH)
        ),
    )


@SUITE.plants()
def the_isr_below_the_minimum_commits(monkeypatch):
    """The high watermark moves although fewer than min.insync.replicas have the records."""
    monkeypatch.setattr(LeaderState, "_effective_min_isr", property(lambda _self: 1))


@SUITE.plants()
def the_eligible_stay_eligible(monkeypatch):
    """Who left the ISR may be elected although others went on without it."""
    settled = partition_change.settled

    def keeping(before, wanted, around):
        after = settled(before, wanted, around)
        stay = {*before.elr, *before.isr, *after.elr} - {*after.isr, *around.lost}
        return partition_change.replace(after, elr=tuple(one for one in after.replicas if one in stay))

    monkeypatch.setattr(partition_change, "settled", keeping)
    monkeypatch.setattr(partitions, "settled", keeping)
    monkeypatch.setattr(PartitionCluster, "check_controller", lambda *_: None)


@SUITE.plants()
def any_assigned_replica_is_elected(monkeypatch):
    """With nobody of the ISR alive, whoever is assigned leads."""
    leader = partition_change._leader

    def anyone(wanted, isr, around):
        found = leader(wanted, isr, around)
        return found if found != -1 else partition_change._first(wanted.replicas, around)

    monkeypatch.setattr(partition_change, "_leader", anyone)
    monkeypatch.setattr(PartitionCluster, "check_controller", lambda *_: None)


@SUITE.plants()
def reassignment_completes_before_its_replicas_are_in_sync(monkeypatch):
    """The old replicas go as soon as one of the new is in the ISR."""
    completed = partition_change.completed

    def early(partition, around):
        target = partition.target_replicas
        if partition.is_reassigning and set(target) & set(partition.isr):
            partition = partition_change.replace(partition, isr=(*partition.isr, *target))
        return completed(partition, around)

    monkeypatch.setattr(partition_change, "completed", early)
    monkeypatch.setattr(partitions, "completed", early)


@SUITE.plants(listed="stale ISR proposal accepted")
def proposals_are_not_checked(monkeypatch):
    """The controller takes any proposal of anyone, made from whatever state."""
    monkeypatch.setattr(partitions, "_check_proposal", lambda *_: None)


@SUITE.plants()
def other_incarnations_join_the_isr(monkeypatch):
    """A broker that has been restarted, or is fenced, joins the ISR for what its former process had."""
    monkeypatch.setattr(partitions, "_ineligible", lambda *_: None)
    monkeypatch.setattr(PartitionCluster, "is_eligible", lambda *_: True)


@SUITE.plants()
def a_new_process_acts_on_metadata_of_the_old(monkeypatch):
    """A restarted broker leads what it led before it has seen its own registration."""
    start = PartitionCluster.start

    def at_once(self, node):
        applied = node.applied
        start(self, node)
        if node.alive and applied < node.applied:
            node.reset()
            node.applied = applied
            self.apply_metadata(node)

    monkeypatch.setattr(PartitionCluster, "start", at_once)


@SUITE.replaces(CachedPartition, "ask")
def what_was_told_once_is_known(self, asked):
    """A follower that dropped an answer, since it heard of a new leader epoch first, is not told it again."""
    self.asked = asked
