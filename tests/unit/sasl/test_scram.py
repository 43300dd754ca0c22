"""SCRAM: the examples of the RFCs, both sides with each other, and whoever tampers."""

from __future__ import annotations

import hmac as hmac_module
from base64 import b64decode
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sasl_exchanges import PASSWORDS, SECRET, SHA_256, SHA_512, converse, credential, scram_client, scram_server

from minikafka.errors import ErrorCode, KafkaError
from minikafka.sasl import scram
from minikafka.sasl.scram import ScramCredential, ScramMechanism, credential_of, name_of, salted_password, saslname
from minikafka.sasl.scram_client import SaltedPasswords, ScramClient
from minikafka.sasl.scram_server import JAVAS, Decoys, ScramServer, Shape, shape_of

USERS = {user: credential(password) for user, password in PASSWORDS.items()}
WRONG = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(KafkaError) as refused:
        act()
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    return refused.value.message


def test_the_example_of_rfc_7677() -> None:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    users = {"user": credential_of(SHA_256, salted_password(SHA_256, "pencil", salt, 4096), salt, 4096)}
    client = scram_client("user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO")
    said = converse(client, scram_server(users, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"))
    assert said == [
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ]


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("user", PASSWORDS)
def test_who_knows_the_password_gets_in(user: str, mechanism: ScramMechanism) -> None:
    server = scram_server({user: credential(PASSWORDS[user], mechanism)}, mechanism)
    assert server.user is None
    converse(scram_client(user, PASSWORDS[user], mechanism), server)
    assert server.user == user


@given(st.text(min_size=1).filter(lambda name: "\0" not in name))
def test_any_name_can_be_written(name: str) -> None:
    assert not set(saslname(name)) & {","}
    assert name_of(saslname(name)) == name


@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_a_wrong_password_and_an_unknown_user_are_told_the_same(user: str) -> None:
    server = scram_server(USERS)
    assert refusal(lambda: converse(scram_client(user, "wrong"), server)) == WRONG
    assert server.user is None
    assert refusal(lambda: server.receive(b"n,,n=alice,r=again")) == WRONG, "it is over"


@pytest.mark.parametrize("now", [{}, {"alice": credential("another")}], ids=["removed", "another password"])
def test_a_user_who_changed_during_an_exchange_gets_in_by_what_is_so_now(now: dict[str, ScramCredential]) -> None:
    """A client may keep its last message back: for half a minute, or for ten when it logs in again."""
    users = {"alice": credential("secret")}
    client, server = scram_client("alice", "secret"), scram_server(users)
    proof = client.receive(server.receive(client.first()))
    assert proof is not None
    users.clear()
    users.update(now)
    assert refusal(lambda: server.receive(proof)) == WRONG
    assert server.user is None


def test_an_unknown_user_takes_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: each HMAC and hash, by the sizes that it works on."""
    counted: list[object] = []

    def counting(key: bytes, message: bytes, digest: str) -> bytes:
        counted.append((len(key), len(message), digest))
        return digest_of(key, message, digest)

    def comparing(left: bytes, right: bytes) -> bool:
        counted.append(("compared", len(left), len(right)))
        return compare(left, right)

    digest_of, compare = hmac_module.digest, hmac_module.compare_digest
    monkeypatch.setattr(hmac_module, "digest", counting)
    monkeypatch.setattr(hmac_module, "compare_digest", comparing)
    work = []
    for user in ("alice", "nobud"):
        server = scram_server(USERS)
        first = server.receive(f"n,,n={user},r=client".encode())
        nonce = scram.ServerFirst.parse(first.decode()).nonce
        proof = scram.base64(b"p" * 32)
        assert refusal(lambda: server.receive(f"c=biws,r={nonce},p={proof}".encode())) == WRONG  # noqa: B023
        work.append(tuple(counted))
        counted.clear()
    assert work[0] == work[1]
    assert len(work[0]) == 4


def test_an_unknown_user_has_the_same_salt_each_time_and_at_each_node() -> None:
    first = Decoys(SECRET).of(SHA_256, "nobody")
    assert tuple(Decoys(SECRET).of(SHA_256, "nobody")) == tuple(first)
    others = {
        Decoys(SECRET).of(SHA_512, "nobody").salt,
        Decoys(SECRET).of(SHA_256, "nobodY").salt,
        Decoys(b"another").of(SHA_256, "nobody").salt,
    }
    assert len(others - {first.salt}) == 3
    assert shape_of(Decoys(SECRET, {SHA_256: [Shape(200, 8192)]}).of(SHA_256, "x")) == (200, 8192)


def test_salts_of_users_that_java_made_have_decoys_of_their_kind() -> None:
    """``new BigInteger(130, random).toString(36)``: such text, in three of five cases of 25 characters."""
    decoys = [Decoys(SECRET, {SHA_256: [Shape(JAVAS)]}).of(SHA_256, f"user-{number}") for number in range(200)]
    assert {shape_of(each) for each in decoys} == {Shape(JAVAS)}
    salts = [each.salt for each in decoys]
    assert all(int(salt, 36) < 2**130 for salt in salts)
    assert 90 < sum(len(salt) == 25 for salt in salts) < 150
    assert len(set(salts)) == 200
    assert shape_of(Decoys(SECRET).of(SHA_256, "nobody")) == Shape(32, 4096)


def test_nobody_gets_in_with_the_keys_of_a_decoy() -> None:
    """Whoever guessed the cluster's secret would know them: that is not enough."""
    decoy = Decoys(SECRET).of(SHA_256, "nobody")
    server = scram_server({})
    server.receive(b"n,,n=nobody,r=client")
    assert (
        refusal(lambda: server.receive(b"c=biws,r=clientserver,p=" + scram.base64(decoy.stored_key).encode())) == WRONG
    )


def test_a_replayed_proof_is_worth_nothing() -> None:
    said = converse(scram_client("alice", "secret"), scram_server(USERS))
    again = scram_server(USERS, nonce="another")
    again.receive(said[0])
    assert refusal(lambda: again.receive(said[2])) == WRONG


@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_a_client_that_repeats_its_nonce_is_told(user: str) -> None:
    """librdkafka before 2.6.1. What is said does not depend on the user, nor on the password."""
    server = scram_server(USERS)
    server.receive(f"n,,n={user},r=client".encode())
    proof = scram.base64(b"p" * 32)
    said = refusal(lambda: server.receive(f"c=biws,r=clientclientserver,p={proof}".encode()))
    assert said.startswith(WRONG + ": the client repeats its nonce")
    assert "2.6.1" in said


def test_a_proof_is_worth_nothing_for_another_user() -> None:
    said = converse(scram_client("alice", "secret"), scram_server(USERS))
    other = scram_server(USERS)
    other.receive(said[0].replace(b"alice", b"=C3=9Cmit").replace(b"=C3=9C", "Ü".encode()))
    assert refusal(lambda: other.receive(said[2])) == WRONG


@pytest.mark.parametrize(
    ("first", "final"),
    [
        (b"p=tls-unique,,n=alice,r=c", None),  # channel binding
        (b"n,,m=ext,n=alice,r=c", None),
        (b"n,,n=,r=c", None),
        (b"n,,n=al=20ice,r=c", None),
        (b"n,,n=alice,r=", None),
        (b"n,,n=alice,r=" + b"c" * 513, None),
        (b"n,,n=alice", None),
        (b"\xff\xfe", None),
        (b"", None),
        (b"n,,n=alice,r=c", b"c=biws,r=cserver"),
        (b"n,,n=alice,r=c", b"c=biws,r=cserver,p=AAAA"),
        (b"n,,n=alice,r=c", b"c=biws,r=cserver,p=not base64"),
        (b"n,,n=alice,r=c", b"c=bi=s,r=cserver,p=AAAA"),
    ],
)
def test_malformed_messages_are_refused(first: bytes, final: bytes | None) -> None:
    server = scram_server(USERS)
    if final is not None:
        server.receive(first)
    said = refusal(lambda: server.receive(first if final is None else final))
    assert said == "Authentication failed: malformed SCRAM-SHA-256 message"


@pytest.mark.parametrize("binding", ["eSws", "bixhPWJvYiw=", ""])
def test_the_header_is_signed(binding: str) -> None:
    """Somebody in between who took the wish for channel binding away would be noticed."""
    server = scram_server(USERS)
    server.receive(b"n,,n=alice,r=c")
    final = f"c={binding},r=cserver,p={scram.base64(bytes(32))}".encode()
    assert refusal(lambda: server.receive(final)) == WRONG


def test_nobody_acts_for_another() -> None:
    server = scram_server(USERS)
    answer = server.receive(b"n,a=root,n=alice,r=client").decode()
    salted = salted_password(SHA_256, "secret", USERS["alice"].salt, 4096)
    bare = f"c={scram.base64(b'n,a=root,')},r=clientserver"
    signed = scram.auth_message("n=alice,r=client", answer, bare)
    proof = scram.xor(scram.client_key(SHA_256, salted), SHA_256.hmac(USERS["alice"].stored_key, signed))
    final = f"{bare},p={scram.base64(proof)}".encode()
    assert "requested an authorization id" in refusal(lambda: server.receive(final))
    assert server.user is None


def test_a_delegation_token_is_no_user() -> None:
    server = scram_server(USERS)
    first = server.receive(b"n,,n=alice,r=client,tokenauth=true")
    assert scram.base64(USERS["alice"].salt).encode() not in first


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"r=client,s=AAAA,i=4096", "nonce"),
        (b"r=other,s=AAAA,i=4096", "nonce"),
        (b"r=clientserver,s=AAAA,i=4095", "4095 iterations"),
        (b"r=clientserver,s=AAAA,i=100001", "100001 iterations"),
        (b"r=clientserver,s=AAAA,i=999999999999", "not a SCRAM message"),
        (b"e=unknown-user", "not a SCRAM message"),
        (b"", "not a SCRAM message"),
    ],
)
def test_a_client_does_not_trust_a_server(said: bytes, why: str) -> None:
    assert why in refusal(lambda: scram_client("alice", "secret").receive(said))


@pytest.mark.parametrize(("last", "why"), [(b"v=AAAA", "signature"), (b"e=other-error", "other-error"), (b"v=", "")])
def test_a_server_proves_itself_too(last: bytes, why: str) -> None:
    server, client = scram_server(USERS), scram_client("alice", "secret")
    assert client.receive(server.receive(client.first())) is not None
    assert why in refusal(lambda: client.receive(last))


def test_a_password_is_salted_once_for_all_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    passwords = SaltedPasswords("secret")
    for nonce in ("first", "second"):
        converse(ScramClient(SHA_256, "alice", passwords, nonce), scram_server(USERS))
        monkeypatch.setattr("minikafka.sasl.scram_client.salted_password", None)


def test_no_text_shows_a_key() -> None:
    assert repr(USERS["alice"]) == "ScramCredential(hidden)"
    assert "secret" not in repr(Decoys(b"secret"))


@settings(max_examples=4 * settings.default.max_examples)
@given(st.data())
def test_a_proof_that_was_changed_lets_nobody_in(data: st.DataObject) -> None:
    server, client = scram_server(USERS), scram_client("alice", "secret")
    final = client.receive(server.receive(client.first()))
    assert final is not None
    place = data.draw(st.integers(0, len(final) - 1))
    changed = data.draw(st.binary(max_size=3))
    tampered = final[:place] + changed + final[place + 1 :]
    if tampered == final:
        return
    refusal(lambda: server.receive(tampered))
    assert server.user is None


@settings(max_examples=4 * settings.default.max_examples)
@given(st.lists(st.binary(max_size=80), max_size=4))
def test_nothing_breaks_a_server(messages: list[bytes]) -> None:
    for server in (scram_server(USERS), ScramServer(SHA_512, USERS.get, Decoys(SECRET), "n")):
        for message in messages:
            try:
                server.receive(message)
            except KafkaError:
                break
        assert server.user is None
