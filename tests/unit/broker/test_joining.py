"""A node that joins a cluster as a broker without a vote (an observer of the quorum)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from broker_client import Client, values_in
from broker_node import create_topic, eventually, wait_until_ready

from minikafka.broker import node as node_module
from minikafka.broker.drivers import metadata as metadata_module
from minikafka.broker.node import Node

StartNode = Callable[..., Awaitable[Node]]
Join = Callable[[Node], Awaitable[Node]]
Dial = Callable[..., Awaitable[Client]]


@pytest.mark.spec("C2")
async def test_it_learns_leads_and_follows(start_node: StartNode, join: Join, dial: Dial) -> None:
    voter = await start_node()
    observer = await join(voter)
    assert observer.control_plane.raft.leader_id == 1
    assert observer.control_plane.raft.machine.role == "follower"
    tp = await create_topic(observer, "shared", replicas=[[2, 1]])
    await eventually(lambda: voter.image.topic("shared"), "node 1 to hear of it")
    client = await dial(observer)
    await client.produce("shared", b"one")
    await eventually(lambda: voter.replicas.get(tp) is not None, "node 1 to follow")
    assert observer.image.partition(tp) == voter.image.partition(tp)
    assert values_in((await client.fetch("shared")).records) == [b"one"]


async def test_it_learns_from_a_snapshot_what_the_log_no_longer_has(
    start_node: StartNode, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_module, "RECORDS_BETWEEN_SNAPSHOTS", 4)
    monkeypatch.setattr(node_module, "SNAPSHOT_CHECK_INTERVAL_S", 0.01)
    voter = await start_node()
    log = voter.control_plane.raft.machine.log
    for number in range(10):
        if log.log_start.offset > 0:
            break
        await create_topic(voter, f"topic-{number}")
        await eventually(lambda: log.snapshot is not None, "a snapshot")
    else:
        await eventually(lambda: log.log_start.offset > 0, "the log to be cut")
    observer = await join(voter)
    await wait_until_ready(observer)
    await eventually(lambda: observer.image.topics_by_name == voter.image.topics_by_name, "the same topics")
    assert observer.control_plane.raft.machine.log.log_start.offset > 0
