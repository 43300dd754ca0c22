"""Both sides of the control plane: msgpack calls between nodes that proved the cluster secret to each other.

A :class:`ControlServer` answers calls on the CONTROLLER listener, and tells clients that they are wrong there; a
:class:`ControlLink` is a lasting way to call one peer: it dials on demand, proves itself, and dials again after a
failure. The id of the peer behind an accepted connection comes from the handshake, never from a message.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from minikafka.errors import ErrorCode, KafkaError
from minikafka.event_log import get_logger
from minikafka.model import Endpoint
from minikafka.net.channel import Channel, ChannelClosedError
from minikafka.net.connection import Connection
from minikafka.net.identity import Identity, PeerCheck
from minikafka.net.strangers import answer_to_client
from minikafka.net.tasks import TaskOwner
from minikafka.wire.control import (
    CONTROL_FRAME_SIZE_MAX,
    UNAUTHENTICATED_FRAME_SIZE_MAX,
    FrameKind,
    decode_frame,
    encode_error,
    encode_frame,
)
from minikafka.wire.errors import WireError
from minikafka.wire.framing import PREFIX_SIZE, FrameError

log = get_logger()

LISTENER: Final = "CONTROLLER"
AUTHENTICATE: Final = "authenticate"
CALLS_AT_ONCE_MAX: Final = 128
CONNECT_TIMEOUT_S: Final = 1.0

REFUSALS_PAUSE_S: Final = 10.0
"""Between two lines of the log about them: a stranger may be refused a thousand times a second."""

CallHandler = Callable[[int, Any], Awaitable[Any]]


@dataclass(eq=False)
class ControlServer:
    """Frame handler of the CONTROLLER listener. ``methods`` maps a name to ``async (peer_id, body) -> body``.

    Each peer may have a bounded number of pending calls per method; more are refused. So requests of clients never
    crowd out the quorum's fetches and the brokers' heartbeats.
    """

    _identity: Identity
    _methods: Mapping[str, CallHandler]
    _tasks: TaskOwner
    _on_peer_lost: Callable[[int], None]
    _in_flight: Counter[tuple[int, str]] = field(default_factory=Counter, init=False)
    _noted_at_s: float = field(default=float("-inf"), init=False)

    def on_connection_made(self, connection: Connection) -> None:
        connection.session = PeerCheck(self._identity, LISTENER)
        connection.limit_frames(UNAUTHENTICATED_FRAME_SIZE_MAX)

    def on_connection_lost(self, connection: Connection) -> None:
        if connection.principal is not None:
            self._on_peer_lost(connection.principal)

    def on_read_event_end(self) -> None:
        """Frames are decoded by copy: no view of the receive buffer is left."""

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        if connection.principal is None and (answer := answer_to_client(frame)) is not None:
            connection.open_reply().send([answer])
            return
        try:
            kind, correlation_id, method, body = decode_frame(frame)
        except WireError as error:
            raise FrameError(str(error)) from error
        if kind is not FrameKind.REQUEST:
            raise FrameError(f"a control frame of kind {kind.name} where a request is expected")
        if connection.principal is None:
            self._authenticate(connection, correlation_id, method, body)
            return
        caller = connection.principal, method
        if self._in_flight[caller] >= CALLS_AT_ONCE_MAX:
            message = f"{CALLS_AT_ONCE_MAX} calls of {method!r} by node {connection.principal} wait for their answers"
            refusal = KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message)
            connection.open_reply().send([encode_error(correlation_id, method, refusal)])
            return
        self._in_flight[caller] += 1
        self._tasks.start(self._answer(connection, connection.principal, correlation_id, method, body), method)

    def _authenticate(self, connection: Connection, correlation_id: int, method: str, body: Any) -> None:
        check = connection.session
        assert isinstance(check, PeerCheck)
        if method != AUTHENTICATE or not isinstance(body, bytes):
            raise FrameError(f"control method {method!r} before authentication")
        reply = connection.open_reply()
        try:
            answer = check.receive(body)
        except KafkaError as error:
            if connection.last_active_s - self._noted_at_s >= REFUSALS_PAUSE_S:
                self._noted_at_s = connection.last_active_s
                log.warning("peer refused", peer=connection.peer_host, why=error.message)
            reply.send([encode_error(correlation_id, method, error)])
            connection.close_after_replies()
            return
        connection.principal = check.peer_id
        connection.limit_frames(None)
        reply.send([encode_frame(FrameKind.RESPONSE, correlation_id, method, answer)])

    async def _answer(self, connection: Connection, peer_id: int, correlation_id: int, method: str, body: Any) -> None:
        """Answer a call once its handler is done, out of order: one call may wait for the effect of another.

        (A registration waits for its commit, which needs the same peer's next fetch of the metadata log.)
        """
        try:
            frame = encode_frame(FrameKind.RESPONSE, correlation_id, method, await self._call(peer_id, method, body))
            _check_size(frame, f"the answer to a call of {method!r}", ErrorCode.UNKNOWN_SERVER_ERROR)
        except KafkaError as error:
            frame = encode_error(correlation_id, method, error)
        except Exception as error:
            frame = encode_error(correlation_id, method, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
            connection.open_reply().send([frame])
            raise
        finally:
            self._in_flight[peer_id, method] -= 1
            if not self._in_flight[peer_id, method]:
                del self._in_flight[peer_id, method]
        connection.open_reply().send([frame])

    async def _call(self, peer_id: int, method: str, body: Any) -> Any:
        handler = self._methods.get(method)
        if handler is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"no control method {method!r}")
        return await handler(peer_id, body)


class ControlLink:
    """Calls one peer over one connection, which it opens on demand.

    ``connect_timeout_s``: for the connection, and for the proof.
    """

    def __init__(
        self, identity: Identity, peer_id: int, endpoint: Endpoint, connect_timeout_s: float = CONNECT_TIMEOUT_S
    ) -> None:
        self.peer_id = peer_id
        self.endpoint = endpoint
        self._identity = identity
        self._connect_timeout_s = connect_timeout_s
        self._channel: Channel | None = None
        self._opening = asyncio.Lock()
        self._is_wanted = False
        self.on_lost: Callable[[], None] = lambda: None

    async def call(self, method: str, body: Any, *, timeout_s: float = 5.0) -> Any:
        """The peer's answer.

        Raises its KafkaError; OSError or TimeoutError if it is unreachable; KafkaError(INVALID_REQUEST) for a body that
        is too large for a frame, and KafkaError(UNKNOWN_SERVER_ERROR) for such an answer.
        """
        async with asyncio.timeout(timeout_s):
            channel = await self._open()
            return await _call(channel, method, body)

    @property
    def is_open(self) -> bool:
        """True while connected."""
        return self._channel is not None and self._channel.is_open

    @property
    def is_lost(self) -> bool:
        """True while a connection is wanted and there is none: the last attempt failed, or the connection broke."""
        return self._is_wanted and not self.is_open

    def close(self) -> None:
        """Close. A later call dials again."""
        if self._channel is not None:
            self._channel.close()

    async def _open(self) -> Channel:
        async with self._opening:
            self._is_wanted = True
            if self._channel is None or not self._channel.is_open:
                with self._identity.connecting(LISTENER, self.peer_id):
                    self._channel = await self._dial()
            return self._channel

    async def _dial(self) -> Channel:
        channel = await Channel.open(
            self.endpoint,
            timeout_s=self._connect_timeout_s,
            correlation_id_of=_correlation_id,
            max_frame_bytes=CONTROL_FRAME_SIZE_MAX,
            tls=self._identity.tls(LISTENER),
        )
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await self._identity.prove(
                    LISTENER, self.peer_id, lambda message: _call(channel, AUTHENTICATE, message)
                )
        except BaseException:
            channel.close()
            raise
        channel.closed.add_done_callback(lambda _: self._lost(channel))
        return channel

    def _lost(self, channel: Channel) -> None:
        if channel is self._channel:
            self.on_lost()


async def _call(channel: Channel, method: str, body: Any) -> Any:
    correlation_id = channel.next_correlation_id()
    request = encode_frame(FrameKind.REQUEST, correlation_id, method, body)
    _check_size(request, f"a call of {method!r}", ErrorCode.INVALID_REQUEST)
    try:
        frame = decode_frame(await channel.request(correlation_id, request))
    except WireError as error:
        channel.close()
        raise ChannelClosedError(f"the peer sent a malformed frame: {error}") from error
    if frame.kind is FrameKind.ERROR:
        raise frame.error()
    return frame.body


def _check_size(frame: bytes, what: str, code: ErrorCode) -> None:
    """KafkaError for a frame that the other side would refuse by closing the shared connection. Requests of clients,
    and
    their answers, may be of any size."""
    if len(frame) - PREFIX_SIZE > CONTROL_FRAME_SIZE_MAX:
        message = f"{what} has {len(frame)} bytes, {CONTROL_FRAME_SIZE_MAX} are allowed; ask for less at once"
        raise KafkaError(code, message)


def _correlation_id(frame: memoryview) -> int:
    return decode_frame(frame).correlation_id
