"""The errors in an answer, wherever its schema has error codes."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from minikafka.wire.schema import Message, MessageType

CODES: Final = ("error_code", "partition_error_code")
"""What the field is called: the other way in AddPartitionsToTxn alone."""


class _Plan(NamedTuple):
    """Where a message class has error codes."""

    code: str
    """The field with its own; "": it has none."""
    arrays: tuple[tuple[str, _Plan], ...]
    """Arrays whose elements have some, by name."""


@cache
def _plan(cls: MessageType) -> _Plan:
    structs = (
        (name, _plan(field.type))
        for name, field in cls.SCHEMA.items()
        if field.array and isinstance(field.type, MessageType)
    )
    code = next((name for name in CODES if name in cls.SCHEMA), "")
    return _Plan(code, tuple((name, plan) for name, plan in structs if any(plan)))


def errors_of(message: Message) -> list[int]:
    """Every error code of ``message`` that is not 0, in order."""
    found: list[int] = []
    _add_errors(message, _plan(type(message)), found)
    return found


def _add_errors(message: Message, plan: _Plan, found: list[int]) -> None:
    if plan.code and (code := getattr(message, plan.code)):
        found.append(code)
    for name, of_element in plan.arrays:
        for element in getattr(message, name) or ():
            _add_errors(element, of_element, found)
