"""What users of SCRAM are asked, those that are not there included."""

from __future__ import annotations

from unittest.mock import Mock

from minikafka.broker.mechanisms import ScramUsers
from minikafka.metadata.image import MetadataImage
from minikafka.net.identity import Identity
from minikafka.sasl.scram import ScramMechanism, ServerFirst
from minikafka.sasl.scram_server import Decoys

MECHANISM = ScramMechanism.SCRAM_SHA_256
SECRET = b"the secret of a cluster"


def salt_of_nobody(node_id: int = 1, secret: bytes = SECRET) -> bytes:
    identity = Identity("cluster", node_id, secret, lambda: bytes(32))
    exchange = ScramUsers(Mock(image=MetadataImage()), identity).begin(MECHANISM)
    return ServerFirst.parse(exchange.receive(b"n,,n=nobody,r=x").decode()).salt


def test_decoys_are_those_of_the_cluster_and_guesses_of_its_secret_are_dear() -> None:
    assert salt_of_nobody(1) == salt_of_nobody(2) != salt_of_nobody(1, b"another secret")
    assert salt_of_nobody() != Decoys(SECRET).of(MECHANISM, "nobody").salt, "that takes a microsecond to try"
