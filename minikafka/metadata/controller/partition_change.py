"""The rule: given where a partition stands and who is there, who leads, who is in sync, and who may lead later.

Theory. A record is *committed* when the high watermark passed it. A leader moves it only over what every member of
the largest ISR it may have holds, and only while the ISR it knows has ``min.insync.replicas`` members (strict min ISR).
Two sets of replicas follow from that, and the controller keeps both:

* the **ISR**: the leader waits for them, so they have everything committed;
* the **ELR** (eligible leader replicas, KIP-966): they left an ISR, and since then no state allowed a leader to move
  the high watermark, because the ISR was smaller than the minimum. They have everything committed, too.

So whoever is elected from ISR or ELR loses nothing (promise P1). Whenever a change leaves the ISR at the minimum or
above it, the ELR ends: from now on records may be committed that it has not. Otherwise who leaves the ISR joins it. An
empty ISR is below any minimum, so the last members to leave stay eligible whatever the minimum or the number of
replicas is, and a partition whose brokers all died (``kill -9``) is led by the first of them that returns.

What the leader believes must not be looser than what is decided here. The minimum counts at most the replicas that the
partition had before it is reassigned; a leader counts at least those. A raised ``min.insync.replicas`` comes with a new
partition epoch of each partition, so a leader that has not heard of it cannot shrink an ISR (see ``configs``).

*Lost* replicas have neither place. A broker that registers without continuing its former registration (its machine may
have lost power, and with it what was not synced), or whose log directory failed, is no longer counted on. Nothing is
lost by that while another member of ISR or ELR is left. When none is, who led last (``last_known_elr``) leads when it
is back: it is likely to have most ("balanced" recovery), so a machine that lost power alone comes back by itself.

An *unclean* election is each one outside of ISR and ELR, this one too. The partition remembers the leader epoch that
the last one began (``unclean_leader_epoch``): nothing else makes a replica believe that committed records are void.

*Presumed* brokers are those that a new controller found live in the image and has not heard from. After a crash of all
nodes everybody is presumed, the dead included. If the first one to return made those before it leave the ISR because
others seem to be there, it would take their eligibility for the sake of the dead. So nobody leaves an ISR while none of
its members is known to be there and some may be: the presumed are heard from, or fenced, within a session time-out.

    =====================================  =================================================================
    ISR members                            then
    =====================================  =================================================================
    some available                         the unavailable leave; the leader stays if it may, or one is named
    none available, some presumed          all stay; a presumed leader stays, another is none
    all unavailable                        all leave; an available replica of the ELR leads, alone in the ISR;
                                           with neither ISR nor ELR who led last; unclean, if allowed, anyone
    =====================================  =================================================================

Reassignment (KIP-455, row A3). Replicas are those of the target, then those to be removed, until every replica of the
target is in the ISR; or every new one is, while none of those to be removed is in ISR or ELR: nothing is gained by
waiting. Else a dead replica could not be let go while another one, which stays, is out of sync.

The change that brings this about and the one that completes it are two: the answer to a leader's proposal tells it of
the first alone, so it must learn the new assignment from the metadata before it proposes again.

Invariants, whatever happens:

* ISR and ELR are disjoint parts of the replicas; the leader is in the ISR, or there is none;
* there is no ELR while the ISR has the minimum;
* members of ISR and ELR have every committed record;
* outside of ISR and ELR a leader is named only when both are empty because all were lost, or because that is allowed;
  the election is remembered either way.
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
    """What the rule depends on besides the partition."""

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
    """What becomes of ``before`` when ``wanted``, with another ISR, assignment or leader, is asked for.

    Without a wish both are the same. Epochs are left alone: they change when the record is replayed.
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
    """The replicas that have everything committed, in the order of assignment."""
    complete = {*before.isr, *before.elr, *wanted.isr}.difference(around.lost, around.gone)
    return tuple(replica for replica in wanted.replicas if replica in complete)


def _last_known(before: PartitionImage, wanted: PartitionImage, around: Circumstances) -> tuple[int, ...]:
    """Who led last, as far as it is still a replica with anything left."""
    leaders = before.last_known_elr if before.leader == NO_NODE else (before.leader,)
    return tuple(leader for leader in leaders if leader in wanted.replicas and leader not in around.gone)


def _present(isr: tuple[int, ...], around: Circumstances) -> tuple[int, ...]:
    """The ISR without those that are not there; all of it while nobody is known to be and somebody may be."""
    standings = [around.standing(member) for member in isr]
    if Standing.AVAILABLE not in standings and Standing.PRESUMED in standings:
        return isr
    return tuple(m for m, standing in zip(isr, standings, strict=True) if standing is not Standing.UNAVAILABLE)


def _leader(wanted: PartitionImage, isr: tuple[int, ...], around: Circumstances) -> int:
    """Who leads stays leader while it may; else the first of the ISR in the order of assignment."""
    if wanted.leader in isr and around.standing(wanted.leader) is not Standing.UNAVAILABLE:
        return wanted.leader
    return _first([replica for replica in wanted.replicas if replica in isr], around)


def _first(replicas: Sequence[int], around: Circumstances) -> int:
    """The first that may be given leadership. While others may be there that is not decided against them."""
    return next((replica for replica in replicas if around.standing(replica) is Standing.AVAILABLE), NO_NODE)


def _lossy_leader(
    wanted: PartitionImage,
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    last_known: tuple[int, ...],
    around: Circumstances,
) -> int:
    """Nobody who has everything can lead: who led last when nobody else ever can, or anyone if that is allowed."""
    leader = _first(last_known, around)
    if not isr and not elr and leader != NO_NODE:
        return leader
    # A presumed one may turn out to be there: nothing is lost by waiting for its session.
    if any(around.standing(replica) is Standing.PRESUMED for replica in (*isr, *elr, *last_known)):
        return NO_NODE
    if not around.is_unclean_allowed():
        return NO_NODE
    return leader if leader != NO_NODE else _first(wanted.replicas, around)


# -- assignments ------------------------------------------------------------------------------------------------------


def reassigned(
    partition: PartitionImage, target: Sequence[int], directory_for: Callable[[int], UUID]
) -> PartitionImage:
    """The wish to be on ``target`` in the end, instead of where a reassignment in progress would lead (KIP-455).

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
            partition.directory_of(replica) if replica in partition.replicas else directory_for(replica)
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
        directories=directories_of(map(partition.directory_of, target)),
    )
    after = settled(partition, wanted, around)
    return after if after.leader != NO_NODE else None


def _may_complete(partition: PartitionImage) -> bool:
    """Nobody is needed who is to be removed."""
    isr, target = frozenset(partition.isr), frozenset(partition.target_replicas)
    if target <= isr:
        return True
    goes_nobody_complete = isr.union(partition.elr).isdisjoint(partition.removing_replicas)
    return goes_nobody_complete and isr.issuperset(partition.adding_replicas)


def directories_of(directories: Iterable[UUID]) -> tuple[UUID, ...]:
    """As a partition has them: none at all when none is known."""
    known = tuple(directories)
    return known if any(one != UNASSIGNED_DIRECTORY for one in known) else ()


# -- records ----------------------------------------------------------------------------------------------------------


def change_record(
    topic_id: UUID, index: int, before: PartitionImage, after: PartitionImage, gone: Collection[int] = NOBODY
) -> PartitionChangeRecord | None:
    """The record that makes one of the other; None when they are the same.

    Where a replica goes, or begins anew because what it had is ``gone``, the leader is named anew, for the sake of a
    new leader epoch. A removed replica that comes back may not have heard of either yet: what it still fetches from the
    log that it is about to delete must not count, or it joins the ISR with nothing. Likewise a fetch that a damaged
    replica sent before it was cut, or one whose directory failed, may be on its way to the leader still. An unclean
    election is a new leader epoch even when it names the same leader.
    """
    changed = {name: value for name in CHANGEABLE if (value := getattr(after, name)) != getattr(before, name)}
    begins_anew = bool(changed) and not set(gone).isdisjoint(after.replicas)
    is_unclean = "unclean_leader_epoch" in changed
    if begins_anew or is_unclean or not set(before.replicas) <= set(after.replicas):
        changed["leader"] = after.leader
    return PartitionChangeRecord(topic_id, index, **changed) if changed else None
