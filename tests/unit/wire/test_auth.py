from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.errors import ErrorCode, KafkaError
from minikafka.wire.auth import (
    MECHANISM,
    Transcript,
    client_first,
    client_proof,
    server_challenge,
    server_proof,
    verify_server_proof,
)

SECRET = b"correct horse battery staple"
FIRST = client_first(listener="CONTROLLER", cluster_id="c1", node_id=1, nonce=b"a" * 16)


def challenge(first: bytes = FIRST, listener: str = "CONTROLLER", cluster_id: str = "c1") -> tuple[bytes, Transcript]:
    return server_challenge(first, listener=listener, cluster_id=cluster_id, node_id=2, nonce=b"b" * 16)


def test_two_nodes_with_the_same_secret_accept_each_other() -> None:
    challenged, server = challenge()
    proof, client = client_proof(SECRET, FIRST, challenged, expected_node_id=2)
    answer = server_proof(SECRET, server, proof)
    verify_server_proof(SECRET, client, answer)
    assert client == server
    assert (server.client_node_id, client.server_node_id) == (1, 2)
    assert SECRET not in FIRST + challenged + proof + answer


def test_a_client_without_the_secret_is_refused() -> None:
    challenged, server = challenge()
    proof, _ = client_proof(b"wrong", FIRST, challenged)
    with pytest.raises(KafkaError, match="node 1 does not know this cluster's secret"):
        server_proof(SECRET, server, proof)


def test_a_server_without_the_secret_is_refused() -> None:
    challenged, server = challenge()
    _, client = client_proof(SECRET, FIRST, challenged)
    forged = server.proof(b"wrong", b"server proof")
    with pytest.raises(KafkaError, match="node 2 does not know this cluster's secret"):
        verify_server_proof(SECRET, client, forged)


def test_a_proof_cannot_be_reflected() -> None:
    challenged, _ = challenge()
    proof, client = client_proof(SECRET, FIRST, challenged)
    with pytest.raises(KafkaError):
        verify_server_proof(SECRET, client, proof)


@pytest.mark.parametrize(
    "change",
    [
        {"listener": "REPLICATION"},
        {"cluster_id": "c2"},
        {"client_node_id": 7},
        {"client_nonce": b"A" * 16},
        {"server_node_id": 7},
        {"server_nonce": b"B" * 16},
    ],
)
def test_a_proof_is_good_for_one_conversation(change: dict[str, object]) -> None:
    challenged, server = challenge()
    proof, _ = client_proof(SECRET, FIRST, challenged)
    with pytest.raises(KafkaError):
        server_proof(SECRET, server._replace(**change), proof)  # type: ignore[arg-type]


def test_a_node_of_another_cluster_is_told_so() -> None:
    with pytest.raises(KafkaError, match="node 1 belongs to cluster 'c1', this node to 'c2'") as caught:
        challenge(cluster_id="c2")
    assert caught.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID


def test_another_listener_or_node_than_meant_is_refused() -> None:
    with pytest.raises(KafkaError, match="listener 'CONTROLLER', but this is 'REPLICATION'"):
        challenge(listener="REPLICATION")
    challenged, _ = challenge()
    with pytest.raises(KafkaError, match="node 2 answered where node 3 was expected"):
        client_proof(SECRET, FIRST, challenged, expected_node_id=3)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xc1",
        b"x" * 2000,
        msgpack.packb([MECHANISM, "CONTROLLER", "c1", 1]),
        msgpack.packb([MECHANISM, "CONTROLLER", "c1", True, b"a" * 16]),
        msgpack.packb([MECHANISM, "CONTROLLER", "c1", 1, "a" * 16]),
        msgpack.packb([MECHANISM, "CONTROLLER", "c1", 1, b"short"]),
        msgpack.packb(["PLAIN", "CONTROLLER", "c1", 1, b"a" * 16]),
    ],
)
def test_first_messages_that_are_wrong(first: bytes) -> None:
    with pytest.raises(KafkaError) as caught:
        challenge(first)
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


@given(st.binary(max_size=80))
def test_random_messages_are_refused(message: bytes) -> None:
    for call in (lambda: challenge(message), lambda: client_proof(SECRET, FIRST, message)):
        with pytest.raises(KafkaError):
            call()


def test_a_short_server_nonce_is_refused() -> None:
    with pytest.raises(KafkaError, match="too short"):
        client_proof(SECRET, FIRST, msgpack.packb([2, b"b"]))
