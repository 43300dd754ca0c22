"""How a node proves itself on another's REPLICATION listener, from both sides: the handlers and ``net.peer``."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest
from broker_client import Client, fetch_request
from broker_node import CLUSTER_ID, SECRET, create_topic, eventually, in_time, led, listener_of

from minikafka.broker.node import Node
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Endpoint
from minikafka.net import peer as peer_module
from minikafka.net.channel import ChannelClosedError
from minikafka.net.connection import Connection
from minikafka.net.identity import Identity
from minikafka.net.listener import Listener, ListenerLimits
from minikafka.net.peer import PeerConnection
from minikafka.wire import auth
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import encode
from minikafka.wire.control import UNAUTHENTICATED_FRAME_SIZE_MAX
from minikafka.wire.headers import decode_request_header, encode_response
from minikafka.wire.messages.fetch import FetchRequest, FetchResponse, ReplicaState
from minikafka.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from minikafka.wire.messages.metadata import MetadataRequest
from minikafka.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from minikafka.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from minikafka.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

Dial = Callable[..., Awaitable[Client]]

_nonces = itertools.count(1)


def identity(node_id: int = 2, *, cluster_id: str = CLUSTER_ID, secret: bytes = SECRET) -> Identity:
    return Identity(cluster_id, node_id, secret, lambda: next(_nonces).to_bytes(32))


def endpoint(node: Node) -> Endpoint:
    return listener_of(node, "REPLICATION").endpoint


async def prove(client: Client, who: Identity, version: int = 2) -> None:
    """The handshake, as messages."""
    shaken = await client.ask(SaslHandshakeRequest(mechanism=auth.MECHANISM), 1)
    assert (shaken.error_code, shaken.mechanisms) == (0, [auth.MECHANISM])

    async def exchange(message: bytes) -> bytes:
        answer = await client.ask(SaslAuthenticateRequest(auth_bytes=message), version)
        assert not answer.error_code, answer.error_message
        return bytes(answer.auth_bytes)

    await who.prove("REPLICATION", 1, exchange)


# -- the accepting side -----------------------------------------------------------------------------------------------


@pytest.mark.spec("P6")
@pytest.mark.parametrize(
    "request_",
    [FetchRequest(), ListOffsetsRequest(), OffsetForLeaderEpochRequest(), MetadataRequest()],
    ids=lambda request: type(request).__name__,
)
async def test_nothing_is_served_before_the_proof(node: Node, dial: Dial, request_: FetchRequest) -> None:
    client = await dial(node, "REPLICATION")
    with pytest.raises(ChannelClosedError):
        await client.ask(request_)


async def test_frames_of_strangers_are_small(node: Node, dial: Dial) -> None:
    reader, writer = await asyncio.open_connection(*endpoint(node))
    writer.write((UNAUTHENTICATED_FRAME_SIZE_MAX + 1).to_bytes(4))
    assert await in_time(reader.read()) == b"", "nobody waits for the rest"
    writer.close()
    client = await dial(node, "REPLICATION")
    await prove(client, identity())
    large = FetchRequest(rack_id="r" * UNAUTHENTICATED_FRAME_SIZE_MAX)
    assert not (await client.ask(large)).error_code


async def test_half_a_proof_is_none(node: Node, dial: Dial) -> None:
    client = await dial(node, "REPLICATION")
    await client.ask(SaslHandshakeRequest(mechanism=auth.MECHANISM))
    first = auth.client_first(listener="REPLICATION", cluster_id=CLUSTER_ID, node_id=2, nonce=bytes(32))
    assert (await client.ask(SaslAuthenticateRequest(auth_bytes=first))).error_code == 0
    with pytest.raises(ChannelClosedError):
        await client.ask(FetchRequest())


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_after_the_proof_it_is_a_peer(node: Node, dial: Dial, version: int) -> None:
    await create_topic(node, "orders")
    client = await dial(node, "REPLICATION")
    await prove(client, identity(), version)
    assert (await client.ask(fetch_request("orders"), 12)).error_code == 0
    with pytest.raises(ChannelClosedError):  # what the listener does not serve
        await client.ask(MetadataRequest())


async def test_other_mechanisms_are_refused(node: Node, dial: Dial) -> None:
    client = await dial(node, "REPLICATION")
    for mechanism in ("PLAIN", "", "SCRAM-SHA-256"):
        answer = await client.ask(SaslHandshakeRequest(mechanism=mechanism))
        assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, [auth.MECHANISM])
    await prove(client, identity())


async def test_authentication_begins_with_a_handshake(node: Node, dial: Dial) -> None:
    client = await dial(node, "REPLICATION")
    answer = await client.ask(SaslAuthenticateRequest(auth_bytes=b"x"))
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    await client.wait_closed()


async def test_a_failed_proof_is_told_and_the_connection_ends(node: Node, dial: Dial) -> None:
    client = await dial(node, "REPLICATION")
    await client.ask(SaslHandshakeRequest(mechanism=auth.MECHANISM))
    answer = await client.ask(SaslAuthenticateRequest(auth_bytes=b"nonsense"))
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message
    await client.wait_closed()


@pytest.mark.spec("P6")
async def test_a_peer_fetches_as_itself_only(node: Node, dial: Dial) -> None:
    tp = await create_topic(node, "orders")
    client = await dial(node, "REPLICATION")
    await prove(client, identity(2))
    topic = node.image.topic("orders")
    assert topic is not None
    request = fetch_request("orders", topic_id=topic.topic_id)
    request.replica_state = ReplicaState(replica_id=3)
    assert (await client.ask(request)).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    request.replica_state = ReplicaState(replica_id=2)
    answer = await client.ask(request)
    assert answer.error_code == 0
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, "it is no replica"
    assert led(node, tp).high_watermark == 0


async def test_a_follower_is_told_the_ends_of_the_log(node: Node, client: Client, dial: Dial) -> None:
    tp = await create_topic(node, "orders")
    await client.produce("orders", b"a", b"b")
    leader = led(node, tp).leader
    assert leader is not None
    leader.high_watermark = 1
    peer = await dial(node, "REPLICATION")
    await prove(peer, identity())
    wanted = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    request = ListOffsetsRequest(replica_id=2, topics=[ListOffsetsTopic(name="orders", partitions=wanted)])
    assert (await peer.ask(request)).topics[0].partitions[0].offset == 2
    assert (await client.ask(request)).topics[0].partitions[0].offset == 1


# -- the dialling side ------------------------------------------------------------------------------------------------


async def test_a_peer_connection_speaks_the_newest_versions(node: Node) -> None:
    await create_topic(node, "orders")
    peer = await PeerConnection.open(endpoint(node), identity(), 1)
    assert peer.is_open
    ends = await peer.call(OffsetForLeaderEpochRequest(replica_id=2), OffsetForLeaderEpochResponse, timeout_s=20)
    assert ends.topics == []
    wanted = [ListOffsetsPartition(partition_index=0, timestamp=-2)]
    request = ListOffsetsRequest(replica_id=2, topics=[ListOffsetsTopic(name="orders", partitions=wanted)])
    listed = await peer.call(request, ListOffsetsResponse, timeout_s=20)
    assert listed.topics[0].partitions[0].offset == 0
    fetched = await peer.call(FetchRequest(replica_state=ReplicaState(replica_id=2)), FetchResponse, timeout_s=20)
    assert fetched.error_code == 0
    peer.close()
    with pytest.raises(ChannelClosedError):
        await peer.call(FetchRequest(), FetchResponse, timeout_s=20)
    assert not peer.is_open


@pytest.mark.parametrize(
    ("who", "expected", "error"),
    [
        (identity(secret=b"another secret altogether"), 1, ErrorCode.SASL_AUTHENTICATION_FAILED),
        (identity(cluster_id="other"), 1, ErrorCode.INCONSISTENT_CLUSTER_ID),
        (identity(), 7, ErrorCode.SASL_AUTHENTICATION_FAILED),
    ],
    ids=["secret", "cluster", "node"],
)
async def test_whoever_is_not_expected_is_refused(node: Node, who: Identity, expected: int, error: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        await PeerConnection.open(endpoint(node), who, expected)
    assert refused.value.code is error
    await eventually(lambda: not listener_of(node, "REPLICATION")._connections, "the connection to be closed")


class Stranger:
    """Listens where a node should; says what it is told to."""

    def __init__(self, *answers: SaslHandshakeResponse | SaslAuthenticateResponse | None) -> None:
        self._answers = list(answers)

    def on_connection_made(self, connection: Connection) -> None: ...
    def on_connection_lost(self, connection: Connection) -> None: ...
    def on_read_event_end(self) -> None: ...

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        header, _ = decode_request_header(frame)
        reply = connection.open_reply()
        answer = self._answers.pop(0) if self._answers else None
        if answer is not None:
            version = ApiKey(header.api_key).versions.last
            body = encode(answer, version)
            reply.send([encode_response(header.api_key, version, header.correlation_id, body)])


@pytest.mark.parametrize(
    ("stranger", "error", "message"),
    [
        (Stranger(SaslHandshakeResponse(error_code=33)), 33, "node 1 does not speak"),
        (
            Stranger(SaslHandshakeResponse(), SaslAuthenticateResponse(error_code=58, error_message=None)),
            58,
            "the peer refused this node",
        ),
        (Stranger(SaslHandshakeResponse(), SaslAuthenticateResponse(auth_bytes=b"?")), 58, "malformed"),
    ],
)
async def test_an_unwilling_peer_is_an_error(stranger: Stranger, error: int, message: str) -> None:
    listener = Listener("X", Endpoint("127.0.0.1", 0), stranger, ListenerLimits(max_connections=9, max_frame_bytes=999))
    await listener.start()
    with pytest.raises(KafkaError, match=message) as refused:
        await in_time(PeerConnection.open(listener.endpoint, identity(), 1))
    assert refused.value.code == error
    await listener.close()


async def test_a_silent_peer_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_module, "CONNECT_TIMEOUT_S", 0.02)
    silent = Stranger()
    listener = Listener("X", Endpoint("127.0.0.1", 0), silent, ListenerLimits(max_connections=9, max_frame_bytes=999))
    await listener.start()
    with pytest.raises(TimeoutError):
        await PeerConnection.open(listener.endpoint, identity(), 1)
    await eventually(lambda: not listener._connections, "the connection to be closed")
    await listener.close()


async def test_a_node_that_is_not_there(node: Node) -> None:
    where = endpoint(node)
    await node.stop()
    with pytest.raises(ConnectionRefusedError):
        await PeerConnection.open(where, identity(), 1)
