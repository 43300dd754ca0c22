"""What proves a node to others: the cluster's secret to nodes, its certificate to clients."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Final, NamedTuple

from minikafka.config import BrokerConfig, ConfigError
from minikafka.config.security import NO_CLIENT_AUTH, SSL

MIN_SECRET_LENGTH: Final = 16
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    NO_CLIENT_AUTH: ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


class Credentials(NamedTuple):
    """Read once, when the node starts."""

    secret: bytes
    tls: ssl.SSLContext | None = None
    """For listeners that speak it; None: there are none."""


def credentials_of(config: BrokerConfig) -> Credentials:
    """Raises ConfigError, which names the file."""
    is_needed = any(config.security_protocol(name) == SSL for name in config.listeners)
    return Credentials(secret_of(config), tls_of(config) if is_needed else None)


def secret_of(config: BrokerConfig) -> bytes:
    """What proves a node to the others. Raises ConfigError."""
    if config.cluster_secret_file is not None:
        try:
            secret = Path(config.cluster_secret_file).read_bytes().strip()
        except OSError as error:
            raise ConfigError([f"cluster.secret.file {config.cluster_secret_file}: {error.strerror}"]) from error
    elif config.cluster_secret is not None:
        secret = config.cluster_secret.encode()
    else:
        return os.urandom(32)  # a single node proves itself to nobody
    if len(secret) < MIN_SECRET_LENGTH:
        raise ConfigError([f"the cluster secret has {len(secret)} bytes; it needs {MIN_SECRET_LENGTH} or more"])
    return secret


def tls_of(config: BrokerConfig) -> ssl.SSLContext:
    """How clients are let in. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [_VERSIONS[name] for name in config.ssl_enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.verify_mode = _CLIENT_AUTH[config.ssl_client_auth]
    location = config.ssl_keystore_location
    assert location is not None, "the settings were checked"
    try:
        # With a password that is empty OpenSSL fails where it would ask the terminal for one.
        context.load_cert_chain(location, password=config.ssl_key_password or "")
    except OSError as error:
        raise ConfigError(
            [f"ssl.keystore.location {location}: {_why_not(error, location, 'a key and a certificate')}"]
        ) from error
    if (trusted := config.ssl_truststore_location) is not None:
        try:
            context.load_verify_locations(trusted)
        except OSError as error:
            raise ConfigError(
                [f"ssl.truststore.location {trusted}: {_why_not(error, trusted, 'certificates')}"]
            ) from error
    return context


def _why_not(error: OSError, path: str, what: str) -> str:
    if not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    if error.reason == "KEY_VALUES_MISMATCH":
        return "its certificate is not that of its key"
    if "ENCRYPTED" in Path(path).read_text(errors="replace"):
        return "its key is encrypted, and ssl.key.password is not its password"
    return f"it must have {what} in PEM format"
