"""The client's side of a SCRAM exchange: it also checks that the server knows the user's keys."""

from __future__ import annotations

import hmac
from typing import Final

from minikafka.sasl.exchange import refuse, text_of
from minikafka.sasl.scram import (
    MIN_ITERATIONS,
    ClientFirst,
    MalformedScramError,
    ScramMechanism,
    ServerFirst,
    auth_message,
    base64,
    client_key,
    parse_server_final,
    salted_password,
    saslname,
    server_key,
    xor,
)

ITERATIONS_MAX: Final = 100_000
"""More would keep the client's loop busy for longer than 50 ms, because a server says so."""


class SaltedPasswords:
    """The last one of a client: to salt it takes milliseconds, and each broker asks for the same."""

    def __init__(self, password: str) -> None:
        self._password = password
        self._last: tuple[tuple[ScramMechanism, bytes, int], bytes] | None = None

    def of(self, mechanism: ScramMechanism, salt: bytes, iterations: int) -> bytes:
        """Salted so."""
        key = (mechanism, salt, iterations)
        if self._last is None or self._last[0] != key:
            self._last = (key, salted_password(mechanism, self._password, salt, iterations))
        return self._last[1]


class ScramClient:
    """Two messages out, two in."""

    def __init__(self, mechanism: ScramMechanism, user: str, passwords: SaltedPasswords, nonce: str) -> None:
        """``nonce``: fresh printable characters without a comma, for this exchange only."""
        self._mechanism = mechanism
        self._passwords = passwords
        self._first = f"n,,n={saslname(user)},r={nonce}"
        self._signature: bytes | None = None

    def first(self) -> bytes:
        """The user's name."""
        return self._first.encode()

    def receive(self, token: bytes) -> bytes | None:
        """The proof after the server's first message, nothing after its second."""
        message = text_of(token, self._mechanism.mechanism_name)
        try:
            if self._signature is None:
                return self._on_first(message).encode()
            if not hmac.compare_digest(self._signature, parse_server_final(message)):
                refuse("the broker does not know this user's password: its signature is wrong")
        except MalformedScramError as error:
            refuse(f"the broker sent no proper {self._mechanism.mechanism_name} message: {error}")
        return None

    def _on_first(self, message: str) -> str:
        first, server = ClientFirst.parse(self._first), ServerFirst.parse(message)
        if not server.nonce.startswith(first.nonce) or server.nonce == first.nonce:
            raise MalformedScramError("its nonce does not continue this client's")
        if not MIN_ITERATIONS <= server.iterations <= ITERATIONS_MAX:
            raise MalformedScramError(
                f"it asks for {server.iterations} iterations, and {MIN_ITERATIONS} to {ITERATIONS_MAX} are accepted"
            )
        salted = self._passwords.of(self._mechanism, server.salt, server.iterations)
        bare = f"c=biws,r={server.nonce}"
        signed = auth_message(first.bare, message, bare)
        key = client_key(self._mechanism, salted)
        proof = xor(key, self._mechanism.hmac(self._mechanism.hash(key), signed))
        self._signature = self._mechanism.hmac(server_key(self._mechanism, salted), signed)
        return f"{bare},p={base64(proof)}"
