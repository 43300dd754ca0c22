"""Tokens of OAUTHBEARER, by the options of Kafka's client: issued by an endpoint, read from a file, or made here.

A token of an endpoint is used until half of its life is over: the session that it opens is renewed later than that
(KIP-368). A file is read at each login: whoever renews tokens writes it anew. Tokens that nobody signed are for tests.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError
from urllib.parse import unquote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request

from minikafka.client.errors import UnreachableError
from minikafka.config.jaas import Jaas
from minikafka.errors import ErrorCode, KafkaError
from minikafka.net.web import read_page
from minikafka.sasl.jwt import scopes_of, unsecured_token

URL: Final = "sasl.oauthbearer.token.endpoint.url"
TIMEOUT_S: Final = 10.0
SIZE_MAX: Final = 1 << 20
LIFETIME_S: Final = 3600
"""Of a token that is made here, as in Kafka."""
_USED_MAX_S: Final = 7 * 24 * 3600
"""However long one holds: an answer may say a number that is out of all bounds."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_EXTENSION: Final = re.compile(r"[A-Za-z]+=[\x21-\x7e \t\r\n]+")

NextToken = Callable[[], Awaitable[str]]


class TokenOptions(NamedTuple):
    """What a client says of its tokens. Options of ``sasl.jaas.config`` count where others are not set."""

    url: str | None
    client_id: str | None
    client_secret: str | None
    scope: str | None
    jaas_config: str | None

    def __repr__(self) -> str:
        return f"TokenOptions({self.url})"


def tokens_of(options: TokenOptions) -> tuple[NextToken, dict[str, str]]:
    """What gives a token for each login, and the extensions that go with it (KIP-342). Raises ValueError, which names
    the option."""
    jaas = _jaas(options.jaas_config)
    if options.url is None:
        unsecured = _Taken(jaas, "unsecuredLogin")
        tokens, extensions = _unsecured(unsecured), unsecured.named("Extension_")
        unsecured.check_empty()
        return tokens, _checked(extensions)
    taken = _Taken(jaas)
    extensions = taken.named("extension_")
    client_id, secret = (taken.pop(name, "") for name in ("clientId", "clientSecret"))
    scope = taken.pop("scope", "")
    taken.check_empty()
    if options.url.startswith("file:"):
        return _of_file(options.url), _checked(extensions)
    if not re.fullmatch(r"https?://[^/\s]+\S*", options.url):
        raise ValueError(f"{URL} is {options.url!r}; it must be https://..., or file:///PATH with a token")
    client_id, secret = options.client_id or client_id, options.client_secret or secret
    if not client_id or not secret:
        names = (f"sasl.oauthbearer.client.credentials.client.{name}" for name in ("id", "secret"))
        raise ValueError(f"{' and '.join(names)} are not set; {URL} needs them")
    return TokenEndpoint(options.url, client_id, secret, options.scope or scope).token, _checked(extensions)


class TokenEndpoint:
    """Issues tokens for the credentials of a client (RFC 6749, 4.4)."""

    def __init__(self, url: str, client_id: str, secret: str, scope: str) -> None:
        form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        headers = {"Authorization": f"Basic {b64encode(f'{client_id}:{secret}'.encode()).decode()}"}
        self._request = Request(  # noqa: S310 - the option takes no other scheme
            url, urlencode(form).encode(), headers | {"Accept": "application/json"}, method="POST"
        )
        self._asking = asyncio.Lock()
        self._token = ""
        self._good_until_s = 0.0

    async def token(self) -> str:
        """One that holds for a while. Raises KafkaError: SASL_AUTHENTICATION_FAILED if the credentials are refused."""
        async with self._asking:
            if _now_s() >= self._good_until_s:
                asked_s = _now_s()
                self._token, lifetime_s = await asyncio.to_thread(self._ask)
                self._good_until_s = asked_s + lifetime_s / 2
            return self._token

    def _ask(self) -> tuple[str, float]:
        try:
            text = read_page(self._request, _NoRedirects(), within_s=TIMEOUT_S, size_max=SIZE_MAX)
        except HTTPError as error:
            error.close()
            why = f"{URL} {self._request.full_url}: {error.code} {error.reason}"
            raise _refused(why) if error.code < 500 else UnreachableError(why) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise UnreachableError(f"{URL} {self._request.full_url}: {reason}") from None
        return _token_in(text, self._request.full_url)


class _NoRedirects(HTTPRedirectHandler):
    """The credentials are for the address that was given, and for no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _token_in(text: bytes, url: str) -> tuple[str, float]:
    """And for how long it holds, in seconds; 0 if that is not said."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    token = found.get("access_token") if isinstance(found, dict) else None
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise _refused(f"{URL} {url}: there is no access_token in its answer")
    lifetime_s = found.get("expires_in")
    return token, float(max(0, min(lifetime_s, _USED_MAX_S))) if isinstance(lifetime_s, int) else 0.0


def _of_file(url: str) -> NextToken:
    path = Path(unquote(urlsplit(url).path))

    def read() -> str:
        try:
            token = path.read_text(errors="replace").strip()
        except OSError as error:
            raise ValueError(f"{URL} {url}: {error.strerror}") from None
        if not _TOKEN.fullmatch(token):
            raise ValueError(f"{URL} {url}: the file must have a token, and nothing else")
        return token

    async def next_token() -> str:
        try:
            return await asyncio.to_thread(read)
        except ValueError as error:
            raise _refused(str(error)) from None

    read()
    return next_token


def _unsecured(options: _Taken) -> NextToken:
    name_of_user = options.pop("PrincipalClaimName", "sub")
    name_of_scope = options.pop("ScopeClaimName", "scope")
    claims: dict[str, object] = dict(options.named("StringClaim_"))
    claims |= {name: _number(name, value) for name, value in options.named("NumberClaim_").items()}
    claims |= {name: _list(value) for name, value in options.named("ListClaim_").items()}
    lifetime_s = _number("unsecuredLoginLifetimeSeconds", options.pop("LifetimeSeconds", str(LIFETIME_S)))
    if not isinstance(claims.get(name_of_user), str):
        option = f"unsecuredLoginStringClaim_{name_of_user}"
        raise ValueError(f'{URL} is not set, or sasl.jaas.config with {option}="USER" for tokens that nobody signs')
    if isinstance(scope := claims.get(name_of_scope), str):
        claims[name_of_scope] = sorted(scopes_of(scope))

    async def next_token() -> str:
        now_s = time.time()
        return unsecured_token({"iat": now_s, "exp": now_s + lifetime_s} | claims)

    return next_token


class _Taken:
    """Options of ``sasl.jaas.config``, of which those go that somebody asks for."""

    def __init__(self, options: Mapping[str, str], prefix: str = "") -> None:
        self._left = dict(options)
        self._prefix = prefix

    def pop(self, name: str, default: str) -> str:
        return self._left.pop(self._prefix + name, default)

    def named(self, prefix: str) -> dict[str, str]:
        """Those whose names go on after this."""
        prefix = self._prefix + prefix
        names = [name for name in self._left if name.startswith(prefix) and name != prefix]
        return {name.removeprefix(prefix): self._left.pop(name) for name in names}

    def check_empty(self) -> None:
        """ValueError names one that nobody asked for."""
        for name in self._left:
            where = f"with {URL}" if not self._prefix else f"without {URL}"
            raise ValueError(f"sasl.jaas.config: option {name} cannot be set {where}")


def _jaas(text: str | None) -> dict[str, str]:
    if text is None:
        return {}
    try:
        return Jaas.parse(text).options
    except ValueError as error:
        raise ValueError(f"sasl.jaas.config must have {error}") from None


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"sasl.jaas.config: {name} must be a number") from None


def _list(value: str) -> list[str]:
    """As Kafka writes one: its first character separates the others."""
    return value[1:].split(value[0]) if value else []


def _checked(extensions: dict[str, str]) -> dict[str, str]:
    for name, value in extensions.items():
        if name == "auth" or not _EXTENSION.fullmatch(f"{name}={value}"):
            raise ValueError(f"sasl.jaas.config: extension {name} must have letters as its name, and a text")
    return extensions


def _refused(why: str) -> KafkaError:
    return KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, why)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
