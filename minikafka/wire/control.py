"""Frames of the control plane: what nodes say to each other on the controller listener.

A frame is a size prefix (int32, as everywhere), one byte with the format's version, and a msgpack array
``[kind, correlation_id, method, body]``. A request is answered by a response or an error with the same
correlation id and method; the body of an error is ``{"code": int, "message": str}``.

Decoding is strict, because it runs before anything is known of the peer: known version and kind, bounded counts
and nesting, no extension types, no bytes left over. Anything else is a :class:`WireError`.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Any, Final, NamedTuple

import msgpack  # type: ignore[import-untyped, unused-ignore]

from minikafka.errors import ErrorCode, KafkaError
from minikafka.wire.errors import WireError
from minikafka.wire.schema import Buffer

CONTROL_VERSION: Final = 1
CONTROL_FRAME_SIZE_MAX: Final = 16 * 1024 * 1024
UNAUTHENTICATED_FRAME_SIZE_MAX: Final = 4096
"""The largest frame to accept from a peer that has not proved the cluster secret."""

NESTING_MAX: Final = 16
COUNT_MAX: Final = 65_536
METHOD_LENGTH_MAX: Final = 64
CORRELATION_ID_MAX: Final = 2**63 - 1

_prefix = Struct(">iB")


class FrameKind(IntEnum):
    """What a control-plane frame is."""

    REQUEST = 0
    RESPONSE = 1
    ERROR = 2


class ControlFrame(NamedTuple):
    """One decoded frame. The body is what msgpack made of it: maps have string or integer keys."""

    kind: FrameKind
    correlation_id: int
    method: str
    body: Any

    def error(self) -> KafkaError:
        """The error that an ERROR frame carries."""
        assert self.kind is FrameKind.ERROR
        if not isinstance(self.body, dict):
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{self.method} failed without saying why")
        code, message = self.body.get("code"), self.body.get("message")
        known = ErrorCode.of(code) if isinstance(code, int) else ErrorCode.UNKNOWN_SERVER_ERROR
        return KafkaError(known, message if isinstance(message, str) else "")


def encode_frame(kind: FrameKind, correlation_id: int, method: str, body: Any) -> bytes:
    """A whole frame, size prefix included. `body` consists of None, bool, int, float, str, bytes, list and dict."""
    assert 0 <= correlation_id <= CORRELATION_ID_MAX
    assert 0 < len(method) <= METHOD_LENGTH_MAX
    payload: bytes = msgpack.packb((int(kind), correlation_id, method, body), use_bin_type=True)
    return _prefix.pack(len(payload) + 1, CONTROL_VERSION) + payload


def encode_error(correlation_id: int, method: str, error: KafkaError) -> bytes:
    """A whole ERROR frame."""
    return encode_frame(FrameKind.ERROR, correlation_id, method, {"code": int(error.code), "message": error.message})


def decode_frame(frame: Buffer) -> ControlFrame:
    """A frame without its size prefix. Raises WireError for whatever :func:`encode_frame` would not have written.

    Byte strings are copies: nothing of the result refers to `frame`.
    """
    if not len(frame):
        raise WireError("an empty control frame")
    if frame[0] != CONTROL_VERSION:
        raise WireError(f"control frame version {frame[0]}; this node speaks version {CONTROL_VERSION}")
    payload = _unpack(memoryview(frame)[1:])
    if not isinstance(payload, list) or len(payload) != 4:
        raise WireError("a control frame is an array of kind, correlation id, method and body")
    kind, correlation_id, method, body = payload
    if type(kind) is not int or not 0 <= kind < len(FrameKind):
        raise WireError(f"control frame kind {kind!r:.100}")
    if type(correlation_id) is not int or not 0 <= correlation_id <= CORRELATION_ID_MAX:
        raise WireError(f"control frame correlation id {correlation_id!r:.100}")
    if not isinstance(method, str) or not 0 < len(method) <= METHOD_LENGTH_MAX:
        raise WireError(f"control frame method {method!r:.100}")
    check_nesting(body, NESTING_MAX)
    return ControlFrame(FrameKind(kind), correlation_id, method, body)


def _unpack(payload: memoryview) -> Any:
    try:
        return msgpack.unpackb(
            payload,
            raw=False,
            strict_map_key=False,
            max_array_len=min(COUNT_MAX, len(payload)),
            max_map_len=min(COUNT_MAX, len(payload)),
            max_ext_len=0,
            ext_hook=_refuse_extension,
            object_pairs_hook=_checked_map,
        )
    except (ValueError, msgpack.UnpackException) as error:
        raise WireError(f"a control frame is not the msgpack it should be: {error!r:.200}") from None


def _refuse_extension(code: int, _data: bytes) -> Any:
    raise ValueError(f"extension type {code}")


def _checked_map(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    for key, _ in pairs:
        if type(key) is not str and type(key) is not int:
            raise ValueError(f"a map key is a {type(key).__name__}")
    return dict(pairs)


def check_nesting(value: Any, levels: int) -> None:
    """Raise WireError when lists and maps are nested more than `levels` deep."""
    if not isinstance(value, list | dict):
        return
    if levels == 0:
        raise WireError(f"a control frame is nested more than {NESTING_MAX} deep")
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, list | dict):
            check_nesting(item, levels - 1)
