"""What is counted of a partition, by its leader's state and by the reassignment under way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from minikafka.broker.metrics.collect import PartitionSums
from minikafka.metadata.image import MetadataImage, PartitionImage, TopicImage
from minikafka.model import TopicPartition
from minikafka.replication.leader import LeaderState

ORDERS = TopicPartition("orders", 0)


def sums_of(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    *,
    min_isr: int = 2,
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
) -> dict[str, int]:
    """What of one led partition is not 0."""
    leader = LeaderState(
        ORDERS,
        1,
        0,
        leader_epoch_start_offset=0,
        replicas=replicas,
        isr=isr,
        partition_epoch=0,
        high_watermark=0,
        log_end_offset=0,
        lag_time_max_ms=1,
        now_ms=0,
        min_insync_replicas=min_isr,
    )
    state = PartitionImage(replicas, isr, 1, 0, 0, adding_replicas=adding, removing_replicas=removing)
    image = MetadataImage(topics_by_name={"orders": TopicImage("orders", UUID(int=1), {0: state})})
    sums = PartitionSums()
    sums.add(partition(leader), image)
    assert (sums.count, sums.led, sums.sizes) == (1, 1, {"orders": 100})
    names = ("under_replicated", "under_min_isr", "at_min_isr", "reassigning")
    return {name: value for name in names if (value := int(getattr(sums, name)))}


def partition(leader: LeaderState | None) -> Any:
    log = SimpleNamespace(size_in_bytes=100)
    return SimpleNamespace(topic_partition=ORDERS, log=log, replica=SimpleNamespace(leader=leader))


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"replicas": (1, 2, 3), "isr": (1, 2, 3)}, {}),
        ({"replicas": (1, 2, 3), "isr": (1, 3)}, {"under_replicated": 1, "at_min_isr": 1}),
        ({"replicas": (1, 2, 3), "isr": (1,)}, {"under_replicated": 1, "under_min_isr": 1}),
        ({"replicas": (1,), "isr": (1,)}, {"at_min_isr": 1}),  # min.insync.replicas counts as 1 there
        ({"replicas": (1, 2, 3, 4), "isr": (1, 2, 3), "adding": (4,), "removing": (2,)}, {"reassigning": 1}),
        (
            {"replicas": (1, 2, 3, 4), "isr": (1, 4), "adding": (4,), "removing": (2,)},
            {"reassigning": 1, "under_replicated": 1, "at_min_isr": 1},
        ),
    ],
)
def test_a_led_partition(state: dict[str, Any], expected: dict[str, int]) -> None:
    assert sums_of(**state) == expected


def test_a_followed_partition_has_a_size_and_no_more() -> None:
    sums = PartitionSums()
    for _ in range(2):
        sums.add(partition(None), MetadataImage())
    assert (sums.count, sums.led, sums.sizes) == (2, 0, {"orders": 200})
