"""Which names a topic may have. Directories are named after topics, so nothing else is ever let through."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import CLUSTER_METADATA_TOPIC

NAME_LENGTH_MAX: Final = 249

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION, saying why, unless a topic may have that name."""
    if not name:
        problem = "a topic name must not be empty"
    elif name in (".", ".."):
        problem = f"a topic cannot be named {name!r}"
    elif len(name) > NAME_LENGTH_MAX:
        problem = f"a topic name has at most {NAME_LENGTH_MAX} characters; {name[:20]!r}... has {len(name)}"
    elif not _LEGAL.fullmatch(name):
        problem = f"topic name {name!r} has characters other than a-z, A-Z, 0-9, '.', '_' and '-'"
    elif name == CLUSTER_METADATA_TOPIC:
        problem = f"the name {name} is taken by the cluster's own metadata"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def colliding_topic(name: str, existing: Iterable[str]) -> str | None:
    """A topic whose name differs from ``name`` only in '.' for '_': metric names would not tell them apart."""
    if "." not in name and "_" not in name:
        return None
    plain = name.replace(".", "_")
    return next((other for other in existing if other != name and other.replace(".", "_") == plain), None)
