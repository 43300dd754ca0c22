"""Peers that proved the cluster's secret, and send what no node of ours would: every field of every request at its
extremes, and what is no such field at all. Nothing of it stops, marks or confuses a node."""

from __future__ import annotations

import asyncio
import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any
from uuid import UUID

import pytest
from broker_node import CLUSTER_ID, Cluster, create_topic, eventually

from minikafka.broker.node import Node
from minikafka.errors import KafkaError
from minikafka.metadata.controller.commands import Command, FenceBroker, RegisterBroker
from minikafka.model import Endpoint
from minikafka.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Request,
    VoteRequest,
)

INTEGERS = (0, 1, -1, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, -(2**63), 2**64 - 1)
OTHERS: tuple[object, ...] = (None, True, "", "x" * 300, "\0", b"", b"\0" * 16, [], [[]], {}, 1.5, [1] * 2_000)


def changed(value: object, replacements: tuple[object, ...]) -> Iterator[object]:
    """``value`` with each part of it, and itself, replaced by each."""
    yield from replacements
    if isinstance(value, list):
        for at, each in enumerate(value):
            for other in changed(each, replacements):
                yield [*value[:at], other, *value[at + 1 :]]
    elif isinstance(value, dict):
        for key, each in value.items():
            for other in changed(each, replacements):
                yield {**value, key: other}


async def refused_or_answered(call: Any) -> None:
    try:
        async with asyncio.timeout(2):
            await call
    except (KafkaError, TimeoutError):
        pass


# -- the quorum -------------------------------------------------------------------------------------------------------


def requests(node: Node, sender: int) -> list[Request]:
    """What ``sender`` may ask of ``node`` now."""
    machine = node.control_plane.raft.machine
    end, epoch, high_watermark = machine.log.end, machine.epoch, machine.high_watermark
    return [
        VoteRequest(CLUSTER_ID, sender, epoch, end, True),
        VoteRequest(CLUSTER_ID, sender, epoch, end, False),
        BeginQuorumEpochRequest(CLUSTER_ID, sender, epoch),
        EndQuorumEpochRequest(CLUSTER_ID, sender, epoch, (1, 2, 3)),
        FetchRequest(CLUSTER_ID, sender, epoch, end, high_watermark, 0, 1_000),
        FetchSnapshotRequest(CLUSTER_ID, sender, epoch, end, 0, 1_000),
    ]


async def test_nothing_that_a_peer_asks_of_the_quorum_harms_it(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.ready()
    await create_topic(cluster.controller, "orders", 5)
    for node in cluster.nodes.values():
        for sender in (1, 2, 3, 9):
            if sender == node.config.node_id:
                continue
            raft = node.control_plane.raft
            epoch, (end, _) = raft.machine.epoch, raft.machine.log.end
            nearby = (*INTEGERS, epoch - 1, epoch + 1, *range(end - 4, end + 3))
            for request in requests(node, sender):
                wire = [list(each) if isinstance(each, tuple) else each for each in request.to_wire()]
                for body in changed(wire, (*nearby, *OTHERS)):
                    await refused_or_answered(raft.handle_call(sender, body))
    assert [node.failure for node in cluster.nodes.values()] == [None, None, None]
    assert not any(node.control_plane.raft._log._log.corruption for node in cluster.nodes.values())
    leader = await cluster.wait_for_controller()
    assert leader.control_plane.raft.machine.epoch < 1_000
    await create_topic(leader, "more")
    for node in cluster.nodes.values():
        await eventually(lambda node=node: node.image.topic("more"), "the topic everywhere")  # type: ignore[misc]


# -- the controller ---------------------------------------------------------------------------------------------------


def example(hint: Any, topic: UUID) -> Any:
    """A plausible value of a field, as msgpack has it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return example(next(each for each in arguments if each is not type(None)), topic)
    if origin is tuple and arguments[1:] == (Ellipsis,):
        return [example(arguments[0], topic)]
    if origin in (dict, Mapping):
        return {"CLIENT": example(arguments[1], topic)}
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return int(next(iter(hint)))
    plain = {bool: False, int: 1, str: "orders", bytes: b"", UUID: topic.bytes}
    if hint in plain:
        return plain[hint]
    names = getattr(hint, "_fields", None) or [each.name for each in dataclasses.fields(hint)]
    hints = typing.get_type_hints(hint)
    return [example(hints[name], topic) for name in names]


COMMANDS = [command for command in Command.__subclasses__() if command is not FenceBroker]


@pytest.mark.parametrize("command", {cls.TYPE: cls for cls in COMMANDS}.values(), ids=lambda cls: cls.__name__)
async def test_nothing_that_a_node_asks_of_the_controller_harms_it(node: Node, command: type[Command[Any]]) -> None:
    await create_topic(node, "orders", 2)
    topic = node.image.topic("orders")
    assert topic is not None
    controller = node.control_plane.controller
    register = RegisterBroker(2, CLUSTER_ID, UUID(int=2), {"CLIENT": Endpoint("host", 9092)})
    epoch = (await controller.handle(register)).broker_epoch
    known = {"broker_id": 2, "broker_epoch": epoch, "cluster_id": CLUSTER_ID, "incarnation_id": UUID(int=2).bytes}
    names = [each.name for each in dataclasses.fields(command)]
    fields = [known.get(name, each) for name, each in zip(names, example(command, topic.topic_id), strict=True)]
    told: set[Endpoint] = set()  # to clients and brokers
    node.metadata.subscribe(
        lambda delta: told.update(*(one.listeners.values() for one in delta.after.brokers.values()))
    )
    for body in changed(fields, (*INTEGERS, *OTHERS)):
        wire = [command.TYPE, *body] if isinstance(body, list) else [command.TYPE, body]
        await refused_or_answered(controller.handle_call(2, wire))
    assert node.failure is None
    assert controller.is_active
    assert all(0 < at.port < 65536 and 0 < len(at.host) < 256 and at.host.isprintable() for at in told), told
