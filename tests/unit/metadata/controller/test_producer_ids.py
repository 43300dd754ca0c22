"""Blocks of producer ids."""

from __future__ import annotations

from typing import Any

import controller_requests as ask


def test_no_id_is_given_twice(cluster: Any) -> None:
    given: list[int] = []
    for broker_id in (1, 2, 1):
        block = cluster.ask(ask.allocate(broker_id, cluster.epochs[broker_id]))
        given += range(block.producer_id_start, block.producer_id_start + block.producer_id_len)
        cluster.fail_over()
    assert given == list(range(3000))
