"""Tokens by the options of Kafka's client: asked for, read or made, and what is said of options that will not do."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from minikafka.client import tokens
from minikafka.client.errors import UnreachableError
from minikafka.client.properties import security_of
from minikafka.client.tokens import TokenOptions, tokens_of
from minikafka.config.jaas import OAUTHBEARER_MODULE
from minikafka.errors import ErrorCode, KafkaError
from minikafka.sasl.jwt import unsecured_claims

SECRET = "a secret"


def options(url: str | None, jaas: str | None = None, scope: str | None = None) -> TokenOptions:
    return TokenOptions(url, "me", SECRET, scope, None if jaas is None else f"{OAUTHBEARER_MODULE} required {jaas};")


class Endpoint:
    """Issues tokens, or answers what it is told to."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.status = "200 OK"
        self.headers = ""
        self.body = '{"access_token": "token-%d", "expires_in": 600}'
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        size = int(request.lower().partition("content-length:")[2].split()[0])
        self.requests.append(request + (await reader.readexactly(size)).decode())
        body = self.body.replace("%d", str(len(self.requests)))
        writer.write(f"HTTP/1.0 {self.status}\r\n{self.headers}\r\n{body}".encode())
        await writer.drain()
        writer.close()


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    endpoint = Endpoint()
    server = await asyncio.start_server(lambda *streams: endpoint.serve(*streams), "127.0.0.1", 0)
    endpoint.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/token"
    yield endpoint
    server.close()


async def test_an_endpoint_issues_tokens_for_the_credentials_of_a_client(endpoint: Endpoint) -> None:
    token, extensions = tokens_of(options(endpoint.url, 'extension_traceId="1"', scope="orders mail"))
    assert extensions == {"traceId": "1"}
    assert await asyncio.gather(token(), token()) == ["token-1"] * 2, "half of its life is not over"
    (request,) = endpoint.requests
    assert request.startswith("POST /token HTTP/1.1\r\n")
    assert f"Authorization: Basic {b64encode(b'me:a secret').decode()}\r\n" in request
    assert request.endswith("\r\n\r\ngrant_type=client_credentials&scope=orders+mail")


async def test_a_token_of_unknown_life_is_used_once(endpoint: Endpoint) -> None:
    endpoint.body = '{"access_token": "token-%d"}'
    jaas = f'{OAUTHBEARER_MODULE} required clientId="other" clientSecret="hidden" scope="s";'
    token, _ = tokens_of(TokenOptions(endpoint.url, None, None, None, jaas))
    assert [await token(), await token()] == ["token-1", "token-2"]
    assert all("grant_type=client_credentials&scope=s" in each for each in endpoint.requests)
    assert all(b64encode(b"other:hidden").decode() in each for each in endpoint.requests)


@pytest.mark.parametrize(("says", "requests"), [("1" + "0" * 400, 1), ("-1" + "0" * 400, 2), ("NaN", 2), ('"600"', 2)])
async def test_a_token_whose_life_is_out_of_bounds_is_used(endpoint: Endpoint, says: str, requests: int) -> None:
    endpoint.body = '{"access_token": "token-%d", "expires_in": ' + says + "}"
    token, _ = tokens_of(options(endpoint.url))
    assert [await token(), await token()] == ["token-1", f"token-{requests}"]


async def test_who_is_refused_is_told_so_and_who_may_try_again_that(endpoint: Endpoint) -> None:
    token, _ = tokens_of(options(endpoint.url))
    for status, headers, body, code in (
        ("401 Unauthorized", "", '{"error": "invalid_client"}', ErrorCode.SASL_AUTHENTICATION_FAILED),
        ("302 Found", f"Location: {endpoint.url}/other\r\n", "", ErrorCode.SASL_AUTHENTICATION_FAILED),
        ("200 OK", "", "<html>", ErrorCode.SASL_AUTHENTICATION_FAILED),
        ("200 OK", "", "[" * 100_000, ErrorCode.SASL_AUTHENTICATION_FAILED),
        ("200 OK", "", '{"access_token": "two\\u0001parts"}', ErrorCode.SASL_AUTHENTICATION_FAILED),
        ("503 Service Unavailable", "", "", UnreachableError("").code),
    ):
        endpoint.status, endpoint.headers, endpoint.body = status, headers, body
        with pytest.raises(KafkaError) as raised:
            await token()
        assert raised.value.code is code
        assert raised.value.message.startswith(f"sasl.oauthbearer.token.endpoint.url {endpoint.url}: ")
        assert SECRET not in raised.value.message
    assert len(endpoint.requests) == 6, "no redirect was followed"


async def test_an_endpoint_that_is_not_there_may_be_tried_again() -> None:
    token, _ = tokens_of(options("http://127.0.0.1:1/token"))
    with pytest.raises(UnreachableError, match="Connection refused"):
        await token()


async def test_an_endpoint_that_answers_for_ever_is_given_up(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a process could not end: its thread cannot be stopped."""
    monkeypatch.setattr(tokens, "TIMEOUT_S", 0.2)
    given_up = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n")
        while not (writer.transport.is_closing() or given_up.is_set()):
            writer.write(b" ")
            await asyncio.sleep(0.01)
        writer.close()

    endpoint.serve = serve  # type: ignore[method-assign]
    token, _ = tokens_of(options(endpoint.url))
    asking = asyncio.ensure_future(token())
    await asyncio.wait([asking], timeout=10)
    given_up.set()
    with pytest.raises(UnreachableError, match="timed out"):
        await asking


async def test_a_file_is_read_at_each_login(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one.token.\n")
    token, _ = tokens_of(options(path.as_uri()))
    assert await token() == "one.token."
    path.write_text("another")
    assert await token() == "another"
    path.unlink()
    with pytest.raises(KafkaError, match="No such file") as raised:
        await token()
    assert raised.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_tokens_that_nobody_signs_say_what_they_are_told() -> None:
    jaas = (
        'unsecuredLoginStringClaim_sub="alice" unsecuredLoginStringClaim_scope="a b" unsecuredLoginNumberClaim_n="7" '
        'unsecuredLoginListClaim_aud="|x|y" unsecuredLoginLifetimeSeconds="60" unsecuredLoginExtension_traceId="1"'
    )
    token, extensions = tokens_of(options(None, jaas))
    claims = dict(unsecured_claims(await token()))
    assert claims.pop("exp") - claims.pop("iat") == pytest.approx(60)
    assert claims == {"sub": "alice", "scope": ["a", "b"], "n": 7, "aud": ["x", "y"]}
    assert extensions == {"traceId": "1"}


LOGIN = f"{OAUTHBEARER_MODULE} required "
URL = "sasl.oauthbearer.token.endpoint.url"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, f"{URL} is not set, or sasl.jaas.config with unsecuredLoginStringClaim_sub="),
        ({URL: "ftp://h/t"}, f"{URL} is 'ftp://h/t'; it must be https://..., or file:///PATH with a token"),
        (
            {URL: "https://h/t"},
            "sasl.oauthbearer.client.credentials.client.id and sasl.oauthbearer.client.",
        ),
        ({URL: "file:///nowhere"}, f"{URL} file:///nowhere: No such file"),
        ({URL: "file:///dev/null"}, "the file must have a token, and nothing else"),
        ({"sasl.jaas.config": "secret"}, "sasl.jaas.config must have a login module"),
        ({"sasl.jaas.config": f'{LOGIN} clientId="a";'}, f"{URL} is not set, or"),
        (
            {"sasl.jaas.config": f'{LOGIN} unsecuredLoginStringClaim_sub="a" scope="a";'},
            f"sasl.jaas.config: option scope cannot be set without {URL}",
        ),
        (
            {URL: "https://h/t", "sasl.jaas.config": f'{LOGIN} ssl.truststore.location="a";'},
            f"sasl.jaas.config: option ssl.truststore.location cannot be set with {URL}",
        ),
        (
            {"sasl.jaas.config": f'{LOGIN} unsecuredLoginStringClaim_sub="a" unsecuredLoginLifetimeSeconds="secret";'},
            "sasl.jaas.config: unsecuredLoginLifetimeSeconds must be a number",
        ),
        (
            {"sasl.jaas.config": f'{LOGIN} unsecuredLoginStringClaim_sub="a" unsecuredLoginExtension_auth="b";'},
            "sasl.jaas.config: extension auth must have letters as its name, and a text",
        ),
        (
            {"sasl.login.callback.handler.class": "x.Y"},
            "sasl.login.callback.handler.class is x.Y; it must be org.",
        ),
        ({"sasl.oauthbearer.jwt.retriever.class": "x.Y"}, "sasl.oauthbearer.jwt.retriever.class cannot be set here; "),
    ],
)
def test_options_that_will_not_do_are_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=r"^") as raised:
        security_of({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"} | given)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value).replace("client.secret", "")


def test_a_file_for_the_client_of_java_is_taken_as_it_is() -> None:
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
        "sasl.jaas.config": f"{LOGIN};",
        URL: "https://login.example.org/token",
        "sasl.oauthbearer.client.credentials.client.id": "me",
        "sasl.oauthbearer.client.credentials.client.secret": SECRET,
        "sasl.login.read.timeout.ms": "1000",
    }
    assert SECRET not in repr(security_of(given))
