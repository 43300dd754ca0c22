"""Control calls over real sockets of this machine."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from captured_logs import capture_logs
from net_peers import Peer, Recorder, eventually, framed, turns

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Endpoint
from minikafka.net import control as control_module
from minikafka.net.channel import ChannelClosedError
from minikafka.net.connection import Connection
from minikafka.net.control import AUTHENTICATE, LISTENER, ControlLink, ControlServer
from minikafka.net.identity import Identity, PeerCheck
from minikafka.net.listener import Listener, ListenerLimits
from minikafka.net.tasks import TaskOwner
from minikafka.wire import auth
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode_exactly
from minikafka.wire.control import (
    CONTROL_FRAME_SIZE_MAX,
    UNAUTHENTICATED_FRAME_SIZE_MAX,
    FrameKind,
    decode_frame,
    encode_frame,
)
from minikafka.wire.headers import decode_response_header, encode_request
from minikafka.wire.messages.api_versions import ApiVersionsResponse

Serve = Callable[..., Awaitable[Listener]]
Dial = Callable[..., Awaitable[Peer]]
Link = Callable[..., ControlLink]

SECRET = b"a secret of some length"
SERVER, CLIENT = 1, 2

_nonces = itertools.count(1)


def identity(node_id: int, *, cluster_id: str = "cluster", secret: bytes = SECRET) -> Identity:
    return Identity(cluster_id, node_id, secret, lambda: next(_nonces).to_bytes(32))


class Node:
    """The accepting side: its methods, and what it heard."""

    def __init__(self, server_identity: Identity) -> None:
        self.failures: list[BaseException] = []
        self.lost: list[int] = []
        self.calls: list[tuple[int, Any]] = []
        self.gate = asyncio.Event()
        self.tasks = TaskOwner("server", lambda _name, error: self.failures.append(error))
        self.methods = {
            "echo": self._echo,
            "wait": self._wait,
            "open": self._open,
            "refuse": self._refuse,
            "fail": self._fail,
            "expand": self._expand,
        }
        self.server = ControlServer(server_identity, self.methods, self.tasks, self.lost.append)

    async def _echo(self, peer_id: int, body: Any) -> Any:
        self.calls.append((peer_id, body))
        return body

    async def _wait(self, peer_id: int, body: Any) -> Any:
        await self.gate.wait()
        return body

    async def _open(self, peer_id: int, body: Any) -> Any:
        self.gate.set()

    async def _refuse(self, peer_id: int, body: Any) -> Any:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "node 3 is")

    async def _expand(self, peer_id: int, body: Any) -> Any:
        self.calls.append((peer_id, body))
        return b"x" * body

    async def _fail(self, peer_id: int, body: Any) -> Any:
        raise ZeroDivisionError("a bug")


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    made = Node(identity(SERVER))
    yield made
    await made.tasks.close()


@pytest.fixture
async def listener(serve: Serve, node: Node) -> Listener:
    return await serve(node.server, max_frame_bytes=CONTROL_FRAME_SIZE_MAX)


@pytest.fixture
async def link_to() -> AsyncIterator[Link]:
    made: list[ControlLink] = []

    def make(endpoint: Endpoint, who: Identity | None = None, expected: int = SERVER) -> ControlLink:
        made.append(ControlLink(who or identity(CLIENT), expected, endpoint))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
async def link(listener: Listener, link_to: Link) -> ControlLink:
    return link_to(listener.endpoint)


# -- calls ------------------------------------------------------------------------------------------------------------


async def test_a_call_is_answered_and_knows_who_calls(link: ControlLink, node: Node, listener: Listener) -> None:
    assert not link.is_open
    assert not link.is_lost  # it was not wanted yet
    body = {"name": "x", "values": [1, None, b"bytes", True, -(2**40)]}
    assert await link.call("echo", body) == body
    assert await link.call("echo", None) is None
    assert node.calls == [(CLIENT, body), (CLIENT, None)]
    assert link.is_open
    assert len(listener._connections) == 1


async def test_a_call_is_answered_before_an_earlier_one_that_waits_for_it(link: ControlLink, node: Node) -> None:
    # A registration waits for the commit that the same peer's next fetch brings about, on the same connection.
    waiting = node.tasks.start(link.call("wait", "registered", timeout_s=20), "waiting")
    await eventually(lambda: node.server._in_flight.total() == 1, "the first call")
    assert await link.call("open", "records", timeout_s=20) is None
    assert await waiting == "registered"


async def test_errors_arrive_as_they_were_raised(link: ControlLink, node: Node) -> None:
    with pytest.raises(KafkaError) as raised:
        await link.call("refuse", None)
    assert (raised.value.code, raised.value.message) == (ErrorCode.NOT_CONTROLLER, "node 3 is")
    with pytest.raises(KafkaError) as raised:
        await link.call("no-such-method", None)
    assert raised.value.code is ErrorCode.INVALID_REQUEST
    assert "no-such-method" in raised.value.message
    assert not node.failures
    assert await link.call("echo", 1) == 1, "the connection goes on"


async def test_a_bug_in_a_method_is_told_to_both_sides(link: ControlLink, node: Node) -> None:
    with pytest.raises(KafkaError) as raised:
        await link.call("fail", None)
    assert raised.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    await eventually(lambda: node.failures, "the task's owner to hear of it")
    assert [type(error) for error in node.failures] == [ZeroDivisionError]
    assert await link.call("echo", 1) == 1
    assert not node.server._in_flight


async def test_more_calls_than_may_wait_are_refused_and_others_are_not(
    link: ControlLink, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what clients ask would break the connection by which the quorum fetches."""
    monkeypatch.setattr(control_module, "CALLS_AT_ONCE_MAX", 2)
    loop = asyncio.get_running_loop()
    calls = [loop.create_task(link.call("wait", n, timeout_s=20)) for n in range(3)]
    with pytest.raises(KafkaError, match="2 calls of 'wait' by node") as refused:
        await calls[2]
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert await link.call("echo", 1) == 1
    node.gate.set()
    assert await asyncio.gather(*calls[:2]) == [0, 1]
    assert not node.server._in_flight


async def test_a_call_that_takes_too_long_times_out(link: ControlLink, node: Node) -> None:
    with pytest.raises(TimeoutError):
        await link.call("wait", None, timeout_s=0.02)
    node.gate.set()
    assert await link.call("echo", 1) == 1, "the late answer is dropped"


async def test_large_bodies_pass_once_the_peer_is_known(link: ControlLink) -> None:
    body = bytes(4 * 1024 * 1024)
    assert await link.call("echo", body, timeout_s=20) == body


async def test_what_no_frame_may_hold_is_refused_and_costs_no_connection(link: ControlLink, node: Node) -> None:
    # Heartbeats and the quorum's fetches wait for answers on the same connection.
    waiting = asyncio.get_running_loop().create_task(link.call("wait", 1))
    await eventually(lambda: node.server._in_flight, "the call to wait")
    with pytest.raises(KafkaError, match=r"16777[0-9]{3} bytes") as refused:
        await link.call("echo", b"x" * CONTROL_FRAME_SIZE_MAX)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert not node.calls
    with pytest.raises(KafkaError, match=r"16777[0-9]{3} bytes") as refused:
        await link.call("expand", CONTROL_FRAME_SIZE_MAX, timeout_s=20)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert node.calls, "it was carried out"
    assert not waiting.done()
    await link.call("open", None)
    assert await waiting == 1
    assert not node.lost
    assert not node.failures


# -- who is who -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stranger", "code"),
    [
        (identity(CLIENT, secret=b"another secret altogether"), ErrorCode.SASL_AUTHENTICATION_FAILED),
        (identity(CLIENT, cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
    ],
    ids=["secret", "cluster"],
)
async def test_strangers_are_refused(
    link_to: Link, listener: Listener, node: Node, stranger: Identity, code: ErrorCode
) -> None:
    link = link_to(listener.endpoint, stranger)
    with capture_logs() as logs:
        for _ in range(2):  # and every later call tries anew
            with pytest.raises(KafkaError) as raised:
                await link.call("echo", 1)
            assert raised.value.code is code
    assert [each["event"] for each in logs] == ["peer refused"], "once in a while"
    assert not link.is_open
    assert link.is_lost
    await eventually(lambda: len(listener._connections) == 0, "the connections to be closed")
    assert not node.calls
    assert not node.lost, "a stranger is nobody's peer"


async def test_another_node_than_dialled_is_refused(link_to: Link, listener: Listener) -> None:
    with pytest.raises(KafkaError, match="node 1 answered where node 5 was expected"):
        await link_to(listener.endpoint, expected=5).call("echo", 1)


async def test_a_proof_for_another_listener_is_refused(serve: Serve, dial: Dial, listener: Listener) -> None:
    peer = await dial(listener)
    first = auth.client_first(listener="REPLICATION", cluster_id="cluster", node_id=CLIENT, nonce=bytes(32))
    await peer.send(encode_frame(FrameKind.REQUEST, 1, AUTHENTICATE, first))
    answer = decode_frame(await peer.receive_frame())
    assert answer.kind is FrameKind.ERROR
    assert answer.error().code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert await peer.receive_all() == b""


async def test_a_server_that_does_not_know_the_secret_is_refused(serve: Serve, link_to: Link) -> None:
    class Impostor(Recorder):
        """Accepts anyone's proof and answers with some proof of its own."""

        def on_frame(self, connection: Connection, frame: memoryview) -> None:
            _, correlation_id, method, body = decode_frame(frame)
            if len(self.replies) == 0:
                self.check = PeerCheck(identity(SERVER), LISTENER)
                answer = self.check.receive(body)
            else:
                answer = bytes(32)
            self.replies.append(connection.open_reply())
            self.replies[-1].send([encode_frame(FrameKind.RESPONSE, correlation_id, method, answer)])

    impostor = await serve(Impostor())
    with pytest.raises(KafkaError, match="node 1 does not know this cluster's secret"):
        await link_to(impostor.endpoint).call("echo", 1)


@pytest.mark.spec("P6")
@pytest.mark.parametrize(
    "sent",
    [
        encode_frame(FrameKind.REQUEST, 1, "echo", None),
        encode_frame(FrameKind.REQUEST, 1, AUTHENTICATE, "text"),
        encode_frame(FrameKind.RESPONSE, 1, AUTHENTICATE, b""),
        encode_frame(FrameKind.ERROR, 1, AUTHENTICATE, {}),
        framed(b""),
        framed(b"\x01not msgpack"),
        framed(b"\x63"),
        (UNAUTHENTICATED_FRAME_SIZE_MAX + 1).to_bytes(4),
        b"\xff\xff\xff\xff",
    ],
    ids=["method", "text", "response", "error", "empty", "garbage", "version", "oversize", "size"],
)
async def test_nothing_but_a_handshake_is_heard_before_it(
    dial: Dial, listener: Listener, node: Node, sent: bytes
) -> None:
    peer = await dial(listener)
    await peer.send(sent)
    assert await peer.receive_all() == b""
    assert not node.calls


@pytest.mark.parametrize("version", [0, 3, 4, 5, 99])
async def test_a_client_of_kafkas_protocol_learns_that_nothing_is_served_for_it(
    dial: Dial, listener: Listener, node: Node, version: int
) -> None:
    peer = await dial(listener)
    name = b"\x05java\x041.0\0" if version >= 3 else b""
    await peer.send(encode_request(ApiKey.API_VERSIONS, version, 7, "tool", name))
    frame = await peer.receive_frame()
    correlation_id, position = decode_response_header(frame, ApiKey.API_VERSIONS, version)
    answer = decode_exactly(ApiVersionsResponse, version if version < 99 else 0, frame, position)
    error = ErrorCode.NONE if version < 99 else ErrorCode.UNSUPPORTED_VERSION
    assert (correlation_id, answer.error_code) == (7, error)
    assert [row.api_key for row in answer.api_keys] == [ApiKey.API_VERSIONS]
    await peer.send(encode_request(ApiKey.METADATA, 1, 8, "tool", bytes(4)))
    assert await peer.receive_all() == b""
    assert not node.calls


@pytest.mark.parametrize("message", [b"", b"\xc1", b"\x90"])
async def test_a_malformed_handshake_is_refused(dial: Dial, listener: Listener, message: bytes) -> None:
    peer = await dial(listener)
    await peer.send(encode_frame(FrameKind.REQUEST, 1, AUTHENTICATE, message))
    assert decode_frame(await peer.receive_frame()).error().code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert await peer.receive_all() == b""


async def test_a_peer_that_is_known_cannot_become_another(link: ControlLink) -> None:
    await link.call("echo", 1)
    with pytest.raises(KafkaError, match="no control method 'authenticate'"):
        await link.call(AUTHENTICATE, b"x")


def test_a_handshake_is_done_once() -> None:
    server, client = PeerCheck(identity(SERVER), LISTENER), identity(CLIENT)
    first = auth.client_first(listener=LISTENER, cluster_id="cluster", node_id=CLIENT, nonce=client.nonce())
    proof, _ = auth.client_proof(SECRET, first, server.receive(first), SERVER)
    assert server.peer_id is None
    server.receive(proof)
    assert server.peer_id == CLIENT
    with pytest.raises(KafkaError) as raised:
        server.receive(first)
    assert raised.value.code is ErrorCode.ILLEGAL_SASL_STATE


# -- connections come and go ------------------------------------------------------------------------------------------


async def test_calls_at_once_dial_once(link: ControlLink, listener: Listener) -> None:
    assert await asyncio.gather(*(link.call("echo", number) for number in range(20))) == list(range(20))
    assert len(listener._connections) == 1


async def test_after_a_break_the_next_call_dials_again(
    link: ControlLink, listener: Listener, node: Node, serve: Serve
) -> None:
    lost: list[str] = []
    link.on_lost = lambda: lost.append("link")
    await link.call("echo", 1)
    waiting = node.tasks.start(link.call("wait", 1, timeout_s=20), "waiting")
    await eventually(lambda: node.server._in_flight.total() == 1, "the call")
    await listener.close()
    with pytest.raises(ChannelClosedError):
        await waiting
    await eventually(lambda: node.lost, "the server to notice")
    assert (node.lost, lost) == ([CLIENT], ["link"])
    with pytest.raises(ConnectionRefusedError):
        await link.call("echo", 1)
    assert lost == ["link"], "a dial that failed loses nothing"
    limits = ListenerLimits(max_connections=10, max_frame_bytes=1 << 20)
    again = Listener("CONTROLLER", listener.endpoint, node.server, limits)
    await again.start()
    assert await link.call("echo", 2) == 2
    link.close()
    await eventually(lambda: len(lost) == 2 and len(node.lost) == 2, "both ends to notice")
    assert link.is_lost
    assert await link.call("echo", 3) == 3
    assert not link.is_lost
    await again.close()


async def test_a_link_that_was_never_used_may_be_closed(link: ControlLink) -> None:
    link.close()
    assert not link.is_open


async def test_a_call_given_up_while_dialling_leaves_no_connection(serve: Serve, link_to: Link) -> None:
    silent = Recorder()
    listener = await serve(silent)
    link = link_to(listener.endpoint)
    with pytest.raises(TimeoutError):
        await link.call("echo", 1, timeout_s=0.05)
    await eventually(lambda: silent.lost, "the connection to be closed")
    assert not link.is_open


async def test_a_peer_that_is_paused_times_out(deaf: Endpoint, link_to: Link) -> None:
    with pytest.raises(TimeoutError):
        await link_to(deaf).call("echo", 1, timeout_s=0.05)


@pytest.mark.parametrize("answer", [framed(b""), framed(b"\x01\xc1"), b"\xff\xff\xff\xff"])
async def test_an_answer_that_is_none_breaks_the_connection(
    serve: Serve, link_to: Link, answer: bytes, unhandled: list[dict[str, object]]
) -> None:
    handler = Recorder()
    listener = await serve(handler)
    link = link_to(listener.endpoint)
    calling = asyncio.get_running_loop().create_task(link.call("echo", 1, timeout_s=20))
    await eventually(lambda: handler.replies, "the handshake")
    handler.replies[0].send([answer])
    with pytest.raises(ChannelClosedError):
        await calling
    await turns()
    assert not unhandled
