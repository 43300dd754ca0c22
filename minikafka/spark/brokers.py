"""A cluster as pipelines reach it: its brokers, and how to connect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from minikafka.client import Security
from minikafka.client.other_clients import java_properties
from minikafka.client.properties import security_of
from minikafka.client.security import PLAIN
from minikafka.spark.options.client import BOOTSTRAP_SERVERS, ClientSettings

_PREFIX: Final = "kafka."


@dataclass(frozen=True, slots=True)
class Brokers:
    """Sent to tasks pickled, or as options."""

    servers: str
    security: Security = PLAIN

    @classmethod
    def of_options(cls, options: Mapping[str, str]) -> Self:
        """From :attr:`options`."""
        given = {name.removeprefix(_PREFIX): value for name, value in options.items() if name.startswith(_PREFIX)}
        return cls(options[BOOTSTRAP_SERVERS], security_of(given))

    @property
    def options(self) -> dict[str, str]:
        """Of the source and the sink."""
        rows = {f"{_PREFIX}{name}": value for name, value in java_properties(self.security).items()}
        return {BOOTSTRAP_SERVERS: self.servers, **rows}

    def settings(self, **how: Any) -> ClientSettings:
        """Of a client, with further ones."""
        return ClientSettings(self.servers, security=self.security, **how)
