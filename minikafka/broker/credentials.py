"""What proves a node to others: the cluster's secret to nodes, its certificate to all that speak TLS. And the passwords
of a new cluster's first users."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from minikafka.broker.first_users import FirstUser, first_users_of
from minikafka.broker.tls import Tls
from minikafka.broker.token_keys import check_tokens
from minikafka.config import BrokerConfig, ConfigError
from minikafka.config.security import WITH_TLS
from minikafka.config.setting import Setting
from minikafka.event_log import get_logger

log = get_logger()

MIN_SECRET_LENGTH: Final = 16
SECRET_FILES: Final = (
    BrokerConfig.cluster_secret_file,
    BrokerConfig.ssl_keystore_location,
    BrokerConfig.initial_scram_credentials_file,
)
FOR_OTHERS_TO_READ: Final = stat.S_IRGRP | stat.S_IROTH


class Credentials(NamedTuple):
    """Read when the node starts; the certificates again when they are changed."""

    secret: bytes
    tls: Tls | None = None
    """For listeners that speak it; None: there are none."""
    first_users: tuple[FirstUser, ...] = ()
    """Of a new cluster."""


def credentials_of(config: BrokerConfig) -> Credentials:
    """Raises ConfigError, which names the file."""
    check_tokens(config)
    is_needed = any(config.security_protocol(name) in WITH_TLS for name in config.listeners)
    return Credentials(secret_of(config), Tls(config) if is_needed else None, first_users_of(config))


def warn_of_readers(config: BrokerConfig, settings: Iterable[Setting[str | None]] = SECRET_FILES) -> None:
    """Say of each file with a secret whether others than its owner may read it."""
    for setting in settings:
        path = getattr(config, setting.attribute)
        if path is not None:
            warn_if_others_read(path, setting.name)


def warn_if_others_read(path: str, setting: str) -> None:
    """Say whether others than its owner may read the file that a setting names, or in which a secret setting is."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # it is gone; it was read before
    if mode & FOR_OTHERS_TO_READ:
        log.warning("others may read a secret", setting=setting, path=path, mode=f"{stat.S_IMODE(mode):04o}")


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
