"""Calls of this node to other nodes, for coordinators of transactions and for leaders that ask them.

One connection to each node for each kind of call, over the REPLICATION listener, opened when it is needed and again
when it broke. Calls share it, and none waits for another: a node sends answers as they are ready
(:mod:`minikafka.net.connection`). It reads no more of a connection that has too many waiting calls; so verifications do
not share one with markers, which may wait for half a minute. Fetchers have connections of their own
(:mod:`minikafka.broker.drivers.replication`).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Endpoint
from minikafka.net.channel import ChannelClosedError
from minikafka.net.identity import Identity
from minikafka.net.peer import PeerConnection
from minikafka.wire.errors import WireError
from minikafka.wire.schema import Message

R = TypeVar("R", bound=Message)

Lane = tuple[int, type[Message]]
"""A node, and a kind of call."""

UNREACHABLE = (OSError, TimeoutError, ChannelClosedError, WireError, KafkaError)
"""What a call fails with."""


class Peers:
    """Found by node id."""

    def __init__(
        self,
        identity: Identity,
        endpoint_of: Callable[[int], Endpoint | None],
        on_connection_lost: Callable[[int], None],
    ) -> None:
        self._identity = identity
        self._endpoint_of = endpoint_of
        self._on_connection_lost = on_connection_lost
        self._connections: dict[Lane, PeerConnection] = {}
        self._opening: defaultdict[Lane, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._failures: dict[Lane, tuple[float, Exception]] = {}  # of the last attempt to open, and when

    async def call(self, node_id: int, request: Message, response_type: type[R], *, timeout_s: float) -> R:
        """One request and its answer, at the API's newest version. One of ``UNREACHABLE``: there is none in time."""
        async with asyncio.timeout(timeout_s):
            connection = await self._connected((node_id, type(request)))
            try:
                return await connection.call(request, response_type, timeout_s=timeout_s)
            except ChannelClosedError:
                self._on_connection_lost(node_id)
                raise

    async def _connected(self, lane: Lane) -> PeerConnection:
        """Those who wait for an attempt share its failure: each of its own would take a second, one after the other."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        async with self._opening[lane]:
            failed_at_s, failure = self._failures.get(lane, (0.0, None))
            if failure is not None and failed_at_s > began_s:
                raise failure
            try:
                return await self._open(lane)
            except UNREACHABLE as error:
                self._failures[lane] = (loop.time(), error)
                raise

    async def _open(self, lane: Lane) -> PeerConnection:
        node_id, _ = lane
        connection = self._connections.get(lane)
        if connection is None or not connection.is_open:
            endpoint = self._endpoint_of(node_id)
            if endpoint is None:
                raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} is not registered")
            connection = await PeerConnection.open(endpoint, self._identity, node_id)
            self._connections[lane] = connection
        return connection

    def close(self) -> None:
        """Close all connections; waiting calls fail."""
        for connection in self._connections.values():
            connection.close()
