"""Signed tokens: whose keys are taken, what lets in, and that none of it can be forged."""

from __future__ import annotations

import asyncio
import hmac
import json
import ssl
import sys
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from broker_client import Client
from broker_node import ANY_PORTS, eventually, in_time, listener_of
from broker_tls import Files
from captured_logs import capture_logs
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from minikafka.broker import token_keys
from minikafka.broker.credentials import credentials_of
from minikafka.broker.node import Node
from minikafka.broker.token_keys import TokenKeys, keys_in
from minikafka.client import Admin, Security
from minikafka.config import BrokerConfig, ConfigError
from minikafka.errors import KafkaError
from minikafka.sasl.exchange import UndecidedError
from minikafka.sasl.jwt import TokenError, unsecured_token
from minikafka.sasl.oauthbearer import OAuthBearerClient
from minikafka.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from minikafka.wire.messages.sasl_handshake import SaslHandshakeRequest

SASL = "SASL_PLAINTEXT"

StartNode = Callable[..., Awaitable[Node]]
Dial = Callable[..., Awaitable[Client]]

RSA = rsa.generate_private_key(65537, 2048)
CURVE = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())
CLAIMS = {"sub": "alice", "exp": 4_000_000_000, "iss": "https://issuer", "aud": ["kafka", "other"]}


def row(key: Any, name: str, **more: object) -> dict[str, Any]:
    kind = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    public: dict[str, Any] = kind.to_jwk(key.public_key(), as_dict=True)
    return public | {"kid": name} | more


def jwks(*rows: dict[str, Any]) -> bytes:
    return json.dumps({"keys": rows}).encode()


KEYS = jwks(row(RSA, "rsa", use="sig"), row(CURVE, "curve", alg="ES256"), {"kty": "oct", "k": "c2VjcmV0", "kid": "oct"})


def signed(key: Any = CURVE, algorithm: str = "ES256", kid: str | None = "curve", **claims: object) -> str:
    headers = {} if kid is None else {"kid": kid}
    return jwt.encode(CLAIMS | claims, key, algorithm, headers)


def shared(secret: bytes, kid: str) -> str:
    """Signed with a shared secret, as no proper library would with a public key."""
    parts = [part.encode() for part in (json.dumps({"alg": "HS256", "kid": kid}), json.dumps(CLAIMS))]
    text = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    return f"{text.decode()}.{urlsafe_b64encode(hmac.digest(secret, text, 'sha256')).decode().rstrip('=')}"


async def directly(act: Callable[[], Any]) -> Any:
    return act()


async def keys_of(path: Path, text: bytes = KEYS) -> TokenKeys:
    await directly(lambda: path.write_bytes(text))
    keys = TokenKeys(path.as_uri(), 60_000, directly)
    await keys.read()
    return keys


@pytest.fixture
async def keys(tmp_path: Path) -> TokenKeys:
    return await keys_of(tmp_path / "keys.json")


def test_only_public_keys_for_signatures_are_taken() -> None:
    assert set(keys_in(KEYS)) == {"rsa", "curve"}
    unknown = (
        {"kty": "EC", "crv": "no"},
        {"kty": ["EC"]},
        row(CURVE, "none", alg="none"),
        row(RSA, "list", alg=["RS256"]),
    )
    assert set(keys_in(jwks(row(RSA, "rsa", use="enc"), row(CURVE, "curve"), *unknown))) == {"curve"}
    for wrong in (b"{", b"[]", b'{"keys": 7}', jwks(), jwks({"kty": "oct", "k": "c2VjcmV0"}), b"\xff", b"[" * 100_000):
        with pytest.raises(ValueError, match=r"."):
            keys_in(wrong)


async def test_who_signed_is_believed(keys: TokenKeys) -> None:
    for token in (signed(), *(signed(RSA, name, "rsa") for name in ("RS256", "PS512"))):
        assert keys.claims_of(token)["sub"] == "alice"


async def test_others_are_not(keys: TokenKeys) -> None:
    public = RSA.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    header, claims, signature = signed().split(".")
    raised = urlsafe_b64encode(json.dumps(CLAIMS | {"sub": "root"}).encode()).decode().rstrip("=")
    forged = [
        signed(OTHER),
        signed(kid="unknown"),
        signed(kid=None),
        signed(RSA, "RS256", "curve"),
        signed(ec.generate_private_key(ec.SECP384R1()), "ES384"),  # not what the key is for
        shared(public, "rsa"),  # signed with what everybody knows
        shared(b"secret", "oct"),
        unsecured_token(CLAIMS),
        f"{header}.{claims}.",
        f"{header}.{raised}.{signature}",
        "",
        "a.b.c",
        f"{urlsafe_b64encode(b'[' * 48_000).decode()}.e30.",
    ]
    keys._is_judging = True  # they have waited
    for token in forged:
        with pytest.raises(TokenError):
            keys.claims_of(token)


async def test_of_a_private_key_the_public_one_is_taken(tmp_path: Path) -> None:
    private = [
        kind.to_jwk(key, as_dict=True) | {"kid": name}
        for kind, key, name in ((jwt.algorithms.RSAAlgorithm, RSA, "rsa"), (jwt.algorithms.ECAlgorithm, CURVE, "curve"))
    ]
    assert all("d" in each for each in private)
    keys = await keys_of(tmp_path / "keys.json", jwks(*private))
    for token in (signed(), signed(RSA, "RS256", "rsa"), signed(RSA, "PS256", "rsa")):
        assert keys.claims_of(token)["sub"] == "alice"
    with pytest.raises(TokenError):
        keys.claims_of(signed(rsa.generate_private_key(65537, 2048), "RS256", "rsa"))


async def test_the_only_key_needs_no_name(tmp_path: Path) -> None:
    only = await keys_of(tmp_path / "keys.json", jwks(row(CURVE, "curve")))
    assert only.claims_of(signed(kid=None))["sub"] == "alice"


async def test_an_unknown_key_has_them_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_keys, "PAUSE_S", 0.0)
    path = tmp_path / "keys.json"
    keys = await keys_of(path)
    running = asyncio.get_running_loop().create_task(keys.run())
    path.write_bytes(jwks(row(OTHER, "new")))
    token = signed(OTHER, kid="new")

    def is_known() -> bool:
        try:
            return bool(keys.claims_of(token))
        except (TokenError, UndecidedError):
            return False

    await eventually(is_known, "the new key")
    with capture_logs() as logs:
        path.unlink()
        await keys.read()
    assert [each["event"] for each in logs] == ["keys of tokens cannot be read"]
    assert is_known(), "the old ones are better than none"
    running.cancel()


@pytest.mark.parametrize(
    "answer",
    [
        b"no HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ncut",
        b"HTTP/1.1 302 Found\r\nLocation: file:///k\r\n\r\n",
    ],
)
async def test_whatever_an_address_answers_leaves_the_keys_as_they_were(keys: TokenKeys, answer: bytes) -> None:
    async with await serving(answer) as server:
        keys.url = f"http://127.0.0.1:{port_of(server)}/keys"
        keys._run_in_thread = asyncio.to_thread
        with capture_logs() as logs:
            await keys.read()
    assert [each["event"] for each in logs] == ["keys of tokens cannot be read"]
    assert keys.claims_of(signed())["sub"] == "alice"


async def test_a_bug_in_reading_them_leaves_the_keys_as_they_were(
    keys: TokenKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two stopped the node so: a number too large for C, and a structure too deep."""

    def planted(_: bytes) -> None:
        raise OverflowError("planted")

    monkeypatch.setattr(token_keys, "keys_in", planted)
    with capture_logs() as logs:
        await keys.read()
    assert [(each["event"], bool(each["exc_info"])) for each in logs] == [("keys of tokens cannot be read", True)]
    assert keys.claims_of(signed())["sub"] == "alice"


@pytest.mark.parametrize("answer", [b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.0 302 Found\r\nLocation: /keys\r\n\r\n"])
async def test_who_answers_for_ever_is_given_up(
    keys: TokenKeys, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte by byte: each is there in time."""
    monkeypatch.setattr(token_keys, "READ_TIMEOUT_S", 0.2)
    drips = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        while not (writer.transport.is_closing() or drips.is_set()):
            writer.write(b" ")
            await asyncio.sleep(0.01)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        keys.url = f"http://127.0.0.1:{port_of(server)}/keys"
        keys._run_in_thread = asyncio.to_thread
        with capture_logs() as logs:
            try:
                await in_time(keys.read())
            finally:
                drips.set()
    assert [each["event"] for each in logs] == ["keys of tokens cannot be read"]
    assert keys.claims_of(signed())["sub"] == "alice"


async def test_no_key_is_taken_from_where_whoever_is_on_the_way_may_change_it(
    keys: TokenKeys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, foreign = Files(tmp_path), jwks(row(OTHER, "curve"))
    monkeypatch.setenv("SSL_CERT_FILE", files.authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.node)
    plain = await serving(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(foreign), foreign))
    elsewhere = f"http://127.0.0.1:{port_of(plain)}/keys"
    encrypted = await serving(f"HTTP/1.1 302 Found\r\nLocation: {elsewhere}\r\n\r\n".encode(), ssl=context)
    async with plain, encrypted:
        keys.url = f"https://127.0.0.1:{port_of(encrypted)}/keys"
        keys._run_in_thread = asyncio.to_thread
        with capture_logs() as logs:
            await keys.read()
    assert [each["why"] for each in logs] == [f"ValueError: it redirects to {elsewhere}, which is not https"]
    assert keys.claims_of(signed())["sub"] == "alice"


async def serving(answer: bytes, **how: Any) -> asyncio.Server:
    """Gives each request this answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0, **how)


def port_of(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


async def test_a_client_with_a_signed_token_is_let_in(
    start_node: StartNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_keys, "PAUSE_S", 0.0)
    path = tmp_path / "keys.json"
    path.write_bytes(KEYS)
    node = await start_node(
        listeners=f"{ANY_PORTS},{SASL}://127.0.0.1:0",
        sasl_enabled_mechanisms="OAUTHBEARER",
        sasl_oauthbearer_jwks_endpoint_url=path.as_uri(),
        sasl_oauthbearer_expected_audience="kafka",
        sasl_oauthbearer_expected_issuer="https://issuer",
        connection_failed_authentication_delay_ms=1,
    )
    listener = listener_of(node, SASL)

    def client(token: str) -> Admin:
        how = Security(security_protocol=SASL, sasl_mechanism="OAUTHBEARER", sasl_oauth_token=lambda: token)
        return Admin(str(listener.endpoint), security=how)

    async with client(signed()):
        assert [each.user for each in listener._connections] == ["alice"]
    expired, foreign = signed(exp=1), (signed(OTHER), unsecured_token(CLAIMS))
    for token in (expired, signed(aud="x"), signed(iss="x"), signed(sub=""), *foreign):
        with pytest.raises(KafkaError, match="invalid_token"):
            async with client(token):
                pass


async def test_a_login_waits_for_a_key_that_is_being_read(
    start_node: StartNode, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a client that is refused nothing more may come: so is a Java producer."""
    monkeypatch.setattr(token_keys, "PAUSE_S", 0.0)
    rows, asked, may_answer = [row(CURVE, "curve")], asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.release()
        await may_answer.acquire()
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + jwks(*rows))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        node = await start_node(
            listeners=f"{ANY_PORTS},{SASL}://127.0.0.1:0",
            sasl_enabled_mechanisms="OAUTHBEARER",
            sasl_oauthbearer_jwks_endpoint_url=f"http://127.0.0.1:{port_of(server)}/keys",
            connection_failed_authentication_delay_ms=1,
        )
        (keys,) = node.listeners.token_keys

        async def begin(token: str, version: int = 1) -> tuple[Client, asyncio.Task[Any]]:
            client = await dial(node, SASL)
            await client.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), version)
            return client, client.send(SaslAuthenticateRequest(auth_bytes=OAuthBearerClient(token, {}).first()))

        async def told(login: tuple[Client, asyncio.Task[Any]]) -> bytes:
            answer: bytes = (await in_time(login[1])).auth_bytes
            return answer

        await in_time(asked.acquire())
        (_, left), known, stranger = [await begin(each) for each in (signed(), signed(), signed(OTHER, kid="other"))]
        await eventually(lambda: len(keys._waiting) == 3, "the logins")
        next(iter(listener_of(node, SASL)._connections)).close()
        left.cancel()
        may_answer.release()
        assert await told(known) == b""
        await in_time(asked.acquire())
        new = await begin(signed(OTHER, kid="new"))
        await eventually(lambda: len(keys._waiting) == 1, "the login")
        rows.append(row(OTHER, "new"))
        may_answer.release()
        assert [await told(each) for each in (stranger, new)] == [b'{"status": "invalid_token"}', b""]
        assert {each.user for each in listener_of(node, SASL)._connections} >= {"alice"}


async def test_strangers_do_not_keep_a_new_key_from_being_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login with a new key was refused right after a reading, theirs or the first one; later, during one that had
    begun before that key was there."""
    monkeypatch.setattr(token_keys, "PAUSE_S", 0.0)
    path = tmp_path / "keys.json"
    begun, may_end = asyncio.Semaphore(0), asyncio.Semaphore(0)
    judged: list[str] = []

    async def slowly(act: Callable[[], Any]) -> Any:
        found = act()
        begun.release()
        await may_end.acquire()
        return found

    def publish(*kids: str) -> None:
        path.write_bytes(jwks(row(CURVE, "curve"), *(row(OTHER, kid) for kid in kids)))

    def log_in(kid: str) -> None:
        try:
            keys.claims_of(signed(OTHER, kid=kid))
        except UndecidedError as undecided:
            undecided.when(lambda: log_in(kid))
        except TokenError:
            judged.append(f"{kid} is refused")
        else:
            judged.append(f"{kid} is in")

    async def read(*told: str) -> None:
        """One reading ends, and says this."""
        may_end.release()
        await turns()
        assert judged == list(told)
        judged.clear()

    publish("old")
    keys = TokenKeys(path.as_uri(), 60_000, slowly)
    running = asyncio.get_running_loop().create_task(keys.run())
    await in_time(begun.acquire())
    log_in("old")
    log_in("stranger")
    await read("old is in")
    await in_time(begun.acquire())
    publish("new")
    log_in("new")
    await read("stranger is refused")
    await in_time(begun.acquire())
    await read("new is in")
    assert begun.locked(), "nobody waits: nothing is read"
    log_in("stranger")
    await in_time(begun.acquire())
    await read("stranger is refused")
    assert begun.locked(), "it was read once for the stranger"
    running.cancel()


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_keys_that_cannot_be_used_are_named_before_a_node_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys.json"
    config = BrokerConfig(
        {
            "listeners": "CLIENT://h:1,SASL_PLAINTEXT://h:2,REPLICATION://h:3,CONTROLLER://h:4",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": path.as_uri(),
        }
    )
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url file:.*: No such file"):
        credentials_of(config)
    path.write_bytes(jwks())
    with pytest.raises(ConfigError, match="there is no public key for signatures in it"):
        credentials_of(config)
    path.write_bytes(KEYS)
    credentials_of(config)
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(ConfigError, match=r"need pyjwt; get it with: pip install 'minikafka\[oauth\]'"):
        credentials_of(config)
