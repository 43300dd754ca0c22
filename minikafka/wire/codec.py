"""Bytes <-> messages: the codecs of every message class in every version, compiled when first used.

>>> from minikafka.wire.messages.heartbeat import HeartbeatRequest
>>> message = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
>>> decode(HeartbeatRequest, 4, encode(message, 4))[0] == message
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from minikafka.wire.decoder import Decoder, compile_decoder
from minikafka.wire.encoder import Encoder, compile_encoder
from minikafka.wire.errors import WireError
from minikafka.wire.primitives import ELEMENTS_MAX
from minikafka.wire.schema import Buffer, Message

M = TypeVar("M", bound=Message)

_decoders: dict[tuple[type[Message], int], Decoder] = {}
_encoders: dict[tuple[type[Message], int], Encoder] = {}
_frame_encoders: dict[tuple[type[Message], int, str], Encoder] = {}


def decode(cls: type[M], version: int, buf: Buffer, pos: int = 0, elements_max: int = ELEMENTS_MAX) -> tuple[M, int]:
    """Read a message of `cls` in `version` at `pos`; returns it with the position behind it.

    All its arrays together may have `elements_max` elements.

    Fields that the version does not have keep their defaults. Values of ``records`` fields are slices of `buf`.
    Raises WireError, and nothing else, for bytes that are not such a message. Whether bytes remain behind the
    message is for the caller to check (:func:`decode_exactly`).
    """
    view = buf if type(buf) is memoryview else memoryview(buf)
    message, end = decoder(cls, version)(view, pos, elements_max)
    return message, end


def decode_exactly(cls: type[M], version: int, buf: Buffer, pos: int = 0) -> M:
    """Like :func:`decode`, for a buffer that must end where the message ends."""
    message, end = decode(cls, version, buf, pos)
    if end != len(buf):
        raise WireError(f"{len(buf) - end} bytes follow {cls.__name__} v{version}")
    return message


def encode(message: Message, version: int) -> bytes:
    """The bytes of `message` in `version`; fields that the version does not have are dropped.

    Raises WireError when a value does not fit its field: null where it is not allowed, an integer out of range.
    """
    body: bytes = encoder(type(message), version)(message)
    return body


def encode_around(message: Message, version: int, field: str, elements: Sequence[bytes]) -> bytes:
    """The bytes of `message` with these elements, which are encoded already, in its array `field`.

    What `message` has there itself is replaced.
    """
    key = (type(message), version, field)
    try:
        encode_frame = _frame_encoders[key]
    except KeyError:
        encode_frame = _frame_encoders[key] = compile_encoder(type(message), version, encoded=field)
    setattr(message, field, elements)
    body: bytes = encode_frame(message)
    return body


def decoder(cls: type[Message], version: int) -> Decoder:
    """The bare function ``(memoryview, position) -> (message, position behind it)``."""
    try:
        return _decoders[cls, version]
    except KeyError:
        compiled = _decoders[cls, version] = compile_decoder(cls, version)
        return compiled


def encoder(cls: type[Message], version: int) -> Encoder:
    """The bare function ``message -> bytes``."""
    try:
        return _encoders[cls, version]
    except KeyError:
        compiled = _encoders[cls, version] = compile_encoder(cls, version)
        return compiled
