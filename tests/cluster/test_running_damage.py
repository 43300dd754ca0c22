"""Files go bad, or go away, under nodes that run. Nothing acknowledged is lost, and no node ends."""

from __future__ import annotations

import pytest
from cluster_load import PARTITIONS, TOPIC, Load
from live_cluster import PATIENCE_S, eventually, leader_of

from minikafka.chaos.local_cluster import LocalCluster


@pytest.mark.spec("P1", "P5", "P6")
def test_bytes_that_a_running_leader_wrote_go_bad(cluster: LocalCluster, load: Load) -> None:
    """What a paused follower does not have yet is damaged at each other leader; it wakes up, and asks for it."""
    sleeper = 3
    load.wait_for_more()
    victims = {
        partition: leader
        for partition in range(PARTITIONS)
        if (leader := leader_of(cluster, TOPIC, partition)) != sleeper
    }
    segments = {
        partition: max((cluster.layout.data_directory(leader) / f"{TOPIC}-{partition}").glob("*.log"))
        for partition, leader in victims.items()
    }
    cluster.pause(sleeper)
    load.wait_for_more()  # the fetch that was out is answered with the first of them
    ends = {partition: segment.stat().st_size for partition, segment in segments.items()}
    load.wait_for_more()
    for partition, segment in segments.items():
        eventually(lambda segment=segment, partition=partition: segment.stat().st_size > ends[partition] + 1000, "more")
        with segment.open("r+b") as file:
            file.seek(ends[partition] + 500)
            byte = file.read(1)[0]
            file.seek(ends[partition] + 500)
            file.write(bytes([byte ^ 1]))
    cluster.resume(sleeper)
    for leader in victims.values():
        eventually(
            lambda leader=leader: "replica damaged" in cluster.layout.log_file(leader).read_text(),
            "the leader to notice",
        )
    load.wait_for_more()
    cluster.wait_in_sync(PATIENCE_S)
    load.finish()
