"""Nodes with listeners that speak TLS, and what clients of them need."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import trustme
from broker_node import ANY_PORTS, listener_of
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import ExtensionOID

from minikafka.broker.node import Node
from minikafka.client import Security

ODD_NAMES = b"\x30\x04\x81\x02\xff\xfe"
PLAIN_AND_SSL = f"{ANY_PORTS},SSL://127.0.0.1:0"


@cache
def authority(name: str) -> trustme.CA:
    return trustme.CA(organization_name=name)


class Files:
    """PEM files, as the settings of both sides name them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.authority = self.authority_of("good")
        self.node = self.of("127.0.0.1")
        self.client = self.of("alice@example.org")

    def authority_of(self, name: str) -> str:
        """Whom to trust."""
        return self._file(f"ca-{name}.pem", authority(name).cert_pem)

    def of(self, *names: str, by: str = "good", not_after: datetime | None = None) -> str:
        """A key with a certificate for `names`."""
        issued = authority(by).issue_cert(*names, not_after=not_after)
        return self._file(f"{by}-{names[0][:50]}.pem", issued.private_key_and_cert_chain_pem)

    def odd(self) -> str:
        """The client's key with a certificate for an address of mail that is not text."""
        pem = Path(self.client).read_bytes()
        own: Any = load_pem_private_key(authority("good").private_key_pem.bytes(), None)
        now, names = datetime.now(UTC), x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, ODD_NAMES)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(own.public_key())  # Python 3.13 wants one
        issued = (
            x509.CertificateBuilder()
            .subject_name(x509.load_pem_x509_certificate(pem).subject)
            .issuer_name(x509.load_pem_x509_certificate(authority("good").cert_pem.bytes()).subject)
            .public_key(x509.load_pem_x509_certificate(pem).public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(names, critical=False)
            .add_extension(issuer, critical=False)
            .sign(own, hashes.SHA256())
        )
        key = pem[: pem.index(b"-----BEGIN CERTIFICATE")]
        return self._file("odd.pem", trustme.Blob(key + issued.public_bytes(Encoding.PEM)))

    def _file(self, name: str, content: trustme.Blob) -> str:
        path = self._directory / name
        content.write_to_path(str(path))
        return str(path)


def servers(node: Node, listener: str = "SSL") -> str:
    return f"127.0.0.1:{listener_of(node, listener).endpoint.port}"


def security(files: Files, **options: Any) -> Security:
    return Security(**{"security_protocol": "SSL", "ssl_truststore_location": files.authority} | options)
