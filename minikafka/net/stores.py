"""Key stores and trust stores, as settings and options of Kafka name them: files in PEM, or in the PKCS12 of Java.

OpenSSL reads PEM by itself. Of PKCS12 ``cryptography`` makes PEM, in memory: a key is never written to a disk.
"""

from __future__ import annotations

import os
import re
import ssl
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from minikafka.config.stores import PEM, PKCS12, remedy_of_jks

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
    from cryptography.x509 import Certificate, Name

T = TypeVar("T")

SIZE_MAX: Final = 1 << 23
"""Bytes of a store. All whom a system trusts have a fifth of a MiB."""
_ENCRYPTED_KEY: Final = re.compile("^-----BEGIN ENCRYPTED PRIVATE KEY|^Proc-Type: 4,ENCRYPTED", re.MULTILINE)
_JKS: Final = b"\xfe\xed\xfe\xed"
_PKCS12: Final = re.compile(rb"\x30(?:[\x00-\x80]|\x81.|\x82..|\x83...|\x84....)\x02\x01\x03", re.DOTALL)
"""How such a file begins: the sequence of its parts, and its version, 3."""


class StoreError(ValueError):
    """A store cannot be used: the message names it, as Kafka does, and never a password."""


class Store(NamedTuple):
    """``name`` is ssl.keystore or ssl.truststore."""

    name: str
    location: str
    format: str = PEM
    password: str | None = None
    key_password: str | None = None

    def error(self, why: str) -> StoreError:
        """One that names the file."""
        return StoreError(f"{self.name}.location {self.location}: {why}")

    def __repr__(self) -> str:
        return f"Store({self.location})"


def load_key(context: ssl.SSLContext, store: Store) -> None:
    """The key and certificate to prove oneself with. Raises StoreError."""
    _check_size(store)
    if store.format == PKCS12:
        with in_memory(_key_pem(store, _opened(store))) as path:
            try:
                context.load_cert_chain(path)
            except ssl.SSLError as error:
                raise store.error(f"OpenSSL does not take its key or certificate: {_reason(error)}") from error
        return
    try:
        # With a password that is empty OpenSSL fails where it would ask the terminal for one.
        context.load_cert_chain(store.location, password=store.key_password or "")
    except OSError as error:
        raise store.error(_why_no_key(error, store)) from error


def with_trusted(take: Callable[..., T], store: Store) -> T:
    """Have a context take the certificates of those who may vouch for others: its method that takes a file or text, or
    the function that makes one of these. Raises StoreError."""
    _check_size(store)
    if store.format == PKCS12:
        return take(cadata=trusted_pem(store))
    try:
        return take(cafile=store.location)
    except OSError as error:
        raise store.error(_why(error, store, "it must have certificates in PEM format")) from error


def trusted_pem(store: Store) -> str:
    """The certificates of a trust store in PKCS12. Raises StoreError."""
    opened = _opened(store)
    if opened.key is not None:
        # Which of the others were put there to be trusted, and which are the key's own issuers, is not told apart.
        raise store.error("it has a private key; a trust store must have certificates alone")
    certificates = [each.certificate for each in opened.additional_certs]
    if not certificates:
        raise store.error("it has no certificate")
    return "".join(map(_pem, certificates))


@contextmanager
def in_memory(text: str) -> Iterator[str]:
    """A path to a text that nobody else sees: OpenSSL takes no key without one."""
    with os.fdopen(os.memfd_create("key store"), "w") as file:
        file.write(text)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def _check_size(store: Store) -> None:
    """Whoever may set a node's settings names the file. OpenSSL reads on while a line has no end: a device, until no
    memory is left."""
    try:
        found = os.stat(store.location)
    except OSError as error:
        raise store.error(error.strerror or str(error)) from error
    except ValueError as error:
        raise store.error(f"it cannot be a file's name: {error}") from None
    if not stat.S_ISREG(found.st_mode):
        raise store.error("it is not a file")
    if found.st_size > SIZE_MAX:
        raise store.error(f"it has {found.st_size} bytes; {SIZE_MAX} are allowed")


def _opened(store: Store) -> PKCS12KeyAndCertificates:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ModuleNotFoundError:
        message = f"{store.name}.type={PKCS12} needs cryptography; get it with: pip install 'minikafka[secure]'"
        raise StoreError(message) from None
    password = store.key_password if store.password is None else store.password
    if store.key_password not in (None, password):
        raise StoreError(f"ssl.key.password is not {store.name}.password: a file in PKCS12 has one for all")
    try:
        content = Path(store.location).read_bytes()
        return load_pkcs12(content, None if password is None else password.encode())
    except OSError as error:
        raise store.error(error.strerror or str(error)) from error
    except UnsupportedAlgorithm as error:
        raise store.error(f"it is encrypted in a way that is not known: {error}") from None
    except ValueError:
        raise store.error(_why_not_opened(store, content)) from None


def _why_not_opened(store: Store, content: bytes) -> str:
    if content.startswith(_JKS):
        return f"it is JKS; {remedy_of_jks(store.location)}"
    if _PKCS12.match(content):
        return f"{store.name}.password is not its password, or it is damaged"
    return f"it is not PKCS12, as {store.name}.type says"


def _key_pem(store: Store, opened: PKCS12KeyAndCertificates) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    if opened.key is None or opened.cert is None:
        raise store.error("it must have a key and its certificate")
    key = opened.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    issuers = {each.certificate.subject: each.certificate for each in opened.additional_certs}
    return key + "".join(map(_pem, _chain(opened.cert.certificate, issuers)))


def _chain(certificate: Certificate, issuers: dict[Name, Certificate]) -> Iterator[Certificate]:
    """A certificate and its issuers, each after the one that it vouches for: so they are sent, and a file has no
    order."""
    yield certificate
    while (issuer := issuers.pop(certificate.issuer, None)) is not None:
        yield issuer
        certificate = issuer


def _pem(certificate: Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()


def _why_no_key(error: OSError, store: Store) -> str:
    if isinstance(error, ssl.SSLError):
        if error.reason in ("KEY_VALUES_MISMATCH", "NO_CERTIFICATE_ASSIGNED"):  # the latter: of another kind
            return "its certificate is not that of its key"
        if error.reason is not None and error.reason.endswith(("TOO_SMALL", "TOO_WEAK")):
            return f"OpenSSL does not take its key or certificate: {_reason(error)}"
        if _ENCRYPTED_KEY.search(Path(store.location).read_text(errors="replace")):
            return "its key is encrypted, and ssl.key.password is not its password"
    return _why(error, store, "it must have a key and a certificate in PEM format")


def _reason(error: ssl.SSLError) -> str:
    """In words: OpenSSL has EE_KEY_TOO_SMALL, say."""
    return (error.reason or str(error)).replace("_", " ").lower()


def _why(error: OSError, store: Store, expected: str) -> str:
    """Of a file that OpenSSL does not take as PEM."""
    if not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    with Path(store.location).open("rb") as file:
        begin = file.read(16)
    if begin.startswith(_JKS):
        return f"it is JKS; {remedy_of_jks(store.location)}"
    if _PKCS12.match(begin):
        return f"it is PKCS12; set {store.name}.type={PKCS12} and {store.name}.password"
    return expected
