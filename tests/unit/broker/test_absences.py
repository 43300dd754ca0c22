"""What clients hear of brokers that have just gone. Nodes 1 to 3 are live; the tests play node 1, and 3 goes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import cast
from uuid import UUID

import pytest
from deltas import apply_records

from minikafka.broker.absences import Absences
from minikafka.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage, TopicImage
from minikafka.metadata.records import BrokerChangeRecord, Record, RegisterBrokerRecord
from minikafka.model import Endpoint, OffsetAndEpoch
from minikafka.net.budget import Budget
from minikafka.net.connection import Connection, FrameHandler, Shared
from minikafka.net.duplicates import Duplicates
from minikafka.net.turns import Turns

FENCED = BrokerChangeRecord(3, 3, fenced=True)
UNFENCED = BrokerChangeRecord(3, 3, fenced=False)


class Node:
    """The part of a node that is about absences. `gone` are the brokers that a look finds gone."""

    def __init__(self) -> None:
        self.gone: set[int] = set()
        self.silent: set[int] = set()
        self.looks: list[int] = []
        self.absences = Absences(1, self._look)
        self.image: MetadataImage = EMPTY_IMAGE

    async def _look(self, broker_id: int) -> bool:
        self.looks.append(broker_id)
        if broker_id in self.silent:
            await asyncio.Event().wait()
        if broker_id in self.gone:
            self.absences.on_gone(broker_id)
        return broker_id in self.gone

    def apply(self, *records: Record) -> None:
        """Commit records."""
        self.image, delta = apply_records(self.image, records, OffsetAndEpoch(self.image.offset + len(records), 1))
        self.absences.on_metadata(delta)

    def connect(self) -> Connection:
        """A client's connection."""
        shared = Shared(Budget(1000, 1000), Turns(asyncio.get_running_loop()), Duplicates(0))
        return Connection(cast(FrameHandler, None), listener="CLIENT", max_frame_bytes=1000, shared=shared)

    def listed(self, connection: Connection) -> list[int]:
        """The ids of the brokers in an answer."""
        return [broker.broker_id for broker in self.absences.listed(connection)]


@pytest.fixture
async def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr("minikafka.broker.absences.LOOK_TIMEOUT_S", 600.0)
    node = Node()
    node.apply(*(registered(broker_id) for broker_id in (1, 2, 3)))
    return node


def registered(broker_id: int, *, epoch: int | None = None, fenced: bool = False) -> RegisterBrokerRecord:
    listeners = {name: Endpoint("h", port) for port, name in enumerate(("CLIENT", "REPLICATION"), 1)}
    return RegisterBrokerRecord(broker_id, UUID(int=epoch or broker_id), epoch or broker_id, listeners, fenced=fenced)


def led_by(*leaders: int) -> TopicImage:
    partitions = {index: PartitionImage((1, 2, 3), (1, 2, 3), leader, 1, 1) for index, leader in enumerate(leaders)}
    return TopicImage("orders", UUID(int=1), partitions)


LED_BY_ALL = led_by(1, 2, 3)


async def is_answered(waiting: Awaitable[None]) -> bool:
    """Whether a request gets its answer within a tenth of a second, which is less than it may have to wait."""
    try:
        async with asyncio.timeout(0.1):
            await waiting
    except TimeoutError:
        return False
    return True


async def test_a_broker_that_was_fenced_is_listed_in_one_more_answer_on_each_connection(node: Node) -> None:
    first, second = node.connect(), node.connect()
    assert node.listed(first) == [1, 2, 3]
    node.apply(FENCED)
    assert node.listed(first) == [1, 2, 3]
    assert node.listed(first) == [1, 2]
    assert node.listed(second) == [1, 2, 3]
    assert node.listed(second) == [1, 2]


async def test_it_is_not_listed_to_those_who_come_later(node: Node) -> None:
    node.apply(FENCED)
    late = node.connect()
    late.opened_at_s += 1
    assert node.listed(late) == [1, 2]


async def test_it_is_not_listed_for_long(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = node.connect()
    node.apply(FENCED)
    monkeypatch.setattr("minikafka.broker.absences.LISTED_AFTER_FENCING_S", 0.0)
    assert node.listed(connection) == [1, 2]


async def test_it_is_listed_when_it_is_back_and_once_more_when_it_goes_again(node: Node) -> None:
    connection = node.connect()
    for _ in range(2):
        node.apply(FENCED)
        assert [node.listed(connection), node.listed(connection)] == [[1, 2, 3], [1, 2]]
        node.apply(UNFENCED)
        assert node.listed(connection) == [1, 2, 3]


async def test_what_a_node_learns_before_it_is_live_is_long_past(node: Node) -> None:
    starting = Node()
    connection = starting.connect()
    starting.apply(registered(1, fenced=True), registered(2), registered(3))
    starting.apply(FENCED)
    assert starting.listed(connection) == [2]


async def test_answers_do_not_wait_while_nobody_has_vanished(node: Node) -> None:
    assert await is_answered(node.absences.wait_until_decided([LED_BY_ALL]))
    assert node.looks == [2, 3]


@pytest.mark.parametrize("decision", [FENCED, registered(3, epoch=4, fenced=True)], ids=["fenced", "back already"])
async def test_answers_wait_while_a_broker_has_vanished_until_it_is_decided(node: Node, decision: Record) -> None:
    node.absences.on_gone(3)
    node.absences.on_gone(3)  # another look
    assert not await is_answered(node.absences.wait_until_decided([LED_BY_ALL]))
    assert node.looks == [2]
    node.apply(decision)
    assert await is_answered(node.absences.wait_until_decided([LED_BY_ALL]))


@pytest.mark.parametrize("leader", [1, 2, -1])
async def test_answers_about_others_do_not_wait(node: Node, leader: int) -> None:
    node.absences.on_gone(3)
    assert await is_answered(node.absences.wait_until_decided([led_by(leader)]))
    assert await is_answered(node.absences.wait_until_decided([]))
    for topics in ([led_by(leader), led_by(3)], None):
        assert not await is_answered(node.absences.wait_until_decided(topics))


@pytest.mark.parametrize("leader", [1, -1])
async def test_answers_that_name_no_other_node_are_given_at_once(node: Node, leader: int) -> None:
    for topics in ([], [led_by(leader)]):
        with pytest.raises(StopIteration):
            node.absences.wait_until_decided(topics).send(None)
    assert not node.looks


async def test_a_client_may_notice_before_this_node_does(node: Node) -> None:
    """The client's connection breaks before any of this node's: what the answer would name is looked at first."""
    node.gone = {3}
    waiting = asyncio.get_running_loop().create_task(node.absences.wait_until_decided([led_by(3)]))
    assert not await is_answered(asyncio.shield(waiting))
    node.apply(FENCED)
    assert await is_answered(waiting)


async def test_a_leader_that_is_silent_has_not_vanished(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka.broker.absences.LOOK_TIMEOUT_S", 0.001)
    node.silent = {2}
    assert await is_answered(node.absences.wait_until_decided([LED_BY_ALL]))


async def test_another_broker_s_change_decides_nothing(node: Node) -> None:
    node.absences.on_gone(3)
    node.apply(BrokerChangeRecord(2, 2, fenced=True))
    assert not await is_answered(node.absences.wait_until_decided([LED_BY_ALL]))


async def test_answers_do_not_wait_for_ever_and_not_twice(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka.broker.absences.DECISION_TIMEOUT_S", 0.01)
    node.gone = {3}
    assert await is_answered(node.absences.wait_until_decided([LED_BY_ALL]))
    monkeypatch.setattr("minikafka.broker.absences.DECISION_TIMEOUT_S", 600)
    node.looks.clear()
    assert await is_answered(node.absences.wait_until_decided([LED_BY_ALL]))
    assert node.looks == [2]
    node.apply(registered(3, epoch=4))
    assert not await is_answered(node.absences.wait_until_decided([LED_BY_ALL]))


async def test_a_broker_that_is_known_to_be_gone_does_not_vanish(node: Node) -> None:
    node.apply(FENCED)
    for broker_id in (3, 9):
        node.absences.on_gone(broker_id)
    assert await is_answered(node.absences.wait_until_decided([LED_BY_ALL]))
    assert node.looks == [2]
