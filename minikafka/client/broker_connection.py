"""A connection to one broker: the API versions both sides have, and requests with their answers."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, TypeVar

from minikafka import __version__
from minikafka.client.errors import UnreachableError
from minikafka.client.sasl import SaslClient
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Endpoint
from minikafka.net.channel import Channel, ChannelClosedError
from minikafka.net.handshakes import why_not_reached
from minikafka.sasl.exchange import ClientExchange
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode, encode
from minikafka.wire.errors import WireError
from minikafka.wire.headers import decode_response_header, encode_request
from minikafka.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.wire.schema import Message

R = TypeVar("R", bound=Message)

CONNECT_TIMEOUT_S: Final = 2.0
PATIENCE_S: Final = 1.0  # after a longer call the client checks whether the broker is still a member
SESSION_SHARE: Final = 0.85
"""Of its lifetime; then the client proves itself again (KIP-368)."""
_API_VERSIONS_VERSION: Final = 3
_SILENT: Final = "it does not speak TLS, or refuses this client; see the broker's log"
_OURS: Final = {int(key): key.versions for key in ApiKey}

_key_by_request: dict[type[Message], ApiKey] = {}


class BrokerConnection:
    """Made by :meth:`open`. Every failure of the network is an UnreachableError or REQUEST_TIMED_OUT."""

    def __init__(
        self,
        endpoint: Endpoint,
        channel: Channel,
        client_id: str,
        versions: dict[int, int],
        sasl: SaslClient | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._channel = channel
        self._client_id = client_id
        self._versions = versions
        self._sasl = sasl
        self._renew_at_s: float | None = None  # the session ends soon after
        self._renewing = asyncio.Lock()
        self._slow_after_s: dict[int, float] = {}  # correlation id -> when its call counts as slow
        self._was_answered = False  # beyond what anybody may ask who has not logged in

    @classmethod
    async def open(
        cls,
        endpoint: Endpoint,
        client_id: str,
        tls: ssl.SSLContext | None = None,
        sasl: SaslClient | None = None,
        timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> BrokerConnection:
        """Connect, agree on versions, and log in, within ``timeout_s`` in all. Raises KafkaError."""
        # A token may come from elsewhere: how long that takes says nothing of the broker.
        exchange = None if sasl is None else await sasl.begin()
        try:
            async with asyncio.timeout(timeout_s):
                channel = await Channel.open(endpoint, timeout_s=timeout_s, tls=tls)
                try:
                    connection = cls(endpoint, channel, client_id, await _negotiate(channel, client_id), sasl)
                    await connection._log_in(exchange)
                    return connection
                except BaseException:
                    channel.close()
                    raise
        except TimeoutError:
            raise UnreachableError(f"{endpoint} did not answer within {timeout_s:g} s") from None
        except OSError as error:
            raise UnreachableError(
                f"cannot reach {endpoint}: {_why_not_opened(error, over_tls=tls is not None)}"
            ) from error
        except WireError as error:
            raise UnreachableError(f"{endpoint} does not speak the Kafka protocol: {error}") from error

    async def renew(self) -> None:
        """Log in again if the session ends soon, and wait while that is done. Raises KafkaError."""
        if self._renew_at_s is None or (_now_s() < self._renew_at_s and not self._renewing.locked()):
            return
        async with self._renewing:
            if self._sasl is not None and self._renew_at_s is not None and _now_s() >= self._renew_at_s:
                try:
                    await self._log_in(await self._sasl.begin())
                except BaseException:
                    self.close()
                    raise

    async def _log_in(self, exchange: ClientExchange | None) -> None:
        if self._sasl is None or exchange is None:
            return
        began_s = _now_s()
        lifetime_ms = await self._sasl.log_in(exchange, self._ask)
        self._renew_at_s = began_s + lifetime_ms / 1000 * SESSION_SHARE if lifetime_ms else None

    async def _ask(self, request: Message, response_type: type[R]) -> R:
        try:
            return await self._call(request, response_type, timeout_s=CONNECT_TIMEOUT_S)
        except UnreachableError as error:
            raise UnreachableError(f"{error.message}; does this listener speak SASL?") from error

    def version_for(self, key: ApiKey, at_most: int | None = None) -> int:
        """The newest version both sides have. KafkaError(UNSUPPORTED_VERSION) when there is none."""
        version = self._versions.get(key)
        if version is None:
            message = f"{self.endpoint} does not support {key.camel_name}"
            if key is ApiKey.METADATA:  # another listener than the clients'
                message += "; give the port at which a broker serves clients"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
        return version if at_most is None else min(version, at_most)

    async def call(
        self,
        request: Message,
        response_type: type[R],
        *,
        timeout_s: float,
        patience_s: float = PATIENCE_S,
        at_most: int | None = None,
    ) -> R:
        """Send a request and wait for its answer; ``at_most`` bounds the version. Raises KafkaError.

        A call that times out closes the connection: a broker that hangs would not answer the next call either.
        """
        await self.renew()
        return await self._call(request, response_type, timeout_s=timeout_s, patience_s=patience_s, at_most=at_most)

    async def _call(
        self,
        request: Message,
        response_type: type[R],
        *,
        timeout_s: float,
        patience_s: float = PATIENCE_S,
        at_most: int | None = None,
    ) -> R:
        key = api_key_of(type(request))
        version = self.version_for(key, at_most)
        correlation_id, frame = self._frame(key, version, request)
        self._slow_after_s[correlation_id] = _now_s() + patience_s
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._channel.request(correlation_id, frame)
            self._was_answered = True
            _, position = decode_response_header(answer, key, version)
            return decode(response_type, version, answer, position)[0]
        except TimeoutError:
            self.close()
            message = f"{self.endpoint} did not answer {key.camel_name} within {timeout_s:g} s"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, message) from None
        except OSError as error:
            asks = self._sasl is None and not self._was_answered and isinstance(error, ChannelClosedError)
            hint = "; does this listener ask who one is (security.protocol)?" if asks else ""
            raise UnreachableError(f"{self.endpoint}: {error}{hint}") from error
        except WireError as error:
            self.close()
            raise UnreachableError(f"{self.endpoint} sent a malformed {key.camel_name} response: {error}") from error
        finally:
            del self._slow_after_s[correlation_id]

    def post(self, request: Message, *, at_most: int | None = None) -> None:
        """Send a request that gets no answer (produce with acks=0). Raises UnreachableError when already closed."""
        if self._renewing.locked():
            raise UnreachableError(f"{self.endpoint}: the client logs in again")
        key = api_key_of(type(request))
        _, frame = self._frame(key, self.version_for(key, at_most), request)
        try:
            self._channel.post(frame)
        except OSError as error:
            raise UnreachableError(f"{self.endpoint}: {error}") from error

    @property
    def is_open(self) -> bool:
        """False once the connection broke."""
        return self._channel.is_open

    def has_slow_calls(self) -> bool:
        """True when an answer is later than its caller expected."""
        now_s = _now_s()
        return any(slow_after_s < now_s for slow_after_s in self._slow_after_s.values())

    def close(self) -> None:
        """Close at once; calls that wait for an answer fail with UnreachableError."""
        self._channel.close()

    def _frame(self, key: ApiKey, version: int, request: Message) -> tuple[int, bytes]:
        try:
            body = encode(request, version)
        except WireError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"cannot send {key.camel_name}: {error}") from error
        correlation_id = self._channel.next_correlation_id()
        return correlation_id, encode_request(key, version, correlation_id, self._client_id, body)


def _why_not_opened(error: OSError, *, over_tls: bool) -> str:
    if over_tls and (why := why_not_reached(error, _SILENT)):
        return why
    if isinstance(error, ChannelClosedError):
        return f"{error}; does this listener speak TLS (security.protocol)?"
    return "connection refused" if isinstance(error, ConnectionRefusedError) else error.strerror or str(error)


def api_key_of(request_type: type[Message]) -> ApiKey:
    """The API that a request class belongs to."""
    key = _key_by_request.get(request_type)
    if key is None:  # a message module is named after its API
        key = _key_by_request[request_type] = ApiKey[request_type.__module__.rpartition(".")[2].upper()]
    return key


async def _negotiate(channel: Channel, client_id: str) -> dict[int, int]:
    """The newest common version per API key. Raises OSError, WireError or KafkaError."""
    version = _API_VERSIONS_VERSION
    response = await _ask_versions(channel, client_id, version)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        response = await _ask_versions(channel, client_id, 0)
    if response.error_code:
        raise KafkaError(ErrorCode.of(response.error_code), "the broker rejected ApiVersions")
    common = {}
    for row in response.api_keys:
        ours = _OURS.get(row.api_key)
        if ours is not None and max(row.min_version, ours.first) <= min(row.max_version, ours.last):
            common[row.api_key] = min(row.max_version, ours.last)
    return common


async def _ask_versions(channel: Channel, client_id: str, version: int) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="minikafka", client_software_version=__version__)
    correlation_id = channel.next_correlation_id()
    frame = encode_request(ApiKey.API_VERSIONS, version, correlation_id, client_id, encode(request, version))
    answer = await channel.request(correlation_id, frame)
    if int.from_bytes(answer[4:6], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION:
        version = 0  # whatever was asked for, this answer is in version 0 (KIP-511)
    return decode(ApiVersionsResponse, version, answer, 4)[0]


def _now_s() -> float:
    return asyncio.get_running_loop().time()
