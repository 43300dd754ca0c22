"""The quorum driver in real nodes of one process; the machine itself is tested in tests/unit/raft."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Awaitable, Callable

import pytest
from broker_node import (
    CLUSTER_ID,
    Cluster,
    HastyDisk,
    SlowDisk,
    create_topic,
    eventually,
    in_time,
    listener_of,
    turns,
)

from minikafka.broker.drivers import metadata as metadata_module
from minikafka.broker.drivers.metadata_recovery import QUORUM_STATE, REPAIR_MARK
from minikafka.broker.drivers.raft import METHOD
from minikafka.broker.node import Node
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import OffsetAndEpoch
from minikafka.net.control import ControlServer
from minikafka.raft.messages import EndQuorumEpochRequest, FetchRequest, VoteResponse, message_from_wire
from minikafka.records.batch import Buffer

StartNode = Callable[..., Awaitable[Node]]


def other_than(cluster: Cluster, node: Node) -> Node:
    return next(each for each in cluster.nodes.values() if each is not node)


# -- one node ---------------------------------------------------------------------------------------------------------


async def test_one_node_is_its_own_quorum(node: Node) -> None:
    raft = node.control_plane.raft
    assert raft.leader_id == 1
    assert raft.machine.high_watermark == node.metadata.applied_offset


async def test_what_is_committed_is_applied_when_it_is_told(node: Node) -> None:
    seen: list[bool] = []
    tp = await create_topic(node, "orders")
    seen.append(node.image.partition(tp) is not None)
    await node.control_plane.raft.committed(node.metadata.applied_offset)
    assert seen == [True]


async def test_without_leadership_nothing_is_appended_or_committed(node: Node) -> None:
    raft = node.control_plane.raft
    raft.step_down()
    with pytest.raises(KafkaError) as refused:
        raft.append([b"x"])
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    await eventually(lambda: not node.control_plane.controller.is_active, "the controller to hear of it")
    with pytest.raises(KafkaError) as refused:
        await raft.committed(0)
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    await eventually(lambda: node.control_plane.controller.is_active, "the next election")


@pytest.mark.parametrize("body", [None, 5, [], ["nonsense"], {"a": 1}, [99, 1], b"x"])
async def test_requests_that_are_none_are_refused(node: Node, body: object) -> None:
    with pytest.raises(KafkaError) as refused:
        await node.control_plane.raft.handle_call(2, body)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert node.control_plane.raft._parked == {}


async def test_an_answer_is_not_a_request(node: Node) -> None:
    with pytest.raises(KafkaError) as refused:
        await node.control_plane.raft.handle_call(2, VoteResponse(ErrorCode.NONE, 1, None).to_wire())
    assert refused.value.code is ErrorCode.INVALID_REQUEST


async def test_nobody_speaks_for_another_node(node: Node) -> None:
    """It could vote, or have records counted, for one that never had them."""
    raft = node.control_plane.raft
    end = raft.machine.log.end
    for request in (FetchRequest(CLUSTER_ID, 3, 1, end, 0, 0, 0), EndQuorumEpochRequest(CLUSTER_ID, 1, 1, ())):
        with pytest.raises(KafkaError) as refused:
            await raft.handle_call(2, request.to_wire())
        assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert raft._parked == {}


async def test_a_fetch_from_inside_a_batch_says_nothing_about_the_log(node: Node) -> None:
    """The leader took the batch for one whose base offset had gone wrong, and marked its log."""
    await create_topic(node, "orders", 3)
    raft = node.control_plane.raft
    end, epoch = raft.machine.log.end
    answers, refused = [], []
    for offset in range(end + 1):
        request = FetchRequest(CLUSTER_ID, 2, epoch, OffsetAndEpoch(offset, epoch), end, 0, 1 << 20)
        try:
            answers.append(message_from_wire(await in_time(raft.handle_call(2, request.to_wire()))))
        except KafkaError as error:
            refused.append(error)
    assert {error.code for error in refused} == {ErrorCode.INVALID_REQUEST}
    assert all("is inside" in error.message for error in refused)
    assert len(answers) > 3
    assert not any(answer.error_code for answer in answers)
    assert (node.failure, raft._log._log.corruption) == (None, None)


@pytest.mark.spec("C1")
async def test_votes_and_metadata_are_durable_while_every_other_thread_is_busy(node: Node) -> None:
    """Row 21 of issue 11: behind syncs of partitions, a new controller came 12 s after the old one was killed."""
    raft, gate = node.control_plane.raft, threading.Event()
    epoch = raft.machine.epoch
    threads = node.threads
    jobs = [run(gate.wait) for run in (threads.sync, threads.read, threads.upkeep) for _ in range(40)]
    try:
        raft.step_down()
        await eventually(lambda: raft.machine.epoch > epoch and node.control_plane.controller.is_active, "an election")
        await in_time(create_topic(node, "orders"))
        assert not gate.is_set()
    finally:
        gate.set()
    await in_time(asyncio.gather(*jobs))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
async def test_a_vote_waits_for_a_descriptor(node: Node, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Row 7 of issue 11: the node stopped, for its vote could not be written."""
    raft, write, refused = node.control_plane.raft, HastyDisk._write, []

    def refuse(disk: HastyDisk, path: str, data: Buffer, *, durable: bool) -> None:
        if QUORUM_STATE in path and len(refused) < 2:
            refused.append(path)
            raise OSError(number, os.strerror(number), path)
        write(disk, path, data, durable=durable)

    monkeypatch.setattr(HastyDisk, "_write", refuse)
    epoch = raft.machine.epoch
    raft.step_down()
    await eventually(lambda: raft.machine.epoch > epoch and node.control_plane.controller.is_active, "an election")
    assert len(refused) == 2
    assert node.failure is None


async def test_a_process_short_of_descriptors_has_no_damaged_log(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    raft = node.control_plane.raft

    def refuse(*_: object) -> bytes:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    request = FetchRequest(CLUSTER_ID, 2, raft.machine.epoch, OffsetAndEpoch(0, 0), 0, 0, 1 << 20)
    with monkeypatch.context() as patch:
        patch.setattr(raft._log, "read", refuse)
        with pytest.raises(KafkaError) as refused:
            await in_time(raft.handle_call(2, request.to_wire()))
    assert refused.value.retriable
    assert message_from_wire(await in_time(raft.handle_call(2, request.to_wire()))).records
    assert node.failure is None


# -- three nodes ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("C1")
async def test_three_nodes_elect_one_and_all_follow(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.ready()
    leader = cluster.controller
    assert {node.control_plane.raft.leader_id for node in cluster.nodes.values()} == {leader.config.node_id}
    assert [node.control_plane.controller.is_active for node in cluster.nodes.values()].count(True) == 1
    follower = other_than(cluster, leader)
    with pytest.raises(KafkaError) as refused:
        follower.control_plane.raft.append([b"x"])
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    await create_topic(follower, "orders", 3)  # forwarded
    for node in cluster.nodes.values():
        await eventually(lambda node=node: node.image.topic("orders"), "the topic everywhere")  # type: ignore[misc]


@pytest.mark.spec("C1")
@pytest.mark.spec("C2")
async def test_a_killed_leader_is_replaced_and_comes_back(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.ready()
    dead = cluster.controller.config.node_id
    epoch = cluster.controller.control_plane.raft.machine.epoch
    await create_topic(cluster.controller, "before")
    await cluster.kill(dead)
    leader = await cluster.wait_for_controller()
    assert leader.control_plane.raft.machine.epoch > epoch
    await create_topic(leader, "after")
    await eventually(lambda: not leader.image.is_live(dead), "the dead broker to be fenced")
    await cluster.start(dead)
    await cluster.ready()
    back = cluster.nodes[dead]
    await eventually(lambda: back.image.topic("after"), "what it missed")
    assert back.image.topic("before") is not None


@pytest.mark.spec("C1")
async def test_disks_slower_than_a_round_of_voting_elect_a_controller(cluster: Cluster) -> None:
    """It never happened when the clock of an election ran while votes were written (150 to 300 ms)."""
    for node_id in cluster.node_ids:
        await cluster.start(node_id, disk=SlowDisk(sync_s=0.4), controller_quorum_fetch_timeout_ms=300)
    await cluster.wait_for_controller()
    await cluster.ready()
    for number in range(3):  # each is synced for longer than a follower waits for its leader
        await create_topic(cluster.nodes[1], f"topic-{number}")
    machines = [node.control_plane.raft.machine for node in cluster.nodes.values()]
    await eventually(lambda: not any(machine.is_new for machine in machines), "all votes to count")
    leader = await cluster.wait_for_controller()
    epoch = leader.control_plane.raft.machine.epoch
    await cluster.kill(leader.config.node_id)
    assert (await cluster.wait_for_controller()).control_plane.raft.machine.epoch > epoch


@pytest.mark.spec("C1")
async def test_disks_that_take_a_second_elect_a_controller_within_ten(cluster: Cluster) -> None:
    """Row 20 of issue 11: every voter's syncs take longer than any election waits."""
    for node_id in cluster.node_ids:
        await cluster.start(node_id, disk=SlowDisk(sync_s=1.0))
    async with asyncio.timeout(10):
        await cluster.wait_for_controller()


async def test_a_request_whose_leader_steps_down_has_an_unknown_outcome(cluster: Cluster) -> None:
    await cluster.start(controller_quorum_fetch_timeout_ms=400)
    await cluster.ready()
    leader = cluster.controller
    others = [node_id for node_id in cluster.node_ids if node_id != leader.config.node_id]
    for node_id in others:
        await cluster.kill(node_id)
    loop = asyncio.get_running_loop()
    waiting = loop.create_task(
        leader.control_plane.raft.committed(leader.control_plane.raft.append([b"never committed"]))
    )
    await turns()
    assert not waiting.done()
    with pytest.raises(KafkaError) as refused:  # nobody fetches: it resigns
        await in_time(waiting)
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    assert not leader.control_plane.controller.is_active


async def test_an_orderly_leader_hands_over(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.ready()
    leader = cluster.controller
    await in_time(leader.control_plane.raft.resign())
    await eventually(lambda: not leader.control_plane.raft._is_leading, "it to resign")
    await cluster.wait_for_controller()


@pytest.mark.spec("C2")
async def test_a_node_that_was_away_too_long_gets_a_snapshot(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_module, "RECORDS_BETWEEN_SNAPSHOTS", 2)
    await cluster.start()
    await cluster.ready()
    away = other_than(cluster, cluster.controller).config.node_id
    await cluster.kill(away)
    leader = await cluster.wait_for_controller()
    start = leader.control_plane.raft.machine.log.log_start.offset
    for number in range(4):  # the log is cut at the snapshot before the last
        await create_topic(leader, f"topic-{number}", replicas=[[leader.config.node_id]])
        for node in cluster.nodes.values():
            await in_time(node.metadata.wait_for(leader.control_plane.raft.machine.high_watermark))
            await eventually(lambda node=node: node.control_plane.raft.machine.log.flushed, "its log to be synced")  # type: ignore[misc]
            snapshot = await node.metadata.maybe_snapshot(node.control_plane.raft.machine.log.flushed_offset)
            if snapshot is not None:
                node.control_plane.raft.on_snapshot_created(snapshot)
    await eventually(lambda: leader.control_plane.raft.machine.log.log_start.offset > start, "the log to be cut")
    await cluster.start(away)
    await cluster.ready()
    back = cluster.nodes[away]
    assert back.control_plane.raft.machine.log.log_start.offset > start
    assert {topic.name for topic in back.image.topics()} >= {f"topic-{number}" for number in range(4)}
    await create_topic(leader, "later")
    await eventually(lambda: back.image.topic("later"), "what comes after the snapshot")


async def test_a_node_that_forgot_its_vote_is_repaired_and_votes_again(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.ready()
    forgetful = other_than(cluster, cluster.controller).config.node_id
    directory = cluster._directory / f"node-{forgetful}" / "__cluster_metadata-0"
    await cluster.kill(forgetful)
    (directory / QUORUM_STATE).unlink()
    await cluster.start(forgetful)
    node = cluster.nodes[forgetful]
    assert node.control_plane.raft.machine.vote_disabled
    await eventually(lambda: not node.control_plane.raft.machine.vote_disabled, "the repair")
    await eventually(lambda: not (directory / REPAIR_MARK).exists(), "its mark to go")
    await cluster.ready()
    await cluster.kill(cluster.controller.config.node_id)
    await cluster.wait_for_controller()  # which takes its vote


@pytest.mark.parametrize("answer", [["nonsense"], EndQuorumEpochRequest("c", 1, 1, ()).to_wire()])
async def test_peers_that_answer_nonsense_are_as_good_as_silent(cluster: Cluster, answer: object) -> None:
    await cluster.start(controller_quorum_fetch_timeout_ms=400)
    await cluster.ready()
    leader = cluster.controller

    async def nonsense(_peer_id: int, _body: object) -> object:
        return answer

    server = listener_of(leader, "CONTROLLER")._handler
    assert isinstance(server, ControlServer)
    server._methods = {**server._methods, METHOD: nonsense}
    await eventually(lambda: not leader.control_plane.raft._is_leading, "the leader to find itself alone")
    others = [node for node in cluster.nodes.values() if node is not leader]
    await eventually(lambda: any(node.control_plane.raft._is_leading for node in others), "another leader")
    assert all(node.failure is None for node in cluster.nodes.values())
