"""What commands and responses have in common, and how they travel."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar, cast

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.codec import MalformedError, from_wire, to_wire


@dataclass(frozen=True, slots=True)
class Response:
    """Base of all responses."""

    def to_wire(self) -> list[Any]:
        """The response as msgpack values."""
        return to_wire(self)


R = TypeVar("R", bound=Response)


@dataclass(frozen=True, slots=True)
class Command(Generic[R]):
    """Base of all commands; R is the type of the response."""

    TYPE: ClassVar[int]
    RESPONSE: ClassVar[type[Response]]
    IS_BROKERS_OWN: ClassVar[bool] = False
    """True for what a broker asks on its own behalf (as ``broker_id``), and not for a client."""

    def to_wire(self) -> list[Any]:
        """The command as msgpack values."""
        return [self.TYPE, *to_wire(self)]


def decode_command(wire: Any) -> Command[Any]:
    """The command of msgpack values; KafkaError(INVALID_REQUEST) when they are none."""
    if not isinstance(wire, list | tuple) or not wire or type(wire[0]) is not int:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "not a controller command: [type, field, ...] is expected")
    cls = _command_types().get(wire[0])
    if cls is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"controller command {wire[0]} is unknown to this node")
    try:
        return from_wire(cls, wire[1:], fields_min=_required(cls))
    except MalformedError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None


@cache
def _command_types() -> dict[int, type[Command[Any]]]:
    # A dataclass with slots is made of a plain class that may live on as a subclass: the later of two is the one.
    return {cls.TYPE: cls for cls in Command.__subclasses__()}


def _required(cls: type[Command[Any]]) -> int:
    """How many fields a command of an older node may have at least: those added since have defaults."""
    return sum(each.default is MISSING for each in fields(cls))


def decode_response(command: Command[R], wire: Any) -> R:
    """The response to ``command``; KafkaError(UNKNOWN_SERVER_ERROR) when the values are none."""
    try:
        return cast(R, from_wire(command.RESPONSE, wire))
    except MalformedError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller's answer is malformed: {error}") from None
