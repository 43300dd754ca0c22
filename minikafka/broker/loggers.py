"""The level of this node's log while it runs: the resource ``broker-loggers`` of Kafka's tools (KIP-412).

There is one logger, ``root``. A change holds until the process ends; it is in no file and not in the metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any, Final

import structlog

from minikafka.errors import ErrorCode, KafkaError
from minikafka.wire.messages.incremental_alter_configs import AlterableConfig

BROKER_LOGGER: Final = 8
"""Kafka's number of this type of resource."""
ROOT: Final = "root"
LEVELS: Final = {"FATAL": 50, "ERROR": 40, "WARN": 30, "INFO": 20, "DEBUG": 10, "TRACE": 5}
SET, DELETE, APPEND, SUBTRACT = range(4)
OPERATIONS: Final = ("SET", "DELETE", "APPEND", "SUBTRACT")

_NUMBERS: Final = {"critical": 50, "error": 40, "warning": 30, "info": 20, "debug": 10}
_NAMES: Final = {"critical": "FATAL", "warning": "WARN"}


class RootLogger:
    """The first processor of events: lets through what has the level, or a higher one."""

    def __init__(self) -> None:
        self.level = "INFO"
        self._least = LEVELS[self.level]

    def configure(self, level: str) -> None:
        """Begin with a level in the words of ``logging.level``."""
        self._set(_NAMES.get(level, level.upper()))

    def __call__(self, logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if _NUMBERS.get(method, LEVELS["FATAL"]) < self._least:
            raise structlog.DropEvent
        return event

    def alter(self, changes: Iterable[AlterableConfig], *, validate_only: bool) -> None:
        """All changes or none. KafkaError: INVALID_CONFIG, INVALID_REQUEST."""
        level = self.level
        for at, change in enumerate(changes):
            if at:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is one logger, {ROOT}, and one change of it")
            level = _checked(change)
        if not validate_only:
            self._set(level)

    def _set(self, level: str) -> None:
        self.level, self._least = level, LEVELS[level]


root_logger: Final = RootLogger()
"""Of the process, as the processors of ``event_log`` are."""


def check_node(name: str, node_id: int) -> None:
    """KafkaError(INVALID_REQUEST) if the loggers of that name are not this node's."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "name a node; each has loggers of its own")
    if name != str(node_id):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"this is node {node_id}; ask node {name} for its loggers")


def _checked(change: AlterableConfig) -> str:
    """The new level."""
    if change.config_operation in (APPEND, SUBTRACT):
        operation = OPERATIONS[change.config_operation]
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{operation} is for lists; a logger has one level")
    if change.config_operation not in (SET, DELETE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"operation {change.config_operation} is unknown")
    if change.name != ROOT:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"there is no logger {change.name!r}; the only one is {ROOT}")
    if change.config_operation == DELETE:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"the level of the logger {ROOT} cannot be deleted; set another one"
        )
    if change.value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{ROOT} has no value")
    if change.value not in LEVELS:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{ROOT} = {change.value!r}: must be one of {', '.join(LEVELS)}")
    return change.value
