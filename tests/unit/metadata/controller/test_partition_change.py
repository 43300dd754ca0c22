"""The rule in every case of three replicas, and what it says of assignments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from uuid import UUID

import pytest

from minikafka.metadata.controller.partition_change import (
    Circumstances,
    change_record,
    completed,
    directories_of,
    min_isr_of,
    reassigned,
    settled,
)
from minikafka.metadata.controller.standing import Standing
from minikafka.metadata.image import PartitionImage
from minikafka.metadata.records import PartitionChangeRecord
from minikafka.model import UNASSIGNED_DIRECTORY

AVAILABLE, PRESUMED, UNAVAILABLE = Standing.AVAILABLE, Standing.PRESUMED, Standing.UNAVAILABLE
REPLICAS = (1, 2, 3)
ISR, ELR, OUT = range(3)


def partitions(minimum: int) -> Iterator[PartitionImage]:
    """Every legal state of a partition on three brokers."""
    for places in product((ISR, ELR, OUT), repeat=3):
        isr = tuple(one for one, place in zip(REPLICAS, places, strict=True) if place is ISR)
        elr = tuple(one for one, place in zip(REPLICAS, places, strict=True) if place is ELR)
        if elr and len(isr) >= minimum:
            continue
        for leader in (-1, *isr):
            for last_known in ((),) if leader > 0 else ((), (1,), (3,)):
                yield PartitionImage(REPLICAS, isr, leader, 0, 0, elr=elr, last_known_elr=last_known)


def around(
    standing: Callable[[int], Standing], minimum: int = 2, *, unclean: bool = False, lost: tuple[int, ...] = ()
) -> Circumstances:
    return Circumstances(standing, minimum, lambda: unclean, lost)


@pytest.mark.spec("R26")
@pytest.mark.spec("C4")
@pytest.mark.spec("P1")
@pytest.mark.parametrize("minimum", [1, 2, 3])
@pytest.mark.parametrize("lost", [(), (2,), (1, 3), (1, 2, 3)])
@pytest.mark.parametrize("unclean", [False, True])
def test_the_rule_in_every_case_of_three_replicas(minimum: int, lost: tuple[int, ...], unclean: bool) -> None:
    for standings in product(Standing, repeat=3):
        standing = dict(zip(REPLICAS, standings, strict=True))
        for before in partitions(minimum):
            circumstances = around(standing.__getitem__, minimum, unclean=unclean, lost=lost)
            after = settled(before, before, circumstances)
            check(before, after, standing, minimum, unclean, set(lost))
            assert settled(after, after, replace(circumstances, lost=())) == after or lost, "done once and for all"


def check(
    before: PartitionImage,
    after: PartitionImage,
    standing: dict[int, Standing],
    minimum: int,
    unclean: bool,
    lost: set[int],
) -> None:
    complete = {*before.isr, *before.elr} - lost  # these have everything committed
    members = [member for member in before.isr if member not in lost]
    is_lossy = after.leader > 0 and after.leader not in complete
    assert set(after.isr) <= set(REPLICAS)
    assert not set(after.isr) & set(after.elr)
    assert after.leader in (-1, *after.isr)
    assert not after.elr or len(after.isr) < minimum
    if not is_lossy:
        assert {*after.isr, *after.elr} <= complete
        assert {*after.isr, *after.elr} == complete or len(after.isr) >= minimum, "eligibility is not given away"
    if before.leader in members and standing[before.leader] is not UNAVAILABLE:
        assert after.leader == before.leader, "who may lead on does"
    if any(standing[member] is AVAILABLE for member in members):
        assert after.leader > 0
        assert all(standing[member] is not UNAVAILABLE for member in after.isr), "nobody waits for the dead"
    elif any(standing[member] is PRESUMED for member in members):
        assert after.isr == tuple(members), "nobody leaves for the sake of who may be dead"
        assert after.leader in (-1, before.leader)
    else:
        there = [replica for replica in REPLICAS if replica in complete and standing[replica] is AVAILABLE]
        assert not there or after.leader == there[0], "an eligible replica leads as soon as one is there"
    if is_lossy:
        recovered = not complete and (after.leader,) == (before.last_known_elr or (before.leader,))
        assert recovered or unclean
        assert standing[after.leader] is AVAILABLE
        assert not any(standing[one] is PRESUMED for one in (*members, *before.elr) if one in complete)
        assert (after.isr, after.elr) == ((after.leader,), ())
    assert after.unclean_leader_epoch == (before.leader_epoch + 1 if is_lossy else -1), "it is remembered"
    change = change_record(UUID(int=7), 0, before, after)
    assert not is_lossy or (change is not None and change.leader == after.leader), "in a leader epoch of its own"
    assert not after.last_known_elr or after.leader < 0


@pytest.mark.spec("P1")
def test_the_last_to_leave_stays_eligible_whatever_the_minimum() -> None:
    for replicas in ((1,), (1, 2), REPLICAS):
        alone = PartitionImage(replicas, (1,), 1, 0, 0)
        for minimum in (1, 2, 5):
            after = settled(alone, alone, around(lambda _: UNAVAILABLE, minimum))
            assert (after.leader, after.isr, after.elr, after.last_known_elr) == (-1, (), (1,), (1,))


def test_a_reassignment_puts_the_target_first_and_keeps_where_replicas_are() -> None:
    a, b, c = UUID(int=10), UUID(int=11), UUID(int=12)
    partition = PartitionImage((1, 2), (1, 2), 1, 0, 0, directories=(a, b))
    moving = reassigned(partition, (3, 2), {3: c}.__getitem__)
    assert (moving.replicas, moving.adding_replicas, moving.removing_replicas) == ((3, 2, 1), (3,), (1,))
    assert moving.directories == (c, b, a)
    assert (moving.target_replicas, moving.original_replicas) == ((3, 2), (2, 1))
    assert moving.directory_id_of(1) == a
    assert moving.directory_id_of(9) == UNASSIGNED_DIRECTORY


def test_a_reassignment_that_replaces_another_starts_from_the_same_original() -> None:
    partition = PartitionImage((1, 2), (1, 2), 1, 0, 0)
    moving = reassigned(reassigned(partition, (3, 4), directory), (4, 1), directory)
    assert (moving.replicas, moving.adding_replicas, moving.removing_replicas) == ((4, 1, 2), (4,), (2,))
    back = reassigned(moving, moving.original_replicas, directory)
    assert (back.replicas, back.is_reassigning) == ((1, 2), False)


def directory(_broker_id: int) -> UUID:
    return UNASSIGNED_DIRECTORY


def test_completion_waits_for_the_whole_target_and_a_leader_in_it() -> None:
    moving = reassigned(PartitionImage((1, 2), (1, 2), 1, 4, 0), (3, 2), directory)
    everybody = around(lambda _: AVAILABLE)
    assert completed(moving, everybody) is None
    done = completed(replace(moving, isr=(1, 2, 3)), everybody)
    assert done is not None
    assert (done.replicas, done.isr, done.leader, done.is_reassigning) == ((3, 2), (2, 3), 3, False)
    presumed = around(lambda one: AVAILABLE if one == 1 else PRESUMED)
    assert completed(replace(moving, isr=(1, 2, 3)), presumed) is None, "who may not be there is not given leadership"
    assert completed(PartitionImage((1, 2), (1, 2), 1, 0, 0), everybody) is None


def test_the_minimum_counts_the_replicas_before_the_reassignment() -> None:
    moving = reassigned(PartitionImage((1,), (1,), 1, 0, 0), (1, 2, 3), directory)
    assert min_isr_of(moving, around(lambda _: AVAILABLE, 2)) == 1


def test_only_what_changed_is_recorded() -> None:
    before = PartitionImage((1, 2), (1, 2), 1, 0, 0)
    assert change_record(UUID(int=1), 0, before, before) is None
    after = replace(before, isr=(1,), elr=(2,))
    assert change_record(UUID(int=1), 0, before, after) == PartitionChangeRecord(UUID(int=1), 0, isr=(1,), elr=(2,))
    assert directories_of([UNASSIGNED_DIRECTORY] * 2) == ()
    assert directories_of([UNASSIGNED_DIRECTORY, UUID(int=3)]) == (UNASSIGNED_DIRECTORY, UUID(int=3))
