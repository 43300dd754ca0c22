"""Bytes from strangers: a decoder returns a message or raises WireError, and what it allocates is bounded."""

from __future__ import annotations

import multiprocessing
import random
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest

from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode, encode
from minikafka.wire.control import FrameKind, decode_frame, encode_frame
from minikafka.wire.errors import WireError
from minikafka.wire.headers import decode_request_header, decode_response_header, encode_request
from minikafka.wire.layout import Column, is_flexible, layout_of
from minikafka.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from minikafka.wire.primitives import encode_uvarint
from minikafka.wire.schema import Message, VersionRange

CLASSES: list[type[Message]] = [
    *(cls for key in ApiKey for cls in (key.request_class, key.response_class)),
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
]
BYTES_PER_BYTE_MAX = 250
"""Most memory that one byte of input may cost while it is decoded (a small struct in an array costs most)."""

every_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)


def versions_of(cls: type[Message]) -> range:
    versions = VersionRange.parse(cls.VERSIONS)
    return range(versions.first, versions.last + 1)


def full_message(cls: type[Message], version: int, rng: random.Random) -> Message:
    """A message with something in every field of the version."""
    layout = layout_of(cls, version)
    return cls(**{column.name: value_of(column, version, rng) for column in (*layout.columns, *layout.tagged)})


def value_of(column: Column, version: int, rng: random.Random) -> Any:
    if column.field.array:
        element = column._replace(field=column.field._replace(array=False))
        return [value_of(element, version, rng) for _ in range(rng.randint(1, 2))]
    if column.struct is not None:
        return full_message(column.struct, version, rng)
    makers: dict[str, Callable[[], Any]] = {
        "bool": lambda: True,
        "string": lambda: rng.choice(["", "topic", "ünï"]),
        "bytes": lambda: rng.randbytes(3),
        "records": lambda: rng.randbytes(3),
        "uuid": lambda: UUID(int=rng.getrandbits(128)),
    }
    return makers.get(column.primitive, lambda: rng.randint(0, 127))()


def decodes_or_raises_wire_error(cls: type[Message], version: int, data: bytes) -> bool:
    try:
        _, end = decode(cls, version, data)
    except WireError:
        return False
    assert 0 <= end <= len(data)
    return True


@every_class
def test_every_split_point(cls: type[Message]) -> None:
    rng = random.Random(cls.__name__)
    for version in versions_of(cls):
        message = full_message(cls, version, rng)
        encoded = encode(message, version)
        assert decode(cls, version, encoded) == (message, len(encoded))
        for end in range(len(encoded)):
            assert not decodes_or_raises_wire_error(cls, version, encoded[:end])


def mutations(encoded: bytes, rng: random.Random) -> Iterator[bytes]:
    """Damaged copies: bytes changed to dangerous values, cut out, doubled."""
    for _ in range(12):
        data = bytearray(encoded or b"\0")
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFE, 0xFF, rng.getrandbits(8)])
        yield bytes(data)
        start = rng.randrange(len(data))
        yield bytes(data[:start] + data[start + rng.randint(1, 4) :])
        yield bytes(data[:start] + data[start : start + 8] + data[start:])


@every_class
def test_damaged_messages(cls: type[Message]) -> None:
    rng = random.Random(cls.__name__)
    for version in versions_of(cls):
        for data in mutations(encode(full_message(cls, version, rng), version), rng):
            decodes_or_raises_wire_error(cls, version, data)


@every_class
def test_random_bytes(cls: type[Message]) -> None:
    rng = random.Random(cls.__name__)
    for version in versions_of(cls):
        for size in (0, 1, 5, 20, 60, 200):
            data = rng.randbytes(size)
            decodes_or_raises_wire_error(cls, version, data)
            decodes_or_raises_wire_error(cls, version, bytes(byte & 3 for byte in data))


@every_class
def test_unknown_tags_at_every_level_are_ignored(cls: type[Message]) -> None:
    """A zero count of tagged fields anywhere may become one unknown field; the message stays the same."""
    rng = random.Random(cls.__name__)
    unknown = b"\x01" + encode_uvarint(5000) + b"\x02??"
    for version in versions_of(cls):
        if not is_flexible(cls, version):
            continue
        message = cls()
        encoded = encode(message, version)
        if encoded[-1] == 0:
            assert decode(cls, version, encoded[:-1] + unknown) == (message, len(encoded) + len(unknown) - 1)
        encoded = encode(full_message(cls, version, rng), version)
        for at in range(len(encoded)):
            if encoded[at] == 0:
                decodes_or_raises_wire_error(cls, version, encoded[:at] + unknown + encoded[at + 1 :])


@pytest.fixture(scope="module")
def quiet_process() -> Iterator[ProcessPoolExecutor]:
    """A process of its own: what is traced counts whatever threads and finalizers of earlier tests allocate, too."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@every_class
def test_memory_is_bounded_by_the_size_of_the_input(cls: type[Message], quiet_process: ProcessPoolExecutor) -> None:
    rng = random.Random(cls.__name__)
    version = versions_of(cls)[-1]
    start = encode(full_message(cls, version, rng), version)
    inputs = [
        (version, begin + filler * (2000 // len(filler)))
        for filler in (b"\x00", b"\x01", b"\x02", b"\x7f", b"\xff\xff\xff\xff\x07", b"\x00\x00\x00\x01", b"\x81\x01")
        for begin in (b"", start[: len(start) // 2])
    ]
    for (_, data), peak in zip(inputs, quiet_process.submit(peaks_of_memory, cls, inputs).result(), strict=True):
        assert peak < BYTES_PER_BYTE_MAX * len(data)


def smallest(cls: type[Message], version: int) -> Message:
    """An element with nothing in it; a name that is null by default is empty where it must not be null."""
    columns = layout_of(cls, version).columns
    names = [each.name for each in columns if each.primitive == "string" and not each.nullable and not each.field.array]
    return cls(**dict.fromkeys(names, ""))


@every_class
def test_memory_is_bounded_when_arrays_hold_the_smallest_elements(
    cls: type[Message], quiet_process: ProcessPoolExecutor
) -> None:
    inputs = [
        (version, encode(cls(**{column.name: [smallest(column.struct, version)] * 200}), version))
        for version in versions_of(cls)
        for column in layout_of(cls, version).columns
        if column.field.array and column.struct is not None
    ]
    for (_, data), peak in zip(inputs, quiet_process.submit(peaks_of_memory, cls, inputs).result(), strict=True):
        assert peak < BYTES_PER_BYTE_MAX * len(data)


def peaks_of_memory(cls: type[Message], inputs: list[tuple[int, bytes]]) -> list[int]:
    """Most bytes allocated at once while each input was decoded."""
    return [peak_memory(cls, version, data) for version, data in inputs]


def peak_memory(cls: type[Message], version: int, data: bytes) -> int:
    decodes_or_raises_wire_error(cls, version, data)  # the decoder is made when it is first needed
    tracemalloc.start()
    decodes_or_raises_wire_error(cls, version, data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_request_and_response_headers() -> None:
    rng = random.Random(1)
    for version in (0, 9):
        frame = encode_request(ApiKey.METADATA, version, 7, "client", b"")[4:]
        for data in (*mutations(frame, rng), *(rng.randbytes(size) for size in range(40))):
            with suppress(WireError):
                assert 0 < decode_request_header(data)[1] <= len(data)
            with suppress(WireError):
                assert 0 < decode_response_header(data, ApiKey.METADATA, version)[1] <= len(data)


def test_control_frames() -> None:
    rng = random.Random(2)
    frame = encode_frame(FrameKind.REQUEST, 300, "fetch", {"log": [1, b"xyz", None, {"epoch": 5.5}]})[4:]
    for _ in range(30):
        for data in mutations(frame, rng):
            with suppress(WireError):
                decode_frame(data)
