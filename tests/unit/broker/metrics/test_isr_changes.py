from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from minikafka.broker.metrics.isr_changes import IsrChanges
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.image import MetadataImage, PartitionImage, TopicImage
from minikafka.model import TopicPartition

ME, OTHER = 1, 2
ORDERS = TopicPartition("orders", 0)


def image(isr: Sequence[int] | None, leader: int = ME) -> MetadataImage:
    if isr is None:
        return MetadataImage()
    partition = PartitionImage((1, 2, 3), tuple(isr), leader, 0, 0)
    return MetadataImage(topics_by_name={"orders": TopicImage("orders", UUID(int=1), {0: partition})})


@pytest.mark.parametrize(
    ("before", "after", "counted"),
    [
        (image((1, 2, 3)), image((1, 2)), (1, 0)),
        (image((1,)), image((1, 2, 3)), (0, 1)),
        (image((1, 2)), image((1, 3)), (1, 1)),
        (image((1, 2)), image((1, 2)), (0, 0)),
        (image((1, 2)), image((2, 1)), (0, 0)),
        (image((1, 2)), image((1,), leader=OTHER), (0, 0)),  # counted there
        (image((2, 1), leader=OTHER), image((1,)), (1, 0)),  # the leader died
        (image(None), image((1, 2, 3)), (0, 0)),  # it was created
    ],
)
def test_a_change_is_counted_by_the_leader_after_it(
    before: MetadataImage, after: MetadataImage, counted: tuple[int, int]
) -> None:
    changes = IsrChanges(ME, lambda: True)
    changes.on_metadata(MetadataDelta(before, after, partitions={ORDERS: None}.keys()))
    assert (changes.shrinks, changes.expands) == counted


def test_what_happened_before_the_node_served_is_not_counted() -> None:
    changes = IsrChanges(ME, lambda: False)
    changes.on_metadata(MetadataDelta(image((1, 2)), image((1,)), partitions={ORDERS: None}.keys()))
    assert (changes.shrinks, changes.expands) == (0, 0)
