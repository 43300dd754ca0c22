"""Listeners that ask clients who they are, with clients of others and with ours."""

from __future__ import annotations

import asyncio
import gc
import ssl
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from time import time
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError as AiokafkaError
from broker_client import Client, batch, produce_request
from broker_node import ANY_PORTS, create_topic, eventually, listener_of
from broker_scrape import LISTENS, scrape, value
from broker_tls import Files
from captured_logs import capture_logs
from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaProducer

from minikafka.broker import authentication
from minikafka.broker.authentication import Logins
from minikafka.broker.dispatch import PLAIN_COST
from minikafka.broker.node import Node
from minikafka.client import Admin, Consumer, Producer, Security
from minikafka.client.admin import QuotaEntity, ScramDeletion, ScramUpsertion
from minikafka.config.jaas import OAUTHBEARER_MODULE
from minikafka.errors import ErrorCode, KafkaError
from minikafka.net.channel import ChannelClosedError
from minikafka.net.connection import Connection
from minikafka.sasl.jwt import unsecured_token
from minikafka.sasl.scram import BY_NAME
from minikafka.sasl.scram_client import SaltedPasswords, ScramClient
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode_exactly, encode
from minikafka.wire.headers import encode_request
from minikafka.wire.messages.api_versions import ApiVersionsRequest
from minikafka.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.wire.messages.describe_cluster import DescribeClusterRequest
from minikafka.wire.messages.metadata import MetadataRequest
from minikafka.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from minikafka.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

StartNode = Callable[..., Awaitable[Node]]
Dial = Callable[..., Awaitable[Client]]
Join = Callable[..., Awaitable[Node]]

SASL = "SASL_PLAINTEXT"
WITH_SASL = f"{ANY_PORTS},{SASL}://127.0.0.1:0"
PLAIN_USERS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="x" user_alice="secret" user_bob="another";'
)
ALL = {
    "listeners": WITH_SASL,
    "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "plain_sasl_jaas_config": PLAIN_USERS,
    "oauthbearer_sasl_jaas_config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
    "connection_failed_authentication_delay_ms": 1,
}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SOCKETS = "kafka_server_socket_server_metrics_"
REFUSED = {
    "PLAIN": "Authentication failed: Invalid username or password",
    **{
        name: f"Authentication failed during authentication due to invalid credentials with SASL mechanism {name}"
        for name in BY_NAME
    },
}


@pytest.fixture
async def start_secure(start_node: StartNode) -> StartNode:
    """A node at which alice may log in by each mechanism, with the password "secret"."""

    async def start(**settings: object) -> Node:
        node = await start_node(**ALL | settings)
        await create_topic(node, "t")
        async with Admin(servers(node, "CLIENT")) as admin:
            for name in BY_NAME:
                await admin.alter_user_scram_credentials([ScramUpsertion("alice", "secret", name, 4096)])
        return node

    return start


def servers(node: Node, listener: str = SASL) -> str:
    return f"127.0.0.1:{listener_of(node, listener).endpoint.port}"


def security(mechanism: str, password: str = "secret", user: str = "alice") -> Security:
    return Security(security_protocol=SASL, sasl_mechanism=mechanism, sasl_username=user, sasl_password=password)


def users_at(node: Node) -> list[str]:
    return [connection.user for connection in listener_of(node, SASL)._connections]


async def refusal(node: Node, how: Security, listener: str = SASL) -> KafkaError:
    """What our client says when it does not get in."""
    with pytest.raises(KafkaError) as raised:
        async with Admin(servers(node, listener), security=how):
            pass
    return raised.value


def token(user: str, lifetime_s: float = 600) -> str:
    return unsecured_token({"sub": user, "iat": time() - 1, "exp": time() + lifetime_s})


# -- with clients ---------------------------------------------------------------------------------------------------


async def test_our_client_logs_in_by_each_mechanism(start_secure: StartNode) -> None:
    node = await start_secure()
    for number, mechanism in enumerate(MECHANISMS):
        async with Producer(servers(node), security=security(mechanism)) as producer:
            await producer.send_and_wait("t", bytes([number]))
            assert set(users_at(node)) == {"alice"}
    how = Security(security_protocol=SASL, sasl_mechanism="OAUTHBEARER", sasl_oauth_token=lambda: token("carol"))
    async with Consumer(servers(node), "t", auto_offset_reset="earliest", security=how) as consumer:
        records = aiter(consumer)
        assert [(await anext(records)).value for _ in MECHANISMS] == [b"\x00", b"\x01", b"\x02"]
        assert set(users_at(node)) == {"carol"}


async def test_our_client_takes_the_options_of_javas(start_secure: StartNode) -> None:
    node = await start_secure()
    login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="secret";'
    how = Security(security_protocol=SASL, sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=login)
    async with Admin(servers(node), security=how) as admin:
        assert await admin.describe_user_scram_credentials() == {"alice": dict.fromkeys(BY_NAME, 4096)}
    unsigned = f'{OAUTHBEARER_MODULE} required unsecuredLoginStringClaim_sub="carol";'
    how = Security(security_protocol=SASL, sasl_mechanism="OAUTHBEARER", sasl_jaas_config=unsigned)
    async with Admin(servers(node), security=how) as admin:
        assert await admin.describe_cluster()
        assert set(users_at(node)) == {"carol"}


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_wrong_password_and_an_unknown_user_are_told_the_same(start_secure: StartNode, mechanism: str) -> None:
    node = await start_secure()
    with capture_logs() as logs:
        for how in (security(mechanism, "wrong"), security(mechanism, user="nobody"), security(mechanism, "SECRET")):
            error = await refusal(node, how)
            assert error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
            assert error.message == REFUSED[mechanism]
        await eventually(lambda: users_at(node) == [], "the connections to be closed")
    assert node.listeners.logins[SASL] == Logins(refused=3)
    assert not any(word in str(logs) for word in ("secret", "SECRET", "wrong", "nobody"))
    assert any(each.get("why") == f"SASL: {REFUSED[mechanism]}" for each in logs)


async def test_who_takes_a_listener_for_another_is_told(start_secure: StartNode) -> None:
    node = await start_secure(sasl_enabled_mechanisms="SCRAM-SHA-512")
    assert "offers SCRAM-SHA-512" in (await refusal(node, security("PLAIN"))).message
    assert "security.protocol" in (await refusal(node, security("PLAIN"), "CLIENT")).message
    with capture_logs() as logs, pytest.MonkeyPatch.context() as patch:
        patch.setattr("minikafka.client.connections.BOOTSTRAP_TIMEOUT_S", 0.0)
        said = (await refusal(node, Security())).message
        assert said.endswith("the connection ended; does this listener ask who one is (security.protocol)?")
        assert node.listeners.logins[SASL].refused >= 2
        assert any("security.protocol" in str(each.get("why")) for each in logs)


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_librdkafka(start_secure: StartNode, mechanism: str) -> None:
    node = await start_secure()

    def produce(user: str, password: str) -> list[ConfluentError]:
        errors: list[ConfluentError] = []
        producer = ConfluentProducer(
            {
                "bootstrap.servers": servers(node),
                "security.protocol": "sasl_plaintext",
                "sasl.mechanism": mechanism,
                "sasl.username": user,
                "sasl.password": password,
                "message.timeout.ms": 60_000,
                "error_cb": errors.append,
            }
        )
        producer.produce("t", b"x")
        while len(producer) and not any(error.code() == ConfluentError._AUTHENTICATION for error in errors):
            producer.poll(0.1)
        producer.purge()
        producer.flush()
        return errors

    assert await asyncio.to_thread(produce, "alice", "secret") == []
    for wrong in (("alice", "wrong"), ("nobody", "secret")):
        (refused, *_) = [error.str() for error in await asyncio.to_thread(produce, *wrong) if "SASL" in error.str()]
        assert REFUSED[mechanism] in refused


class Tokens(AbstractTokenProvider):  # type: ignore[misc, unused-ignore]
    async def token(self) -> str:
        return token("dave")


async def test_aiokafka(start_secure: StartNode) -> None:
    node = await start_secure()

    async def produce(**how: Any) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=servers(node), security_protocol=SASL, **how)
        try:
            await producer.start()
            await producer.send_and_wait("t", b"x")
            assert set(users_at(node)) == {"dave" if "sasl_oauth_token_provider" in how else "alice"}
        finally:
            await producer.stop()

    for mechanism in MECHANISMS:
        login = {"sasl_mechanism": mechanism, "sasl_plain_username": "alice"}
        await produce(**login, sasl_plain_password="secret")
        with pytest.raises(AiokafkaError):
            await produce(**login, sasl_plain_password="wrong")
    await produce(sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=Tokens())


async def test_kafka_python(start_secure: StartNode) -> None:
    node = await start_secure()

    def produce(mechanism: str) -> int:
        producer = KafkaProducer(
            bootstrap_servers=servers(node),
            security_protocol=SASL,
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password="secret",
        )
        offset: int = producer.send("t", b"x").get(30).offset
        producer.close()
        return offset

    assert [await asyncio.to_thread(produce, mechanism) for mechanism in MECHANISMS] == [0, 1, 2]


async def test_a_user_that_was_removed_does_not_get_in_any_more(start_secure: StartNode) -> None:
    node = await start_secure()
    async with Admin(servers(node), security=security("SCRAM-SHA-256")) as admin:
        await admin.alter_user_scram_credentials([ScramDeletion("alice", "SCRAM-SHA-256")])
        assert (await refusal(node, security("SCRAM-SHA-256"))).code is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await admin.describe_user_scram_credentials() == {"alice": {"SCRAM-SHA-512": 4096}}
        with pytest.raises(KafkaError, match="does not exist"):
            await admin.describe_user_scram_credentials(["nobody"])


async def test_a_login_within_tls(start_secure: StartNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who logs in is not asked for a certificate, as at Apache Kafka, but where a listener wants both (KIP-684)."""
    monkeypatch.setattr("minikafka.client.connections.BOOTSTRAP_TIMEOUT_S", 0.0)
    files = Files(tmp_path)
    node = await start_secure(
        listeners=f"{WITH_SASL},SASL_SSL://127.0.0.1:0,BOTH://127.0.0.1:0",
        listener_security_protocol_map="BOTH:SASL_SSL",
        ssl_keystore_location=files.node,
        ssl_truststore_location=files.authority,
        ssl_client_auth="required",
        **{
            "listener.name.sasl_ssl.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.both.ssl.client.auth": "required",
        },
    )
    login = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "alice", "sasl_password": "secret"}
    how = Security(security_protocol="SASL_SSL", ssl_truststore_location=files.authority, **login)
    async with Admin(servers(node, "SASL_SSL"), security=how) as admin:
        assert [each.user for each in listener_of(node, "SASL_SSL")._connections] == ["alice"]
        assert await admin.describe_cluster()
    plain = await refusal(node, replace(how, sasl_mechanism="PLAIN"), "SASL_SSL")
    assert "it offers SCRAM-SHA-512" in plain.message
    both = replace(how, ssl_keystore_location=files.client)
    async with Admin(servers(node, "BOTH"), security=both) as admin:
        assert [each.user for each in listener_of(node, "BOTH")._connections] == ["alice"]
        assert await admin.describe_cluster()
    await refusal(node, replace(both, sasl_password="wrong"), "BOTH")
    await refusal(node, how, "BOTH")


async def test_a_connection_that_ended_is_freed_at_once(
    start_secure: StartNode, dial: Dial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node hardly ever collects garbage: strangers who come and go would fill its memory."""
    files = Files(tmp_path)
    node = await start_secure(listeners=f"{WITH_SASL},SASL_SSL://127.0.0.1:0", ssl_keystore_location=files.node)
    left: list[weakref.ref[Connection]] = []
    make = Connection.connection_made

    def note(connection: Connection, transport: asyncio.BaseTransport) -> None:
        left.append(weakref.ref(connection))
        make(connection, transport)

    monkeypatch.setattr(Connection, "connection_made", note)
    gc.disable()
    try:
        stranger, user, refused = [await dial(node, SASL) for _ in range(3)]
        await stranger.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        await log_in(user)
        await refused.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert (await refused.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)).error_code
        context = ssl.create_default_context(cafile=files.authority)
        _, writer = await asyncio.open_connection(*servers(node, "SASL_SSL").split(":"), ssl=context)
        await eventually(lambda: len(left) == 4, "the connections")
        for client in (stranger, user, writer):
            client.close()
        await eventually(lambda: not any(each() for each in left), "them to be freed")
    finally:
        gc.enable()


async def test_quotas_hold_for_the_user_who_logs_in(start_secure: StartNode, dial: Dial) -> None:
    node = await start_secure()
    async with Admin(servers(node, "CLIENT")) as admin:
        quotas = {"producer_byte_rate": 1_000.0, "controller_mutation_rate": 0.1}
        await admin.alter_quotas(QuotaEntity(user="alice", has_user=True), quotas)
    throttled = {}
    for user in ("alice", "bob"):
        client = await dial(node, SASL)
        await log_in(client, user)
        answer = await client.ask(produce_request("t", batch(bytes(4_000))))
        throttled[user] = answer.throttle_time_ms
        other = await dial(node, SASL)
        await log_in(other, user)
        codes = []
        for name in (f"{user}-1", f"{user}-2"):
            topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
            answer = await other.ask(CreateTopicsRequest(topics=topics), 6)
            codes.append(answer.topics[0].error_code)
        assert codes == ([0, ErrorCode.THROTTLING_QUOTA_EXCEEDED] if user == "alice" else [0, 0])
    assert throttled["alice"] > 1_000
    assert throttled["bob"] == 0


async def test_a_login_is_charged_to_nobody(start_secure: StartNode, dial: Dial) -> None:
    """A stranger with the client id of others would use up what these may take of a node's time."""
    node = await start_secure()
    async with Admin(servers(node, "CLIENT")) as admin:
        await admin.alter_quotas(QuotaEntity(client_id="shop", has_client_id=True), {"request_percentage": 0.001})
    stranger, user = [await dial(node, SASL) for _ in range(2)]
    stranger.client_id = user.client_id = "shop"
    await stranger.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    await stranger.ask(SaslAuthenticateRequest(auth_bytes=b"n,,n=nobody,r=nonce"), 2)
    await log_in(user)
    first, second = [(await user.ask(DescribeClusterRequest())).throttle_time_ms for _ in range(2)]
    assert first == 0
    assert second > 0, "the first took more than ten microseconds"


async def test_users_are_the_same_at_each_node(start_secure: StartNode, join: Join, dial: Dial) -> None:
    node = await start_secure()
    other = await join(node, **ALL)
    nodes = (node, other)
    carol = security("SCRAM-SHA-256", user="carol")
    async with Admin(servers(other, "CLIENT")) as admin:
        await admin.alter_user_scram_credentials([ScramUpsertion("carol", "secret", "SCRAM-SHA-256", 4096)])
        await eventually(lambda: all("carol" in each.image.scram_credentials for each in nodes), "all to know her")
        for where in nodes:
            async with Admin(servers(where), security=carol):
                assert users_at(where) == ["carol"]
        await admin.alter_user_scram_credentials([ScramDeletion("carol", "SCRAM-SHA-256")])
        await eventually(lambda: not any("carol" in each.image.scram_credentials for each in nodes), "all to forget")
        for where in nodes:
            assert (await refusal(where, carol)).code is ErrorCode.SASL_AUTHENTICATION_FAILED
    salts = {}
    for where in (*nodes, node):
        stranger = await dial(where, SASL)
        await stranger.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        answer = await stranger.ask(SaslAuthenticateRequest(auth_bytes=b"n,,n=carol,r=x"))
        _, salt, iterations = bytes(answer.auth_bytes).split(b",")
        salts[salt] = iterations
    assert list(salts.values()) == [b"i=4096"], "who is not there looks the same at each node, and like the others"


# -- sessions (KIP-368) -----------------------------------------------------------------------------------------------


async def log_in(client: Client, user: str = "alice", version: int = 2) -> SaslAuthenticateResponse:
    await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    password = {"alice": b"secret", "bob": b"another"}[user]
    return await client.ask(SaslAuthenticateRequest(auth_bytes=b"\0%s\0%s" % (user.encode(), password)), version)


async def test_a_session_ends_and_can_be_renewed_by_the_same_user_only(start_secure: StartNode, dial: Dial) -> None:
    node = await start_secure(connections_max_reauth_ms=60_000, **LISTENS)
    for user, is_renewed in (("alice", True), ("bob", False)):
        client = await dial(node, SASL)
        assert (await log_in(client)).session_lifetime_ms == 60_000
        assert (await client.ask(MetadataRequest())).brokers
        answer = await log_in(client, user)
        if is_renewed:
            assert answer.session_lifetime_ms == 60_000
            assert (await client.ask(MetadataRequest())).brokers
        else:
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert answer.error_message == (
                "Cannot change principals during re-authentication from User:alice: User:bob"
            )
            await client.wait_closed()
    families = await scrape(node)
    counts = {"successful": (2, 1), "failed": (0, 1)}
    for listener, factor in ((SASL, 1), ("CLIENT", 0)):
        for outcome, expected in counts.items():
            names = [f"{SOCKETS}{outcome}_{what}_total" for what in ("authentication", "reauthentication")]
            assert [value(families, name, listener=listener) for name in names] == [each * factor for each in expected]


async def test_who_does_not_renew_a_session_is_closed_at_the_next_request(start_secure: StartNode, dial: Dial) -> None:
    node = await start_secure(connections_max_reauth_ms=1)
    with capture_logs() as logs:
        client = await dial(node, SASL)
        assert (await log_in(client)).session_lifetime_ms == 1
        await asyncio.sleep(0.01)
        with pytest.raises(ChannelClosedError):
            await client.ask(MetadataRequest())
    assert any("connections.max.reauth.ms" in str(each.get("why")) for each in logs)
    late = await dial(node, SASL)
    await log_in(late)
    await asyncio.sleep(0.01)
    assert (await log_in(late)).error_code == ErrorCode.NONE, "late, but not too late"


async def test_a_session_ends_with_its_token(start_secure: StartNode, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, passed_s = time(), 0.0
    loop = asyncio.get_running_loop()
    monkeypatch.setattr("minikafka.client.broker_connection._now_s", lambda: loop.time() + passed_s)
    node = await start_secure(connections_max_reauth_ms=600_000, wall_s=lambda: now_s)
    short, long = (unsecured_token({"sub": "carol", "exp": now_s + lifetime_s}) for lifetime_s in (60, 600))
    given: list[str] = []

    def next_token() -> str:
        given.append(long if given else short)
        return given[-1]

    how = Security(security_protocol=SASL, sasl_mechanism="OAUTHBEARER", sasl_oauth_token=next_token)
    async with Admin(servers(node), security=how) as admin:
        accepted = listener_of(node, SASL).accepted
        assert await admin.describe_cluster()
        assert given == [short]
        passed_s = 55.0
        assert await admin.describe_cluster()
        assert given == [short, long]
        assert listener_of(node, SASL).accepted == accepted, "it was renewed"


# -- strangers --------------------------------------------------------------------------------------------------------


async def test_a_stranger_may_ask_for_versions_and_log_in_and_nothing_else(start_secure: StartNode, dial: Dial) -> None:
    node = await start_secure()
    client = await dial(node, SASL)
    versions = await client.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"))
    assert {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} <= {row.api_key for row in versions.api_keys}
    with pytest.raises(ChannelClosedError):
        await client.ask(MetadataRequest())


async def test_messages_out_of_order(start_secure: StartNode, dial: Dial) -> None:
    node = await start_secure()
    early = await dial(node, SASL)
    answer = await early.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"))
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    await early.wait_closed()
    twice = await dial(node, SASL)
    assert (await twice.ask(SaslHandshakeRequest(mechanism="PLAIN"))).error_code == 0
    assert (await twice.ask(SaslHandshakeRequest(mechanism="PLAIN"))).error_code == ErrorCode.ILLEGAL_SASL_STATE
    await twice.wait_closed()
    between = await dial(node, SASL)
    await between.ask(SaslHandshakeRequest(mechanism="PLAIN"))
    with pytest.raises(ChannelClosedError):
        await between.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"))
    late = await dial(node, SASL)
    await log_in(late)
    for request in (SaslHandshakeRequest(mechanism="PLAIN"), SaslAuthenticateRequest(auth_bytes=b"\0bob\0another")):
        assert (await late.ask(request)).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert (await late.ask(MetadataRequest())).brokers, "it is in, and stays so"


async def test_elsewhere_nobody_is_asked(start_secure: StartNode, dial: Dial) -> None:
    client = await dial(await start_secure())
    for request in (SaslHandshakeRequest(mechanism="PLAIN"), SaslAuthenticateRequest(auth_bytes=b"x")):
        assert (await client.ask(request)).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert (await client.ask(MetadataRequest())).brokers


async def test_a_mechanism_that_is_not_offered(start_secure: StartNode, dial: Dial) -> None:
    client = await dial(await start_secure(sasl_enabled_mechanisms="SCRAM-SHA-256,PLAIN"), SASL)
    answer = await client.ask(SaslHandshakeRequest(mechanism="GSSAPI"))
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["SCRAM-SHA-256", "PLAIN"])
    await client.wait_closed()


async def test_large_frames_are_for_users(start_secure: StartNode, dial: Dial) -> None:
    node = await start_secure(connections_max_reauth_ms=60_000)
    stranger, user = await dial(node, SASL), await dial(node, SASL)
    for _ in ("logs in", "logs in again"):
        await log_in(user)
        await user.produce("t", bytes(100_000))
    late = await dial(node, SASL)
    await log_in(late)
    for client in (stranger, late):
        await client.ask(SaslHandshakeRequest(mechanism="PLAIN"))
        with pytest.raises(ChannelClosedError):
            await client.ask(SaslAuthenticateRequest(auth_bytes=bytes(70_000)))


async def test_who_fails_waits(start_secure: StartNode, dial: Dial) -> None:
    node = await start_secure(connection_failed_authentication_delay_ms=50)
    client = await dial(node, SASL)
    await client.ask(SaslHandshakeRequest(mechanism="PLAIN"))
    began_s = asyncio.get_running_loop().time()
    answer = await client.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"))
    assert asyncio.get_running_loop().time() - began_s >= 0.049
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    await client.wait_closed()


async def test_strangers_keep_no_user_out(start_secure: StartNode, dial: Dial) -> None:
    node = await start_secure(max_connections=20)
    listener = listener_of(node, SASL)
    users = [await dial(node, SASL) for _ in range(3)]
    for user in users:
        await log_in(user)
    strangers = [await dial(node, SASL) for _ in range(30)]
    late = await dial(node, SASL)
    await log_in(late)
    await strangers[0].wait_closed()
    assert listener.connection_count <= 10, "two listeners have equal shares"
    for user in (*users, late):
        assert (await user.ask(MetadataRequest())).brokers


async def test_who_does_not_log_in_is_closed(start_secure: StartNode, monkeypatch: pytest.MonkeyPatch) -> None:
    node = await start_secure()
    monkeypatch.setattr(authentication, "LOGIN_MAX_MS", 5)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener_of(node, SASL).endpoint.port)
    assert await reader.read() == b""
    writer.close()


async def test_tokens_without_requests_around_them(start_secure: StartNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """After version 0 of SaslHandshake, as clients of Kafka 0.10 speak."""
    node = await start_secure()
    spent: list[int] = []
    monkeypatch.setattr(Connection, "spend", lambda _connection, cost: spent.append(cost))
    name = "SCRAM-SHA-256"
    for password, is_let_in in (("secret", True), ("wrong", False)):
        reader, writer = await asyncio.open_connection("127.0.0.1", listener_of(node, SASL).endpoint.port)

        async def ask(frame: bytes) -> bytes:
            writer.write(len(frame).to_bytes(4) + frame)  # noqa: B023
            return await reader.readexactly(int.from_bytes(await reader.readexactly(4)))  # noqa: B023

        handshake = encode(SaslHandshakeRequest(mechanism=name), 0)
        shaken = await ask(encode_request(ApiKey.SASL_HANDSHAKE, 0, 7, "c", handshake)[4:])
        assert decode_exactly(SaslHandshakeResponse, 0, shaken[4:]).error_code == 0
        exchange = ScramClient(BY_NAME[name], "alice", SaltedPasswords(password), "nonce")
        token: bytes | None = exchange.first()
        try:
            while token is not None:
                token = exchange.receive(await ask(token))
        except asyncio.IncompleteReadError:
            assert not is_let_in
        assert (users_at(node) == ["alice"]) is is_let_in
        writer.close()
    assert sum(cost > PLAIN_COST for cost in spent) == 6, "each costs its turn what a request does"
