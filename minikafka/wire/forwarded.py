"""Kafka requests inside calls of the control plane: how a node passes them on to the active controller.

The body of a call is ``[key, version, bytes of the request]``, and its answer the bytes of the response in the same
version. A request goes in the highest version that its sender speaks, whichever one a client spoke.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeVar

from minikafka.errors import ErrorCode, KafkaError
from minikafka.wire.api import BROKERS, ApiKey
from minikafka.wire.codec import decode_exactly, encode
from minikafka.wire.errors import WireError
from minikafka.wire.schema import Message

M = TypeVar("M", bound=Message)

_KEYS: Final = {f"{key.camel_name}Request": key for key in ApiKey}


class Forwarded(NamedTuple):
    """A request, and how it came."""

    request: Any  # of the API's request class
    key: ApiKey
    version: int


def key_of(request: Message) -> ApiKey:
    """The API of a request."""
    return _KEYS[type(request).__name__]


def encode_forwarded(request: Message) -> list[Any]:
    """The body of a call."""
    key = key_of(request)
    return [int(key), key.versions.last, encode(request, key.versions.last)]


def decode_forwarded(body: Any) -> Forwarded:
    """The request of a call. KafkaError: INVALID_REQUEST when it is none, UNSUPPORTED_VERSION when the controller does
    not answer it."""
    match body:
        case [int(key), int(version), bytes(data)]:
            pass
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "not a forwarded request: [key, version, bytes] is expected")
    try:
        api = ApiKey(key)
    except ValueError:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"API {key} is unknown to this node") from None
    if not api.listeners >= BROKERS or not api.versions.has(version):
        message = f"{api.camel_name} version {version} is not for the controller of this node"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
    try:
        return Forwarded(decode_exactly(api.request_class, version, data), api, version)
    except WireError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a malformed {api.camel_name} request: {error}") from None


def encode_answer(response: Message, forwarded: Forwarded) -> bytes:
    """The answer to a call."""
    return encode(response, forwarded.version)


def decode_answer(request: Message, response_class: type[M], answer: Any) -> M:
    """The response to ``request``; KafkaError(UNKNOWN_SERVER_ERROR) when the answer is none."""
    try:
        if type(answer) is not bytes:
            raise WireError(f"bytes are expected, not {type(answer).__name__}")
        return decode_exactly(response_class, key_of(request).versions.last, answer)
    except WireError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller's answer is malformed: {error}") from None
