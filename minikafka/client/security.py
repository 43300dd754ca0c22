"""How a client proves the broker, and itself: TLS, by Kafka's names of its options."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Final

PROTOCOLS: Final = ("PLAINTEXT", "SSL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """``Security(security_protocol="SSL", ssl_truststore_location="ca.pem")``.

    - ``security_protocol``: "PLAINTEXT" or "SSL", as the listener speaks.
    - ``ssl_truststore_location``: a PEM file with the certificates of those who may vouch for brokers; None: those that
      the system trusts.
    - ``ssl_keystore_location``: a PEM file with the client's own key and certificate, for brokers that ask for one;
      ``ssl_key_password``: of that key.
    - ``ssl_endpoint_identification_algorithm``: "https": the certificate must name the broker's host; "": any may
      answer whose certificate is vouched for.
    """

    security_protocol: str = "PLAINTEXT"
    ssl_truststore_location: str | None = None
    ssl_keystore_location: str | None = None
    ssl_key_password: str | None = None
    ssl_endpoint_identification_algorithm: str = "https"

    def context(self) -> ssl.SSLContext | None:
        """For connections; None: they are plain. Raises ValueError, which names the option."""
        if self.security_protocol not in PROTOCOLS:
            raise ValueError(f"security_protocol is {self.security_protocol!r}; it must be {' or '.join(PROTOCOLS)}")
        if self.security_protocol == "PLAINTEXT":
            return None
        if self.ssl_endpoint_identification_algorithm not in ("https", ""):
            given = self.ssl_endpoint_identification_algorithm
            raise ValueError(f"ssl_endpoint_identification_algorithm is {given!r}; it must be 'https' or ''")
        try:
            context = ssl.create_default_context(cafile=self.ssl_truststore_location)
        except OSError as error:
            raise _unusable("ssl_truststore_location", self.ssl_truststore_location, error) from error
        context.check_hostname = bool(self.ssl_endpoint_identification_algorithm)
        if self.ssl_keystore_location is not None:
            try:
                # Without a password OpenSSL would ask for one at the terminal.
                context.load_cert_chain(self.ssl_keystore_location, password=self.ssl_key_password or "")
            except OSError as error:
                raise _unusable("ssl_keystore_location", self.ssl_keystore_location, error) from error
        return context

    def __repr__(self) -> str:
        return f"Security({self.security_protocol})"  # never a password


PLAIN: Final = Security()


def reason_of(error: OSError) -> str | None:
    """What is wrong with a handshake that failed so, in words; None: it is not about TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message.rstrip('.')}"
    if isinstance(error, ssl.SSLError):
        return f"TLS handshake: {error.reason or error}"
    if isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError):
        return "it does not speak TLS, or refuses this client; see the broker's log"
    return None


def _unusable(option: str, path: str | None, error: OSError) -> ValueError:
    if not isinstance(error, ssl.SSLError):
        return ValueError(f"{option} {path}: {error.strerror}")
    if option == "ssl_truststore_location":
        return ValueError(f"{option} {path}: it must have certificates in PEM format")
    return ValueError(f"{option} {path}: it must have a certificate and its key in PEM format, under ssl_key_password")
