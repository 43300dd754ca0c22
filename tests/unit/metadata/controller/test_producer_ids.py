"""Blocks of producer ids."""

from __future__ import annotations

from typing import Any

from minikafka.metadata.controller.commands import AllocateProducerIds


def test_no_id_is_given_twice(cluster: Any) -> None:
    given: list[int] = []
    for broker_id in (1, 2, 1):
        block = cluster.ask(AllocateProducerIds(broker_id, cluster.epochs[broker_id]))
        given += range(block.first_producer_id, block.first_producer_id + block.length)
        cluster.fail_over()
    assert given == list(range(3000))
