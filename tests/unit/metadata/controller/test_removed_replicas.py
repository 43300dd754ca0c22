"""A replica that goes takes the leader epoch with it."""

from __future__ import annotations

from uuid import UUID

import pytest

from minikafka.metadata.controller.partition_change import change_record
from minikafka.metadata.image import PartitionImage

TOPIC = UUID(int=7)
BEFORE = PartitionImage((1, 2, 3, 4), (1, 2), 1, 5, 9, adding_replicas=(4,))


@pytest.mark.spec("A3")
def test_removing_a_replica_begins_a_leader_epoch() -> None:
    """Found by schedule 653 of the partition suite: a reassignment that adds broker 4 is cancelled and asked for again
    while 4 hears of neither. It goes on fetching, is taken into the ISR, and then deletes its log as it was told."""
    without = PartitionImage((1, 2, 3), (1, 2), 1, 5, 9)
    record = change_record(TOPIC, 0, BEFORE, without)
    assert record is not None
    assert (record.replicas, record.leader, record.isr) == ((1, 2, 3), 1, None)


@pytest.mark.spec("A3")
def test_adding_a_replica_or_changing_the_isr_does_not() -> None:
    wider = PartitionImage((1, 2, 3, 4, 5), (1, 2, 3), 1, 5, 9, adding_replicas=(4, 5))
    record = change_record(TOPIC, 0, BEFORE, wider)
    assert record is not None
    assert record.leader is None
