"""The keys of those who sign tokens (JWKS, RFC 7517): read from a file or an address, and again now and then.

A token that names an unknown key has them read again: whoever issues tokens changes its keys. Its login waits for the
next reading, as one does that comes before they were read first: a client that is refused may give up for good. A
reading lets in whom it can, and refuses only who came before it began: what it brings may be older than the others'
keys. Others with tokens of strangers cannot change that. What cannot be read leaves the keys as they were.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from http.client import HTTPException, HTTPMessage
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request

from minikafka.broker.logs import one_line
from minikafka.broker.threads import RunInThread
from minikafka.config import BrokerConfig, ConfigError
from minikafka.config.sasl import OAUTHBEARER
from minikafka.config.security import WITH_SASL
from minikafka.event_log import get_logger
from minikafka.net.web import read_page
from minikafka.sasl.exchange import UndecidedError
from minikafka.sasl.jwt import Claims, TokenError

log = get_logger()

READ_TIMEOUT_S: Final = 10.0
"""For all of it: until then a reading holds one of the few threads for upkeep, and logins wait for it."""
SIZE_MAX: Final = 1 << 20
PAUSE_S: Final = 1.0
"""Between two readings at least, whatever tokens name. Our client waits two seconds for an answer, Java's ten."""
_ALGORITHMS: Final = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
"""By the type of a key. None is of a shared secret: who checks a token could make one."""
_PRIVATE: Final = frozenset(("d", "p", "q", "dp", "dq", "qi", "oth"))
"""Members of keys that are of no use here, and which PyJWT would make private keys with, that check nothing."""
_NO_CHECKS: Final = dict.fromkeys(("verify_exp", "verify_nbf", "verify_iat", "verify_aud", "verify_iss"), False)
"""Of claims: :class:`~minikafka.sasl.jwt.Demands` has them."""


def check_tokens(config: BrokerConfig) -> None:
    """Raise ConfigError when signed tokens could not be checked."""
    for name in config.listeners:
        settings = config.sasl_of(name)
        url = settings.sasl_oauthbearer_jwks_endpoint_url
        if config.security_protocol(name) not in WITH_SASL or OAUTHBEARER not in settings.sasl_enabled_mechanisms:
            continue
        if url is not None:
            try:
                _jwt()
                if url.startswith("file:"):
                    keys_in(_read(url))
            except ImportError:
                message = "signed tokens need pyjwt; get it with: pip install 'minikafka[oauth]'"
                raise ConfigError([message]) from None
            except (OSError, ValueError) as error:
                raise ConfigError([f"sasl.oauthbearer.jwks.endpoint.url {url}: {_why(error)}"]) from None


class TokenKeys:
    """Those at one address. :meth:`run` reads them."""

    def __init__(self, url: str, refresh_ms: int, run_in_thread: RunInThread) -> None:
        self.url = url
        self._refresh_s = refresh_ms / 1000
        self._run_in_thread = run_in_thread
        self._keys: Mapping[str, Any] = {}
        self._is_wanted = asyncio.Event()
        self._is_judging = False  # one that waited for a reading: it waits for no other
        self._waiting: dict[object, Callable[[], None]] = {}

    async def run(self) -> None:
        """Read them, for ever."""
        while True:
            await self._decide()
            await asyncio.sleep(min(PAUSE_S, self._refresh_s))
            try:
                async with asyncio.timeout(self._refresh_s):
                    await self._is_wanted.wait()
            except TimeoutError:
                continue

    async def read(self) -> None:
        """Read them once."""
        try:
            self._keys = keys_in(await self._run_in_thread(lambda: _read(self.url)))
        except Exception as error:  # whatever is there was written by others, and must not stop the node
            is_bug = not isinstance(error, (OSError, ValueError, HTTPException))
            log.warning(
                "keys of tokens cannot be read", url=self.url, why=_why(error), exc_info=error if is_bug else None
            )

    async def _decide(self) -> None:
        """Read them for those who wait."""
        before, self._waiting = self._waiting, {}
        await self.read()
        meanwhile, self._waiting = self._waiting, {}
        self._is_wanted.clear()
        await _one_a_turn(before, self._judge)
        await _one_a_turn(meanwhile, lambda go_on: go_on())

    def _judge(self, go_on: Callable[[], None]) -> None:
        self._is_judging = True
        try:
            go_on()
        finally:
            self._is_judging = False

    def _when_read(self, go_on: Callable[[], None]) -> Callable[[], object]:
        who = object()
        self._waiting[who] = go_on
        return partial(self._waiting.pop, who, None)  # of this dict, also when those who come later have another one

    def claims_of(self, token: str) -> Claims:
        """What a token says, if one of these keys has signed it. TokenError; UndecidedError if it names an unknown one:
        it may be read next."""
        jwt = _jwt()
        try:
            name = jwt.get_unverified_header(token).get("kid")
            key = self._key_named(name)
            claims: Claims = jwt.decode(token, key.key, algorithms=_algorithms(key), options=_NO_CHECKS)
        except (jwt.PyJWTError, RecursionError) as error:
            raise TokenError(f"not a token that is signed by one of the keys: {error}") from error
        return claims

    def _key_named(self, name: str | None) -> Any:
        keys = self._keys
        if name is None and len(keys) == 1:
            return next(iter(keys.values()))
        key = keys.get(name or "")
        if key is None:
            if self._is_judging:
                raise TokenError("it is signed by another key")
            self._is_wanted.set()
            raise UndecidedError(self._when_read)
        return key


async def _one_a_turn(waiting: dict[object, Callable[[], None]], take: Callable[[Callable[[], None]], None]) -> None:
    """Of the loop: a thousand may log in at once. Who leaves meanwhile is not taken."""
    loop = asyncio.get_running_loop()
    while waiting:
        loop.call_soon(take, waiting.pop(next(iter(waiting))))
        await asyncio.sleep(0)


def keys_in(text: bytes) -> dict[str, Any]:
    """The public keys of a JWKS by their ids. ValueError without any."""
    jwt = _jwt()
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    rows = found.get("keys") if isinstance(found, dict) else None
    keys = {}
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict) or str(row.get("kty")) not in _ALGORITHMS or row.get("use", "sig") != "sig":
            continue
        try:
            key = jwt.PyJWK.from_dict({name: value for name, value in row.items() if name not in _PRIVATE})
        except (jwt.PyJWTError, NotImplementedError, TypeError, ValueError):
            continue  # of a curve that is unknown here, say, or for no algorithm, or none at all
        keys[str(row.get("kid", ""))] = key
    if not keys:
        raise ValueError("there is no public key for signatures in it")
    return keys


def _algorithms(key: Any) -> list[str]:
    family = _ALGORITHMS[key.key_type]
    given = key._jwk_data.get("alg")
    return [name for name in family if given in (None, name)]


def _read(url: str) -> bytes:
    if url.startswith("file:"):
        return Path(unquote(urlsplit(url).path)).read_bytes()
    return read_page(url, _Redirects(), within_s=READ_TIMEOUT_S, size_max=SIZE_MAX)


class _Redirects(HTTPRedirectHandler):
    """Followed, but not from https to where anybody on the way could put keys of his own."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        fp.close()  # else all of the answer would be read, however long it is
        if urlsplit(newurl).scheme not in ("https", req.type):
            raise ValueError(f"it redirects to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _jwt() -> Any:
    return import_module("jwt")


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or one_line(error)
