"""Hundreds of honest consumers, each at another place of a log that nobody has read since the start."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from live_attack import Target
from live_cluster import running_cluster
from live_wire import batch, fetch_request, produce_request

CONSUMERS: Final = 300
BATCHES: Final = 3_000


def test_consumers_that_wait_for_cold_reads_are_served(tmp_path: Path) -> None:
    """Each was said to hold a MiB: with 148 of them the node closed the connections of the others."""
    with running_cluster(tmp_path / "cluster", 1) as cluster:
        Target(cluster).create_topic("old")
        with Target(cluster).wire() as wire:
            produced = produce_request("old", batch(b"x" * 5_000))
            for _ in range(BATCHES):
                wire.send(produced, 9)
            for _ in range(BATCHES):
                wire.receive(produced, 9)
        cluster.restart(1)
        target = Target(cluster)
        consumers = [target.wire() for _ in range(CONSUMERS)]
        requests = [fetch_request("old", number * BATCHES // CONSUMERS) for number in range(CONSUMERS)]
        for wire, request in zip(consumers, requests, strict=True):
            request.topics[0].partitions[0].partition_max_bytes = 6_000
            wire.send(request, 11)
        for wire, request in zip(consumers, requests, strict=True):
            assert wire.receive(request, 11).responses[0].partitions[0].records
            wire.socket.close()
