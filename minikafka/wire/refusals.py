"""Answers that refuse a request with one error, for any API.

So answer a node to who may not ask (``broker.authorization``), and the rules of a test (``broker.faults``)."""

from __future__ import annotations

from typing import Any, Final

from minikafka.errors import ErrorCode
from minikafka.wire.schema import ZERO_UUID, Message, MessageType

_CODES: Final = ("error_code", "partition_error_code")
_ALIASES: Final = {
    "partition": ("partition_index", "index"),
    "partition_index": ("partition", "index"),
    "index": ("partition_index", "partition"),
    "name": ("topic", "topic_name"),
    "topic": ("name", "topic_name"),
}
"""What requests call what answers repeat of them."""
_NOT_WITH_ERRORS: Final[dict[str, Any]] = {
    **dict.fromkeys(("base_offset", "offset", "end_offset", "leader_epoch", "timestamp"), -1),
    **dict.fromkeys(("num_partitions", "replication_factor"), -1),
    "records": b"",
}
"""Fields that mean something without an error only, with their values."""


def has_error(response: MessageType) -> bool:
    """Whether an answer of this class can say an error at all."""
    return any(name in _CODES for name in response.SCHEMA) or any(
        has_error(field.type)
        for field in response.SCHEMA.values()
        if field.array and isinstance(field.type, MessageType)
    )


def refuse(request: Message, response_type: type[Message], code: ErrorCode) -> Message:
    """The answer to ``request`` that says ``code`` of everything that it names."""
    response = response_type()
    _fill(response, request, code)
    return response


def say_error(response: Message, code: ErrorCode) -> None:
    """Make ``response`` say ``code`` wherever it has room for it."""
    schema = type(response).SCHEMA
    coded = [name for name in schema if name in _CODES]
    for name in coded:
        setattr(response, name, code)
    for name, value in _NOT_WITH_ERRORS.items():
        if coded and name in schema:
            setattr(response, name, value)
    for name, field in schema.items():
        if field.array and isinstance(field.type, MessageType):
            for element in getattr(response, name) or ():
                say_error(element, code)


def _fill(response: Message, source: Message, code: ErrorCode) -> None:
    schema = type(response).SCHEMA
    for name, field in schema.items():
        if field.array and isinstance(field.type, MessageType):
            if has_error(field.type):
                setattr(response, name, [_element(field.type, each, code) for each in _named_by(source, name)])
        elif not field.array:
            _copy(name, response, source)
    say_error(response, code)


def _element(cls: MessageType, source: Any, code: ErrorCode) -> Message:
    element: Message = cls()
    if isinstance(source, Message):
        _fill(element, source, code)
        return element
    for name, field in cls.SCHEMA.items():  # the request has bare names, or numbers
        if field.type == ("string" if isinstance(source, str) else "int32") and name not in (*_CODES, "error_message"):
            setattr(element, name, source)
            break
    say_error(element, code)
    return element


def _named_by(source: Message, name: str) -> list[Any]:
    """The elements of the request that an array of the answer answers: of its name, or else the first there are."""
    arrays = [each for each, field in type(source).SCHEMA.items() if field.array]
    for each in (name, *arrays):
        if each in arrays and (elements := getattr(source, each)):
            return list(elements)
    return []


def _copy(name: str, response: Message, source: Message) -> None:
    for each in (name, *_ALIASES.get(name, ())):
        if each in type(source).SCHEMA:
            value = getattr(source, each)
            if value is not None and value != ZERO_UUID:
                setattr(response, name, value)
            return
