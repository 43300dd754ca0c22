"""Connections to the brokers of one cluster, opened on demand, and the view of the cluster from their answers.

A request for any broker goes to one with an open connection, if possible. Brokers that failed lately or are late with
an answer come last, so a broker that died or hangs costs at most one wait.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Iterable
from typing import Final, TypeVar

from minikafka.client.backoff import RETRY_BACKOFF
from minikafka.client.broker_connection import BrokerConnection
from minikafka.client.checks import check_text
from minikafka.client.cluster import Cluster
from minikafka.client.errors import UnreachableError
from minikafka.client.sasl import REFUSED
from minikafka.client.security import PLAIN, Security
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Endpoint
from minikafka.net.tasks import TaskOwner
from minikafka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from minikafka.wire.schema import Message

R = TypeVar("R", bound=Message)

BOOTSTRAP_TIMEOUT_S: Final = 3.0
METADATA_TIMEOUT_S: Final = 2.0  # of one broker; then another one is asked
ANY_BROKER_TIMEOUT_S: Final = 5.0
FAILED_LATELY_S: Final = 10.0

_Key = tuple[Endpoint, str]


def parse_bootstrap_servers(text: str) -> list[Endpoint]:
    """``host:port,host:port`` (``[::1]:9092`` for IPv6). Raises ValueError naming the entry that is wrong."""
    check_text("bootstrap_servers", text)
    endpoints = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, _, port = entry.rpartition(":")
        host = host[1:-1] if host.startswith("[") and host.endswith("]") else "" if ":" in host else host
        if not host or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65536:
            raise ValueError(f"bootstrap server {entry!r} is not HOST:PORT, for example 127.0.0.1:19092")
        endpoints.append(Endpoint(host, int(port)))
    if not endpoints:
        raise ValueError("no bootstrap server; name at least one HOST:PORT")
    return endpoints


class Connections:
    """All connections of one client, keyed by address and purpose (long polls are kept apart from short calls)."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str,
        security: Security = PLAIN,
        rng: random.Random,
        request_timeout_s: float = 30.0,
    ) -> None:
        self._bootstrap = parse_bootstrap_servers(bootstrap_servers)
        self._client_id = client_id
        self._tls = security.context()
        self._sasl = security.sasl()
        self._rng = rng
        self._tasks = TaskOwner("connections", _ignore)  # callers get the error of the connection
        self._by_key: dict[_Key, BrokerConnection] = {}
        self._opening: dict[_Key, asyncio.Task[BrokerConnection]] = {}
        self._failed_at_s: dict[Endpoint, float] = {}
        self._is_closed = False
        self.request_timeout_s = request_timeout_s
        self.cluster = Cluster()

    async def bootstrap(self) -> Cluster:
        """Ask the bootstrap servers for the brokers, for a few seconds. Raises KafkaError when no broker answers."""
        failures = 0
        deadline_s = _now_s() + BOOTSTRAP_TIMEOUT_S
        while True:
            try:
                return await self.refresh([])
            except KafkaError as error:
                if error.code in REFUSED:
                    raise
                failures += 1
                delay_s = RETRY_BACKOFF.delay_s(failures, self._rng)
                if _now_s() + delay_s >= deadline_s:
                    raise
            await asyncio.sleep(delay_s)

    async def close(self) -> None:
        """Close every connection; requests under way fail."""
        self._is_closed = True
        try:
            await self._tasks.close()
        finally:  # also when that is cancelled
            for connection in self._by_key.values():
                connection.close()
            self._by_key.clear()

    # -- connections ------------------------------------------------------------------------------------------------

    async def to_node(self, node_id: int, purpose: str = "") -> BrokerConnection:
        """The connection to a broker. Raises KafkaError; UnreachableError also when the cluster does not list it."""
        endpoint = self.cluster.brokers.get(node_id)
        if endpoint is None:
            raise UnreachableError(f"broker {node_id} is not a live member of the cluster")
        return await self.to_endpoint(endpoint, purpose)

    async def to_endpoint(self, endpoint: Endpoint, purpose: str = "") -> BrokerConnection:
        """The connection to an address, opened if necessary; concurrent callers wait for the same attempt."""
        key = (endpoint, purpose)
        connection = self._by_key.get(key)
        if connection is not None and connection.is_open:
            await connection.renew()
            return connection
        if self._is_closed:
            raise RuntimeError("this client is closed")
        opening = self._opening.get(key)
        if opening is None:
            opening = self._opening[key] = self._tasks.start(self._open(key), f"to-{endpoint}")
        await asyncio.wait((opening,))  # not the task itself: a caller may be cancelled alone
        if opening.cancelled():
            raise UnreachableError("the client was closed")
        return opening.result()

    async def to_any(self) -> BrokerConnection:
        """A connection to some broker that answers. Raises UnreachableError when none does."""
        reasons = []
        for endpoint in self._candidates():
            try:
                return await self.to_endpoint(endpoint)
            except KafkaError as error:
                if error.code in REFUSED:
                    raise
                reasons.append(error.message)
        raise UnreachableError(f"no broker answers: {'; '.join(reasons)}")

    async def to_controller(self) -> BrokerConnection:
        """The broker that the cluster names for admin requests, or any other: every broker forwards them."""
        try:
            return await self.to_node(self.cluster.controller_id)
        except KafkaError:
            return await self.to_any()

    def has_slow_calls(self) -> bool:
        """True when some answer is later than its caller expected."""
        return bool(self._late())

    # -- requests that any broker can answer ------------------------------------------------------------------------

    async def call_once(
        self,
        request: Message,
        response_type: type[R],
        timeout_s: float,
        check: Callable[[R], None] = lambda response: None,
    ) -> R:
        """Ask some broker, once. After a KafkaError (also of ``check``) the next call asks another one."""
        connection = await self.to_any()
        try:
            response = await connection.call(request, response_type, timeout_s=timeout_s)
            check(response)
            return response
        except KafkaError:
            self._failed_at_s[connection.endpoint] = _now_s()
            raise

    async def refresh(
        self, topics: Collection[str] | None, *, may_create: bool = False, broker: BrokerConnection | None = None
    ) -> Cluster:
        """Ask a broker for metadata of ``topics`` (None: all) and merge it into ``cluster``. Raises KafkaError."""
        request = MetadataRequest(
            topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=may_create,
        )
        if broker is None:
            response = await self.call_once(request, MetadataResponse, METADATA_TIMEOUT_S, _check_described)
        else:
            response = await broker.call(request, MetadataResponse, timeout_s=METADATA_TIMEOUT_S)
            _check_described(response)
        known, self.cluster = self.cluster, self.cluster.merged_with(Cluster.of(response), every_topic=topics is None)
        kept = set(self.cluster.brokers.values())
        self._hang_up(endpoint for endpoint in known.brokers.values() if endpoint not in kept)
        self._hang_up(sorted(self._late() & known.leaders_replaced_in(self.cluster)))
        return self.cluster

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _open(self, key: _Key) -> BrokerConnection:
        endpoint = key[0]
        try:
            connection = self._by_key[key] = await BrokerConnection.open(
                endpoint, self._client_id, self._tls, self._sasl
            )
            self._failed_at_s.pop(endpoint, None)
            return connection
        except KafkaError:
            self._failed_at_s[endpoint] = _now_s()
            raise
        finally:
            del self._opening[key]

    def _candidates(self) -> list[Endpoint]:
        known = list(self.cluster.brokers.values())
        self._rng.shuffle(known)
        lately_s = _now_s() - FAILED_LATELY_S
        doubtful = {endpoint for endpoint, failed_at_s in self._failed_at_s.items() if failed_at_s > lately_s}
        doubtful |= self._late()

        def rank(endpoint: Endpoint) -> tuple[bool, bool]:
            connection = self._by_key.get((endpoint, ""))
            return endpoint in doubtful, connection is None or not connection.is_open

        return [*sorted(known, key=rank), *(endpoint for endpoint in self._bootstrap if endpoint not in known)]

    def _late(self) -> set[Endpoint]:
        return {endpoint for (endpoint, _), connection in self._by_key.items() if connection.has_slow_calls()}

    def _hang_up(self, endpoints: Iterable[Endpoint]) -> None:
        """Close connections to brokers that left the cluster, or that hang and were replaced: they will not answer."""
        for endpoint in endpoints:
            self._failed_at_s.pop(endpoint, None)
            for key in [key for key in self._by_key if key[0] == endpoint]:
                self._by_key.pop(key).close()


def _check_described(response: MetadataResponse) -> None:
    if response.error_code:
        raise KafkaError(ErrorCode.of(response.error_code), "the broker did not describe the cluster")


def _ignore(name: str, error: BaseException) -> None:
    """Used where someone else hears of the error."""


def _now_s() -> float:
    return asyncio.get_running_loop().time()
