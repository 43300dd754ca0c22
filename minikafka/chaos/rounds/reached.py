"""The cluster of a load, as clients of each library reach it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from minikafka.client import Security
from minikafka.client.other_clients import client_config
from minikafka.client.security import PLAIN


class Reached(NamedTuple):
    """``config_file`` says the same as ``security``: another process is not given keys and passwords as arguments."""

    servers: str
    config_file: Path | None = None
    security: Security = PLAIN

    @property
    def by_librdkafka(self) -> dict[str, Any]:
        """Its settings."""
        return client_config("confluent", self.servers, self.security)
