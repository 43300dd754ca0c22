"""What must hold after every step of the controller's schedules, each by a name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from controller_brokers import Broker, Entry
from controller_cluster import Cluster

from minikafka.metadata.controller.standing import Standing
from minikafka.metadata.image import PartitionImage
from minikafka.metadata.records import PartitionChangeRecord, Record
from minikafka.model import NO_NODE


def check_state(cluster: Cluster, new: PartitionImage, minimum: int) -> None:
    """What can be said of one state of the partition alone."""
    replicas = set(new.replicas)
    for name, some in (("replicas", new.replicas), ("ISR", new.isr), ("ELR", new.elr)):
        assert len(set(some)) == len(some), f"{name}: one twice"
    assert set(new.isr) <= replicas, "ISR outside the assignment"
    assert set(new.elr) <= replicas, "ELR outside the assignment"
    assert set(new.last_known_elr) <= replicas, "last leader outside the assignment"
    assert not set(new.elr) & set(new.isr), "ELR within the ISR"
    assert not new.elr or len(new.isr) < min(minimum, len(new.original_replicas)), "ELR while records are committed"
    assert new.leader in (NO_NODE, *new.isr), "leader outside the ISR"
    assert new.leader == NO_NODE or cluster.image.is_live(new.leader), "leader fenced"
    assert new.leader == NO_NODE or not new.last_known_elr, "a last leader while there is one"
    assert set(new.adding_replicas) | set(new.removing_replicas) <= replicas, "adding or removing nobody's replica"
    assert not set(new.adding_replicas) & set(new.removing_replicas), "adding what is removed"
    assert len(new.directories) in (0, len(new.replicas)), "a directory for each replica or none"


def check_change(old: PartitionImage, new: PartitionImage) -> None:
    """What can be said of two states in a row."""
    assert new.leader_epoch >= old.leader_epoch, "leader epoch went back"
    assert new.partition_epoch >= old.partition_epoch, "partition epoch went back"
    assert new == old or new.partition_epoch > old.partition_epoch, "changed in the same partition epoch"
    assert new.leader == old.leader or new.leader_epoch > old.leader_epoch, "two leaders of one epoch"
    is_remembered = old.leader_epoch < new.unclean_leader_epoch <= new.leader_epoch
    assert is_remembered or new.unclean_leader_epoch == old.unclean_leader_epoch, "a wrong unclean election"
    nobody_is_complete = not old.isr and not old.elr
    assert is_remembered or new.leader == NO_NODE or not nobody_is_complete, "an unclean election is forgotten"
    came_back = not set(old.replicas) <= set(new.replicas)
    assert not came_back or new.leader_epoch > old.leader_epoch, "a replica went in the same leader epoch"


def check_reassignment(new: PartitionImage, target: tuple[int, ...]) -> None:
    """It leads where it was last sent to, and is there when it is complete."""
    assert new.target_replicas == target, "reassigned to somewhere else"
    assert new.is_reassigning or new.replicas == target, "complete, but not on the target"


def check_completion(old: PartitionImage, records: Iterable[Record]) -> None:
    """Replicas go only when every new one is in sync, and who goes is not needed."""
    isr, elr = old.isr, old.elr
    for record in records:
        if isinstance(record, PartitionChangeRecord):
            if record.replicas is not None:
                assert set(old.adding_replicas) & set(record.replicas) <= set(isr), "completed before the new caught up"
                going = set(old.replicas) - set(record.replicas)
                is_free = going.isdisjoint({*isr, *elr})
                assert set(record.replicas) <= set(isr) or is_free, "completed before the target was in sync"
            isr = isr if record.isr is None else record.isr
            elr = elr if record.elr is None else record.elr


def check_served(cluster: Cluster, old: PartitionImage, new: PartitionImage) -> None:
    """Nobody who could lead is left out, and nobody waits for who is gone."""
    state = cluster.controller._state
    assert state is not None
    standing = {
        one: Standing.UNAVAILABLE if state.is_offline(new, one) else state.standing(one) for one in new.replicas
    }
    is_named = new.leader not in (NO_NODE, old.leader)
    assert not is_named or standing[new.leader] is Standing.AVAILABLE, "a leader that may not be there"
    for member in set(new.isr) - set(old.isr):
        assert standing[member] is not Standing.UNAVAILABLE, "joined the ISR though it is not there"
    there = [member for member in new.isr if standing[member] is Standing.AVAILABLE]
    if there:
        assert new.leader != NO_NODE, "somebody could lead"
        assert all(standing[member] is not Standing.UNAVAILABLE for member in new.isr), "HW waits for the dead"
    elif not any(standing[member] is Standing.PRESUMED for member in new.isr):
        assert not new.isr, "the dead are in sync"
        assert not any(standing[one] is Standing.AVAILABLE for one in new.elr), "an eligible replica could lead"
    missing = set(new.target_replicas) - set(new.isr)
    is_free = not {*new.isr, *new.elr} & set(new.removing_replicas) and not missing & set(new.adding_replicas)
    if new.is_reassigning and (is_free or not missing):
        assert new.leader == NO_NODE or not any(one in new.target_replicas for one in there), "could be completed"


def check_complete(brokers: Mapping[int, Broker], new: PartitionImage, acknowledged: list[Entry]) -> None:
    """Everybody who may be elected without loss has every acknowledged record (promise P1)."""
    length = len(acknowledged)
    for name, members in (("ISR", new.isr), ("ELR", new.elr)):
        for member in members:
            broker = brokers[member]
            assert broker.lost or broker.log[:length] == acknowledged, f"{member} in the {name} lost something"


def lossy_election(old: PartitionImage, records: Iterable[Record], excused: Collection[int]) -> int | None:
    """The leader that was named although it may lack records, if one was; ``excused`` are those who lost theirs."""
    isr, elr, lossy = old.isr, old.elr, None
    for record in records:
        if isinstance(record, PartitionChangeRecord):
            leader = record.leader
            if leader is not None and leader != NO_NODE and leader not in (*isr, *elr):
                left = {*isr, *elr}.difference(excused)
                assert not left, f"{leader} leads, though {sorted(left)} had everything"
                lossy = leader
            isr = isr if record.isr is None else record.isr
            elr = elr if record.elr is None else record.elr
    return lossy
