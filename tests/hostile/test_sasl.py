"""Strangers at a listener that asks who they are: before the exchange, in it, and with what they overheard."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import mean, median, stdev
from typing import Final

import pytest
from hostile_requests import LARGEST
from live_attack import MIB, Target, create_honest_topic, is_long, quiet_p99_s, unharmed
from live_cluster import PATIENCE_S, assert_no_complaints, free_base_port
from live_wire import ClosedError, Wire, api_key
from test_mutations import DECODED, SEED, SENT, mutated

from minikafka.chaos.layout import CONTROLLER_PORT_OFFSET, REPLICATION_PORT_OFFSET
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.errors import ErrorCode, KafkaError
from minikafka.sasl.exchange import ClientExchange, ServerExchange
from minikafka.sasl.jwt import Demands, unsecured_claims, unsecured_token
from minikafka.sasl.oauthbearer import OAuthBearerClient, OAuthBearerServer
from minikafka.sasl.plain import PlainClient, PlainServer
from minikafka.sasl.scram import BY_NAME, SALT_SIZE, ScramMechanism, credential_of, salted_password
from minikafka.sasl.scram_client import SaltedPasswords, ScramClient
from minikafka.sasl.scram_server import Decoys, ScramServer
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import encode
from minikafka.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from minikafka.wire.messages.metadata import MetadataRequest
from minikafka.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from minikafka.wire.messages.sasl_handshake import SaslHandshakeRequest

pytestmark = pytest.mark.spec("P6")

HOST: Final = "127.0.0.1"
PASSWORD: Final = "correct horse battery staple"
SALT: Final = b"s" * SALT_SIZE
SHA_256, SHA_512 = ScramMechanism
FAILED: Final = ErrorCode.SASL_AUTHENTICATION_FAILED
LEFT: Final = 10_000 if is_long() else 200
HOLDING: Final = 500
BLOCKS: Final = 20
OF_BLOCK: Final = 100
"""Attempts of each user, in a block."""
MAY_ASK: Final = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One node with a listener that asks, beside one that does not; alice may log in."""
    port = free_base_port(1)
    named = {
        "CLIENT": port,
        "SASL_PLAINTEXT": port + 1,
        "REPLICATION": port + REPLICATION_PORT_OFFSET,
        "CONTROLLER": port + CONTROLLER_PORT_OFFSET,
    }
    settings = {
        "listeners": ",".join(f"{name}://{HOST}:{number}" for name, number in named.items()),
        "connection.failed.authentication.delay.ms": "0",
        # Its port may have been that of another test's node, whose client may still ask for a topic.
        "auto.create.topics.enable": "false",
    }
    directory = tmp_path_factory.mktemp("guarded") / "cluster"
    cluster = LocalCluster.create(directory, brokers=1, base_port=port, settings=settings, detached=False)
    try:
        cluster.start(PATIENCE_S)
        create_honest_topic(cluster)
        with Wire(port) as wire:
            for mechanism in ScramMechanism:
                salted = salted_password(mechanism, PASSWORD, SALT, 4096)
                alice = ScramCredentialUpsertion(
                    name="alice", mechanism=mechanism, iterations=4096, salt=SALT, salted_password=salted
                )
                answer = wire.ask(AlterUserScramCredentialsRequest(upsertions=[alice]), 0)
                assert [each.error_code for each in answer.results] == [0]
        yield cluster
    finally:
        cluster.kill_all()
    assert_no_complaints(cluster)


@pytest.fixture(scope="module")
def guarded_quiet_s(guarded: LocalCluster) -> float:
    """How long the honest producer waits while nobody attacks."""
    return quiet_p99_s(guarded)


@pytest.fixture
def target(guarded: LocalCluster, guarded_quiet_s: float) -> Iterator[Target]:
    """The node, unharmed afterwards, and without the password in its log."""
    target = Target(guarded)
    with unharmed(guarded, guarded_quiet_s):
        yield target
    assert PASSWORD not in target.log()


class Stranger(Wire):
    """A connection to the listener that asks."""

    def __init__(self, target: Target) -> None:
        super().__init__(target.port + 1)

    def begin(self, mechanism: str = "SCRAM-SHA-256", version: int = 1) -> None:
        assert self.ask(SaslHandshakeRequest(mechanism=mechanism), version).error_code == 0

    def say(self, token: bytes) -> SaslAuthenticateResponse:
        answer: SaslAuthenticateResponse = self.ask(SaslAuthenticateRequest(auth_bytes=token), 2)
        return answer

    def log_in(self, password: str = PASSWORD, nonce: str = "nonce") -> list[bytes]:
        """All that is said."""
        self.begin()
        client = ScramClient(SHA_256, "alice", SaltedPasswords(password), nonce)
        said: list[bytes] = []
        token: bytes | None = client.first()
        while token is not None:
            answer = self.say(token)
            assert answer.error_code == 0, answer.error_message
            said += (token, bytes(answer.auth_bytes))
            token = client.receive(said[-1])
        return said

    def is_in(self) -> bool:
        try:
            return bool(self.ask(MetadataRequest(topics=[]), 9).brokers)
        except ClosedError:
            return False


def seen(target: Target) -> list[object]:
    """What the cluster knows, and the files that it has, but not those that the honest producer fills."""
    directory = target.cluster.layout.data_directory(1)
    names = sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_dir())
    with target.wire() as wire:
        metadata = wire.ask(MetadataRequest(topics=None), 9)
    return [names, sorted(topic.name for topic in metadata.topics), _metadata_log(directory)]


def _metadata_log(directory: Path) -> list[tuple[str, int]]:
    return sorted((path.name, path.stat().st_size) for path in directory.glob("__cluster_metadata-0/*.log"))


@pytest.mark.parametrize("state", ["fresh", "in an exchange", "half-way"])
def test_no_api_is_served_before_the_proof(target: Target, state: str) -> None:
    before = seen(target)
    requests = [(make(), version) for make, version in LARGEST.values()]
    known = {int(api_key(request)) for request, _ in requests}
    bare = [(key, key.versions.last) for key in ApiKey if key not in MAY_ASK | known]
    for key, version, body in [
        *((api_key(request), version, request) for request, version in requests if api_key(request) not in MAY_ASK),
        *((key, version, bytes(40)) for key, version in bare),
    ]:
        with Stranger(target) as stranger:
            if state != "fresh":
                stranger.begin()
            if state == "half-way":
                assert stranger.say(b"n,,n=alice,r=x").error_code == 0
            with suppress(ClosedError):
                stranger.send_body(key, version, body if isinstance(body, bytes) else encode(body, version))
            assert stranger.is_closed_by_node()
    for number in (92, 999, 32767, -1):
        with Stranger(target) as stranger:
            stranger.send_frame(number.to_bytes(2, signed=True) + bytes(40))
            assert stranger.is_closed_by_node()
    assert seen(target) == before


def test_what_was_overheard_is_worth_nothing(target: Target) -> None:
    with Stranger(target) as honest:
        said = honest.log_in()
        assert honest.is_in()
    first, challenge, proof, _ = said
    with Stranger(target) as replaying:  # the same messages again
        replaying.begin()
        assert replaying.say(first).auth_bytes != challenge
        assert replaying.say(proof).error_code == FAILED
        assert not replaying.is_in()
    with Stranger(target) as one, Stranger(target) as other:  # the proof of one connection on another
        for each in (one, other):
            each.begin()
        client = ScramClient(SHA_256, "alice", SaltedPasswords(PASSWORD), "spliced")
        token = client.receive(bytes(one.say(client.first()).auth_bytes))
        assert token is not None
        other.say(client.first())
        assert other.say(token).error_code == FAILED
        assert one.say(token).error_code == 0
        assert (one.is_in(), other.is_in()) == (True, False)
    with Stranger(target) as downgrading:  # the proof of one mechanism for another
        downgrading.begin("SCRAM-SHA-512")
        downgrading.say(first)
        assert downgrading.say(proof).error_code == FAILED


def test_what_is_no_login_is_told_so(target: Target) -> None:
    with Stranger(target) as stranger:
        answer = stranger.ask(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert {each.mechanism_name for each in ScramMechanism} <= set(answer.mechanisms)
        assert stranger.is_closed_by_node()
    with Stranger(target) as stranger:
        assert stranger.say(b"n,,n=alice,r=x").error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert stranger.is_closed_by_node()


def test_who_fails_does_not_learn_whether_the_user_exists(target: Target) -> None:
    changes: dict[str, Callable[[bytes], bytes]] = {
        "nothing": lambda last: last,
        "another nonce": lambda last: last.replace(b",r=", b",r=x"),
        "no proof": lambda last: last[: last.index(b",p=")],
        "an empty proof": lambda last: last[: last.index(b",p=") + 3],
        "a proof of zeros": lambda last: last[: last.index(b",p=") + 3] + b"A" * 43 + b"=",
    }
    for what, change in changes.items():
        told = set()
        for user in ("alice", "nobody"):
            with Stranger(target) as stranger:
                stranger.begin()
                client = ScramClient(SHA_256, user, SaltedPasswords("wrong"), "nonce")
                last = client.receive(bytes(stranger.say(client.first()).auth_bytes))
                assert last is not None
                answer = stranger.say(change(last))
                told.add((answer.error_code, answer.error_message, bytes(answer.auth_bytes)))
                assert stranger.is_closed_by_node()
        assert len(told) == 1, what
        assert told.pop()[0] == FAILED


def test_frames_of_strangers_are_small(target: Target) -> None:
    target.forget_peak_memory()
    before = target.peak_memory()
    strangers = [Stranger(target) for _ in range(20)]
    for stranger in strangers:
        stranger.begin()
        stranger.socket.sendall((50 << 20).to_bytes(4) + bytes(1 << 16))
    for stranger in strangers:
        with pytest.raises((ClosedError, ConnectionError)):
            stranger.receive_frame()
        stranger.socket.close()
    assert target.peak_memory() - before < 10 << 20


def test_who_begins_and_leaves_keeps_nobody_out(target: Target) -> None:
    """At the connection, before the exchange or in it; meanwhile many others hold on, and honest ones log in."""
    target.forget_peak_memory()
    before = target.peak_memory()
    holding: deque[Stranger] = deque()
    logins_s: list[float] = []
    for number in range(LEFT):
        stranger = Stranger(target)
        holding.append(stranger)
        if number % 3:
            stranger.send(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)
        if number % 3 == 2:
            stranger.send(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=x"), 2)
        if len(holding) > HOLDING:
            holding.popleft().socket.close()
        if number % (LEFT // 4) == 0:
            began_s = time.monotonic()
            with Stranger(target) as honest:
                honest.log_in()
                assert honest.is_in()
            logins_s.append(time.monotonic() - began_s)
    for stranger in holding:
        stranger.socket.close()
    assert target.peak_memory() - before < 50 * MIB
    assert not is_long() or max(logins_s) < max(10 * logins_s[0], 1), "of the first, nobody was in the way"


@pytest.mark.long
@pytest.mark.parametrize("mechanism", ScramMechanism, ids=lambda each: each.mechanism_name)
def test_an_unknown_user_takes_as_long_as_a_wrong_password(target: Target, mechanism: ScramMechanism) -> None:
    """Medians of attempts by turns. Hashes are counted in tests/unit/sasl: this is for what no count finds."""
    passwords = {user: SaltedPasswords("wrong") for user in ("alice", "nobod")}
    differences_s: list[float] = []
    for _ in range(BLOCKS):
        took_s: dict[str, list[float]] = {user: [] for user in passwords}
        for number in range(2 * OF_BLOCK):
            user = list(passwords)[(number + number // 2) % 2]
            client = ScramClient(mechanism, user, passwords[user], f"n{number:04}")
            with Stranger(target) as stranger:
                stranger.begin(mechanism.mechanism_name)
                took_s[user].append(refused_s(stranger, client))
        known_s, unknown_s = map(median, took_s.values())
        differences_s.append(unknown_s - known_s)
    noise_s = stdev(differences_s) / BLOCKS**0.5
    assert abs(mean(differences_s)) < max(5 * noise_s, 0.01 * known_s), differences_s


def refused_s(stranger: Stranger, client: ScramClient) -> float:
    """How long the node took for both of its answers."""
    first = client.first()
    began_s = time.perf_counter()
    challenge = bytes(stranger.say(first).auth_bytes)
    first_s = time.perf_counter() - began_s
    proof = client.receive(challenge)
    assert proof is not None
    began_s = time.perf_counter()
    assert stranger.say(proof).error_code == FAILED
    return first_s + time.perf_counter() - began_s


def test_mutated_exchanges_through_sockets(target: Target) -> None:
    rng = random.Random(SEED)
    for number in range(SENT):
        with Stranger(target) as stranger:
            stranger.begin(rng.choice(list(BY_NAME)), version=rng.randrange(2))
            client = ScramClient(SHA_256, "alice", SaltedPasswords("wrong"), f"n{number}")
            try:
                answer = stranger.say(mutated(client.first(), rng))
                stranger.say(mutated(b"c=biws,r=%s,p=AAAA" % bytes(answer.auth_bytes)[:20], rng))
                assert not stranger.is_in()
            except (ClosedError, ConnectionError):
                pass


def exchanges() -> list[tuple[ServerExchange, ClientExchange]]:
    """One of each mechanism, in which alice logs in."""
    found: list[tuple[ServerExchange, ClientExchange]] = [
        (PlainServer({"alice": PASSWORD}, b"key"), PlainClient("alice", PASSWORD)),
        (
            OAuthBearerServer(lambda token: Demands().check(unsecured_claims(token), 0)),
            OAuthBearerClient(unsecured_token({"sub": "alice", "exp": 9}), {"a": "b"}),
        ),
    ]
    for mechanism in ScramMechanism:
        server = ScramServer(mechanism, CREDENTIALS[mechanism].get, Decoys(b"secret"), "server")
        found.append((server, ScramClient(mechanism, "alice", PASSWORDS[mechanism], "client")))
    return found


class Salted(SaltedPasswords):
    """Alice's; another user's salt is a decoy, and to salt a password takes longer than a thousand cases."""

    def of(self, mechanism: ScramMechanism, salt: bytes, iterations: int) -> bytes:
        return super().of(mechanism, salt, iterations) if salt == SALT else bytes(mechanism.digest_size)


PASSWORDS: Final = {mechanism: Salted(PASSWORD) for mechanism in ScramMechanism}
CREDENTIALS: Final = {
    mechanism: {"alice": credential_of(mechanism, salted_password(mechanism, PASSWORD, SALT, 4096), SALT, 4096)}
    for mechanism in ScramMechanism
}


def test_mutated_exchanges() -> None:
    """Of each kind, a message is changed: the server refuses it, or it says the same, or names another token's user."""
    rng = random.Random(SEED)
    for number in range(DECODED):
        server, client = exchanges()[number % 4]
        changes = 0
        token: bytes | None = client.first()
        refusal: KafkaError | None = None
        while token is not None and refusal is None:
            changed = mutated(token, rng) if rng.randrange(2) else token
            changes += changed != token
            try:
                token = client.receive(server.receive(changed))
            except KafkaError as error:
                refusal = error
        assert refusal is None or (refusal.code is FAILED and changes)
        assert server.user is None or server.user == "alice" or isinstance(server, OAuthBearerServer)
