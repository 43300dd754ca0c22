"""OAUTHBEARER (RFC 7628): a token that somebody else has issued, in one message.

A token that is refused is answered with a reason first, without an error. The client says that it has read that, with a
single %x01, and then gets the error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from minikafka.sasl.exchange import OAUTHBEARER, refuse, refuse_malformed, text_of
from minikafka.sasl.jwt import TokenError, Validate
from minikafka.sasl.plain import check_authorization_id
from minikafka.sasl.scram import name_of

ACKNOWLEDGED: Final = b"\x01"
_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authorization_id>(?:[^\0\x01=,]|=2C|=3D)*))?,\x01"
    r"auth=bearer +(?P<token>[A-Za-z0-9._~+/=-]+)(?P<extensions>(?:\x01[A-Za-z]+=[^\0\x01]*)*)\x01\x01",
    re.IGNORECASE,
)


class OAuthBearerServer:
    """One message, or two for who is refused."""

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._refusal: str | None = None
        self.user: str | None = None
        self.expires_at_ms: int | None = None

    def receive(self, token: bytes) -> bytes:
        """Empty, or why the token is refused."""
        if self._refusal is not None:
            if token == ACKNOWLEDGED:
                refuse(self._refusal)
            refuse_malformed(OAUTHBEARER)
        found = _FIRST.fullmatch(text_of(token, OAUTHBEARER))
        if found is None:
            refuse_malformed(OAUTHBEARER)
        try:
            accepted = self._validate(found["token"])
        except TokenError as error:
            self._refusal = json.dumps({"status": error.status})
            return self._refusal.encode()
        check_authorization_id(name_of(found["authorization_id"] or ""), accepted.user)
        self.user, self.expires_at_ms = accepted
        return b""


class OAuthBearerClient:
    """``extensions`` go with the token (KIP-342)."""

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        self._token = token
        self._extensions = extensions

    def first(self) -> bytes:
        """The token."""
        pairs = {"auth": f"Bearer {self._token}"} | dict(self._extensions)
        return f"n,,\x01{''.join(f'{name}={value}{chr(1)}' for name, value in pairs.items())}\x01".encode()

    def receive(self, token: bytes) -> bytes | None:
        """Nothing follows, unless it was refused."""
        return ACKNOWLEDGED if token else None
