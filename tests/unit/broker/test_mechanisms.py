"""What users of SCRAM are asked, those that are not there included."""

from __future__ import annotations

from unittest.mock import Mock

from minikafka.broker.mechanisms import ScramUsers
from minikafka.metadata.image import MetadataImage
from minikafka.net.identity import Identity
from minikafka.sasl.scram import ScramCredential, ScramMechanism, ServerFirst
from minikafka.sasl.scram_server import JAVAS, Decoys, salt_shape

MECHANISM = ScramMechanism.SCRAM_SHA_256
SECRET = b"the secret of a cluster"


def salt_of_nobody(node_id: int = 1, secret: bytes = SECRET, salts: tuple[bytes, ...] = ()) -> bytes:
    identity = Identity("cluster", node_id, secret, lambda: bytes(32))
    users = {str(at): {MECHANISM: ScramCredential(salt, b"", b"", 4096)} for at, salt in enumerate(salts)}
    exchange = ScramUsers(Mock(image=MetadataImage(scram_credentials=users)), identity).begin(MECHANISM)
    return ServerFirst.parse(exchange.receive(b"n,,n=nobody,r=x").decode()).salt


def test_decoys_are_those_of_the_cluster_and_guesses_of_its_secret_are_dear() -> None:
    assert salt_of_nobody(1) == salt_of_nobody(2) != salt_of_nobody(1, b"another secret")
    assert salt_of_nobody() != Decoys(SECRET).of(MECHANISM, "nobody").salt, "that takes a microsecond to try"


def test_decoys_have_salts_like_those_of_most_users() -> None:
    of_java = (b"1h0d8kxq9zr3mfp2w7v5c6n4a", b"4yb2t6j8s0e1g3u5i7o9l2k4d6")
    assert salt_shape(salt_of_nobody(salts=(*of_java, bytes(32)))) == JAVAS
    assert len(salt_of_nobody(salts=(of_java[0], bytes(16), bytes(16)))) == 16
