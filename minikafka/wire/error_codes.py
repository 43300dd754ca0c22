"""The errors in an answer, wherever its schema has error codes."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from minikafka.wire.schema import Message, MessageType


class _Plan(NamedTuple):
    """Where a message class has error codes."""

    is_coded: bool
    """It has a field ``error_code`` itself."""
    arrays: tuple[tuple[str, _Plan], ...]
    """Arrays whose elements have some, by name."""


@cache
def _plan(cls: MessageType) -> _Plan:
    structs = (
        (name, _plan(field.type))
        for name, field in cls.SCHEMA.items()
        if field.array and isinstance(field.type, MessageType)
    )
    return _Plan("error_code" in cls.SCHEMA, tuple((name, plan) for name, plan in structs if any(plan)))


def errors_of(message: Message) -> list[int]:
    """Every error code of ``message`` that is not 0, in order."""
    found: list[int] = []
    _add_errors(message, _plan(type(message)), found)
    return found


def _add_errors(message: Message, plan: _Plan, found: list[int]) -> None:
    if plan.is_coded and (code := message.error_code):  # type: ignore[attr-defined]
        found.append(code)
    for name, of_element in plan.arrays:
        for element in getattr(message, name) or ():
            _add_errors(element, of_element, found)
