"""How a client proves the broker, and itself: TLS and SASL, by Kafka's names of its options."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from minikafka.client.sasl import MECHANISMS, SaslClient, UserLogin, token_client, user_client, user_login
from minikafka.sasl.exchange import OAUTHBEARER

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
NONCE_SIZE: Final = 32
_JAVA_STORES: Final = {b"\xfe\xed\xfe\xed": "JKS", b"\x30": "PKCS12"}
"""What such files begin with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """``Security(security_protocol="SSL", ssl_truststore_location="ca.pem")``.

    - ``security_protocol``: "PLAINTEXT", "SSL", "SASL_PLAINTEXT" or "SASL_SSL", as the listener speaks.
    - ``ssl_truststore_location``: a PEM file with the certificates of those who may vouch for brokers, or
      ``ssl_truststore_certificates``: their text; neither: those that the system trusts.
    - ``ssl_keystore_location``: a PEM file with the client's own key and certificate, for brokers that ask for one, or
      ``ssl_keystore_key`` and ``ssl_keystore_certificate_chain``: their text. ``ssl_key_password``: of that key.
    - ``ssl_endpoint_identification_algorithm``: "https": the certificate must name the broker's host; "": any may
      answer whose certificate is vouched for.
    - ``sasl_mechanism``: "SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN" or "OAUTHBEARER", with
    - ``sasl_username`` and ``sasl_password``, or ``sasl_jaas_config``, which names them as for Java's clients;
      ``sasl_oauth_token`` for OAUTHBEARER: a function that returns a token.
    """

    security_protocol: str = "PLAINTEXT"
    ssl_truststore_location: str | None = None
    ssl_truststore_certificates: str | None = None
    ssl_keystore_location: str | None = None
    ssl_keystore_key: str | None = None
    ssl_keystore_certificate_chain: str | None = None
    ssl_key_password: str | None = None
    ssl_endpoint_identification_algorithm: str = "https"
    sasl_mechanism: str = "SCRAM-SHA-512"
    sasl_username: str | None = None
    sasl_password: str | None = None
    sasl_jaas_config: str | None = None
    sasl_oauth_token: Callable[[], str] | None = None

    def context(self) -> ssl.SSLContext | None:
        """For connections; None: they are plain. Raises ValueError, which names the option as Kafka does."""
        if self.security_protocol not in PROTOCOLS:
            raise ValueError(f"security.protocol is {self.security_protocol!r}; it must be {' or '.join(PROTOCOLS)}")
        if not self.security_protocol.endswith("SSL"):
            return None
        self._check()
        try:
            context = ssl.create_default_context(
                cafile=self.ssl_truststore_location, cadata=self.ssl_truststore_certificates
            )
        except OSError as error:
            what = "certificates in PEM format"
            raise _unusable("ssl.truststore", self.ssl_truststore_location, what, error) from error
        context.check_hostname = bool(self.ssl_endpoint_identification_algorithm)
        with self._key_store() as path:
            if path is not None:
                try:
                    # Without a password OpenSSL would ask for one at the terminal.
                    context.load_cert_chain(path, password=self.ssl_key_password or "")
                except OSError as error:
                    what = "a certificate and its key in PEM format, under ssl.key.password"
                    raise _unusable("ssl.keystore", self.ssl_keystore_location, what, error) from error
        return context

    def _check(self) -> None:
        if (given := self.ssl_endpoint_identification_algorithm) not in ("https", ""):
            raise ValueError(f"ssl.endpoint.identification.algorithm is {given!r}; it must be 'https' or ''")
        if self.ssl_truststore_location is not None and self.ssl_truststore_certificates is not None:
            raise ValueError("ssl.truststore.location and ssl.truststore.certificates are both set; keep one")
        if (self.ssl_keystore_key is None) != (self.ssl_keystore_certificate_chain is None):
            raise ValueError("ssl.keystore.key and ssl.keystore.certificate.chain are set together, or not at all")
        if self.ssl_keystore_location is not None and self.ssl_keystore_key is not None:
            raise ValueError("ssl.keystore.location and ssl.keystore.key are both set; keep one")

    @contextmanager
    def _key_store(self) -> Iterator[str | None]:
        """A path to the key and its certificate. OpenSSL wants one: text gets one in memory, which nobody else sees."""
        if self.ssl_keystore_key is None or self.ssl_keystore_certificate_chain is None:
            yield self.ssl_keystore_location
            return
        with os.fdopen(os.memfd_create("key store"), "w") as file:
            file.write(f"{self.ssl_keystore_key}\n{self.ssl_keystore_certificate_chain}\n")
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"

    @property
    def login(self) -> UserLogin | None:
        """The user and password to log in with; None: they are not needed. Raises ValueError, which names the option as
        Kafka does."""
        if not self.security_protocol.startswith("SASL_") or self.sasl_mechanism == OAUTHBEARER:
            return None
        if self.sasl_mechanism not in MECHANISMS:
            raise ValueError(f"sasl.mechanism is {self.sasl_mechanism!r}; it must be one of {', '.join(MECHANISMS)}")
        return user_login(self.sasl_mechanism, self.sasl_username, self.sasl_password, self.sasl_jaas_config)

    def sasl(self) -> SaslClient | None:
        """What logs in; None: nobody asks. Raises ValueError, which names the option as Kafka does."""
        if not self.security_protocol.startswith("SASL_"):
            return None
        login = self.login
        if login is None:
            return token_client(self.sasl_oauth_token)
        return user_client(self.sasl_mechanism, login, lambda: os.urandom(NONCE_SIZE))

    def __repr__(self) -> str:
        return f"Security({self.security_protocol})"  # never a password, nor a key


PLAIN: Final = Security()


def _unusable(store: str, path: str | None, what: str, error: OSError) -> ValueError:
    if path is None:
        return ValueError(f"{store}: its text must have {what}")
    if not isinstance(error, ssl.SSLError):
        return ValueError(f"{store}.location {path}: {error.strerror}")
    if (kind := java_store(path)) is not None:
        return ValueError(f"{store}.location {path}: {kind} cannot be read; {remedy_of(store, path)}")
    return ValueError(f"{store}.location {path}: it must have {what}")


def java_store(path: str) -> str | None:
    """The format of a file that Java's keytool made; None: it is another file."""
    with Path(path).open("rb") as file:
        begin = file.read(4)
    return next((kind for magic, kind in _JAVA_STORES.items() if begin.startswith(magic)), None)


def remedy_of(store: str, path: str) -> str:
    """How to make a PEM file of a key store of Java."""
    if store == "ssl.truststore":
        return f"make a PEM file of it: keytool -list -rfc -keystore {path} > ca.pem"
    export = f"keytool -importkeystore -srckeystore {path} -destkeystore key.p12 -deststoretype PKCS12"
    return f"make a PEM file of it: {export} && openssl pkcs12 -nodes -in key.p12 -out key.pem"
