"""What the machines of all mechanisms have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn, Protocol

from minikafka.errors import ErrorCode, KafkaError

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"


When = Callable[[Callable[[], None]], Callable[[], object]]
"""Calls what it is given, once; returns what takes that back."""


class UndecidedError(Exception):
    """A message cannot be judged yet. The exchange is as it was, and is to be given it again ``when`` that can be."""

    def __init__(self, when: When) -> None:
        super().__init__()
        self.when = when


class ServerExchange(Protocol):
    """The server's side of one exchange. It is over once there is a ``user``, or once it refused."""

    user: str | None
    """Who it is; None until that is proved."""
    expires_at_ms: int | None
    """Wall-clock time at which the proof expires; None: never."""

    def receive(self, token: bytes) -> bytes:
        """The answer to the client's next message. KafkaError(SASL_AUTHENTICATION_FAILED) refuses for good.
        UndecidedError: not yet."""
        ...


class ClientExchange(Protocol):
    """The client's side of one exchange."""

    def first(self) -> bytes:
        """The first message."""
        ...

    def receive(self, token: bytes) -> bytes | None:
        """The next message, after the server's; None: it is over. KafkaError refuses the server."""
        ...


def refuse(message: str) -> NoReturn:
    """The client is told this: nothing that depends on a secret, or on which users there are."""
    raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, message)


def text_of(token: bytes, mechanism: str) -> str:
    """A message as text; refused when it is none."""
    try:
        return token.decode()
    except UnicodeDecodeError:
        refuse_malformed(mechanism)


def refuse_malformed(mechanism: str) -> NoReturn:
    """The message is not of the mechanism."""
    refuse(f"Authentication failed: malformed {mechanism} message")
