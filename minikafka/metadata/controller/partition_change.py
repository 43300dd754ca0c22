"""The rule of a partition: its leader, ISR and ELR, from its present state and the live brokers.

Theory. A record is *committed* when the high watermark passes it. A leader moves the high watermark only over records
that every member of its maximal ISR has, and only while its ISR has ``min.insync.replicas`` members (strict min ISR).
So two sets of replicas have all committed records, and the controller keeps both:

* the **ISR**: the leader waits for its members;
* the **ELR** (eligible leader replicas, KIP-966): members left an ISR, and since then no leader could move the high
  watermark, because the ISR was smaller than the minimum.

An election from ISR or ELR loses nothing (promise P1). A change that leaves the ISR at or above the minimum clears the
ELR: from now on records may be committed that the ELR does not have. Otherwise replicas that leave the ISR join the
ELR. An empty ISR is below any minimum, so its last members stay eligible. If all brokers of a partition die
(``kill -9``), the first of those to return leads.

A leader must not be looser than these rules. During a reassignment the minimum counts as at most the number of former
replicas; a leader counts at least those. A raised ``min.insync.replicas`` begins a new partition epoch of each
partition, so a leader with the old value cannot shrink an ISR (see ``configs``).

*Lost* replicas are in neither set. A broker is lost when it registers without continuing its former registration (its
machine may have lost power, and unsynced records with it), or when its log directory failed. While another member of
ISR or ELR is left, no record is lost. If no member is left, the last leader (``last_known_elr``) leads when it is back:
it is likely to have the most records ("balanced" recovery). So a machine that alone lost power needs no operator.

An *unclean* election elects a replica outside ISR and ELR; that of a last leader is one too. The partition remembers
the leader epoch of its last unclean election (``unclean_leader_epoch``). Nothing else tells a replica that committed
records were given up.

*Presumed* brokers are live in the image, but have not sent a heartbeat to this new controller yet. After a crash of all
nodes every broker is presumed, dead ones included. The first broker to return must not push the others out of the ISR:
they would lose their eligibility to brokers that are dead. So no member leaves an ISR while none of its members is
known to be alive and some are presumed. Each presumed broker sends a heartbeat, or is fenced, within a session
time-out.

    =====================================  ==================================================================
    ISR members                            then
    =====================================  ==================================================================
    some available                         unavailable ones leave; the leader stays if it may, else an election
    none available, some presumed          all stay; a presumed leader stays, any other gives way to no leader
    all unavailable                        all leave; an available replica of the ELR leads, alone in the ISR;
                                           without ISR and ELR the last leader; if unclean is allowed, any
    =====================================  ==================================================================

Reassignment (KIP-455, row A3). ``replicas`` has the target's replicas, then those to be removed, until one of these
holds: every replica of the target is in the ISR; or every new replica is in the ISR, and none of those to be removed is
in ISR or ELR. (In the second case waiting gains nothing. Without it a dead replica could not be removed while a
replica that stays is out of sync.)

The ISR change and the completion are two changes. The answer to a leader's proposal has only the first, so the leader
must learn the new assignment from metadata before it proposes again.

Invariants:

* ISR and ELR are disjoint parts of the replicas; the leader, if any, is in the ISR;
* the ELR is empty while the ISR has the minimum;
* members of ISR and ELR have every committed record;
* a leader outside ISR and ELR is elected only when all their members were lost, or when unclean election is enabled;
  the partition remembers it either way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from minikafka.metadata.controller.standing import Standing
from minikafka.metadata.delta import CHANGEABLE
from minikafka.metadata.image import PartitionImage
from minikafka.metadata.records import PartitionChangeRecord
from minikafka.model import NO_NODE, UNASSIGNED_DIRECTORY

NOBODY: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Inputs of the rule besides the partition."""

    standing: Callable[[int], Standing]
    """Of a replica: its broker's, and its log directory's."""
    min_insync_replicas: int
    is_unclean_allowed: Callable[[], bool]
    """Whether availability goes before acknowledged records; asked only when it matters."""
    lost: Collection[int] = NOBODY
    """Replicas that may have lost committed records."""
    gone: Collection[int] = NOBODY
    """Replicas of which nothing is left."""


def settled(before: PartitionImage, wanted: PartitionImage, around: Circumstances) -> PartitionImage:
    """The next state of the partition ``before``, if ``wanted``, with another ISR, assignment or leader, is requested.

    Without a request both are the same. Epochs stay: they change when the record is replayed.
    """
    eligible = _eligible(before, wanted, around)
    isr = _present(tuple(member for member in wanted.isr if member in eligible), around)
    leader = _leader(wanted, isr, around)
    if leader == NO_NODE and not isr:
        leader = _first(eligible, around)
        isr = (leader,) if leader != NO_NODE else ()
    elr = tuple(replica for replica in eligible if replica not in isr)
    last_known = _last_known(before, wanted, around)
    unclean_leader_epoch = wanted.unclean_leader_epoch
    if leader == NO_NODE:
        leader = _lossy_leader(wanted, isr, elr, last_known, around)
        if leader != NO_NODE:
            isr, elr = (leader,), ()
            unclean_leader_epoch = wanted.leader_epoch + 1  # the one that naming it begins
    if len(isr) >= min_isr_of(wanted, around):
        elr = ()
    return replace(
        wanted,
        leader=leader,
        isr=isr,
        elr=elr,
        last_known_elr=() if leader != NO_NODE else last_known,
        unclean_leader_epoch=unclean_leader_epoch,
    )


def min_isr_of(partition: PartitionImage, around: Circumstances) -> int:
    """The smallest ISR with which a leader may commit; 1 or more."""
    return min(around.min_insync_replicas, len(partition.original_replicas))


def _eligible(before: PartitionImage, wanted: PartitionImage, around: Circumstances) -> tuple[int, ...]:
    """The replicas with every committed record, in the order of assignment."""
    complete = {*before.isr, *before.elr, *wanted.isr}.difference(around.lost, around.gone)
    return tuple(replica for replica in wanted.replicas if replica in complete)


def _last_known(before: PartitionImage, wanted: PartitionImage, around: Circumstances) -> tuple[int, ...]:
    """The last leader, if it is still a replica and has records left."""
    leaders = before.last_known_elr if before.leader == NO_NODE else (before.leader,)
    return tuple(leader for leader in leaders if leader in wanted.replicas and leader not in around.gone)


def _present(isr: tuple[int, ...], around: Circumstances) -> tuple[int, ...]:
    """The available members of the ISR; the whole ISR while none is known to be available and some are presumed."""
    standings = [around.standing(member) for member in isr]
    if Standing.AVAILABLE not in standings and Standing.PRESUMED in standings:
        return isr
    return tuple(m for m, standing in zip(isr, standings, strict=True) if standing is not Standing.UNAVAILABLE)


def _leader(wanted: PartitionImage, isr: tuple[int, ...], around: Circumstances) -> int:
    """The present leader, if it may lead; else the first of the ISR in the order of assignment."""
    if wanted.leader in isr and around.standing(wanted.leader) is not Standing.UNAVAILABLE:
        return wanted.leader
    return _first([replica for replica in wanted.replicas if replica in isr], around)


def _first(replicas: Sequence[int], around: Circumstances) -> int:
    """The first replica that may lead. No decision while an earlier one is presumed."""
    return next((replica for replica in replicas if around.standing(replica) is Standing.AVAILABLE), NO_NODE)


def _lossy_leader(
    wanted: PartitionImage,
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    last_known: tuple[int, ...],
    around: Circumstances,
) -> int:
    """No complete replica can lead: the last leader if none is left, or any replica if unclean election is enabled."""
    leader = _first(last_known, around)
    if not isr and not elr and leader != NO_NODE:
        return leader
    # A presumed one may be alive: waiting for its session loses nothing.
    if any(around.standing(replica) is Standing.PRESUMED for replica in (*isr, *elr, *last_known)):
        return NO_NODE
    if not around.is_unclean_allowed():
        return NO_NODE
    return leader if leader != NO_NODE else _first(wanted.replicas, around)


# -- assignments ------------------------------------------------------------------------------------------------------


def reassigned(
    partition: PartitionImage, target: Sequence[int], directory_for: Callable[[int], UUID]
) -> PartitionImage:
    """The partition with ``target`` as the goal, in place of the goal of a reassignment in progress (KIP-455).

    ``directory_for`` gives the log directory of a broker that is new to the partition.
    """
    original = partition.original_replicas
    removing = tuple(replica for replica in original if replica not in target)
    replicas = (*target, *removing)
    return replace(
        partition,
        replicas=replicas,
        adding_replicas=tuple(replica for replica in target if replica not in original),
        removing_replicas=removing,
        directories=directories_of(
            partition.directory_id_of(replica) if replica in partition.replicas else directory_for(replica)
            for replica in replicas
        ),
    )


def completed(partition: PartitionImage, around: Circumstances) -> PartitionImage | None:
    """The partition without the replicas to be removed, if its reassignment can be completed now (row A3)."""
    target = partition.target_replicas
    if not partition.is_reassigning or not _may_complete(partition):
        return None
    wanted = replace(
        partition,
        replicas=target,
        adding_replicas=(),
        removing_replicas=(),
        directories=directories_of(map(partition.directory_id_of, target)),
    )
    after = settled(partition, wanted, around)
    return after if after.leader != NO_NODE else None


def _may_complete(partition: PartitionImage) -> bool:
    """True when no replica to be removed is needed any more."""
    isr, target = frozenset(partition.isr), frozenset(partition.target_replicas)
    if target <= isr:
        return True
    goes_nobody_complete = isr.union(partition.elr).isdisjoint(partition.removing_replicas)
    return goes_nobody_complete and isr.issuperset(partition.adding_replicas)


def directories_of(directories: Iterable[UUID]) -> tuple[UUID, ...]:
    """In the form of a partition: an empty tuple when none is known."""
    known = tuple(directories)
    return known if any(one != UNASSIGNED_DIRECTORY for one in known) else ()


# -- records ----------------------------------------------------------------------------------------------------------


def change_record(
    topic_id: UUID, index: int, before: PartitionImage, after: PartitionImage, gone: Collection[int] = NOBODY
) -> PartitionChangeRecord | None:
    """The record that turns ``before`` into ``after``; None when they are equal.

    If a replica is removed, or begins anew because its records are ``gone``, the record names the leader again, for a
    new leader epoch. The reason: a removed replica that returns may not have heard of either change yet. Fetches from
    the log that it is about to delete must not count, or it joins the ISR with an empty log. Likewise the fetch of a
    damaged replica, or of one whose directory failed, may still be under way. An unclean election is a new leader epoch
    even for the same leader.
    """
    changed = {name: value for name in CHANGEABLE if (value := getattr(after, name)) != getattr(before, name)}
    begins_anew = bool(changed) and not set(gone).isdisjoint(after.replicas)
    is_unclean = "unclean_leader_epoch" in changed
    if begins_anew or is_unclean or not set(before.replicas) <= set(after.replicas):
        changed["leader"] = after.leader
    return PartitionChangeRecord(topic_id, index, **changed) if changed else None
