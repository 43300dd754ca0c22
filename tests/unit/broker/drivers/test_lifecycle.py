from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import cast
from uuid import UUID

import pytest
from broker_node import Cluster, create_topic, eventually, turns
from captured_logs import capture_logs

from minikafka.broker.drivers import lifecycle as lifecycle_module
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.lifecycle import Lifecycle
from minikafka.broker.node import Node
from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Endpoint
from minikafka.net.channel import ChannelClosedError
from minikafka.storage.registration import RecordJob, Registrations
from minikafka.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from minikafka.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
    TopicReplicas,
)
from minikafka.wire.schema import Message


class Script:
    """A controller that answers as a test says; by default everything goes well."""

    def __init__(self) -> None:
        self.registrations: list[BrokerRegistrationRequest] = []
        self.heartbeats: list[BrokerHeartbeatRequest] = []
        self.on_register: list[Exception] = []
        self.on_heartbeat: list[Exception | BrokerHeartbeatResponse | asyncio.Event] = []
        self.is_fenced = False

    async def handle(self, request: Message) -> Message:
        if isinstance(request, BrokerRegistrationRequest):
            self.registrations.append(request)
            if self.on_register:
                raise self.on_register.pop(0)
            return BrokerRegistrationResponse(broker_epoch=100 + len(self.registrations))
        assert isinstance(request, BrokerHeartbeatRequest)
        self.heartbeats.append(request)
        planned = self.on_heartbeat.pop(0) if self.on_heartbeat else None
        if isinstance(planned, Exception):
            raise planned
        if isinstance(planned, asyncio.Event):
            await planned.wait()
        if isinstance(planned, BrokerHeartbeatResponse):
            return planned
        return BrokerHeartbeatResponse(
            is_caught_up=True, is_fenced=self.is_fenced, should_shut_down=request.want_shut_down
        )


class Files:
    """Registrations, as a directory would keep them."""

    def __init__(self) -> None:
        self.previous_broker_epoch = self.recorded_broker_epoch = -1
        self.synced_topics = frozenset({UUID(int=9)})
        self.failed: tuple[UUID, ...] = ()

    def prepare_write(self, broker_epoch: int) -> RecordJob:
        return RecordJob(())

    def complete_write(self, _job: RecordJob, broker_epoch: int) -> None:
        self.previous_broker_epoch = broker_epoch

    def online_directories(self) -> tuple[UUID, ...]:
        return (UUID(int=5), UUID(int=6))

    def failed_directories(self) -> tuple[UUID, ...]:
        return self.failed

    def whole_replicas(self) -> dict[UUID, tuple[int, ...]]:
        return {UUID(int=9): (0, 2)}


class Broker:
    """A lifecycle that runs, and what it told the node."""

    def __init__(self, script: Script, files: Files, **settings: object) -> None:
        config = BrokerConfig({"broker.heartbeat.interval.ms": "5", **settings})
        client = ControllerClient(1, script, {}, lambda: 1, random.Random(1))
        self.fatal: list[KafkaError] = []
        self.lifecycle = Lifecycle(
            config,
            "cluster",
            UUID(int=9),
            lambda: {"CLIENT": Endpoint("h", 1)},
            client,
            lambda: 77,
            random.Random(1),
            cast(Registrations, files),
            partial(asyncio.get_running_loop().run_in_executor, None),
            self.fatal.append,
        )
        self.registered = 0
        self.lifecycle.on_registered = self._on_registered
        self.task = asyncio.get_running_loop().create_task(self.lifecycle.run())

    def _on_registered(self) -> None:
        self.registered += 1


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
async def start(script: Script, files: Files) -> AsyncIterator[Callable[..., Broker]]:
    started: list[Broker] = []

    def start(**settings: object) -> Broker:
        started.append(Broker(script, files, **settings))
        return started[-1]

    yield start
    for broker in started:
        broker.task.cancel()
        await asyncio.gather(broker.task, return_exceptions=True)


Start = Callable[..., Broker]


@pytest.mark.spec("C3")
async def test_it_registers_and_keeps_its_session(script: Script, start: Start) -> None:
    broker = start()
    await eventually(lambda: len(script.heartbeats) >= 3, "heartbeats")
    registered = script.registrations[0]
    assert (registered.broker_id, registered.cluster_id, registered.incarnation_id) == (1, "cluster", UUID(int=9))
    assert registered.listeners == [Listener(name="CLIENT", host="h", port=1)]
    assert broker.registered == 1
    beat = script.heartbeats[0]
    assert (beat.broker_epoch, beat.current_metadata_offset, beat.want_shut_down) == (101, 77, False)
    assert not broker.lifecycle.is_fenced
    assert broker.lifecycle.broker_epoch == 101


@pytest.mark.spec("P2")
async def test_it_says_which_registration_it_continues(script: Script, start: Start, files: Files) -> None:
    files.previous_broker_epoch = 55
    script.on_heartbeat = [KafkaError(ErrorCode.STALE_BROKER_EPOCH, "gone")]
    start()
    await eventually(lambda: len(script.registrations) == 2 and len(script.heartbeats) >= 2, "registered anew")
    assert [one.previous_broker_epoch for one in script.registrations] == [55, 101]
    assert script.registrations[0].synced_topics == [UUID(int=9)]
    assert script.registrations[0].whole == [TopicReplicas(topic_id=UUID(int=9), partitions=[0, 2])]
    assert script.registrations[0].log_dirs == [UUID(int=5), UUID(int=6)]
    assert script.heartbeats[-1].offline_log_dirs == []
    files.failed = (UUID(int=6),)
    await eventually(lambda: script.heartbeats[-1].offline_log_dirs == [UUID(int=6)], "told of the failure")


async def test_registration_is_tried_until_it_succeeds(script: Script, start: Start) -> None:
    script.on_register = [
        KafkaError(ErrorCode.NOT_CONTROLLER),
        ConnectionRefusedError(),
        TimeoutError(),
        ChannelClosedError(),
        KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "another process"),
    ]
    broker = start()
    assert broker.lifecycle.broker_epoch == -1
    await eventually(lambda: broker.registered, "the registration")
    assert len(script.registrations) == 6
    assert not broker.fatal


async def test_another_clusters_controller_is_fatal(script: Script, start: Start) -> None:
    script.on_register = [KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, "no")]
    broker = start()
    await eventually(lambda: broker.fatal, "the failure")
    assert broker.fatal[0].code is ErrorCode.INCONSISTENT_CLUSTER_ID


async def test_a_lost_registration_is_made_again(script: Script, start: Start) -> None:
    script.on_heartbeat = [KafkaError(ErrorCode.STALE_BROKER_EPOCH, "registered elsewhere")]
    broker = start()
    await eventually(lambda: broker.registered == 2, "the second registration")
    assert broker.lifecycle.broker_epoch == 102
    await eventually(lambda: len(script.heartbeats) >= 2, "the next heartbeat")
    assert script.heartbeats[-1].broker_epoch == 102
    assert {each.incarnation_id for each in script.registrations} == {UUID(int=9)}


async def test_heartbeats_that_fail_are_sent_again(
    script: Script, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle_module, "CALL_TIMEOUT_S", 0.01)
    script.on_heartbeat = [
        KafkaError(ErrorCode.NOT_CONTROLLER),
        ConnectionResetError(),
        ChannelClosedError(),
        asyncio.Event(),
    ]
    start()
    await eventually(lambda: len(script.heartbeats) >= 6, "heartbeats to go on")


async def test_a_controller_that_stays_silent_is_missed_ever_more_rarely(
    script: Script, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle_module, "FIRST_WARNING_S", 0.05)
    script.on_heartbeat = [ConnectionRefusedError("refused")] * 200
    with capture_logs() as lines:
        start()
        await eventually(lambda: not script.on_heartbeat and len(script.heartbeats) > 201, "it to be heard again")
    warnings = [line for line in lines if line["event"] == "no controller"]
    assert 2 <= len(warnings) <= 12
    assert warnings[0]["why"] == "ConnectionRefusedError: refused"
    assert [line["event"] for line in lines if line["event"] == "controller answers again"]


async def test_one_heartbeat_without_an_answer_is_no_news(script: Script, start: Start) -> None:
    script.on_heartbeat = [ConnectionResetError()]
    with capture_logs() as lines:
        start()
        await eventually(lambda: len(script.heartbeats) >= 3, "heartbeats to go on")
    assert [line["event"] for line in lines] == ["registered", "unfenced"]


async def test_it_knows_when_it_is_fenced(script: Script, start: Start) -> None:
    script.is_fenced = True
    broker = start(**{"broker.heartbeat.interval.ms": "2000"})
    await eventually(lambda: len(script.heartbeats) >= 3, "a fenced broker to be impatient")
    assert broker.lifecycle.is_fenced
    script.is_fenced = False
    await eventually(lambda: not broker.lifecycle.is_fenced, "it to be let in")


async def test_a_nudge_sends_the_next_heartbeat_now(script: Script, start: Start) -> None:
    broker = start(**{"broker.heartbeat.interval.ms": "2999"})
    for count in (1, 2, 3):
        await eventually(lambda: len(script.heartbeats) == count, "a heartbeat")  # noqa: B023
        await turns()
        broker.lifecycle.nudge()


@pytest.mark.spec("C3")
async def test_shutting_down_waits_for_the_controllers_leave(script: Script, start: Start) -> None:
    broker = start(**{"broker.heartbeat.interval.ms": "2999"})
    await eventually(lambda: script.heartbeats, "the session")
    script.on_heartbeat = [BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)] * 2
    broker.lifecycle.begin_shutdown()
    await eventually(broker.lifecycle.may_shut_down.is_set, "leave")
    assert [beat.want_shut_down for beat in script.heartbeats[-3:]] == [True] * 3
    await eventually(broker.task.done, "the end of heartbeats")


@pytest.mark.spec("C3")
async def test_a_node_that_leaves_in_order_hands_its_leaderships_over_first(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.ready()
    tp = await create_topic(cluster.controller, "orders", replicas=[[2, 3, 1]])
    leaving: Node = cluster.nodes[2]
    await eventually(lambda: leaving.replicas.get(tp) and leaving.replicas.leader_of(tp), "it to lead")
    stopping = asyncio.get_running_loop().create_task(leaving.stop())
    await eventually(stopping.done, "it to stop")
    del cluster.nodes[2]
    controller = await cluster.wait_for_controller()
    state = controller.image.partition(tp)
    assert state is not None
    assert state.leader == 3
    assert 2 not in state.isr


async def test_the_last_node_does_not_wait_for_leave_that_nobody_can_give(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.ready()
    last = cluster.nodes.pop(1)
    for node_id in (2, 3):
        await cluster.kill(node_id)
    async with asyncio.timeout(4):  # five seconds is what it would wait at most
        await last.stop()
