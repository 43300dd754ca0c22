"""Whoever overhears how nodes prove themselves, and says it again to a real node, is refused and closed."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest
from broker_client import Client
from broker_node import CLUSTER_ID, SECRET, eventually, in_time, listener_of

from minikafka.broker.node import Node
from minikafka.errors import ErrorCode, KafkaError
from minikafka.net.channel import ChannelClosedError
from minikafka.net.control import AUTHENTICATE
from minikafka.net.identity import Identity
from minikafka.wire import auth
from minikafka.wire.control import FrameKind, decode_frame, encode_frame
from minikafka.wire.messages.fetch import FetchRequest
from minikafka.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from minikafka.wire.messages.sasl_handshake import SaslHandshakeRequest

WE = 2
REFUSED = "node 2 does not know this cluster's secret"


class Wiretap(ABC):
    """A connection to a listener of nodes, and what is said on it, message by message."""

    listener: str

    def __init__(self) -> None:
        self.said: list[bytes] = []

    async def exchange(self, message: bytes) -> bytes:
        """The answer to a message of a proof. Raises the node's KafkaError."""
        answer = await in_time(self._exchange(message))
        self.said += (message, answer)
        return answer

    async def log_in(self, secret: bytes = SECRET) -> list[bytes]:
        """Prove node 2 honestly: first, challenge, proof, proof."""
        await Identity(CLUSTER_ID, WE, secret, lambda: os.urandom(32)).prove(self.listener, 1, self.exchange)
        return self.said

    @abstractmethod
    async def _exchange(self, message: bytes) -> bytes: ...

    @abstractmethod
    async def serves(self) -> bool:
        """What only nodes are answered. False when the node has closed the connection."""

    @abstractmethod
    async def wait_closed(self) -> None:
        """Until the node closes it, unasked."""

    @abstractmethod
    def close(self) -> None: ...


class OfController(Wiretap):
    listener = "CONTROLLER"

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__()
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, node: Node) -> OfController:
        return cls(*await asyncio.open_connection(*listener_of(node, cls.listener).endpoint))

    async def _exchange(self, message: bytes) -> bytes:
        answer = await self._call(AUTHENTICATE, message)
        assert isinstance(answer, bytes)
        return answer

    async def _call(self, method: str, body: object) -> object:
        self._writer.write(encode_frame(FrameKind.REQUEST, 1, method, body))
        size = int.from_bytes(await self._reader.readexactly(4))
        answer = decode_frame(await self._reader.readexactly(size))
        if answer.kind is FrameKind.ERROR:
            raise answer.error()
        return answer.body

    async def serves(self) -> bool:
        try:
            await in_time(self._call("nothing", None))
        except (ConnectionError, asyncio.IncompleteReadError):
            return False
        except KafkaError:  # there is no such method
            return True
        return False

    async def wait_closed(self) -> None:
        assert await in_time(self._reader.read()) == b""

    def close(self) -> None:
        self._writer.close()


class OfReplication(Wiretap):
    listener = "REPLICATION"

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client

    @classmethod
    async def connect(cls, node: Node) -> OfReplication:
        client = await Client.connect(node, cls.listener)
        await client.ask(SaslHandshakeRequest(mechanism=auth.MECHANISM))
        return cls(client)

    async def _exchange(self, message: bytes) -> bytes:
        answer = await self._client.ask(SaslAuthenticateRequest(auth_bytes=message))
        if answer.error_code:
            raise KafkaError(ErrorCode.of(answer.error_code), answer.error_message)
        return bytes(answer.auth_bytes)

    async def serves(self) -> bool:
        try:
            await self._client.ask(FetchRequest())
        except ChannelClosedError:
            return False
        return True

    async def wait_closed(self) -> None:
        await self._client.wait_closed()

    def close(self) -> None:
        self._client.close()


KINDS: tuple[type[OfController] | type[OfReplication], ...] = (OfController, OfReplication)
Tap = Callable[[], Awaitable[Wiretap]]


@pytest.fixture(params=KINDS, ids=[kind.listener for kind in KINDS])
async def tap(request: pytest.FixtureRequest, node: Node) -> AsyncIterator[Tap]:
    """Connects to one of the two listeners. Nothing of what is refused leaves a trace in the cluster."""
    taps: list[Wiretap] = []

    async def connect() -> Wiretap:
        taps.append(await request.param.connect(node))
        return taps[-1]

    before = replace(node.image, offset=0)
    yield connect
    assert replace(node.image, offset=0) == before
    for each in taps:
        each.close()
    listener = listener_of(node, request.param.listener)
    await eventually(lambda: not any(each.principal == WE for each in listener._connections), "them to be gone")


async def is_refused(stranger: Wiretap, message: bytes, why: str = REFUSED) -> None:
    with pytest.raises(KafkaError, match=why) as refused:
        await stranger.exchange(message)
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    await stranger.wait_closed()


async def test_what_was_said_once_is_worth_nothing_again(tap: Tap) -> None:
    honest = await tap()
    first, challenge, proof, theirs = await honest.log_in()
    for overheard in (proof, theirs):
        replaying = await tap()
        assert await replaying.exchange(first) != challenge, "the node's nonce is new"
        await is_refused(replaying, overheard)
    early = await tap()
    await is_refused(early, proof, "malformed")
    assert await honest.serves(), "it is none of its business"


async def test_a_proof_of_one_connection_is_refused_on_another(tap: Tap) -> None:
    one, other = await tap(), await tap()
    first = auth.client_first(listener=one.listener, cluster_id=CLUSTER_ID, node_id=WE, nonce=os.urandom(32))
    proof, _ = auth.client_proof(SECRET, first, await one.exchange(first))
    await other.exchange(first)
    await is_refused(other, proof)
    await one.exchange(proof)
    assert await one.serves()


async def test_a_proof_for_one_listener_is_refused_at_the_other(tap: Tap, node: Node) -> None:
    here = await tap()
    (elsewhere,) = (kind for kind in KINDS if kind.listener != here.listener)
    there = await elsewhere.connect(node)
    first, *_ = await there.log_in()
    there.close()
    await is_refused(here, first, f"means to talk to listener '{elsewhere.listener}'")


async def test_nothing_is_served_half_way(tap: Tap) -> None:
    stranger = await tap()
    first, *_ = await (await tap()).log_in()
    await stranger.exchange(first)
    assert not await stranger.serves()
