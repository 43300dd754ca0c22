"""Request and response headers, and whole frames made of a header and a body.

A request header is api_key, api_version, correlation_id, client_id (version 1) and tagged fields (version 2); a
response header is the correlation_id (version 0) and tagged fields (version 1). Tagged fields are ignored.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from minikafka.wire.api import FIRST_FLEXIBLE, FIRST_TAGGED
from minikafka.wire.errors import WireError
from minikafka.wire.primitives import skip_tagged_fields
from minikafka.wire.schema import Buffer

_request_start = Struct(">hhih")
_unpack_request_start = _request_start.unpack_from
_size_and_request_start = Struct(">ihhih")
_size_and_correlation_id = Struct(">ii")
_size_correlation_id_and_no_tags = Struct(">iix")
_correlation_id = Struct(">i")
_new_tuple: Final = tuple.__new__  # a NamedTuple without its Python-level constructor: a third of the time


class RequestHeader(NamedTuple):
    """Who asks for what."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header at the start of `frame` (which begins behind the size prefix) and the position of the body.

    Any version of a known API is accepted; an unknown API, whose header version cannot be known, is a WireError.
    """
    try:
        api_key, version, correlation_id, size = _unpack_request_start(frame)
        pos = 10
        client_id: str | None = None
        if size >= 0:
            pos += size
            if pos > len(frame):
                raise WireError("the request header ends early, in client_id")
            client_id = str(frame[10:pos], "utf-8")
        elif size != -1:
            raise WireError(f"client_id has length {size}")
        if version >= FIRST_FLEXIBLE[api_key]:
            tags = frame[pos]
            pos = skip_tagged_fields(frame, pos + 1, tags) if tags else pos + 1
    except KeyError:
        raise WireError(f"unknown API key {api_key}") from None
    except (struct_error, IndexError):
        raise WireError("the request header ends early") from None
    except UnicodeDecodeError:
        raise WireError("client_id is not UTF-8") from None
    return _new_tuple(RequestHeader, (api_key, version, correlation_id, client_id)), pos


def encode_request(api_key: int, version: int, correlation_id: int, client_id: str | None, body: Buffer) -> bytes:
    """A whole request: size prefix, header, body."""
    name = b"" if client_id is None else client_id.encode()
    tags = b"\0" if version >= FIRST_FLEXIBLE[api_key] else b""
    size = 10 + len(name) + len(tags) + len(body)
    length = -1 if client_id is None else len(name)
    return b"".join((_size_and_request_start.pack(size, api_key, version, correlation_id, length), name, tags, body))


def decode_response_header(frame: Buffer, api_key: int, version: int) -> tuple[int, int]:
    """The correlation id at the start of `frame` (which begins behind the size prefix) and the body's position."""
    try:
        (correlation_id,) = _correlation_id.unpack_from(frame)
        if version < FIRST_TAGGED[api_key]:
            return correlation_id, 4
        tags = frame[4]
        return correlation_id, skip_tagged_fields(frame, 5, tags) if tags else 5
    except (struct_error, IndexError):
        raise WireError("the response header ends early") from None


def response_prefix(api_key: int, version: int, correlation_id: int, body_size: int) -> bytes:
    """What stands before a response body of `body_size` bytes: size prefix and header."""
    if version >= FIRST_TAGGED[api_key]:
        return _size_correlation_id_and_no_tags.pack(body_size + 5, correlation_id)
    return _size_and_correlation_id.pack(body_size + 4, correlation_id)


def encode_response(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """A whole response: size prefix, header, body."""
    return response_prefix(api_key, version, correlation_id, len(body)) + body
