from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable

import pytest
from broker_client import Client
from broker_node import create_topic, eventually, in_time, listener_of
from live_wire import api_key

from minikafka.broker.context import REQUEST_BYTES_MAX
from minikafka.broker.dispatch import (
    DECODED_BYTES,
    DECODED_BYTES_PER_BYTE,
    LONG,
    PLAIN_COST,
    PLAIN_COST_PER_BYTE,
    Dispatcher,
)
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.lookups import Lookups
from minikafka.broker.node import Node
from minikafka.broker.places import Memory, Places
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metrics.requests import ApiRequests
from minikafka.net.channel import ChannelClosedError
from minikafka.net.connection import Connection
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import encode
from minikafka.wire.headers import encode_request
from minikafka.wire.messages.create_topics import CreateTopicsResponse
from minikafka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from minikafka.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from minikafka.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minikafka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

Dial = Callable[..., Awaitable[Client]]

HEADER = struct.Struct(">hhih")


@pytest.mark.spec("P6")
@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0",
        HEADER.pack(3, 1, 7, -1)[:-1],
        HEADER.pack(9999, 0, 7, -1),
        HEADER.pack(-1, 0, 7, -1),
        HEADER.pack(ApiKey.METADATA, 99, 7, -1) + b"\0\0",
        HEADER.pack(ApiKey.METADATA, -1, 7, -1),
        HEADER.pack(ApiKey.PRODUCE, 2, 7, -1),
        HEADER.pack(ApiKey.DESCRIBE_LOG_DIRS, 1, 7, -1),
        HEADER.pack(ApiKey.METADATA, 1, 7, 5) + b"abc",
        HEADER.pack(ApiKey.METADATA, 1, 7, -2),
        HEADER.pack(ApiKey.METADATA, 1, 7, 2) + b"\xff\xfe\0\0\0\0",
        HEADER.pack(ApiKey.METADATA, 9, 7, -1) + b"\xff\xff\xff\xff\xff\xff",
        HEADER.pack(ApiKey.METADATA, 1, 7, -1),
        HEADER.pack(ApiKey.METADATA, 1, 7, -1) + b"\x7f\xff\xff\xff",
        HEADER.pack(ApiKey.METADATA, 1, 7, -1) + b"\0\0\0\x01\0\x09name",
        HEADER.pack(ApiKey.PRODUCE, 7, 7, -1) + b"\xff\xff\xff\xff",
        HEADER.pack(ApiKey.FETCH, 12, 7, -1) + b"\0" * 10,
    ],
    ids=lambda frame: frame.hex()[:40],
)
async def test_a_request_that_cannot_be_read_closes_its_connection_only(node: Node, dial: Dial, frame: bytes) -> None:
    bad, good = await dial(node), await dial(node)
    bad.channel.post(len(frame).to_bytes(4) + frame)
    await bad.wait_closed()
    assert (await good.ask(MetadataRequest(topics=None))).brokers
    assert node.failure is None


@pytest.mark.spec("P6")
async def test_a_request_of_many_bytes_closes_its_connection_unless_they_are_records(node: Node, dial: Dial) -> None:
    """With long names one of 71 MB took 400 MB more, and held the loop for as long as it takes to look at them."""
    names = ["x" * 32_000] * (REQUEST_BYTES_MAX // 32_000 + 1)
    topics = [TopicProduceData(name=name, partition_data=[]) for name in names]
    for request, version in (
        (FindCoordinatorRequest(key_type=0, coordinator_keys=names), 4),
        (ProduceRequest(acks=1, timeout_ms=1_000, topic_data=topics), 9),
    ):
        bad = await dial(node)
        bad.channel.post(encode_request(api_key(request), version, 1, "test", encode(request, version)))
        await in_time(bad.wait_closed())
    data = PartitionProduceData(index=0, records=bytes(REQUEST_BYTES_MAX + 1))
    large = ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    answer = await in_time((await dial(node)).ask(large, 9))
    assert answer.responses[0].partition_responses[0].error_code


async def test_a_member_learns_in_an_answer_that_what_it_says_is_too_large(client: Client) -> None:
    """When its connection was closed, it joined and sent it again for ever, and its application saw nothing."""
    assignment = SyncGroupRequestAssignment(member_id="m", assignment=bytes(REQUEST_BYTES_MAX))
    sync = SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=[assignment])
    protocol = JoinGroupRequestProtocol(name="range", metadata=bytes(REQUEST_BYTES_MAX))
    join = JoinGroupRequest(group_id="g", protocol_type="consumer", protocols=[protocol])
    for request in (sync, join):
        for version in api_key(request).versions:
            answer = await in_time(client.ask(request, version))
            assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE


async def test_a_long_answer_costs_the_turn(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred requests of 20 bytes each about all 3,300 partitions were answered in one turn of a second."""
    spent: list[int] = []
    monkeypatch.setattr(Connection, "spend", lambda _connection, cost: spent.append(cost))
    answer = await in_time(
        client.send_body(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, encode(DescribeTopicPartitionsRequest(), 0))
    )
    assert max(spent) > PLAIN_COST
    assert sum(spent) >= PLAIN_COST + PLAIN_COST_PER_BYTE * (len(answer) - 10)


async def test_bytes_behind_a_request_are_let_pass(client: Client) -> None:
    """Decision 0002: librdkafka leaves some behind Metadata 13."""
    version = 13
    body = encode(MetadataRequest(topics=None), version)
    answer = await in_time(client.send_body(ApiKey.METADATA, version, body + b"xyz"))
    assert len(answer) > 10
    produce = encode(ProduceRequest(acks=1), 9)
    assert len(await in_time(client.send_body(ApiKey.PRODUCE, 9, produce + b"\0"))) > 4


@pytest.mark.parametrize("direct", [False, True])
async def test_a_bug_in_a_handler_that_answers_at_once_closes_too(node: Node, dial: Dial, direct: bool) -> None:
    seen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: seen.append(context["exception"]))

    def handle(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    dispatcher = listener_of(node)._handler
    assert isinstance(dispatcher, Dispatcher)
    if direct:
        dispatcher._served[ApiKey.LIST_OFFSETS] = (*ApiKey.LIST_OFFSETS.versions, handle, ApiRequests("ListOffsets"))
    else:
        dispatcher._plain[ApiKey.LIST_OFFSETS] = handle
    client = await dial(node)
    with pytest.raises(ChannelClosedError):
        await client.ask(ListOffsetsRequest())
    assert [type(error) for error in seen] == [ZeroDivisionError]
    assert node.failure is None
    assert (await (await dial(node)).ask(MetadataRequest(topics=None))).brokers


async def test_an_answer_that_cannot_be_encoded_closes(node: Node, dial: Dial) -> None:
    async def handle(_request: object, _context: object) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(error_code=1 << 40)

    dispatcher = listener_of(node)._handler
    assert isinstance(dispatcher, Dispatcher)
    dispatcher._waiting[ApiKey.FIND_COORDINATOR] = handle
    with pytest.raises(ChannelClosedError):
        await (await dial(node)).ask(FindCoordinatorRequest(key="group"), 0)
    assert node.failure is None


async def test_so_many_requests_of_an_api_are_at_work_and_the_others_wait(node: Node, dial: Dial) -> None:
    """They were refused, and their connections closed, which hit those who had asked for nothing yet."""
    gate = asyncio.Event()
    begun: list[object] = []

    async def handle(request: object, _context: object) -> FindCoordinatorResponse:
        begun.append(request)
        await gate.wait()
        return FindCoordinatorResponse()

    dispatcher = listener_of(node)._handler
    assert isinstance(dispatcher, Dispatcher)
    dispatcher._waiting[ApiKey.FIND_COORDINATOR] = handle
    dispatcher._places[ApiKey.FIND_COORDINATOR] = Places(2, 2)
    first, late, other = await dial(node), await dial(node), await dial(node)
    waiting = [first.send(FindCoordinatorRequest(key="group")) for _ in range(2)]
    await eventually(lambda: len(begun) == 2, "two to be at work")
    waiting.append(late.send(FindCoordinatorRequest(key="group")))
    assert (await other.ask(MetadataRequest(topics=[]))).brokers, "those of other APIs go on"
    assert len(begun) == 2
    gate.set()
    for each in waiting:
        await in_time(each)
    assert len(begun) == 3


async def test_few_connections_do_not_keep_others_out(node: Node, dial: Dial) -> None:
    gate = asyncio.Event()

    async def handle(request: FindCoordinatorRequest, _context: object) -> FindCoordinatorResponse:
        if request.key == "greedy":
            await gate.wait()
        return FindCoordinatorResponse()

    dispatcher = listener_of(node)._handler
    assert isinstance(dispatcher, Dispatcher)
    dispatcher._waiting[ApiKey.FIND_COORDINATOR] = handle
    greedy = [await dial(node) for _ in range(6)]  # a connection has some 120 under way
    waiting = [client.send(FindCoordinatorRequest(key="greedy"), 3) for client in greedy for _ in range(100)]
    await in_time((await dial(node)).ask(FindCoordinatorRequest(key="group"), 3))
    assert not any(each.done() for each in waiting)
    gate.set()
    for each in waiting:
        await in_time(each)
    assert not dispatcher._places[ApiKey.FIND_COORDINATOR]._lines, "nothing of them is left"


LONG_REQUEST = FindCoordinatorRequest(coordinator_keys=["g" * 100] * 100)
QUITE_LONG_REQUEST = FindCoordinatorRequest(coordinator_keys=["g" * 100] * 12)


@pytest.mark.spec("P6")
@pytest.mark.parametrize("long", [LONG_REQUEST, QUITE_LONG_REQUEST], ids=["long", "quite long"])
async def test_a_long_request_waits_undecoded_until_there_is_memory(
    node: Node, dial: Dial, monkeypatch: pytest.MonkeyPatch, long: FindCoordinatorRequest
) -> None:
    """Hundreds that were decoded at once took 3 MB each, though they came in 75 KB, and turns one after the other.
    Thousands of 3 KB took as much, and garbage collections of half a second."""
    gate = asyncio.Event()
    begun: list[str] = []

    async def handle(request: FindCoordinatorRequest, _context: object) -> FindCoordinatorResponse:
        begun.append(request.coordinator_keys[0] if request.coordinator_keys else "short")
        await gate.wait()
        return FindCoordinatorResponse()

    dispatcher = listener_of(node)._handler
    assert isinstance(dispatcher, Dispatcher)
    dispatcher._waiting[ApiKey.FIND_COORDINATOR] = handle
    monkeypatch.setitem(dispatcher._memory, ApiKey.FIND_COORDINATOR, Memory(1))
    first, second, other = [await dial(node) for _ in range(3)]
    waiting = [first.send(long, 4)]
    await eventually(lambda: len(begun) == 1, "one to be at work")
    waiting.append(second.send(long, 4))
    waiting.append(second.send(FindCoordinatorRequest(coordinator_keys=[]), 4))
    assert (await other.ask(MetadataRequest(topics=[]))).brokers
    waiting.append(other.send(FindCoordinatorRequest(coordinator_keys=[]), 4))
    await eventually(lambda: len(begun) == 2, "the short one of another connection")
    gate.set()
    for each in waiting:
        await in_time(each)
    assert begun == ["g" * 100, "short", "g" * 100, "short"], "the second connection's in order"


@pytest.mark.spec("P6")
async def test_metadata_is_asked_for_while_topics_wait_for_a_controller(
    node: Node, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten requests about thousands of topics that were not there kept it for five seconds each, one by one."""
    gate, creating = asyncio.Event(), list[object]()

    async def call(_client: ControllerClient, request: object, *_: object, **__: object) -> CreateTopicsResponse:
        creating.append(request)
        await gate.wait()
        return CreateTopicsResponse()

    monkeypatch.setattr(ControllerClient, "call", call)
    names = [f"{number:0100}" for number in range(DECODED_BYTES // DECODED_BYTES_PER_BYTE // 100 + 1)]
    missing = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    first = (await dial(node)).send(missing)
    await eventually(lambda: bool(creating), "one that waits")
    second = await in_time((await dial(node)).ask(missing))
    assert {topic.error_code for topic in second.topics} == {ErrorCode.LEADER_NOT_AVAILABLE}, "to be asked again"
    asked = MetadataRequest(topics=missing.topics and missing.topics[:100], allow_auto_topic_creation=False)
    assert len((await in_time((await dial(node)).ask(asked))).topics) == 100
    found = await in_time((await dial(node)).ask(LONG_REQUEST))
    assert {each.error_code for each in found.coordinators} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert len(creating) == 1
    assert not first.done()
    gate.set()
    await in_time(first)


@pytest.mark.spec("P6")
async def test_metadata_is_asked_for_while_offsets_are_looked_up(
    node: Node, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look-up by time in each of a hundred partitions may take a minute, and thousands may be named beside them."""
    gate, begun = asyncio.Event(), list[object]()

    async def run(_lookups: Lookups, prepare: object, _connection: object) -> None:
        begun.append(prepare)
        await gate.wait()

    monkeypatch.setattr(Lookups, "run", run)
    await create_topic(node, "orders")
    orders = ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(partition_index=0, timestamp=1)])
    others = [f"{number:0100}" for number in range(DECODED_BYTES // DECODED_BYTES_PER_BYTE // 100 + 1)]
    request = ListOffsetsRequest(topics=[orders, *(ListOffsetsTopic(name=name, partitions=[]) for name in others)])
    looking = (await dial(node)).send(request)
    await eventually(lambda: bool(begun), "a look-up")
    names = [MetadataRequestTopic(name=name) for name in others[:100]]
    asked = MetadataRequest(topics=names, allow_auto_topic_creation=False)
    assert len((await in_time((await dial(node)).ask(asked))).topics) == 100
    assert not looking.done()
    gate.set()
    await in_time(looking)


@pytest.mark.spec("P6")
async def test_a_hundred_keys_wait_for_a_controller_once(
    node: Node, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waited five seconds for it."""
    calls: list[object] = []

    async def call(_client: ControllerClient, request: object, *_: object, **__: object) -> CreateTopicsResponse:
        calls.append(request)
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    monkeypatch.setattr(ControllerClient, "call", call)
    asked = FindCoordinatorRequest(coordinator_keys=[f"group-{number}" for number in range(100)])
    found = await in_time((await dial(node)).ask(asked))
    assert [each.error_code for each in found.coordinators] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 100
    assert len(calls) == 1


@pytest.mark.spec("P6")
async def test_long_commands_that_wait_for_a_controller_keep_nobody_else_waiting(node: Node, dial: Dial) -> None:
    """They may wait for as long as there is none; metadata is asked for meanwhile, by the names of many topics."""
    gate = asyncio.Event()

    async def handle(_request: DeleteTopicsRequest, _context: object) -> DeleteTopicsResponse:
        await gate.wait()
        return DeleteTopicsResponse()

    dispatcher = listener_of(node)._handler
    assert isinstance(dispatcher, Dispatcher)
    dispatcher._waiting[ApiKey.DELETE_TOPICS] = handle
    names = [f"{number:0100}" for number in range(DECODED_BYTES // DECODED_BYTES_PER_BYTE // 100 + 1)]
    deleting = (await dial(node)).send(DeleteTopicsRequest(topic_names=names), 5)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names[:100]])
    assert len((await in_time((await dial(node)).ask(asked))).topics) == 100
    assert not deleting.done()
    gate.set()
    await in_time(deleting)


@pytest.mark.spec("P6")
async def test_a_long_request_that_cannot_be_read_closes_its_connection_only(node: Node, dial: Dial) -> None:
    bad, good = await dial(node), await dial(node)
    frame = HEADER.pack(ApiKey.FIND_COORDINATOR, 4, 7, -1) + b"\0" + bytes([0, 0xFF]) * LONG
    bad.channel.post(len(frame).to_bytes(4) + frame)
    await bad.wait_closed()
    assert not (await good.ask(LONG_REQUEST, 4)).error_code
    assert node.failure is None


def test_nobody_waits_for_who_waits_for_other_clients(node: Node) -> None:
    dispatcher = listener_of(node)._handler
    assert isinstance(dispatcher, Dispatcher)
    assert dispatcher._memory.keys().isdisjoint({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})


async def test_what_waits_for_whoever_left_is_cancelled(node: Node, dial: Dial) -> None:
    begun: list[object] = []
    cancelled: list[object] = []

    async def handle(request: object, _context: object) -> None:
        begun.append(request)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(request)
            raise

    dispatcher = listener_of(node)._handler
    assert isinstance(dispatcher, Dispatcher)
    dispatcher._waiting[ApiKey.FIND_COORDINATOR] = handle
    client = await dial(node)
    waiting = client.send(FindCoordinatorRequest(key="group"))
    await eventually(lambda: begun, "it to wait")
    client.close()
    with pytest.raises(ChannelClosedError):
        await waiting
    await eventually(lambda: cancelled, "the handler to be cancelled")
    assert node.failure is None


@pytest.mark.spec("P6")
async def test_a_bug_in_a_handler_costs_a_connection_and_not_the_node(node: Node, dial: Dial) -> None:
    async def handle(_request: object, _context: object) -> None:
        raise ZeroDivisionError("a bug")

    dispatcher = listener_of(node)._handler
    assert isinstance(dispatcher, Dispatcher)
    dispatcher._waiting[ApiKey.FIND_COORDINATOR] = handle
    client = await dial(node)
    with pytest.raises(ChannelClosedError):
        await client.ask(FindCoordinatorRequest(key="group"))
    assert node.failure is None
    assert not node.stopped.is_set()
    assert (await (await dial(node)).ask(MetadataRequest(topics=None))).brokers
