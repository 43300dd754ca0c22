"""How two nodes prove to each other that they know the cluster secret: mechanism MINIKAFKA-HMAC-SHA256.

Four messages, the first from the node that connected (the client)::

    client -> server   first:      mechanism, listener, cluster id, client's node id, client's nonce
    server -> client   challenge:  server's node id, server's nonce
    client -> server   proof:      HMAC(key, "client proof" | transcript)
    server -> client   proof:      HMAC(key, "server proof" | transcript)

The transcript is everything in the first two messages, so a proof is good for one connection between these two
nodes of this cluster on this listener. The labels differ, so a proof cannot be sent back as the other side's. The
client proves first: a stranger that connects learns nothing that depends on the secret. The secret itself is never
sent. This authenticates the peer at the time of connecting; it neither encrypts nor guards against somebody who
can change bytes in transit: use TLS where that is possible.

Nonces (at least 16 bytes, from a cryptographic source) are handed in. Every failure raises KafkaError:
INCONSISTENT_CLUSTER_ID for a node of another cluster, SASL_AUTHENTICATION_FAILED for everything else.
"""

from __future__ import annotations

import hmac
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final, NamedTuple, NoReturn

import msgpack  # type: ignore[import-untyped, unused-ignore]

from minikafka.errors import ErrorCode, KafkaError
from minikafka.wire.schema import Buffer

MECHANISM: Final = "MINIKAFKA-HMAC-SHA256"
NONCE_SIZE_MIN: Final = 16
MESSAGE_SIZE_MAX: Final = 1024

_CLIENT_PROOF: Final = b"client proof"
_SERVER_PROOF: Final = b"server proof"


class Transcript(NamedTuple):
    """What both sides agree to have said: every proof is over all of it."""

    listener: str
    cluster_id: str
    client_node_id: int
    client_nonce: bytes
    server_node_id: int
    server_nonce: bytes

    def proof(self, secret: bytes, label: bytes) -> bytes:
        """The HMAC over label and transcript, whose msgpack encoding is unambiguous."""
        assert secret, "the cluster secret is empty"
        return hmac.digest(secret, msgpack.packb((MECHANISM, label, *self), use_bin_type=True), sha256)


def client_first(*, listener: str, cluster_id: str, node_id: int, nonce: bytes) -> bytes:
    """The first message."""
    assert len(nonce) >= NONCE_SIZE_MIN
    first: bytes = msgpack.packb((MECHANISM, listener, cluster_id, node_id, nonce), use_bin_type=True)
    return first


def server_challenge(
    first: Buffer, *, listener: str, cluster_id: str, node_id: int, nonce: bytes
) -> tuple[bytes, Transcript]:
    """Answer a first message: the challenge, and the transcript to check the client's proof with."""
    assert len(nonce) >= NONCE_SIZE_MIN
    mechanism, peer_listener, peer_cluster_id, peer_node_id, peer_nonce = _unpack(first, (str, str, str, int, bytes))
    if mechanism != MECHANISM:
        _refuse(f"unknown mechanism {mechanism!r:.60}; this node speaks {MECHANISM}")
    if peer_listener != listener:
        _refuse(f"the peer means to talk to listener {peer_listener!r:.60}, but this is {listener!r}")
    if peer_cluster_id != cluster_id:
        message = f"node {peer_node_id} belongs to cluster {peer_cluster_id!r:.60}, this node to {cluster_id!r}"
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, message)
    if len(peer_nonce) < NONCE_SIZE_MIN:
        _refuse("the peer's nonce is too short")
    challenge: bytes = msgpack.packb((node_id, nonce), use_bin_type=True)
    return challenge, Transcript(listener, cluster_id, peer_node_id, peer_nonce, node_id, nonce)


def client_proof(
    secret: bytes, first: Buffer, challenge: Buffer, expected_node_id: int | None = None
) -> tuple[bytes, Transcript]:
    """Answer a challenge: the client's proof, and the transcript to check the server's proof with.

    `expected_node_id` is the node that was dialled, None when any node of the cluster will do.
    """
    _, listener, cluster_id, node_id, nonce = _unpack(first, (str, str, str, int, bytes))
    server_node_id, server_nonce = _unpack(challenge, (int, bytes))
    if expected_node_id is not None and server_node_id != expected_node_id:
        _refuse(f"node {server_node_id} answered where node {expected_node_id} was expected")
    if len(server_nonce) < NONCE_SIZE_MIN:
        _refuse("the peer's nonce is too short")
    transcript = Transcript(listener, cluster_id, node_id, nonce, server_node_id, server_nonce)
    return transcript.proof(secret, _CLIENT_PROOF), transcript


def server_proof(secret: bytes, transcript: Transcript, proof: Buffer) -> bytes:
    """Check the client's proof and return the server's. From here on the client is node ``client_node_id``."""
    if not hmac.compare_digest(transcript.proof(secret, _CLIENT_PROOF), bytes(proof)):
        _refuse(f"node {transcript.client_node_id} does not know this cluster's secret")
    return transcript.proof(secret, _SERVER_PROOF)


def verify_server_proof(secret: bytes, transcript: Transcript, proof: Buffer) -> None:
    """Check the server's proof. From here on the server is node ``server_node_id``."""
    if not hmac.compare_digest(transcript.proof(secret, _SERVER_PROOF), bytes(proof)):
        _refuse(f"node {transcript.server_node_id} does not know this cluster's secret")


def _unpack(message: Buffer, types: tuple[type, ...]) -> list[Any]:
    values = None
    if 0 < len(message) <= MESSAGE_SIZE_MAX:
        with suppress(ValueError, msgpack.UnpackException):
            values = msgpack.unpackb(message, raw=False, max_ext_len=0)
    if not isinstance(values, list) or [type(value) for value in values] != list(types):
        _refuse("the peer sent a malformed authentication message")
    return values


def _refuse(message: str) -> NoReturn:
    raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, message)
