"""Nodes with listeners that speak TLS, and what clients of them need."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import trustme
from broker_node import ANY_PORTS, listener_of

from minikafka.broker.node import Node
from minikafka.client import Security

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

    def _file(self, name: str, content: trustme.Blob) -> str:
        path = self._directory / name
        content.write_to_path(str(path))
        return str(path)


def servers(node: Node, listener: str = "SSL") -> str:
    return f"127.0.0.1:{listener_of(node, listener).endpoint.port}"


def security(files: Files, **options: Any) -> Security:
    return Security(**{"security_protocol": "SSL", "ssl_truststore_location": files.authority} | options)
