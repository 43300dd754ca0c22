"""Which names a topic may have. Directories are named after topics, so nothing else is ever let through."""

from __future__ import annotations

import re
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


def plain_name(name: str) -> str | None:
    """What no two topics may have in common, where metric names would not tell them apart ('.' is '_' in these).

    None for a name that collides with no other.
    """
    return name.replace(".", "_") if "." in name or "_" in name else None
