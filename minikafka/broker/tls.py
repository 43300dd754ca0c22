"""TLS of a node: what it accepts and dials connections with, made of files, and made anew when these are changed.

New contexts take the place of the old ones whole, for new connections: those that are there keep what they have. Files
that cannot be used leave everything as it was.
"""

from __future__ import annotations

import ssl
from typing import Final, NamedTuple

from minikafka.config import BrokerConfig, ConfigError
from minikafka.config.node import CONTROLLER, REPLICATION
from minikafka.config.security import NO_CLIENT_AUTH, SASL_SSL, WITH_TLS
from minikafka.net.accepting import AcceptingContext
from minikafka.net.stores import Store, StoreError, load_key, with_trusted

FOR_PEERS: Final = (REPLICATION, CONTROLLER)
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    NO_CLIENT_AUTH: ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


class Contexts(NamedTuple):
    """Of one state of the settings and files."""

    clients: ssl.SSLContext
    users: ssl.SSLContext
    """Of listeners where clients log in: who says who it is by SASL is not asked for a certificate besides."""
    peers: ssl.SSLContext | None
    """Of listeners for other nodes, which must have certificates."""
    dialling: ssl.SSLContext | None
    """To such listeners of other nodes."""


class Tls:
    """Raises ConfigError, which names the file, when it is made and by :meth:`contexts_of`."""

    def __init__(self, config: BrokerConfig) -> None:
        self._secured = {name for name in config.listeners if config.security_protocol(name) in WITH_TLS}
        self._with_login = {name for name in self._secured if config.security_protocol(name) == SASL_SSL}
        self._is_for_peers = any(name in self._secured for name in FOR_PEERS)
        self._contexts = self.contexts_of(config)

    def use(self, contexts: Contexts) -> None:
        """For new connections."""
        self._contexts = contexts

    def accepting(self, listener: str) -> ssl.SSLContext:
        """For a connection to a listener that speaks TLS."""
        contexts = self._contexts
        if listener in FOR_PEERS:
            found = contexts.peers
        else:
            found = contexts.users if listener in self._with_login else contexts.clients
        assert found is not None, f"listener {listener} speaks TLS"
        return found

    def dialling(self, listener: str) -> ssl.SSLContext | None:
        """For a connection to another node's listener of that name. They speak what this one's do: None, if plain."""
        return self._contexts.dialling if listener in self._secured else None

    def contexts_of(self, config: BrokerConfig) -> Contexts:
        """Of the files as they are now. It reads them, and may decrypt keys: a node that runs does so in a thread."""
        clients = _set_up(AcceptingContext(ssl.PROTOCOL_TLS_SERVER), config)
        clients.verify_mode = _CLIENT_AUTH[config.ssl_client_auth]
        users = _set_up(AcceptingContext(ssl.PROTOCOL_TLS_SERVER), config)
        if not self._is_for_peers:
            return Contexts(clients, users, None, None)
        peers = _set_up(AcceptingContext(ssl.PROTOCOL_TLS_SERVER), config)
        peers.verify_mode = ssl.CERT_REQUIRED
        dialling = _set_up(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), config)
        dialling.check_hostname = config.ssl_endpoint_identification_algorithm is not None
        return Contexts(clients, users, peers, dialling)


def _set_up(context: ssl.SSLContext, config: BrokerConfig) -> ssl.SSLContext:
    versions = [_VERSIONS[name] for name in config.ssl_enabled_protocols]
    context.options |= ssl.OP_NO_RENEGOTIATION  # who is in would make this node work for nothing
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
