"""What users of SCRAM are asked, those that are not there included."""

from __future__ import annotations

from unittest.mock import Mock

from minikafka.broker.mechanisms import ScramUsers
from minikafka.metadata.image import MetadataImage
from minikafka.net.identity import Identity
from minikafka.sasl.scram import ScramCredential, ScramMechanism, ServerFirst
from minikafka.sasl.scram_server import Decoys, shape_of

MECHANISM = ScramMechanism.SCRAM_SHA_256
SECRET = b"the secret of a cluster"
OF_JAVA = b"1h0d8kxq9zr3mfp2w7v5c6n4a"


def asked(
    name: str = "nobody", node_id: int = 1, secret: bytes = SECRET, users: tuple[tuple[bytes, int], ...] = ()
) -> ServerFirst:
    """What that name is asked, where users have these salts and iterations."""
    identity = Identity("cluster", node_id, secret, lambda: bytes(32))
    known = {
        f"user-{at}": {MECHANISM: ScramCredential(salt, b"", b"", times)} for at, (salt, times) in enumerate(users)
    }
    exchange = ScramUsers(Mock(image=MetadataImage(scram_credentials=known)), identity).begin(MECHANISM)
    return ServerFirst.parse(exchange.receive(f"n,,n={name},r=x".encode()).decode())


def test_decoys_are_those_of_the_cluster_and_guesses_of_its_secret_are_dear() -> None:
    assert asked(node_id=1).salt == asked(node_id=2).salt != asked(secret=b"another secret").salt
    assert asked().salt != Decoys(SECRET).of(MECHANISM, "nobody").salt, "that takes a microsecond to try"


def test_no_salt_and_no_number_of_iterations_says_that_a_user_is_there() -> None:
    """Those whom Kafka's tools made, whom ours did, and whom somebody did otherwise."""
    users = ((OF_JAVA, 4096), (bytes(32), 4096), (bytes(32), 4096), (bytes(16), 16384))
    shapes = {shape_of(ScramCredential(salt, b"", b"", times)) for salt, times in users}

    def seen(users: tuple[tuple[bytes, int], ...]) -> list[tuple[int, int]]:
        told = (asked(f"nobody-{number}", users=users) for number in range(30))
        return [shape_of(ScramCredential(each.salt, b"", b"", each.iterations)) for each in told]

    assert set(seen(users)) == shapes
    before, after = seen(users), seen((*users, (bytes(32), 8192)))
    assert all(new in (old, (32, 8192)) for old, new in zip(before, after, strict=True)), "else they tell of a new one"
