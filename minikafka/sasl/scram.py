"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), as Apache Kafka speaks them.

The server keeps no password but two keys that were derived from it::

    SaltedPassword = PBKDF2(password, salt, iterations)
    ClientKey      = HMAC(SaltedPassword, "Client Key")      StoredKey = H(ClientKey)
    ServerKey      = HMAC(SaltedPassword, "Server Key")

    client -> server   n,,n=user,r=CNONCE
    server -> client   r=CNONCE SNONCE,s=salt,i=iterations
    client -> server   c=biws,r=CNONCE SNONCE,p=ClientKey XOR HMAC(StoredKey, all of the above)
    server -> client   v=HMAC(ServerKey, all of the above)

Who steals the keys cannot log in with them, but can try passwords. Names and passwords are taken as they are, in UTF-8:
like Kafka, without SASLprep. A name is written with ``=2C`` for a comma and ``=3D`` for an equals sign. There is no
channel binding.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from enum import IntEnum
from typing import Final, NamedTuple

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""As in Apache Kafka."""
SALT_SIZE: Final = 32
"""Bytes of those that our client makes."""


class ScramMechanism(IntEnum):
    """By Kafka's numbers."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """As SaslHandshake names it."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """As hashlib names it."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    @property
    def digest_size(self) -> int:
        """Bytes of each key."""
        return hashlib.new(self.hash_name).digest_size

    def hmac(self, key: bytes, message: bytes) -> bytes:
        """HMAC with its hash."""
        return hmac.digest(key, message, self.hash_name)

    def hash(self, message: bytes) -> bytes:
        """Its hash."""
        return hashlib.new(self.hash_name, message).digest()


BY_NAME: Final = {mechanism.mechanism_name: mechanism for mechanism in ScramMechanism}


class ScramCredential(NamedTuple):
    """What the server keeps of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return "ScramCredential(hidden)"


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """The slow step: some milliseconds. Whoever knows the result can log in."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """What the client proves to know."""
    return mechanism.hmac(salted, b"Client Key")


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """What the server proves to know."""
    return mechanism.hmac(salted, b"Server Key")


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Of a password that was salted with ``salt`` in so many iterations."""
    stored_key = mechanism.hash(client_key(mechanism, salted))
    return ScramCredential(salt, stored_key, server_key(mechanism, salted), iterations)


def xor(left: bytes, right: bytes) -> bytes:
    """Of two that have the same size."""
    assert len(left) == len(right)
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


# -- messages ---------------------------------------------------------------------------------------------------------


class MalformedScramError(ValueError):
    """Not such a message."""


def saslname(name: str) -> str:
    """A user's name as messages have it."""
    return name.replace("=", "=3D").replace(",", "=2C")


def name_of(escaped: str) -> str:
    """The inverse of :func:`saslname`."""
    return escaped.replace("=2C", ",").replace("=3D", "=")


_NAME: Final = r"(?:[^\0=,]|=2C|=3D)+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"[A-Za-z0-9/+]*={0,2}"
_EXTENSIONS: Final = r"(?:,[A-Za-z]+=[^\0,]+)*"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>[ny],(?:a=(?P<authorization_id>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<user>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[1-9][0-9]{{0,8}}){_EXTENSIONS}"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<bare>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = re.compile(rf"(?:e=(?P<error>[^\0,]+)|v=(?P<signature>{_BASE64})){_EXTENSIONS}")


class ClientFirst(NamedTuple):
    """``n,,n=user,r=nonce``; ``header`` is what comes before ``n=user``, ``bare`` the rest."""

    header: str
    authorization_id: str
    bare: str
    user: str
    nonce: str
    has_token: bool
    """A delegation token is meant, not a user (KIP-48)."""

    @classmethod
    def parse(cls, message: str) -> ClientFirst:
        """MalformedScramError for another message."""
        found = _match(_CLIENT_FIRST, message)
        return cls(
            found["header"],
            name_of(found["authorization_id"] or ""),
            found["bare"],
            name_of(found["user"]),
            found["nonce"],
            "tokenauth=true" in found["extensions"].lower().split(","),
        )


class ServerFirst(NamedTuple):
    """``r=nonce,s=salt,i=iterations``."""

    nonce: str
    salt: bytes
    iterations: int

    @classmethod
    def parse(cls, message: str) -> ServerFirst:
        """MalformedScramError for another message."""
        found = _match(_SERVER_FIRST, message)
        return cls(found["nonce"], _decoded(found["salt"]), int(found["iterations"]))

    def __str__(self) -> str:
        return f"r={self.nonce},s={base64(self.salt)},i={self.iterations}"


class ClientFinal(NamedTuple):
    """``c=binding,r=nonce,p=proof``; ``bare`` is what comes before the proof."""

    bare: str
    binding: bytes
    nonce: str
    proof: bytes

    @classmethod
    def parse(cls, message: str) -> ClientFinal:
        """MalformedScramError for another message."""
        found = _match(_CLIENT_FINAL, message)
        return cls(found["bare"], _decoded(found["binding"]), found["nonce"], _decoded(found["proof"]))


def parse_server_final(message: str) -> bytes:
    """The signature of ``v=signature``. MalformedScramError for another message, with the server's error if it says
    one."""
    found = _match(_SERVER_FINAL, message)
    if found["error"] is not None:
        raise MalformedScramError(found["error"])
    return _decoded(found["signature"])


def auth_message(client_first_bare: str, server_first: str, client_final_bare: str) -> bytes:
    """All that was said: both sides sign it."""
    return f"{client_first_bare},{server_first},{client_final_bare}".encode()


def base64(data: bytes) -> str:
    """As messages have it."""
    return b64encode(data).decode()


def _match(pattern: re.Pattern[str], message: str) -> re.Match[str]:
    found = pattern.fullmatch(message)
    if found is None:
        raise MalformedScramError("not a SCRAM message")
    return found


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Base64Error as error:
        raise MalformedScramError("not base64") from error
