"""How a client proves the broker, and itself: TLS and SASL, by Kafka's names of its options."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from minikafka.client.sasl import MECHANISMS, SaslClient, UserLogin, token_client, user_client, user_login
from minikafka.client.tokens import TokenOptions
from minikafka.config.stores import FORMATS, PEM, expected_instead_of
from minikafka.net.stores import Store, in_memory, load_key, with_trusted
from minikafka.net.undecoded import Undecoded
from minikafka.sasl.exchange import OAUTHBEARER

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
NONCE_SIZE: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """``Security(security_protocol="SSL", ssl_truststore_location="ca.pem")``.

    - ``security_protocol``: "PLAINTEXT", "SSL", "SASL_PLAINTEXT" or "SASL_SSL", as the listener speaks.
    - ``ssl_truststore_location``: a file with the certificates of those who may vouch for brokers, or
      ``ssl_truststore_certificates``: their text in PEM format; neither: those that the system trusts.
    - ``ssl_keystore_location``: a file with the client's own key and certificate, for brokers that ask for one, or
      ``ssl_keystore_key`` and ``ssl_keystore_certificate_chain``: their text. ``ssl_key_password``: of that key.
    - ``ssl_truststore_type`` and ``ssl_keystore_type``: "PEM" or "PKCS12" (``pip install 'minikafka[secure]'``), with
      ``ssl_truststore_password`` and ``ssl_keystore_password``.
    - ``ssl_endpoint_identification_algorithm``: "https": the certificate must name the broker's host; "": any may
      answer whose certificate is vouched for.
    - ``sasl_mechanism``: "SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN" or "OAUTHBEARER", with
    - ``sasl_username`` and ``sasl_password``, or ``sasl_jaas_config``, which names them as for Java's clients;
      ``sasl_oauth_token`` for OAUTHBEARER: a function that returns a token; or
    - ``sasl_oauthbearer_token_endpoint_url``, with ``sasl_oauthbearer_client_credentials_client_id``,
      ``..._client_secret`` and ``sasl_oauthbearer_scope``: who issues tokens for these, or a file with a token
      (``file:///...``); without it, ``sasl_jaas_config`` with ``unsecuredLoginStringClaim_sub``: nobody signs them.
    """

    security_protocol: str = "PLAINTEXT"
    ssl_truststore_type: str = PEM
    ssl_truststore_location: str | None = None
    ssl_truststore_password: str | None = None
    ssl_truststore_certificates: str | None = None
    ssl_keystore_type: str = PEM
    ssl_keystore_location: str | None = None
    ssl_keystore_password: str | None = None
    ssl_keystore_key: str | None = None
    ssl_keystore_certificate_chain: str | None = None
    ssl_key_password: str | None = None
    ssl_endpoint_identification_algorithm: str = "https"
    sasl_mechanism: str = "SCRAM-SHA-512"
    sasl_username: str | None = None
    sasl_password: str | None = None
    sasl_jaas_config: str | None = None
    sasl_oauthbearer_token_endpoint_url: str | None = None
    sasl_oauthbearer_client_credentials_client_id: str | None = None
    sasl_oauthbearer_client_credentials_client_secret: str | None = None
    sasl_oauthbearer_scope: str | None = None
    sasl_oauth_token: Callable[[], str] | None = None

    def context(self) -> ssl.SSLContext | None:
        """For connections; None: they are plain. Raises ValueError, which names the option as Kafka does."""
        if self.security_protocol not in PROTOCOLS:
            raise ValueError(f"security.protocol is {self.security_protocol!r}; it must be {' or '.join(PROTOCOLS)}")
        if not self.security_protocol.endswith("SSL"):
            return None
        self._check()
        trusted, own = self.trust_store, self.key_store
        context = self._trusting_text() if trusted is None else with_trusted(ssl.create_default_context, trusted)
        context.sslobject_class = Undecoded
        context.check_hostname = bool(self.ssl_endpoint_identification_algorithm)
        if own is not None:
            load_key(context, own)
        elif self.ssl_keystore_key is not None:
            self._load_key_of_text(context)
        return context

    @property
    def trust_store(self) -> Store | None:
        """The file of those who may vouch for brokers."""
        if self.ssl_truststore_location is None:
            return None
        return Store(
            "ssl.truststore", self.ssl_truststore_location, self.ssl_truststore_type, self.ssl_truststore_password
        )

    @property
    def key_store(self) -> Store | None:
        """The file of the client's own key and certificate."""
        if self.ssl_keystore_location is None:
            return None
        password, of_key = self.ssl_keystore_password, self.ssl_key_password
        return Store("ssl.keystore", self.ssl_keystore_location, self.ssl_keystore_type, password, of_key)

    def _check(self) -> None:
        if (given := self.ssl_endpoint_identification_algorithm) not in ("https", ""):
            raise ValueError(f"ssl.endpoint.identification.algorithm is {given!r}; it must be 'https' or ''")
        for name, kind, location in (
            ("ssl.truststore", self.ssl_truststore_type, self.ssl_truststore_location),
            ("ssl.keystore", self.ssl_keystore_type, self.ssl_keystore_location),
        ):
            if kind not in FORMATS:
                raise ValueError(f"{name}.type is {kind}; it must be {expected_instead_of(kind, location or 'FILE')}")
        if self.ssl_truststore_location is not None and self.ssl_truststore_certificates is not None:
            raise ValueError("ssl.truststore.location and ssl.truststore.certificates are both set; keep one")
        if (self.ssl_keystore_key is None) != (self.ssl_keystore_certificate_chain is None):
            raise ValueError("ssl.keystore.key and ssl.keystore.certificate.chain are set together, or not at all")
        if self.ssl_keystore_location is not None and self.ssl_keystore_key is not None:
            raise ValueError("ssl.keystore.location and ssl.keystore.key are both set; keep one")

    def _trusting_text(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cadata=self.ssl_truststore_certificates)
        except ssl.SSLError as error:
            raise ValueError("ssl.truststore: its text must have certificates in PEM format") from error

    def _load_key_of_text(self, context: ssl.SSLContext) -> None:
        with in_memory(f"{self.ssl_keystore_key}\n{self.ssl_keystore_certificate_chain}\n") as path:
            try:
                # Without a password OpenSSL would ask for one at the terminal.
                context.load_cert_chain(path, password=self.ssl_key_password or "")
            except ssl.SSLError as error:
                what = "a certificate and its key in PEM format, under ssl.key.password"
                raise ValueError(f"ssl.keystore: its text must have {what}") from error

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
            return token_client(self.sasl_oauth_token, self._token_options)
        return user_client(self.sasl_mechanism, login, lambda: os.urandom(NONCE_SIZE))

    @property
    def _token_options(self) -> TokenOptions:
        return TokenOptions(
            self.sasl_oauthbearer_token_endpoint_url,
            self.sasl_oauthbearer_client_credentials_client_id,
            self.sasl_oauthbearer_client_credentials_client_secret,
            self.sasl_oauthbearer_scope,
            self.sasl_jaas_config,
        )

    def __repr__(self) -> str:
        return f"Security({self.security_protocol})"  # never a password, nor a key


PLAIN: Final = Security()
