"""Answers that refuse a request with one error, for any API.

So answer a node to who may not ask (``broker.authorization``), and the rules of a test (``broker.faults``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from minikafka.errors import ErrorCode
from minikafka.wire.error_codes import CODES
from minikafka.wire.schema import ZERO_UUID, Message, MessageType

_ALIASES: Final = {
    "partition": ("partition_index", "index"),
    "partition_index": ("partition", "index"),
    "index": ("partition_index", "partition"),
    "name": ("topic", "topic_name"),
    "topic": ("name", "topic_name"),
    "topic_name": ("name", "topic"),
    "user": ("name",),
}
"""What requests call what answers repeat of them."""
_NAMES_IN_ARRAYS: Final = frozenset({"entity"})
"""Arrays of answers that say what an element is about, as those of the same name in requests."""
_BELOW: Final = {"dirs": "topics"}
"""Arrays of requests that answers do not have, and what answers have instead, which is in them."""
_NAMES_NOTHING: Final = "forgotten_topics_data"
"""An array of requests that answers say nothing of."""
_NOT_WITH_ERRORS: Final[dict[str, Any]] = {
    **dict.fromkeys(("base_offset", "offset", "end_offset", "leader_epoch", "timestamp"), -1),
    **dict.fromkeys(("num_partitions", "replication_factor"), -1),
    "records": b"",
    "error_message": None,
}
"""Fields that mean something without an error only, with their values. Without a message clients have words of their
own for a code; they show an empty one as it is."""

OF_PARTITIONS: Final = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    }
)
"""Errors that no broker says of a whole fetch, of an election of many, or of a group."""
_NAMES_OF_PARTITIONS: Final = frozenset({"name", "topic", "partition", "partition_id", "partition_index"})
"""What names a topic or a partition."""


def has_error(response: MessageType) -> bool:
    """Whether an answer of this class can say an error at all."""
    return any(name in CODES for name in response.SCHEMA) or any(
        has_error(field.type)
        for field in response.SCHEMA.values()
        if field.array and isinstance(field.type, MessageType)
    )


def refuse(request: Message, response_type: type[Message], code: ErrorCode) -> Message:
    """The answer to ``request`` that says ``code`` of everything that it names."""
    response = response_type()
    _fill(response, request, code)
    return response


def refuse_as_brokers_do(request: Message, response_type: type[Message], code: ErrorCode) -> Message:
    """The same, but what brokers say of partitions only is not said of the whole, where partitions are named."""
    response = refuse(request, response_type, code)
    if code in OF_PARTITIONS and _say(response, code, of=_NAMES_OF_PARTITIONS):
        for name in CODES:
            if name in response_type.SCHEMA:
                setattr(response, name, ErrorCode.NONE)
    return response


def say_error(response: Message, code: ErrorCode) -> None:
    """Make ``response`` say ``code`` wherever it has room for it; what brokers say of partitions only, of topics and
    partitions, where it has any. Java's clients look no further when a whole fetch has an error."""
    if code not in OF_PARTITIONS or not _say(response, code, of=_NAMES_OF_PARTITIONS):
        _say(response, code)


def _say(response: Message, code: ErrorCode, *, of: frozenset[str] = frozenset()) -> bool:
    """Only in what has one of these fields, if any is given. Whether anything says it."""
    schema = type(response).SCHEMA
    coded = [name for name in schema if name in CODES] if not of or not of.isdisjoint(schema) else []
    for name in coded:
        setattr(response, name, code)
    for name, value in _NOT_WITH_ERRORS.items():
        if coded and name in schema:
            setattr(response, name, value)
    said = [bool(coded)]
    for name, field in schema.items():
        if field.array and isinstance(field.type, MessageType):
            said += [_say(element, code, of=of) for element in getattr(response, name) or ()]
    return any(said)


class _Plan(NamedTuple):
    """What answers of one class have from requests of another. Worked out once: a request may have 10,000 elements."""

    copied: tuple[tuple[str, str], ...]
    """Fields, and those of the request that they repeat."""
    codes: tuple[str, ...]
    constants: tuple[tuple[str, Any], ...]
    arrays: tuple[tuple[str, MessageType, tuple[str, ...]], ...]
    """Arrays that can say an error, or name what it is about; their elements' class, and arrays of the request that
    name the elements: that of the same name, or all, of which versions and callers leave most empty."""


@cache
def _plan(response: MessageType, source: MessageType) -> _Plan:
    schema = response.SCHEMA
    codes = tuple(name for name in schema if name in CODES)
    plain = [(name, (name, *_ALIASES.get(name, ()))) for name, field in schema.items() if not field.array]
    origins = [(name, next((each for each in names if each in source.SCHEMA), None)) for name, names in plain]
    named_by = tuple(name for name, field in source.SCHEMA.items() if field.array and name != _NAMES_NOTHING)
    return _Plan(
        tuple((name, origin) for name, origin in origins if origin is not None),
        codes,
        _constants(response),
        tuple(
            (name, field.type, (name,) if name in named_by and name in _NAMES_IN_ARRAYS else named_by)
            for name, field in schema.items()
            if field.array
            and isinstance(field.type, MessageType)
            and (has_error(field.type) or name in _NAMES_IN_ARRAYS)
        ),
    )


@cache
def _constants(response: MessageType) -> tuple[tuple[str, Any], ...]:
    is_coded = any(name in CODES for name in response.SCHEMA)
    return tuple((name, value) for name, value in _NOT_WITH_ERRORS.items() if is_coded and name in response.SCHEMA)


@cache
def _field_of_bare(response: MessageType, kind: str) -> str | None:
    """What repeats a bare name, or a number, of the request."""
    names = (name for name, field in response.SCHEMA.items() if field.type == kind and not field.array)
    return next((name for name in names if name not in (*CODES, "error_message")), None)


def _fill(response: Message, source: Message, code: ErrorCode) -> None:
    copied, codes, constants, arrays = _plan(type(response), type(source))
    for name, origin in copied:
        value = getattr(source, origin)
        if value is not None and (type(value) is not UUID or value != ZERO_UUID):
            setattr(response, name, value)
    for name in codes:
        setattr(response, name, code)
    for name, value in constants:
        setattr(response, name, value)
    for name, kind, named_by in arrays:
        setattr(response, name, [_element(kind, each, code) for each in _elements(source, named_by)])


def _elements(source: Message, arrays: Iterable[str]) -> Iterator[Any]:
    for name in arrays:
        for each in getattr(source, name) or ():
            if name in _BELOW:
                yield from getattr(each, _BELOW[name])
            else:
                yield each


def _element(cls: MessageType, source: Any, code: ErrorCode) -> Message:
    element: Message = cls()
    if isinstance(source, Message):
        _fill(element, source, code)
        return element
    name = _field_of_bare(cls, "string" if isinstance(source, str) else "int32")
    if name is not None:
        setattr(element, name, source)
    for each in CODES:
        if each in cls.SCHEMA:
            setattr(element, each, code)
    for each, value in _constants(cls):
        setattr(element, each, value)
    return element
