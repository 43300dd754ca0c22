from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from broker_client import Client
from broker_node import CLUSTER_ID, Cluster, create_topic, eventually, in_time, make_node, turns, wait_until_ready

from minikafka.broker import liveness as liveness_module
from minikafka.broker.drivers import controller as controller_module
from minikafka.broker.drivers.controller_client import CLIENT_METHOD, REQUESTS_MAX
from minikafka.broker.node import Node
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller import state as state_module
from minikafka.metadata.controller.configs import AlterConfigOp
from minikafka.metadata.controller.controller import Outcome
from minikafka.model import TopicPartition
from minikafka.net.tasks import TaskOwner
from minikafka.wire.api import BROKERS, ApiKey
from minikafka.wire.codec import encode
from minikafka.wire.forwarded import decode_answer, encode_forwarded
from minikafka.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from minikafka.wire.messages.alter_partition import AlterPartitionRequest
from minikafka.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from minikafka.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from minikafka.wire.messages.broker_registration import BrokerRegistrationRequest, Listener
from minikafka.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from minikafka.wire.messages.elect_leaders import ElectLeadersRequest
from minikafka.wire.messages.fetch import FetchRequest
from minikafka.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from minikafka.wire.messages.unregister_broker import UnregisterBrokerRequest
from minikafka.wire.schema import Message

StartNode = Callable[..., Awaitable[Node]]


def creation_of(name: str, *, partitions: int = 1) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)])


ORDERS = creation_of("orders")


# -- becoming the active controller -----------------------------------------------------------------------------------


@pytest.mark.spec("C1")
async def test_a_leader_acts_only_when_it_has_applied_the_start_of_its_epoch(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await start_node(controlled_shutdown_enable="false")
    driver = node.control_plane.controller
    assert driver.is_active
    driver.on_lost_leadership()
    assert not driver.is_active
    with pytest.raises(KafkaError) as refused:
        await driver.handle(ORDERS)
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    start = node.metadata.applied_offset
    driver.on_became_leader(node.control_plane.raft.machine.epoch, start)
    assert not driver.is_active, "the first record of its epoch is not applied yet"
    monkeypatch.setattr(node.metadata, "_applied_offset", start + 1)
    monkeypatch.setattr(driver, "_end_offset", start)
    driver.on_metadata(None)  # type: ignore[arg-type]  # what was applied does not matter, only how far
    assert driver.is_active


async def test_a_leadership_that_is_lost_before_its_first_record_is_no_reason_to_halt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The quorum machine may have lost leadership while the driver still hears of how it was won.
    node = make_node(tmp_path / "data")
    append = node.control_plane.raft.append
    refused: list[int] = []

    def refuse_once(values: Sequence[bytes]) -> int:
        if not refused:
            refused.append(1)
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node does not lead the metadata quorum")
        return append(values)

    monkeypatch.setattr(node.control_plane.raft, "append", refuse_once)
    await node.start()
    await wait_until_ready(node)
    assert refused
    assert node.failure is None
    await node.stop()


async def test_a_log_of_another_cluster_is_fatal(tmp_path: Path) -> None:
    node = make_node(tmp_path / "data")
    await node.start()
    await wait_until_ready(node)
    await node.stop()
    for name in ("meta.properties",):  # as if somebody had copied the directory and "mended" it
        path = tmp_path / "data" / name
        path.write_text(path.read_text().replace(CLUSTER_ID, "another"))
    node = make_node(tmp_path / "data", cluster_id="another")
    await node.start()
    await eventually(node.stopped.is_set, "the node to halt")
    assert isinstance(node.failure, KafkaError)
    assert node.failure.code is ErrorCode.INCONSISTENT_CLUSTER_ID
    await node.stop()


# -- requests ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("C2")
async def test_a_response_waits_for_its_records_and_for_those_before(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = node.control_plane.controller
    gate, flush = asyncio.Event(), node.control_plane.raft._log.flush

    async def slow_flush() -> None:
        await gate.wait()
        await flush()

    monkeypatch.setattr(node.control_plane.raft._log, "flush", slow_flush)
    loop = asyncio.get_running_loop()
    creating = loop.create_task(driver.handle(ORDERS))
    await turns()
    again = loop.create_task(driver.handle(ORDERS))  # brings no records, but rests on the former
    await turns(10)
    assert not creating.done()
    assert not again.done()
    assert node.image.topic("orders") is None
    gate.set()
    assert (await in_time(creating)).topics[0].error_code == ErrorCode.NONE
    assert node.image.topic("orders") is not None, "applied here by then"
    assert (await in_time(again)).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


async def test_a_request_that_the_quorum_did_not_take_is_not_answered_with_success(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_values: Sequence[bytes]) -> int:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node does not lead the metadata quorum")

    driver = node.control_plane.controller
    with monkeypatch.context() as patched:
        patched.setattr(node.control_plane.raft, "append", refuse)
        with pytest.raises(KafkaError) as refused:
            await driver.handle(ORDERS)
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
        assert not driver.is_active, "what its machine replayed is not in the log"
    await eventually(lambda: driver.is_active, "the next election")
    assert (await driver.handle(ORDERS)).topics[0].error_code == ErrorCode.NONE


@pytest.mark.spec("P6")
async def test_a_node_speaks_for_itself_only(node: Node) -> None:
    driver = node.control_plane.controller
    epoch, registered = node.control_plane.lifecycle.broker_epoch, node.image.broker(1)
    listeners = [Listener(name="CLIENT", host="h", port=1)]
    ids = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    forged: list[Message] = [
        AlterPartitionRequest(broker_id=1, broker_epoch=epoch),
        AssignReplicasToDirsRequest(broker_id=1, broker_epoch=epoch),
        BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch),
        BrokerRegistrationRequest(broker_id=1, cluster_id=CLUSTER_ID, incarnation_id=UUID(int=7), listeners=listeners),
        ids,
    ]
    assert {type(request) for request in forged} == {key.request_class for key in ApiKey if key.listeners == BROKERS}
    for request in forged:
        with pytest.raises(KafkaError, match=r"node 2 sent a \w+ request for broker 1") as refused:
            await driver.handle_call(2, encode_forwarded(request))
        assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED, request
    assert node.image.broker(1) == registered
    answer = decode_answer(ids, AllocateProducerIdsResponse, await driver.handle_call(1, encode_forwarded(ids)))
    assert answer.producer_id_len > 0
    assert node.failure is None


@pytest.mark.spec("P6")
async def test_what_is_no_request_for_the_controller_is_refused(node: Node) -> None:
    driver = node.control_plane.controller
    key, version, data = encode_forwarded(ORDERS)
    not_its_own: list[Any] = [[9999, 0, b""], [int(ApiKey.FETCH), 17, encode(FetchRequest(), 17)], [key, 99, data]]
    malformed: list[Any] = [None, [], [9999], [1, "x"], {"a": 1}, [key, version], [key, version, data, 1]]
    malformed += [[key, version, data[1:]], [key, version, data + b"\0"]]
    for code, bodies in (ErrorCode.UNSUPPORTED_VERSION, not_its_own), (ErrorCode.INVALID_REQUEST, malformed):
        for body in bodies:
            with pytest.raises(KafkaError) as refused:
                await driver.handle_call(2, body)
            assert refused.value.code is code, body
    assert node.image.topic("orders") is None
    assert (node.failure, driver.is_active) == (None, True)


async def test_any_node_forwards_that_a_broker_is_gone(node: Node) -> None:
    driver = node.control_plane.controller
    with pytest.raises(KafkaError, match="is alive") as refused:
        await driver.handle_call(2, encode_forwarded(UnregisterBrokerRequest(broker_id=node.config.node_id)))
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(KafkaError) as refused:
        await driver.handle_call(2, encode_forwarded(UnregisterBrokerRequest(broker_id=7)))
    assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_a_periodic_change_that_is_not_taken_is_no_harm(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = node.control_plane.controller

    def refuse(_values: Sequence[bytes]) -> int:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node does not lead the metadata quorum")

    def ticks(_now_ms: int) -> Generator[None, None, Outcome[None]]:
        yield from ()
        return Outcome(("a record",), None)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(driver._controller, "tick_in_portions", ticks)
        patched.setattr(controller_module, "encode_record", lambda record: record)
        patched.setattr(node.control_plane.raft, "append", refuse)
        await driver._tick()
        assert not driver.is_active
    await eventually(lambda: driver.is_active, "the next election")
    assert node.failure is None


async def test_that_a_gone_broker_cannot_be_fenced_is_no_harm(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, raft = node.control_plane.controller, node.control_plane.raft
    epoch, appended = raft.machine.epoch, list[bytes]()

    def refuse(values: Sequence[bytes]) -> int:
        appended.extend(values)
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node does not lead the metadata quorum")

    with monkeypatch.context() as patched:
        patched.setattr(raft, "append", refuse)
        driver.on_gone(7)  # nobody knows it
        driver.on_gone(1)
        await eventually(lambda: appended and raft.machine.epoch > epoch, "the controller to go")
    await eventually(lambda: driver.is_active, "the next election")
    assert node.image.is_live(1)
    assert node.failure is None


# -- requests that touch every partition ------------------------------------------------------------------------------


MINIMUM = AlterableConfig(name="min.insync.replicas", config_operation=AlterConfigOp.SET, value="2")
RAISE_MINIMUM = IncrementalAlterConfigsRequest(
    resources=[AlterConfigsResource(resource_type=4, resource_name="", configs=[MINIMUM])]
)


@pytest.fixture
async def of_many(node: Node, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node with 40 partitions, of which a controller looks at two at a time."""
    await node.control_plane.controller.handle(creation_of("many", partitions=40))
    monkeypatch.setattr(state_module, "PORTION", 2)
    return node


@pytest.mark.parametrize("encoded_at_once", [1, 1_000])
async def test_the_loop_has_its_turns_between_portions_and_other_requests_wait(
    of_many: Node, monkeypatch: pytest.MonkeyPatch, encoded_at_once: int
) -> None:
    monkeypatch.setattr(controller_module, "ENCODED_AT_ONCE", encoded_at_once)
    driver, loop = of_many.control_plane.controller, asyncio.get_running_loop()
    before = of_many.image.partition(TopicPartition("many", 39))
    assert before is not None
    altering = loop.create_task(driver.handle(RAISE_MINIMUM))
    creating = loop.create_task(driver.handle(ORDERS))
    for _ in range(20):  # its 40 partitions are settled first, and then get a new epoch
        await asyncio.sleep(0)
        assert driver._in_line.locked()
        assert of_many.image.partition(TopicPartition("many", 0)) == before, "nobody sees a part of it"
        assert driver._controller.image.topic("orders") is None, "one after the other"
    assert (await in_time(altering)).responses[0].error_code == ErrorCode.NONE
    assert (await in_time(creating)).topics[0].error_code == ErrorCode.NONE
    epochs = {one.partition_epoch for _, _, one in of_many.image.partitions() if one.partition_epoch}
    assert epochs == {before.partition_epoch + 1}
    assert not driver._in_line.locked()


async def test_what_brokers_ask_does_not_wait_behind_all_that_clients_ask(of_many: Node) -> None:
    driver, loop = of_many.control_plane.controller, asyncio.get_running_loop()
    broker = of_many.image.brokers[1]
    everywhere = ElectLeadersRequest(topic_partitions=None)
    elections = [loop.create_task(driver.handle(everywhere)) for _ in range(64)]
    await asyncio.sleep(0)
    heartbeat = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=broker.broker_epoch, current_metadata_offset=of_many.image.offset
    )
    assert not (await in_time(driver.handle(heartbeat))).is_fenced
    assert sum(election.done() for election in elections) <= 2, "one that was begun, and one that was in line"
    await in_time(asyncio.gather(*elections))


async def test_no_session_ends_while_its_heartbeat_is_in_line(of_many: Node) -> None:
    driver, loop = of_many.control_plane.controller, asyncio.get_running_loop()
    state, broker = driver._controller._state, of_many.image.brokers[1]
    assert state is not None
    altering = loop.create_task(driver.handle(RAISE_MINIMUM))
    await asyncio.sleep(0)
    session = state.sessions._sessions[1]
    session.last_contact_ms = -1_000_000
    for epoch, is_heard in ((broker.broker_epoch - 1, False), (broker.broker_epoch, True)):
        heartbeat = BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch)
        waiting = loop.create_task(driver.handle(heartbeat))
        await asyncio.sleep(0)
        assert not waiting.done()
        assert (session.last_contact_ms > 0) is is_heard
        waiting.cancel()
    assert not altering.done()
    assert (await in_time(altering)).responses[0].error_code == ErrorCode.NONE
    assert of_many.image.is_live(1)


async def test_of_clients_who_go_nothing_keeps_others_waiting(of_many: Node) -> None:
    driver, loop = of_many.control_plane.controller, asyncio.get_running_loop()
    asked = [loop.create_task(driver.handle(RAISE_MINIMUM)) for _ in range(3)]  # begun, in line, in front of it
    await asyncio.sleep(0)
    for each in asked:
        each.cancel()
    assert (await in_time(driver.handle(ORDERS))).topics[0].error_code == ErrorCode.NONE
    assert not driver._of_clients.locked()


async def test_who_asked_may_go_and_the_request_is_carried_out_all_the_same(of_many: Node) -> None:
    driver, loop = of_many.control_plane.controller, asyncio.get_running_loop()
    altering = loop.create_task(driver.handle(RAISE_MINIMUM))
    waiting = loop.create_task(driver.handle(ORDERS))
    await asyncio.sleep(0)
    altering.cancel()
    waiting.cancel()
    assert (await in_time(driver.handle(creation_of("next")))).topics[0].error_code == ErrorCode.NONE
    assert driver.is_active
    assert of_many.image.partition(TopicPartition("many", 39)).partition_epoch == 1  # type: ignore[union-attr]
    assert of_many.image.topic("orders") is None, "it had not begun"
    assert of_many.failure is None


async def test_what_leadership_was_lost_over_is_not_appended(of_many: Node) -> None:
    driver, loop = of_many.control_plane.controller, asyncio.get_running_loop()
    altering = loop.create_task(driver.handle(RAISE_MINIMUM))
    await asyncio.sleep(0)
    assert driver._in_line.locked()
    of_many.control_plane.raft.step_down()
    with pytest.raises(KafkaError) as lost:
        await in_time(altering)
    assert lost.value.code is ErrorCode.NOT_CONTROLLER
    await eventually(lambda: driver.is_active, "the next election")
    assert of_many.image.partition(TopicPartition("many", 39)).partition_epoch == 0  # type: ignore[union-attr]
    assert (await in_time(driver.handle(ORDERS))).topics[0].error_code == ErrorCode.NONE
    assert of_many.failure is None


async def test_a_bug_that_a_request_meets_costs_the_leadership_and_no_more(
    of_many: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, taken = of_many.control_plane.controller, []
    write = state_module.ControllerState.write_portion

    def broken(state: state_module.ControllerState) -> None:
        write(state)
        if not taken:
            taken.append(state)
            raise ZeroDivisionError

    monkeypatch.setattr(state_module.ControllerState, "write_portion", broken)
    with pytest.raises(ZeroDivisionError):
        await in_time(driver.handle(RAISE_MINIMUM))
    assert taken
    assert not driver.is_active, "the machine carried out half of it"
    await eventually(lambda: driver.is_active, "the next election")
    assert (await in_time(driver.handle(ORDERS))).topics[0].error_code == ErrorCode.NONE
    assert (await in_time(driver.handle(RAISE_MINIMUM))).responses[0].error_code == ErrorCode.NONE


async def test_a_node_stops_in_the_middle_of_a_request(of_many: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, loop = of_many.control_plane.controller, asyncio.get_running_loop()
    failures: list[str] = []
    tasks = TaskOwner("requests", lambda name, _error: failures.append(name))
    monkeypatch.setattr(driver, "_tasks", tasks)
    altering = loop.create_task(driver.handle(RAISE_MINIMUM))
    waiting = loop.create_task(driver.handle(ORDERS))
    await asyncio.sleep(0)
    await tasks.close()
    for each in (altering, waiting, driver.handle(RAISE_MINIMUM)):
        with pytest.raises(KafkaError) as stopping:
            await in_time(each)
        assert stopping.value.code is ErrorCode.NOT_CONTROLLER
    assert not driver._in_line.locked()
    assert not failures


# -- how it is reached ------------------------------------------------------------------------------------------------


async def test_requests_reach_the_controller_from_any_node(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.ready()
    for node_id, node in cluster.nodes.items():
        answer = await node.controller.call_once(creation_of(f"from-{node_id}"), CreateTopicsResponse)
        assert answer.topics[0].error_code == ErrorCode.NONE
    assert len(list(cluster.controller.image.topics())) == 3


async def test_a_call_is_tried_again_while_the_controller_moves(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.ready()
    old = cluster.controller
    asker = next(node for node in cluster.nodes.values() if node is not old)
    calling = asyncio.get_running_loop().create_task(asker.controller.call(ORDERS, CreateTopicsResponse, timeout_s=30))
    await cluster.kill(old.config.node_id)
    answer = await in_time(calling)
    assert answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


async def test_without_a_controller_a_call_gives_up_and_says_so(cluster: Cluster) -> None:
    await cluster.start(2)
    client = cluster.nodes[2].controller
    with pytest.raises(KafkaError, match=r"no active controller within 0\.05 s") as refused:
        await client.call(ORDERS, CreateTopicsResponse, timeout_s=0.05)
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    with pytest.raises(KafkaError, match="no controller is elected"):
        await client.call_once(ORDERS, CreateTopicsResponse)


async def test_the_controllers_own_errors_are_not_tried_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    async def refuse(request: object) -> object:
        calls.append(request)
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, "of another life")

    monkeypatch.setattr(node.control_plane.controller, "handle", refuse)
    with pytest.raises(KafkaError, match="of another life"):
        await node.controller.call(ORDERS, CreateTopicsResponse, timeout_s=30)
    assert len(calls) == 1
    assert CLIENT_METHOD == "controller"


# -- brokers that vanish ----------------------------------------------------------------------------------------------


@pytest.mark.spec("C3")
async def test_a_broker_whose_process_is_gone_is_fenced_at_once(cluster: Cluster) -> None:
    await cluster.start(broker_session_timeout_ms=600_000)
    await cluster.ready()
    controller = cluster.controller
    dead = next(node_id for node_id in cluster.node_ids if node_id != controller.config.node_id)
    await cluster.kill(dead)
    await eventually(lambda: not controller.image.is_live(dead), "the broker to be fenced")


@pytest.mark.spec("P6")
async def test_requests_by_the_thousand_depose_no_controller(
    cluster: Cluster, dial: Callable[..., Awaitable[Client]]
) -> None:
    """They shared a bound with the quorum's fetches and the heartbeats, and broke the connection of these.

    Three nodes share a loop here: the time-outs are long, so that a busy machine deposes nobody.
    """
    await cluster.start(controller_quorum_fetch_timeout_ms=30_000, broker_session_timeout_ms=30_000)
    await cluster.ready()
    controller = cluster.controller
    epoch = controller.control_plane.raft.machine.epoch
    await create_topic(controller, "orders")
    forwarding = next(node for node in cluster.nodes.values() if node is not controller)
    link = forwarding.control_plane.links[controller.config.node_id]
    connection = link._channel
    client = await dial(forwarding)
    answers = await in_time(asyncio.gather(*(client.send(set_retention(1_000_000 + n)) for n in range(1_500))))
    errors = Counter(response.error_code for answer in answers for response in answer.responses)
    assert set(errors) <= {ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    assert errors[ErrorCode.NONE] >= REQUESTS_MAX
    assert errors.total() == 1_500
    assert link._channel is connection, "the connection stood"
    assert controller.control_plane.raft.machine.epoch == epoch
    assert len(controller.image.live_brokers()) == 3


@pytest.mark.spec("P6")
async def test_requests_of_clients_that_come_at_once_are_carried_out_one_a_turn(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One commit wakes all who waited for it: the next portions of fifty requests took a turn of half a second."""
    node = await start_node(controlled_shutdown_enable="false")
    machine = node.control_plane.controller._controller
    in_portions = machine.in_portions
    turn = 0
    carried_out_in: list[int] = []

    async def count() -> None:
        nonlocal turn
        while True:
            await asyncio.sleep(0)
            turn += 1

    def note(request: Message, *more: Any) -> Any:
        if isinstance(request, IncrementalAlterConfigsRequest):
            carried_out_in.append(turn)
        return in_portions(request, *more)

    monkeypatch.setattr(machine, "in_portions", note)
    counting = asyncio.create_task(count())
    await in_time(asyncio.gather(*(node.control_plane.controller.handle(set_retention(1000)) for _ in range(10))))
    counting.cancel()
    assert len(set(carried_out_in)) == 10


async def test_requests_are_refused_while_too_much_waits_to_be_committed(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the log itself would refuse ends the controller: its image would be ahead of the log."""
    node = await start_node(controlled_shutdown_enable="false")
    monkeypatch.setattr(controller_module, "UNCOMMITTED_MAX", -1)
    with pytest.raises(KafkaError, match="0 metadata records wait for a majority of the voters") as refused:
        await node.control_plane.controller.handle(ORDERS)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    ids = AllocateProducerIdsRequest(broker_id=1, broker_epoch=node.control_plane.lifecycle.broker_epoch)
    assert await node.control_plane.controller.handle(ids)
    assert node.control_plane.controller.is_active


def set_retention(retention_ms: int) -> IncrementalAlterConfigsRequest:
    """A request that changes a setting of the topic ``orders``."""
    config = AlterableConfig(name="retention.ms", config_operation=0, value=str(retention_ms))
    resource = AlterConfigsResource(resource_type=2, resource_name="orders", configs=[config])
    return IncrementalAlterConfigsRequest(resources=[resource])


@pytest.mark.spec("C3")
async def test_a_new_controller_looks_for_brokers_that_went_with_the_old(cluster: Cluster) -> None:
    await cluster.start(broker_session_timeout_ms=600_000)
    await cluster.ready()
    dead = cluster.controller.config.node_id
    await cluster.kill(dead)
    controller = await cluster.wait_for_controller()
    await eventually(lambda: not controller.image.is_live(dead), "the old controller's broker to be fenced")


@pytest.mark.spec("C3")
async def test_a_broken_connection_alone_fences_nobody(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness_module, "PAUSES_S", (0.001,))
    await cluster.start()
    await cluster.ready()
    controller = cluster.controller
    for node_id in (*cluster.node_ids, 99):
        controller.control_plane.liveness.doubt(node_id)
    await eventually(
        lambda: not [task for task in controller.tasks._tasks if "look-at" in task.get_name()], "all to be looked at"
    )
    assert len(controller.image.live_brokers()) == 3


@pytest.mark.spec("C3")
async def test_a_broker_that_falls_silent_is_fenced_when_its_session_ends(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.start(broker_session_timeout_ms=300, broker_heartbeat_interval_ms=50)
    await cluster.ready()
    controller = cluster.controller
    silent = next(node for node in cluster.nodes.values() if node is not controller)
    await create_topic(controller, "orders", replicas=[[silent.config.node_id, controller.config.node_id]])

    async def never() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(silent.control_plane.lifecycle, "_heartbeat", never)
    await eventually(lambda: not controller.image.is_live(silent.config.node_id), "the session to end")
    assert controller.image.topic("orders") is not None
