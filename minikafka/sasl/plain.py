"""PLAIN (RFC 4616): ``[authorization id] NUL user NUL password`` in one message. Only for listeners that encrypt."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from minikafka.sasl.exchange import PLAIN, refuse, refuse_malformed, text_of

WRONG: Final = "Authentication failed: Invalid username or password"
_NOBODY: Final = ""
"""The password of unknown users, which nobody can send."""


class PlainServer:
    """``passwords`` by user. What is compared is of one size, and for an unknown user something is compared, too."""

    def __init__(self, passwords: Mapping[str, str], key: bytes) -> None:
        """``key`` is any secret: who watches the time of a comparison cannot choose what is compared."""
        self._passwords = passwords
        self._key = key
        self.user: str | None = None
        self.expires_at_ms: int | None = None

    def receive(self, token: bytes) -> bytes:
        """Empty, if the password is right."""
        parts = text_of(token, PLAIN).split("\0")
        if len(parts) != 3 or not parts[1] or not parts[2]:
            refuse_malformed(PLAIN)
        authorization_id, user, password = parts
        expected = self._passwords.get(user, _NOBODY)
        if not hmac.compare_digest(self._digest(password), self._digest(expected)):
            refuse(WRONG)
        check_authorization_id(authorization_id, user)
        self.user = user
        return b""

    def _digest(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode(), sha256)


class PlainClient:
    """One message."""

    def __init__(self, user: str, password: str) -> None:
        self._user = user
        self._password = password

    def first(self) -> bytes:
        """User and password."""
        return b"\0".join((b"", self._user.encode(), self._password.encode()))

    def receive(self, token: bytes) -> None:
        """Nothing follows."""


def check_authorization_id(authorization_id: str, user: str) -> None:
    """Nobody may act for another user."""
    if authorization_id not in ("", user):
        refuse("Authentication failed: Client requested an authorization id that is different from username")
