from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.wire.api import ApiKey
from minikafka.wire.errors import WireError
from minikafka.wire.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request,
    encode_response,
    response_prefix,
)

keys_and_versions = st.sampled_from(
    [(key, version) for key in ApiKey for version in range(key.versions.first, key.versions.last + 1)]
)
int32s = st.integers(-(2**31), 2**31 - 1)


@given(keys_and_versions, int32s, st.none() | st.text(st.characters(codec="utf-8"), max_size=9), st.binary(max_size=9))
def test_requests_round_trip(api: tuple[ApiKey, int], correlation_id: int, client_id: str | None, body: bytes) -> None:
    frame = encode_request(*api, correlation_id, client_id, body)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, pos = decode_request_header(memoryview(frame)[4:])
    assert header == RequestHeader(*api, correlation_id, client_id)
    assert frame[4 + pos :] == body
    for end in range(4, 4 + pos):
        with pytest.raises(WireError):
            decode_request_header(frame[4:end])


@given(keys_and_versions, int32s, st.binary(max_size=9))
def test_responses_round_trip(api: tuple[ApiKey, int], correlation_id: int, body: bytes) -> None:
    frame = encode_response(*api, correlation_id, body)
    assert frame == response_prefix(*api, correlation_id, len(body)) + body
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    decoded, pos = decode_response_header(frame[4:], *api)
    assert decoded == correlation_id
    assert frame[4 + pos :] == body
    for end in range(4, 4 + pos):
        with pytest.raises(WireError, match="ends early"):
            decode_response_header(frame[4:end], *api)


def test_the_bytes_of_both_header_versions() -> None:
    assert encode_request(ApiKey.METADATA, 8, 7, "me", b"B") == b"\0\0\0\x0d\0\x03\0\x08\0\0\0\x07\0\x02meB"
    assert encode_request(ApiKey.METADATA, 9, 7, None, b"B") == b"\0\0\0\x0c\0\x03\0\x09\0\0\0\x07\xff\xff\0B"
    assert encode_response(ApiKey.METADATA, 8, 7, b"B") == b"\0\0\0\x05\0\0\0\x07B"
    assert encode_response(ApiKey.METADATA, 9, 7, b"B") == b"\0\0\0\x06\0\0\0\x07\0B"
    assert encode_response(ApiKey.API_VERSIONS, 3, 7, b"B") == b"\0\0\0\x05\0\0\0\x07B"


def test_tagged_fields_of_headers_are_ignored() -> None:
    frame = b"\0\x03\0\x09\0\0\0\x07\xff\xff" + b"\x01\x05\x02ab" + b"B"
    assert decode_request_header(frame) == (RequestHeader(ApiKey.METADATA, 9, 7, None), 15)
    assert decode_response_header(b"\0\0\0\x07\x01\x05\x02abB", ApiKey.METADATA, 9) == (7, 9)


def test_versions_from_the_future_still_have_a_header() -> None:
    header, pos = decode_request_header(encode_request(ApiKey.API_VERSIONS, 99, 5, "new", b"?")[4:])
    assert header == RequestHeader(ApiKey.API_VERSIONS, 99, 5, "new")
    assert pos == 14


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (b"", "ends early"),
        (b"\x03\xe7\0\0\0\0\0\x01\xff\xff", "unknown API key 999"),
        (b"\0\x03\0\0\0\0\0\x01\xff\xfe", "client_id has length -2"),
        (b"\0\x03\0\0\0\0\0\x01\0\x09abc", "in client_id"),
        (b"\0\x03\0\0\0\0\0\x01\0\x01\xff", "not UTF-8"),
        (b"\0\x03\0\x09\0\0\0\x01\xff\xff\x01\x00\x7f", "beyond the end"),
    ],
)
def test_headers_that_are_wrong(frame: bytes, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        decode_request_header(frame)
