"""Exchanges between both sides, and users for them."""

from __future__ import annotations

from minikafka.sasl.exchange import ClientExchange, ServerExchange
from minikafka.sasl.scram import ScramCredential, ScramMechanism, credential_of, salted_password
from minikafka.sasl.scram_client import SaltedPasswords, ScramClient
from minikafka.sasl.scram_server import Decoys, ScramServer

SECRET = b"a secret of the cluster"
SALT = b"0123456789abcdef" * 2
PASSWORDS = {"alice": "secret", "a=b,c": "=,", "Ümit": "пароль"}
SHA_256, SHA_512 = ScramMechanism


def credential(password: str, mechanism: ScramMechanism = SHA_256, iterations: int = 4096) -> ScramCredential:
    return credential_of(mechanism, salted_password(mechanism, password, SALT, iterations), SALT, iterations)


def scram_server(
    users: dict[str, ScramCredential], mechanism: ScramMechanism = SHA_256, nonce: str = "server"
) -> ScramServer:
    return ScramServer(mechanism, users.get, Decoys(SECRET), nonce)


def scram_client(user: str, password: str, mechanism: ScramMechanism = SHA_256, nonce: str = "client") -> ScramClient:
    return ScramClient(mechanism, user, SaltedPasswords(password), nonce)


def converse(client: ClientExchange, server: ServerExchange) -> list[bytes]:
    """All that is said."""
    said: list[bytes] = []
    token: bytes | None = client.first()
    while token is not None:
        said += (token, server.receive(token))
        token = client.receive(said[-1])
    return said
