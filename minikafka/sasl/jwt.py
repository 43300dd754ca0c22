"""Claims of a JSON Web Token (RFC 7519), and what they must say of whom they let in, and until when."""

from __future__ import annotations

import json
import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

INVALID: Final = "invalid_token"
INSUFFICIENT: Final = "insufficient_scope"
NAME_MAX: Final = 1000
"""Characters of a user, as of those of SCRAM and of principals in ACLs: nodes remember whom they let in."""
LATEST_S: Final = 2**43
"""Times beyond are this one. So they are in Java's range, also in milliseconds."""


class TokenError(ValueError):
    """A token that lets nobody in. ``status`` is RFC 6750's word for it."""

    def __init__(self, why: str, status: str = INVALID) -> None:
        super().__init__(why)
        self.status = status


class Token(NamedTuple):
    """Whom it names, and the wall-clock time until which it is taken: later than it expires, by the skew of clocks."""

    user: str
    taken_until_ms: int


Claims = Mapping[str, Any]
Validate = Callable[[str], Token]
"""Of the text of a token. TokenError, UndecidedError."""


@dataclass(frozen=True, slots=True)
class Demands:
    """What claims must say, by the settings."""

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    scopes: tuple[str, ...] = ()
    """All of these."""
    clock_skew_ms: int = 0
    audiences: tuple[str, ...] = ()
    """One of these, if there are any."""
    issuer: str | None = None

    def check(self, claims: Claims, now_ms: int) -> Token:
        """TokenError if they do not."""
        user = claims.get(self.principal_claim)
        if not isinstance(user, str) or not 0 < len(user) <= NAME_MAX or not _is_text(user):
            raise TokenError(f"claim {self.principal_claim} does not name a user")
        expires_at_ms = _time_ms(claims, "exp")
        if expires_at_ms is None:
            raise TokenError("claim exp is missing")
        # To the skew, too: else who is let in by it would be turned out at the first request.
        taken_until_ms = expires_at_ms + self.clock_skew_ms
        if now_ms >= taken_until_ms:
            raise TokenError("the token has expired")
        for name in ("nbf", "iat"):
            begins_at_ms = _time_ms(claims, name)
            if begins_at_ms is not None and begins_at_ms > now_ms + self.clock_skew_ms:
                raise TokenError(f"the token is not valid yet, by its claim {name}")
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise TokenError("the token is of another issuer")
        if self.audiences and not _audiences_of(claims.get("aud")) & set(self.audiences):
            raise TokenError("the token is for another audience")
        has = scopes_of(claims.get(self.scope_claim))
        if not has.issuperset(self.scopes):
            raise TokenError("the token lacks a scope", INSUFFICIENT)
        return Token(user, taken_until_ms)


def unsecured_claims(token: str) -> Claims:
    """The claims of a token without a signature: whoever made it wrote into it what he liked. TokenError."""
    parts = token.split(".")
    if len(parts) != 3 or parts[2]:
        raise TokenError("not an unsecured JWT: two parts, each before a dot, are expected")
    header, claims = map(_json_of, parts[:2])
    if header.get("alg") != "none":
        raise TokenError("the algorithm of an unsecured JWT is none")
    return claims


def unsecured_token(claims: Claims) -> str:
    """A token without a signature, for tests."""
    return ".".join((*(_base64(json.dumps(part).encode()) for part in ({"alg": "none"}, claims)), ""))


def scopes_of(claim: Any) -> set[str]:
    """A claim with scopes: a list, or text with blanks between them."""
    if isinstance(claim, str):
        return set(claim.split())
    return {each for each in claim if isinstance(each, str)} if isinstance(claim, Iterable) else set()


def _is_text(name: str) -> bool:
    """False if it could not be sent: JSON may have halves of characters."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _audiences_of(claim: Any) -> set[str]:
    """One, or a list."""
    return {claim} if isinstance(claim, str) else scopes_of(claim)


def _time_ms(claims: Claims, name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf:
        raise TokenError(f"claim {name} is no time")
    return int(max(-LATEST_S, min(value, LATEST_S)) * 1000)


def _json_of(part: str) -> dict[str, Any]:
    try:
        found = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError) as error:
        raise TokenError("a part is not JSON in base64url") from error
    if not isinstance(found, dict):
        raise TokenError("a part is no JSON object")
    return found


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
