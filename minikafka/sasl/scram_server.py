"""The server's side of a SCRAM exchange.

For a user that is not there the exchange goes on with a decoy: keys, and a salt that is the same each time, derived
from a secret of the cluster. So an unknown user and a wrong password get the same answers, for the same work. Apache
Kafka ends the exchange at once instead (decision 0035).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, NamedTuple, NoReturn

from minikafka.sasl.exchange import refuse, refuse_malformed, text_of
from minikafka.sasl.plain import check_authorization_id
from minikafka.sasl.scram import (
    MIN_ITERATIONS,
    SALT_SIZE,
    ClientFinal,
    ClientFirst,
    MalformedScramError,
    ScramCredential,
    ScramMechanism,
    ServerFirst,
    auth_message,
    base64,
    xor,
)

NONCE_MAX: Final = 512
"""Characters of a client's nonce; those of clients have 20 to 50."""
_NONCE_TWICE: Final = (
    ": the client repeats its nonce before the server's, as librdkafka did before 2.6.1; "
    "Apache Kafka refuses it since 4.0, too"
)

JAVAS: Final = 0
"""Instead of a size: a random number of JAVAS_BITS in base 36, as Apache Kafka's clients and tools make salts."""
JAVAS_BITS: Final = 130
_OF_JAVA: Final = re.compile(rb"[0-9a-z]{20,26}")
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"

Find = Callable[[str], ScramCredential | None]
"""The credential of a user; None: there is none."""


class Shape(NamedTuple):
    """What strangers see of a credential, beside random bytes."""

    salt_size: int = SALT_SIZE
    """Bytes, or JAVAS."""
    iterations: int = MIN_ITERATIONS


def shape_of(credential: ScramCredential) -> Shape:
    """Of a user who is there."""
    salt = credential.salt
    return Shape(JAVAS if _OF_JAVA.fullmatch(salt) else len(salt), credential.iterations)


@dataclass(frozen=True)
class Decoys:
    """Credentials of users that are not there, with the look of those that are."""

    _secret: bytes = field(repr=False)
    shapes: Mapping[ScramMechanism, Collection[Shape]] = field(default_factory=dict)
    """Of users, by mechanism. A name has one of them, and mostly the same when there are others: so none of them says
    that a user is there."""

    def of(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        """For one user the same each time. No password leads to its keys."""
        seed = hmac.digest(self._secret, f"decoy {mechanism.mechanism_name} {user}".encode(), "sha512")
        size, iterations = max(self.shapes.get(mechanism) or (Shape(),), key=lambda each: _weight(seed, each))
        blocks = max(1, -(-size // len(seed)))
        salt = b"".join(hmac.digest(seed, bytes((number,)), "sha512") for number in range(blocks))
        salt = _in_base_36(int.from_bytes(salt) >> (8 * len(salt) - JAVAS_BITS)) if size == JAVAS else salt
        key = seed[: mechanism.digest_size]
        return ScramCredential(salt[: size or None], key, key, iterations)


def _weight(seed: bytes, shape: Shape) -> bytes:
    """The greatest counts (rendezvous hashing)."""
    return sha256(seed + repr(tuple(shape)).encode()).digest()


def _in_base_36(number: int) -> bytes:
    digits = bytearray()
    while number:
        number, digit = divmod(number, 36)
        digits.append(_DIGITS[digit])
    return bytes(reversed(digits))


class ScramServer:
    """Two messages in, two out; then ``user`` is known."""

    def __init__(self, mechanism: ScramMechanism, find: Find, decoys: Decoys, nonce: str) -> None:
        """``nonce``: fresh printable characters without a comma, for this exchange only."""
        self._mechanism = mechanism
        self._find = find
        self._decoys = decoys
        self._nonce = nonce
        self._first: tuple[ClientFirst, ServerFirst, ScramCredential] | None = None
        self._found: ScramCredential | None = None
        self._is_over = False
        self.user: str | None = None
        self.expires_at_ms: int | None = None

    def receive(self, token: bytes) -> bytes:
        """The server's next message."""
        message = text_of(token, self._mechanism.mechanism_name)
        try:
            if self._is_over:
                self._refuse()
            return (self._on_first(message) if self._first is None else self._on_final(message)).encode()
        except MalformedScramError:
            self._is_over = True
            refuse_malformed(self._mechanism.mechanism_name)

    def _on_first(self, message: str) -> str:
        first = ClientFirst.parse(message)
        if len(first.nonce) > NONCE_MAX:
            raise MalformedScramError("the nonce is too long")
        decoy = self._decoys.of(self._mechanism, first.user)
        found = None if first.has_token else self._find(first.user)
        credential = decoy if found is None else found
        self._found = found
        answer = ServerFirst(first.nonce + self._nonce, credential.salt, credential.iterations)
        self._first = (first, answer, credential)
        return str(answer)

    def _on_final(self, message: str) -> str:
        self._is_over = True
        assert self._first is not None
        first, answer, credential = self._first
        final = ClientFinal.parse(message)
        if len(final.proof) != self._mechanism.digest_size:
            raise MalformedScramError("the proof is of another mechanism")
        if final.binding != first.header.encode() or final.nonce != answer.nonce:
            # Kcat and others of most distributions do it: a right password must not be taken for a wrong one.
            self._refuse(_NONCE_TWICE if final.nonce == first.nonce + answer.nonce else "")
        signed = auth_message(first.bare, str(answer), final.bare)
        client_key = xor(final.proof, self._mechanism.hmac(credential.stored_key, signed))
        is_proved = hmac.compare_digest(self._mechanism.hash(client_key), credential.stored_key)
        # Whoever held this message back while the user was removed, or got another password, is too late.
        is_current = self._find(first.user) == self._found
        if not (is_proved and is_current and self._found is not None):
            self._refuse()
        check_authorization_id(first.authorization_id, first.user)
        self.user = first.user
        signature = self._mechanism.hmac(credential.server_key, signed)
        return f"v={base64(signature)}"

    def _refuse(self, why: str = "") -> NoReturn:
        refuse(
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            f"{self._mechanism.mechanism_name}{why}"
        )
