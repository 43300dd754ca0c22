"""Valid names of topics. Directories have the names of topics, so no other name is accepted anywhere."""

from __future__ import annotations

import re
from typing import Final

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import CLUSTER_METADATA_TOPIC, TOPIC_NAME_LENGTH_MAX

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise KafkaError(INVALID_TOPIC_EXCEPTION), with the reason, for an invalid name."""
    if not name:
        problem = "a topic name must not be empty"
    elif name in (".", ".."):
        problem = f"a topic cannot be named {name!r}"
    elif len(name) > TOPIC_NAME_LENGTH_MAX:
        problem = f"a topic name has at most {TOPIC_NAME_LENGTH_MAX} characters; {name[:20]!r}... has {len(name)}"
    elif not _LEGAL.fullmatch(name):
        problem = f"topic name {name!r} has characters other than a-z, A-Z, 0-9, '.', '_' and '-'"
    elif name == CLUSTER_METADATA_TOPIC:
        problem = f"the name {name} is taken by the cluster's own metadata"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def plain_name(name: str) -> str | None:
    """The name with '_' for '.', as in metric names: no two topics may share it.

    None for a name that collides with no other.
    """
    return name.replace(".", "_") if "." in name or "_" in name else None
