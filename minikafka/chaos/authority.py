"""Certificates for a local cluster: an authority of its own, which vouches for its nodes and for a client.

::

    DIR/security/ca.pem      the certificate of the authority: whom nodes and clients trust
    DIR/security/ca.key      its key, for nodes that are added later
    DIR/security/node-N.pem  key and certificate of a node
    DIR/security/client.pem  key and certificate of a client

All are of mode 0600, and hold for ten years: who has a file has its rights.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from minikafka.chaos.layout import ClusterError, write_private
from minikafka.client import Security

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, Name

ORGANIZATION: Final = "minikafka"
CLIENT: Final = "client"
VALID: Final = timedelta(days=3650)
EARLIER: Final = timedelta(days=1)
"""Certificates hold since then: clocks of other machines may be behind."""


class Authority:
    """Of a cluster whose files are in a directory. ``CLIENT`` names the client among those it issues for."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def certificate_file(self) -> Path:
        """Its certificate."""
        return self._directory / "ca.pem"

    @property
    def _key_file(self) -> Path:
        return self._directory / "ca.key"

    def file_of(self, name: str) -> Path:
        """Key and certificate of a node, or of a client."""
        return self._directory / f"{name}.pem"

    @property
    def security(self) -> Security:
        """How a client connects, with the certificate that was made for it."""
        return Security(
            security_protocol="SSL",
            ssl_truststore_location=str(self.certificate_file),
            ssl_keystore_location=str(self.file_of(CLIENT)),
        )

    def issue_missing(self, hosts_of: Mapping[str, Iterable[str]]) -> None:
        """Make the authority unless it is there, and a key with a certificate for each name that has none, with the
        names of its host, if it has one.

        Raises ClusterError where cryptography is not installed.
        """
        missing = {name: hosts for name, hosts in hosts_of.items() if not self.file_of(name).exists()}
        if not missing:
            return
        check_installed()
        self._directory.mkdir(mode=0o700, exist_ok=True)
        if not self._key_file.exists():
            self._found()
        for name, hosts in missing.items():
            self._issue(name, hosts)

    def _found(self) -> None:
        from cryptography import x509

        key = _new_key()
        name = _name("authority of the cluster")
        builder = _builder(name, name, key).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        write_private(self.certificate_file, _pem(_signed(builder, key, key)))
        write_private(self._key_file, _pem_of_key(key))

    def _issue(self, name: str, hosts: Iterable[str]) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from cryptography.x509.oid import ExtendedKeyUsageOID

        own: Any = load_pem_private_key(self._key_file.read_bytes(), None)
        issuer = x509.load_pem_x509_certificate(self.certificate_file.read_bytes()).subject
        key = _new_key()
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]  # a node dials others, too
        builder = (
            _builder(_name(name), issuer, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        )
        if names := [_general_name(host) for host in hosts]:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        write_private(self.file_of(name), _pem_of_key(key) + _pem(_signed(builder, own, key)))


def check_installed() -> None:
    """Raise ClusterError where no certificate can be made."""
    try:
        import cryptography  # noqa: F401
    except ModuleNotFoundError:
        raise ClusterError(
            "a secure cluster needs certificates, and cryptography is not installed: pip install 'minikafka[secure]'"
        ) from None


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(common_name: str) -> Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _builder(subject: Name, issuer: Name, key: EllipticCurvePrivateKey) -> Any:
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + VALID)
    )


def _signed(builder: Any, by: EllipticCurvePrivateKey, key: EllipticCurvePrivateKey) -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    # OpenSSL's strict checks, which Python 3.13 has by default, want to see which key is whose.
    certificate: Certificate = (
        builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
        .add_extension(_key_usage(is_authority=by is key), critical=True)
        .sign(by, hashes.SHA256())
    )
    return certificate


def _key_usage(*, is_authority: bool) -> Any:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()


def _pem_of_key(key: EllipticCurvePrivateKey) -> str:
    """In PKCS #8, the only form that Java reads."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
