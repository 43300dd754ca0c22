"""Proof of identity between nodes, both sides of it. The messages are those of ``wire.auth``."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from minikafka.errors import ErrorCode, KafkaError
from minikafka.net.handshakes import PeerHandshakes
from minikafka.wire import auth


def plain(listener: str) -> ssl.SSLContext | None:
    """Connections to other nodes are not encrypted."""
    return None


@dataclass(frozen=True, slots=True)
class Identity:
    """A node of one cluster that knows the cluster's secret. ``nonce`` gives 32 fresh random bytes at each call.

    ``tls``: what a connection to a listener of another node is encrypted with, which has this node's certificate; it
    may be another one at each call. The secret is proved within.
    """

    cluster_id: str
    node_id: int
    secret: bytes
    nonce: Callable[[], bytes]
    tls: Callable[[str], ssl.SSLContext | None] = plain
    handshakes: PeerHandshakes = field(default_factory=PeerHandshakes, compare=False)

    @contextmanager
    def connecting(self, listener: str, peer_id: int) -> Iterator[None]:
        """While a connection to another node is made and both prove themselves: in TLS 1.3 a refusal comes late."""
        try:
            yield
        except OSError as error:
            if self.tls(listener) is not None:
                self.handshakes.failed(listener, peer_id, error)
            raise
        self.handshakes.succeeded(listener, peer_id)

    async def prove(
        self, listener: str, expected_node_id: int | None, exchange: Callable[[bytes], Awaitable[bytes]]
    ) -> int:
        """Dialling side: prove this node, check the peer, and return its node id. Raises KafkaError."""
        first = auth.client_first(
            listener=listener, cluster_id=self.cluster_id, node_id=self.node_id, nonce=self.nonce()
        )
        challenge = await exchange(first)
        proof, transcript = auth.client_proof(self.secret, first, challenge, expected_node_id)
        auth.verify_server_proof(self.secret, transcript, await exchange(proof))
        return transcript.server_node_id


class PeerCheck:
    """Accepting side of one connection: two messages in, two out; then ``peer_id`` is known."""

    __slots__ = ("_identity", "_listener", "_transcript", "peer_id")

    def __init__(self, identity: Identity, listener: str) -> None:
        self._identity = identity
        self._listener = listener
        self._transcript: auth.Transcript | None = None
        self.peer_id: int | None = None

    def receive(self, message: bytes) -> bytes:
        """The answer to the peer's next message. Raises KafkaError if the proof fails."""
        if self.peer_id is not None:
            raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "this connection is authenticated already")
        if self._transcript is None:
            challenge, self._transcript = auth.server_challenge(
                message,
                listener=self._listener,
                cluster_id=self._identity.cluster_id,
                node_id=self._identity.node_id,
                nonce=self._identity.nonce(),
            )
            return challenge
        proof = auth.server_proof(self._identity.secret, self._transcript, message)
        self.peer_id = self._transcript.client_node_id
        return proof
