"""A node that asks clients who they are, in each way that there is, and what they are given to tell it."""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final
from unittest.mock import patch

import pytest
from live_cluster import PATIENCE_S, assert_no_complaints, free_base_port

from minikafka.chaos import authority as authorities
from minikafka.chaos.authority import CLIENT, EARLIER, Authority
from minikafka.chaos.layout import write_private
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.logins import ADMIN

SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = ("PLAIN", *SCRAM, "OAUTHBEARER")
LOGINS: Final = [pytest.param(name, marks=pytest.mark.feature(name)) for name in MECHANISMS]
"""The same, each a feature of the client that is tried with it."""
USER: Final = ADMIN
"""By whom the cluster is asked whether it is ready, too."""
PASSWORD: Final = "a secret"
_JAAS: Final = "org.apache.kafka.common.security"
_PROTOCOLS: Final = {"SASL": "SASL_SSL", "PLAIN_SASL": "SASL_PLAINTEXT"}
"""Of listeners that speak more than TLS."""


@dataclass(frozen=True)
class Secured:
    """Where it is reached, and by what."""

    tls: str
    """Its listener that wants a certificate of the client."""
    elsewhere: str
    """The same at an address that its certificate does not name."""
    sasl: str
    """Its listener for logins, within TLS."""
    plain_sasl: str
    """Its listener for logins, without."""
    authority: str
    certificate: str
    """With its key, as those that follow."""
    expired: str
    foreign: str
    """Of another authority, ``foreign_authority``."""
    foreign_authority: str

    def context(self) -> ssl.SSLContext:
        """Trusts the node."""
        return ssl.create_default_context(cafile=self.authority)

    def certified_context(self) -> ssl.SSLContext:
        """Shows the certificate, too."""
        context = self.context()
        context.load_cert_chain(self.certificate)
        return context

    def variables(self) -> Mapping[str, str]:
        """All of it for a program."""
        return {
            "SECURE_TLS": self.tls,
            "SECURE_ELSEWHERE": self.elsewhere,
            "SECURE_SASL": self.sasl,
            "SECURE_PLAIN_SASL": self.plain_sasl,
            "SECURE_AUTHORITY": self.authority,
            "SECURE_CERTIFICATE": self.certificate,
            "SECURE_EXPIRED": self.expired,
            "SECURE_FOREIGN": self.foreign,
            "SECURE_FOREIGN_AUTHORITY": self.foreign_authority,
            "SECURE_USER": USER,
            "SECURE_PASSWORD": PASSWORD,
            "SECURE_TOKEN": unsigned_token(),
        }


def unsigned_token(lifetime_s: float = 3600) -> str:
    """Of OAUTHBEARER."""
    now_s = time.time()
    parts = ({"alg": "none"}, {"sub": USER, "iat": now_s, "exp": now_s + lifetime_s})
    return ".".join([*(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts), ""])


@contextmanager
def running_secured(directory: Path) -> Iterator[Secured]:
    """One node. Its user may do everything: what others may not is tried elsewhere."""
    users = directory / "users"
    base_port = free_base_port(4)
    cluster = LocalCluster.create(
        directory / "cluster", brokers=1, base_port=base_port, detached=False, secure=True, settings={}
    )
    layout, authority = cluster.layout, cluster.layout.authority
    _, replication, controller = layout.ports(1)
    names = ("SASL", "CLIENT", "ELSEWHERE", "PLAIN_SASL")
    for_clients = {name: f"127.0.0.1:{port}" for port, name in enumerate(names, base_port)}
    for_clients["ELSEWHERE"] = f"127.0.0.2:{base_port + 2}"
    at = for_clients | {"REPLICATION": f"127.0.0.1:{replication}", "CONTROLLER": f"127.0.0.1:{controller}"}
    layout.settings.update(
        {
            "listeners": ",".join(f"{name}://{address}" for name, address in at.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{_PROTOCOLS.get(name, 'SSL')}" for name in at),
            "ssl.client.auth": "required",
            "initial.scram.credentials.file": str(users),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "plain.sasl.jaas.config": f'{_JAAS}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
            "oauthbearer.sasl.jaas.config": f"{_JAAS}.oauthbearer.OAuthBearerLoginModule required;",
            "super.users": f"User:{USER};User:CN={CLIENT},O=minikafka",
        }
    )
    layout.security_directory.mkdir()
    write_private(layout.logins.password_file(ADMIN), PASSWORD)
    write_private(users, "".join(f"{mechanism}=[name={USER},password={PASSWORD}]\n" for mechanism in SCRAM))
    try:
        cluster.start(PATIENCE_S)
        with patch.object(authorities, "VALID", timedelta(0) - EARLIER / 2):
            authority.issue_missing({"expired": ()})
        foreign = Authority(directory / "foreign")
        foreign.issue_missing({CLIENT: ()})
        yield Secured(
            tls=at["CLIENT"],
            elsewhere=at["ELSEWHERE"],
            sasl=at["SASL"],
            plain_sasl=at["PLAIN_SASL"],
            authority=str(authority.certificate_file),
            certificate=str(authority.file_of(CLIENT)),
            expired=str(authority.file_of("expired")),
            foreign=str(foreign.file_of(CLIENT)),
            foreign_authority=str(foreign.certificate_file),
        )
    finally:
        cluster.kill_all()
    assert_no_complaints(cluster)
