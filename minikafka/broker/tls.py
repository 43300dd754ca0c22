"""TLS of a node: what it accepts and dials connections with, made of files, and made anew when these are changed.

New contexts take the place of the old ones whole, for new connections: those that are there keep what they have. Files
that cannot be used leave everything as it was.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from minikafka.config import BrokerConfig, ConfigError
from minikafka.config.node import CONTROLLER, REPLICATION
from minikafka.config.security import NO_CLIENT_AUTH, REQUIRED, WITH_TLS
from minikafka.net.accepting import AcceptingContext
from minikafka.net.handshakes import why_turned_away
from minikafka.net.rehearsal import rehearse
from minikafka.net.stores import Store, StoreError, load_key, with_trusted
from minikafka.net.undecoded import Undecoded

FOR_PEERS: Final = (REPLICATION, CONTROLLER)
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY_MODES: Final = {
    NO_CLIENT_AUTH: ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    REQUIRED: ssl.CERT_REQUIRED,
}

_NO_COMPRESSED_CERTIFICATES: Final = 1 << 33 if ssl.OPENSSL_VERSION_INFO >= (3, 2) else 0
"""``SSL_OP_NO_RX_CERTIFICATE_COMPRESSION``, for which Python has no name. Two hundred certificates fit into 3 KB, and
OpenSSL decodes them all: the limits of a handshake are those of its bytes (``net/tls_records.py``)."""


class Contexts(NamedTuple):
    """Of one state of the settings and files."""

    accepting: Mapping[str, ssl.SSLContext]
    """By what listeners ask for: ``ssl.client.auth``."""
    dialling: ssl.SSLContext | None
    """To listeners of other nodes; None: these speak no TLS."""


class Tls:
    """Raises ConfigError, which names the file, when it is made and by :meth:`contexts_of`.

    ``now_s``: the clock by which certificates expire, as OpenSSL reads it, too.
    """

    def __init__(self, config: BrokerConfig, now_s: Callable[[], float] = time.time) -> None:
        self._now_s = now_s
        secured = (name for name in config.listeners if config.security_protocol(name) in WITH_TLS)
        self._client_auth = {name: config.client_auth(name) for name in secured}
        self._contexts = self.contexts_of(config)

    def use(self, contexts: Contexts) -> None:
        """For new connections."""
        self._contexts = contexts

    def accepting(self, listener: str) -> ssl.SSLContext:
        """For a connection to a listener that speaks TLS."""
        return self._contexts.accepting[self._client_auth[listener]]

    def dialling(self, listener: str) -> ssl.SSLContext | None:
        """For a connection to another node's listener of that name. They speak what this one's do: None, if plain."""
        return self._contexts.dialling if listener in self._client_auth else None

    def check(self, config: BrokerConfig) -> None:
        """Raise ConfigError if the files cannot be used, or if nodes that trust whom this one trusts would refuse its
        certificate: they could not reach it any more, and clients could not to take it back. As Apache Kafka does."""
        contexts = self.contexts_of(config)
        if contexts.dialling is None:
            return
        for listener in filter(self._client_auth.__contains__, FOR_PEERS):
            is_voter = listener == CONTROLLER and config.node_id in config.voters
            endpoint = config.voters[config.node_id] if is_voter else config.advertised[listener]
            try:
                rehearse(contexts.dialling, contexts.accepting[self._client_auth[listener]], endpoint.host)
            except ssl.SSLError as error:
                why = getattr(error, "verify_message", "") or why_turned_away(error)
                trusting = f"nodes that trust {config.ssl_truststore_location}"
                raise ConfigError([f"{trusting} would refuse {config.ssl_keystore_location}: {why}"]) from None

    def contexts_of(self, config: BrokerConfig) -> Contexts:
        """Of the files as they are now. It reads them, and may decrypt keys: a node that runs does so in a thread."""
        accepting: dict[str, ssl.SSLContext] = {}
        for wanted in dict.fromkeys(self._client_auth.values()):
            context = accepting[wanted] = AcceptingContext(ssl.PROTOCOL_TLS_SERVER)
            context.now_s = self._now_s
            _set_up(context, config).verify_mode = _VERIFY_MODES[wanted]
        if self._client_auth.keys().isdisjoint(FOR_PEERS):
            return Contexts(accepting, None)
        dialling = _set_up(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), config)
        dialling.sslobject_class = Undecoded
        dialling.check_hostname = config.ssl_endpoint_identification_algorithm is not None
        return Contexts(accepting, dialling)


def _set_up(context: ssl.SSLContext, config: BrokerConfig) -> ssl.SSLContext:
    versions = [_VERSIONS[name] for name in config.ssl_enabled_protocols]
    context.options |= ssl.OP_NO_RENEGOTIATION  # who is in would make this node work for nothing
    context.options |= _NO_COMPRESSED_CERTIFICATES
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    try:
        load_key(context, _key_store(config))
        if config.ssl_truststore_location is not None:
            with_trusted(context.load_verify_locations, _trust_store(config, config.ssl_truststore_location))
    except StoreError as error:
        raise ConfigError([str(error)]) from error
    return context


def _key_store(config: BrokerConfig) -> Store:
    location = config.ssl_keystore_location
    assert location is not None, "the settings were checked"
    password, of_key = config.ssl_keystore_password, config.ssl_key_password
    return Store("ssl.keystore", location, config.ssl_keystore_type, password, of_key)


def _trust_store(config: BrokerConfig, location: str) -> Store:
    return Store("ssl.truststore", location, config.ssl_truststore_type, config.ssl_truststore_password)
