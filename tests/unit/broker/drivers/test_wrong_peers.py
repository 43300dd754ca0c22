"""Peers that proved the cluster's secret, and send what no node of ours would: every field of every request at its
extremes, and what is no such field at all. Nothing of it stops, marks or confuses a node."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from broker_node import CLUSTER_ID, Cluster, create_topic, eventually

from minikafka.broker.node import Node
from minikafka.errors import KafkaError
from minikafka.model import Endpoint, OffsetAndEpoch
from minikafka.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Request,
    VoteRequest,
)
from minikafka.wire.api import BROKERS, ApiKey
from minikafka.wire.codec import encode
from minikafka.wire.forwarded import encode_forwarded
from minikafka.wire.messages.broker_registration import BrokerRegistrationRequest, Listener
from minikafka.wire.primitives import STRING_SIZE_MAX
from minikafka.wire.schema import ZERO_UUID, Field, Message

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


async def test_what_is_refused_leaves_nothing_to_the_garbage_collector(cluster: Cluster) -> None:
    """A node has no full collection for days. A fetch inside of a batch left 6 KB: 50,000 took a node to 370 MB."""
    await cluster.start()
    await cluster.ready()
    await create_topic(cluster.controller, "orders", 5)  # in one batch
    raft = cluster.controller.control_plane.raft
    ends = [OffsetAndEpoch(offset, raft.machine.epoch) for offset in range(raft.machine.log.end.offset)]
    bodies = [FetchRequest(CLUSTER_ID, 9, raft.machine.epoch, end, 0, 0, 1_000).to_wire() for end in ends]
    refused = 0
    gc.collect()
    gc.disable()
    try:
        for body in bodies:
            try:
                await raft.handle_call(9, body)
            except KafkaError:
                refused += 1
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = sum(isinstance(each, FetchRequest) for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert refused
    assert not left


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

REQUESTS = [key for key in ApiKey if key.listeners >= BROKERS]
BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFF)


def example(cls: type[Message], known: dict[str, object]) -> Message:
    """A plausible request: one element in each array, and what is known of fields by their names or types."""
    return cls(**{name: _example(name, field, known) for name, field in cls.SCHEMA.items()})


def _example(name: str, field: Field, known: dict[str, object]) -> object:
    one: object
    if name in known:
        one = known[name]
    elif isinstance(field.type, str):
        plausible = {"bool": False, "string": "orders", "uuid": known["topic_id"], "bytes": bytes(32)}
        one = plausible.get(field.type, 1)
    else:
        one = example(field.type, known)
    return [one] if field.array else one


def places(message: Message) -> Iterator[tuple[Message, str, Field]]:
    """Each field of it, and of what it is made of."""
    for name, field in message.SCHEMA.items():
        yield message, name, field
        value = getattr(message, name)
        for each in value if field.array else [value]:
            if isinstance(each, Message):
                yield from places(each)


def extremes(field: Field, value: Any) -> Iterator[object]:
    """What else the field may hold."""
    if field.nullable:
        yield None
    if field.array:
        yield from ([], value * 2, value * 2_000)
        return
    bits = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}.get(str(field.type))
    if bits is not None:
        yield from (0, 1, 2, -1, 2**bits - 1, -(2**bits))
    others: dict[str, list[object]] = {
        "bool": [True],
        "uint16": [0, 1, 65535],
        "string": ["", "x" * 300, "x" * STRING_SIZE_MAX, "\0", "7"],
        "uuid": [ZERO_UUID, UUID(int=2**128 - 1)],
        "bytes": [b"", b"x" * 300, b"x" * 100_000],
    }
    yield from others.get(str(field.type), [])


def bodies(request: Message) -> Iterator[object]:
    """The request with each of its fields at each extreme, with bytes changed or missing, and what is none."""
    for owner, name, field in list(places(request)):
        value = getattr(owner, name)
        for other in extremes(field, value):
            setattr(owner, name, other)
            yield encode_forwarded(request)
        setattr(owner, name, value)
    key, version, data = encode_forwarded(request)
    for at in range(len(data)):
        yield [key, version, data[:at]]
        yield from ([key, version, data[:at] + bytes([other]) + data[at + 1 :]] for other in BYTES)
    yield [key, version, data + b"\0"]
    yield from ([key, older, encode(request, older)] for older in range(ApiKey(key).versions.first, version))
    yield from changed([key, version, data], (*INTEGERS, *OTHERS))


@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: key.camel_name)
async def test_nothing_that_a_node_asks_of_the_controller_harms_it(node: Node, key: ApiKey) -> None:
    await create_topic(node, "orders", 2)
    topic = node.image.topic("orders")
    assert topic is not None
    controller = node.control_plane.controller
    known: dict[str, object] = {"broker_id": 2, "cluster_id": CLUSTER_ID, "incarnation_id": UUID(int=2)}
    listeners = [Listener(name="CLIENT", host="host", port=9092)]
    register = BrokerRegistrationRequest(**known, listeners=listeners)  # type: ignore[arg-type]
    epoch = (await controller.handle(register)).broker_epoch
    known |= {"broker_epoch": epoch, "topic_id": topic.topic_id}
    told: set[Endpoint] = set()  # to clients and brokers
    node.metadata.subscribe(
        lambda delta: told.update(*(one.listeners.values() for one in delta.after.brokers.values()))
    )
    for body in bodies(example(key.request_class, known)):
        await refused_or_answered(controller.handle_call(2, body))
    assert node.failure is None
    assert controller.is_active
    assert all(0 < at.port < 65536 and 0 < len(at.host) < 256 and at.host.isprintable() for at in told), told
