"""How a client proves who it is: the driver of ``minikafka.sasl`` at its end of a connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol, TypeVar

from minikafka.client.tokens import NextToken, TokenOptions, tokens_of
from minikafka.config.jaas import PLAIN_MODULE, SCRAM_MODULE, Jaas
from minikafka.errors import ErrorCode, KafkaError
from minikafka.sasl.exchange import OAUTHBEARER, PLAIN, ClientExchange
from minikafka.sasl.oauthbearer import OAuthBearerClient
from minikafka.sasl.plain import PlainClient
from minikafka.sasl.scram import BY_NAME, base64
from minikafka.sasl.scram_client import SaltedPasswords, ScramClient
from minikafka.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from minikafka.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from minikafka.wire.schema import Message

R = TypeVar("R", bound=Message)

MECHANISMS: Final = (PLAIN, *BY_NAME, OAUTHBEARER)
REFUSED: Final = frozenset(
    {ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_SASL_MECHANISM, ErrorCode.ILLEGAL_SASL_STATE}
)
"""Errors that another attempt, or another broker, does not help against."""

Begin = Callable[[], Awaitable[ClientExchange]]
"""Of an exchange; a token may have to be waited for."""


class Ask(Protocol):
    """Sends a request on the connection, and waits for its answer. Raises KafkaError."""

    def __call__(self, request: Message, response_type: type[R], /) -> Awaitable[R]: ...


class SaslClient:
    """What a client logs in with, at each of its connections."""

    def __init__(self, mechanism: str, begin: Begin) -> None:
        self.mechanism = mechanism
        self.begin = begin

    async def log_in(self, exchange: ClientExchange, ask: Ask) -> int:
        """How long the session lasts, in ms; 0: it does not end. Raises KafkaError."""
        shaken = await ask(SaslHandshakeRequest(mechanism=self.mechanism), SaslHandshakeResponse)
        if shaken.error_code:
            raise KafkaError(ErrorCode.of(shaken.error_code), self._why_not(shaken))
        token: bytes | None = exchange.first()
        lifetime_ms = 0
        while token is not None:
            answer = await ask(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse)
            if answer.error_code:
                raise KafkaError(ErrorCode.of(answer.error_code), answer.error_message or "authentication failed")
            lifetime_ms = answer.session_lifetime_ms
            token = exchange.receive(answer.auth_bytes)
        return lifetime_ms

    def _why_not(self, shaken: SaslHandshakeResponse) -> str:
        if shaken.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            return f"the broker does not offer {self.mechanism} here; it offers {', '.join(shaken.mechanisms)}"
        return "the broker asks nobody who he is here: is security.protocol right?"


class UserLogin(NamedTuple):
    """A user and a password."""

    user: str
    password: str

    def jaas(self, mechanism: str) -> str:
        """As Java's clients take it."""
        module = PLAIN_MODULE if mechanism == PLAIN else SCRAM_MODULE
        return f"{module} required username={_quoted(self.user)} password={_quoted(self.password)};"

    def __repr__(self) -> str:
        return "UserLogin(hidden)"


def user_login(mechanism: str, user: str | None, password: str | None, jaas_config: str | None) -> UserLogin:
    """Of these options. ValueError names the one that is missing or wrong."""
    if jaas_config is not None:
        try:
            options = Jaas.parse(jaas_config).options
        except ValueError as error:
            raise ValueError(f"sasl.jaas.config must have {error}") from None
        user = user or options.get("username")
        password = password or options.get("password")
    if not user or not password:
        raise ValueError(f"sasl.username and sasl.password, or sasl.jaas.config, are not set; {mechanism} needs them")
    return UserLogin(user, password)


def user_client(mechanism: str, login: UserLogin, nonce: Callable[[], bytes]) -> SaslClient:
    """By PLAIN or SCRAM."""
    user, password = login
    passwords = SaltedPasswords(password)

    async def begin() -> ClientExchange:
        if mechanism == PLAIN:
            return PlainClient(user, password)
        return ScramClient(BY_NAME[mechanism], user, passwords, base64(nonce()).rstrip("="))

    return SaslClient(mechanism, begin)


def token_client(oauth_token: Callable[[], str] | None, options: TokenOptions) -> SaslClient:
    """By OAUTHBEARER: a function gives tokens, or others do by options. ValueError names the one that is wrong."""
    next_token, extensions = tokens_of(options) if oauth_token is None else (_awaited(oauth_token), {})

    async def begin() -> ClientExchange:
        return OAuthBearerClient(await next_token(), extensions)

    return SaslClient(OAUTHBEARER, begin)


def _awaited(oauth_token: Callable[[], str]) -> NextToken:
    async def next_token() -> str:
        return oauth_token()

    return next_token


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
