"""One connection at a server: who it is, and for how long (KIP-43, KIP-152, KIP-368).

::

    stranger --begin--> in an exchange --receive, proved--> complete --begin--> in an exchange (re-authentication)
                              |                                                        |
                              +---- refused: the connection is to be closed -----------+

A connection that is complete asks what it likes, until its session expires. It may prove itself again before; it stays
the same user by the same mechanism. Whatever does not fit the state is an error, and the state stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn

from minikafka.errors import ErrorCode, KafkaError
from minikafka.sasl.exchange import ServerExchange, refuse

PAUSE_MS: Final = 1_000
"""Between two re-authentications, as in Apache Kafka."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One that a listener offers."""

    begin: Callable[[], ServerExchange]
    session_max_ms: int = 0
    """A session is over after so long; 0: it is not (``connections.max.reauth.ms``)."""


class Answer(NamedTuple):
    """What the client is sent; ``session_lifetime_ms`` once it is complete, 0: it does not expire."""

    token: bytes
    session_lifetime_ms: int = 0


class Login:
    """State of one connection. Times are monotonic, in ms."""

    __slots__ = ("_began_at_ms", "_exchange", "_mechanism", "_mechanisms", "expires_at_ms", "is_complete", "user")

    def __init__(self, mechanisms: Mapping[str, Mechanism]) -> None:
        self._mechanisms = mechanisms
        self._mechanism = ""
        self._exchange: ServerExchange | None = None
        self._began_at_ms: int | None = None  # of the last re-authentication
        self.user: str | None = None
        self.expires_at_ms: int | None = None
        self.is_complete = False

    @property
    def offered(self) -> list[str]:
        """Mechanisms."""
        return list(self._mechanisms)

    @property
    def is_under_way(self) -> bool:
        """True in an exchange."""
        return self._exchange is not None

    def begin(self, mechanism: str, now_ms: int) -> None:
        """SaslHandshake. KafkaError: UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE."""
        if self._exchange is not None:
            _illegal("SaslHandshake during SASL authentication")
        if self.is_complete:
            is_early = self._began_at_ms is not None and now_ms - self._began_at_ms < PAUSE_MS
            if self.expires_at_ms is None or is_early:
                _illegal("SaslHandshake after successful authentication")
            self._began_at_ms = now_ms
        offered = self._mechanisms.get(mechanism)
        if offered is None:
            self.is_complete = False
            message = f"SASL mechanism {mechanism!r:.60} is not offered; there are {', '.join(self._mechanisms)}"
            raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, message)
        self.is_complete = False
        self._exchange = offered.begin()
        if self.user is None:
            self._mechanism = mechanism
        elif mechanism != self._mechanism:
            self._exchange = _Refused(
                f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication of mechanism "
                f"'{self._mechanism}'"
            )

    def receive(self, token: bytes, now_ms: int, wall_ms: int) -> Answer:
        """SaslAuthenticate. KafkaError: SASL_AUTHENTICATION_FAILED, ILLEGAL_SASL_STATE. UndecidedError: nothing has
        changed, and the same token is to come again."""
        exchange = self._exchange
        if exchange is None:
            _illegal("SaslAuthenticate without SaslHandshake; send SaslHandshake first")
        try:
            answer = exchange.receive(token)
            if self.user is not None and exchange.user not in (None, self.user):
                refuse(f"Cannot change principals during re-authentication from User:{self.user}: User:{exchange.user}")
        except KafkaError as error:
            self._exchange = _Refused(error.message)
            raise
        if exchange.user is None:
            return Answer(answer)
        self.user = exchange.user
        self._exchange = None
        self.is_complete = True
        lifetimes = [self._mechanisms[self._mechanism].session_max_ms or None]
        if exchange.expires_at_ms is not None:
            lifetimes.append(max(0, exchange.expires_at_ms - wall_ms))
        lifetime_ms = min((each for each in lifetimes if each is not None), default=None)
        self.expires_at_ms = None if lifetime_ms is None else now_ms + lifetime_ms
        return Answer(answer, lifetime_ms or 0)


class _Refused:
    """An exchange that fails whatever comes."""

    user: str | None = None
    expires_at_ms: int | None = None

    def __init__(self, why: str) -> None:
        self._why = why

    def receive(self, token: bytes) -> bytes:
        refuse(self._why)


def _illegal(what: str) -> NoReturn:
    raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, f"Unexpected {what}")
