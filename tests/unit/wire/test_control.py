from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.errors import ErrorCode, KafkaError
from minikafka.wire.control import (
    CONTROL_VERSION,
    COUNT_MAX,
    NESTING_MAX,
    ControlFrame,
    FrameKind,
    decode_frame,
    encode_error,
    encode_frame,
)
from minikafka.wire.errors import WireError

leaves = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary()
)
bodies = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.integers(0, 99), inner, max_size=4),
)
MAGIC = bytes([CONTROL_VERSION])


@given(st.sampled_from(FrameKind), st.integers(0, 2**63 - 1), st.text(min_size=1, max_size=64), bodies)
def test_frames_round_trip(kind: FrameKind, correlation_id: int, method: str, body: Any) -> None:
    frame = encode_frame(kind, correlation_id, method, body)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert decode_frame(memoryview(frame)[4:]) == ControlFrame(kind, correlation_id, method, body)


def test_frames_cut_short_are_refused() -> None:
    frame = encode_frame(FrameKind.REQUEST, 300, "vote", {"epoch": 3, "log": [1, b"xyz", None, 1.5]})[4:]
    for end in range(len(frame)):
        with pytest.raises(WireError):
            decode_frame(frame[:end])


@given(st.binary(max_size=60))
def test_random_bytes_raise_wire_errors_only(payload: bytes) -> None:
    for frame in (payload, MAGIC + payload, MAGIC + b"\x94\x00\x01\xa1m" + payload):
        try:
            decode_frame(frame)
        except WireError:
            continue


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (b"", "empty"),
        (b"\x02\x90", "version 2"),
        (MAGIC + b"\x90", "an array of"),
        (MAGIC + b"\xc0", "an array of"),
        (MAGIC + msgpack.packb([3, 1, "m", None]), "kind 3"),
        (MAGIC + msgpack.packb([True, 1, "m", None]), "kind True"),
        (MAGIC + msgpack.packb([0, -1, "m", None]), "correlation id -1"),
        (MAGIC + msgpack.packb([0, "1", "m", None]), "correlation id '1'"),
        (MAGIC + msgpack.packb([0, 1, "", None]), "method ''"),
        (MAGIC + msgpack.packb([0, 1, "m" * 65, None]), "method 'mmm"),
        (MAGIC + msgpack.packb([0, 1, b"m", None]), "method b'm'"),
        (MAGIC + msgpack.packb([0, 1, "m", None]) + b"\x00", "ExtraData"),
        (MAGIC + msgpack.packb([0, 1, "m", msgpack.ExtType(5, b"abcd")]), "max_ext_len"),
        (MAGIC + msgpack.packb([0, 1, "m", msgpack.ExtType(5, b"")]), "extension type 5"),
        (MAGIC + msgpack.packb([0, 1, "m", msgpack.Timestamp(1, 2)]), "max_ext_len"),
        (MAGIC + b"\x94\x00\x01\xa1m\x81\x90\x01", "a map key is a list"),
        (MAGIC + b"\x94\x00\x01\xa1m\x81\xc0\x01", "a map key is a NoneType"),
        (MAGIC + b"\x94\x00\x01\xa1m\xa1\xff", "UnicodeDecodeError"),
        (MAGIC + b"\x94\x00\x01\xa1m\xdd\xff\xff\xff\xff", "max_array_len"),
        (MAGIC + b"\x94\x00\x01\xa1m\xdf\xff\xff\xff\xff", "max_map_len"),
        (MAGIC + b"\x94\x00\x01\xa1m\xc6\xff\xff\xff\xff", "incomplete"),
        (MAGIC + b"\x94\x00\x01\xa1m" + b"\x91" * (NESTING_MAX + 1) + b"\xc0", "nested more than"),
        (MAGIC + b"\x94\x00\x01\xa1m" + b"\x91" * 100_000 + b"\xc0", "StackError"),
        (MAGIC + msgpack.packb([0, 1, "m", [None] * (COUNT_MAX + 1)]), "max_array_len"),
    ],
)
def test_frames_that_are_wrong(frame: bytes, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        decode_frame(frame)


def test_errors_carry_code_and_message() -> None:
    error = KafkaError(ErrorCode.NOT_CONTROLLER, "node 2 leads")
    frame = decode_frame(encode_error(5, "register", error)[4:])
    assert (frame.kind, frame.correlation_id, frame.method) == (FrameKind.ERROR, 5, "register")
    assert (frame.error().code, frame.error().message) == (ErrorCode.NOT_CONTROLLER, "node 2 leads")


@pytest.mark.parametrize("body", [None, {}, {"code": "x", "message": 5}, {"code": 99999}])
def test_errors_of_a_strange_shape_are_still_errors(body: Any) -> None:
    error = decode_frame(encode_frame(FrameKind.ERROR, 5, "register", body)[4:]).error()
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
