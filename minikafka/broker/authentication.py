"""Clients that prove who they are: a frame handler before the one that serves them.

At a listener that speaks SSL a client may do so by a certificate; at those that speak SASL it must log in. Until then a
connection may ask for ApiVersions, SaslHandshake and SaslAuthenticate, in small frames, and not for long
(``LOGIN_MAX_MS``). Who fails waits for the answer, and is closed. Afterwards a request costs one comparison more than
at other listeners.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from minikafka.broker.clock import Clock
from minikafka.broker.context import RequestContext
from minikafka.broker.dispatch import PLAIN_COST, PLAIN_COST_PER_BYTE
from minikafka.broker.timers import Alarm, Timers
from minikafka.config.principals import PrincipalRules
from minikafka.config.sasl import SaslSettings
from minikafka.errors import ErrorCode, KafkaError
from minikafka.net.certificates import distinguished_name
from minikafka.net.connection import Connection, FrameHandler
from minikafka.net.reply import Reply
from minikafka.sasl.exchange import UndecidedError
from minikafka.sasl.login import Answer, Login, Mechanism
from minikafka.wire.api import ApiKey
from minikafka.wire.framing import FrameError
from minikafka.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from minikafka.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

LOGIN_MAX_MS: Final = 30_000
"""From the connection to the end of the first exchange. A thousand that come at once are in within 20 s."""
_AT_ANY_TIME: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


@dataclass(slots=True)
class Logins:
    """Counts of one listener, since the start."""

    accepted: int = 0
    refused: int = 0
    renewed: int = 0
    """Logged in again, on the same connection."""
    not_renewed: int = 0

    def count(self, *, is_accepted: bool, is_again: bool) -> None:
        """One that has ended."""
        if is_again:
            self.renewed += is_accepted
            self.not_renewed += not is_accepted
        else:
            self.accepted += is_accepted
            self.refused += not is_accepted


class CertifiedClients:
    """Of a listener that speaks TLS alone: whoever has shown a certificate is the user whom it names."""

    def __init__(self, handler: FrameHandler, rules: PrincipalRules, logins: Logins) -> None:
        self._handler = handler
        self._logins = logins
        self._rules = rules
        self.on_frame = handler.on_frame
        self.on_read_event_end = handler.on_read_event_end
        self.on_connection_lost = handler.on_connection_lost

    def on_connection_made(self, connection: Connection) -> None:
        self._handler.on_connection_made(connection)
        certificate = connection.certificate
        if certificate is None:
            return
        try:
            name = distinguished_name(certificate)
        except ValueError as error:
            self._refuse(connection, f"its certificate names nobody: {error}")
            return
        user = self._rules.user_of(name)
        if user:
            connection.user = user
        else:
            self._refuse(connection, f"no rule of ssl.principal.mapping.rules gives a user for {name}")

    def _refuse(self, connection: Connection, why: str) -> None:
        self._logins.refused += 1
        connection.close(why)


class SaslAuthenticator:
    """Of one listener."""

    def __init__(
        self,
        handler: FrameHandler,
        mechanisms: Mapping[str, Mechanism],
        settings: SaslSettings,
        clock: Clock,
        timers: Timers,
        logins: Logins,
    ) -> None:
        self._handler = handler
        self._logins = logins
        self._mechanisms = mechanisms
        self._settings = settings
        self._clock = clock
        self._timers = timers
        self.on_read_event_end = handler.on_read_event_end

    def on_connection_made(self, connection: Connection) -> None:
        login = Login(self._mechanisms)
        connection.session = SaslSession(connection, login, self._settings, self._clock, self._timers, self._logins)
        self._handler.on_connection_made(connection)

    def on_connection_lost(self, connection: Connection) -> None:
        session_of(connection).end()
        self._handler.on_connection_lost(connection)

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        session = connection.session
        assert isinstance(session, SaslSession)
        login = session.login
        if login.is_complete:
            if login.expires_at_ms is not None and connection.last_active_s * 1000 > login.expires_at_ms:
                self._check_renewal(login, frame)
        elif login.is_under_way and session.is_raw:
            session.receive_raw(bytes(frame))
            return
        else:
            key = _key_of(frame)
            if key not in _AT_ANY_TIME and (key != ApiKey.API_VERSIONS or login.is_under_way):
                session.count_refused()
                raise FrameError(f"API {key} before SASL authentication: is this client's security.protocol right?")
        self._handler.on_frame(connection, frame)

    @staticmethod
    def _check_renewal(login: Login, frame: memoryview) -> None:
        if _key_of(frame) != ApiKey.SASL_HANDSHAKE:
            message = "did not authenticate again within connections.max.reauth.ms, or before the token expired"
            raise FrameError(f"user {login.user!r} {message}")


class SaslSession:
    """Of one connection: carries out what its :class:`~minikafka.sasl.login.Login` says."""

    def __init__(
        self,
        connection: Connection,
        login: Login,
        settings: SaslSettings,
        clock: Clock,
        timers: Timers,
        logins: Logins,
    ) -> None:
        self.login = login
        self._logins = logins
        self.is_raw = False
        """Its tokens come without a request around them, after version 0 of SaslHandshake."""
        self._connection = connection
        self._settings = settings
        self._clock = clock
        self._timers = timers
        self._alarm: Alarm | None = None
        self._wait_no_more: Callable[[], object] | None = None
        connection.limit_frames(settings.sasl_server_max_receive_size)
        self._set_alarm(self._give_up, LOGIN_MAX_MS)

    def end(self) -> None:
        """The connection is gone. They refer to each other: both would stay until a full garbage collection."""
        if self._wait_no_more is not None:
            self._wait_no_more()
        self._stop_alarm()
        self._connection.session = None

    def begin(self, request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse | None:
        """An exchange begins; errors as in Apache Kafka."""
        try:
            self.login.begin(request.mechanism, self._clock.monotonic_ms())
        except KafkaError as error:
            offered = self.login.offered if error.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM else []
            answer = SaslHandshakeResponse(error_code=error.code, mechanisms=offered)
            self._refuse(error, partial(context.send, answer))
            return None
        self._connection.limit_frames(self._settings.sasl_server_max_receive_size)  # again, if it proves itself again
        self.is_raw = context.version == 0
        return SaslHandshakeResponse(mechanisms=self.login.offered)

    def receive(self, request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse | None:
        """The next message of an exchange."""
        try:
            token, lifetime_ms = self._receive(request.auth_bytes)
        except UndecidedError as undecided:
            self._wait(undecided, lambda: self._receive_again(request, context))
            return None
        except KafkaError as error:
            answer = SaslAuthenticateResponse(error_code=error.code, error_message=error.message)
            self._refuse(error, partial(context.send, answer))
            return None
        return SaslAuthenticateResponse(error_message=None, auth_bytes=token, session_lifetime_ms=lifetime_ms)

    def _receive_again(self, request: SaslAuthenticateRequest, context: RequestContext) -> None:
        response = self.receive(request, context)
        if response is not None:
            context.send(response)

    def receive_raw(self, token: bytes) -> None:
        """The same without a request around it: who fails is told nothing."""
        self._connection.spend(PLAIN_COST + PLAIN_COST_PER_BYTE * len(token))
        self._receive_raw(token, self._connection.open_reply())

    def _receive_raw(self, token: bytes, reply: Reply) -> None:
        try:
            answer, _ = self._receive(token)
        except UndecidedError as undecided:
            self._wait(undecided, partial(self._receive_raw, token, reply))
            return
        except KafkaError as error:
            self._refuse(error, reply.skip)
            return
        reply.send((len(answer).to_bytes(4), answer))

    def _receive(self, token: bytes) -> Answer:
        is_again = self.login.user is not None
        answer = self.login.receive(token, self._clock.monotonic_ms(), self._clock.wall_ms())
        if self.login.is_complete:
            assert self.login.user is not None
            self._logins.count(is_accepted=True, is_again=is_again)
            self._connection.user = self.login.user
            self._connection.limit_frames(None)
            self._stop_alarm()
        return answer

    def _refuse(self, error: KafkaError, answer: Callable[[], None]) -> None:
        """Answer. A connection that is in stays; another one is closed, and waits for it first."""
        if self.login.is_complete:
            answer()
            return
        self.count_refused()

        def close() -> None:
            answer()
            self._connection.close_after_replies(f"SASL: {error.message}")

        delay_ms = self._settings.connection_failed_authentication_delay_ms
        if not delay_ms:
            close()
            return
        self._connection.suspend()
        self._set_alarm(close, delay_ms)

    def _wait(self, undecided: UndecidedError, go_on: Callable[[], None]) -> None:
        """For what the message is judged by; nothing that follows it is read."""
        self._connection.suspend()

        def again() -> None:
            if self._connection.session is self:  # it is not gone
                self._wait_no_more = None
                go_on()
                self._connection.resume()

        self._wait_no_more = undecided.when(again)

    def _set_alarm(self, act: Callable[[], None], delay_ms: int) -> None:
        self._stop_alarm()
        self._alarm = Alarm(act)
        self._timers.set(self._alarm, self._clock.monotonic_ms() + delay_ms)

    def _stop_alarm(self) -> None:
        if self._alarm is not None:
            self._timers.cancel(self._alarm)
            self._alarm = None  # it refers to us

    def count_refused(self) -> None:
        """It is not let in, or not again."""
        self._logins.count(is_accepted=False, is_again=self.login.user is not None)

    def _give_up(self) -> None:
        self.count_refused()
        self._connection.close(f"SASL authentication was not completed within {LOGIN_MAX_MS // 1000} s")


def session_of(connection: Connection) -> SaslSession:
    """At a listener that speaks SASL."""
    session = connection.session
    assert isinstance(session, SaslSession)
    return session


def _key_of(frame: memoryview) -> int:
    return int.from_bytes(frame[:2])
