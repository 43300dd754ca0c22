"""The repository's docker-compose.yml as Docker would print it, where there is no Docker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

import minikafka
from minikafka.chaos.compose_project import Model

FILE = Path(minikafka.__file__).parent.parent / "docker-compose.yml"


def as_config_prints(text: str) -> Model:
    """What ``docker compose config --format json`` makes of a file, as far as it matters here."""
    model: dict[str, Any] = yaml.safe_load(text)
    for service in model["services"].values():
        host, published, target = service["ports"][0].split(":")
        service["ports"] = [{"host_ip": host, "published": published, "target": int(target), "protocol": "tcp"}]
        service["environment"] = {name: str(value) for name, value in service["environment"].items()}
        service["networks"] = {"default": None}
    return model | {"networks": {"default": {"name": "minikafka-chaos_default"}}}
