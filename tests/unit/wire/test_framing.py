from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.wire.framing import PREFIX_SIZE, FrameError, ReceiveBuffer

MIB = 1 << 20

pieces = st.lists(st.binary(max_size=300), max_size=20)


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


@given(pieces, st.integers(5, 40), st.randoms())
def test_frames_come_out_as_they_went_in(payloads: list[bytes], initial_size: int, rng: random.Random) -> None:
    stream = memoryview(b"".join(map(framed, payloads)))
    buffer = ReceiveBuffer(initial_size=initial_size)
    received: list[bytes] = []
    while stream:
        room = buffer.writable(65536)
        count = rng.randint(1, min(len(room), len(stream)))
        room[:count] = stream[:count]
        buffer.received(count)
        stream = stream[count:]
        for frame in buffer.frames():
            received.append(bytes(frame))
            if rng.random() < 0.3:
                break  # the rest is taken later
    received += map(bytes, buffer.frames())
    assert received == payloads
    assert len(buffer) == 0


@pytest.mark.parametrize(
    ("prefix", "complaint"),
    [
        (b"\xff\xff\xff\xff", "frame of -1 bytes"),
        (b"\x7f\xff\xff\xff", "frame of 2147483647 bytes: a size must be from 0 to 104857600"),
        (b"GET ", "HTTP request"),
        (b"POST", "HTTP request"),
        (b"\x16\x03\x01\x02", "TLS handshake"),
    ],
)
def test_wrong_prefixes_are_explained(prefix: bytes, complaint: str) -> None:
    buffer = ReceiveBuffer()
    buffer.feed(prefix)
    with pytest.raises(FrameError, match=complaint):
        buffer.next_frame()


def test_a_frame_of_the_largest_size_is_allowed() -> None:
    buffer = ReceiveBuffer(size_max=8)
    buffer.feed(b"\0\0\0\x08" + bytes(7))
    assert buffer.next_frame() is None
    buffer.feed(b"\0\0\0\0\x09")
    assert buffer.next_frame() == bytes(8)
    with pytest.raises(FrameError):
        buffer.next_frame()


def test_an_announced_size_allocates_nothing() -> None:
    tracemalloc.start()
    buffer = ReceiveBuffer()
    buffer.feed((100 * 1024 * 1024).to_bytes(4, "big") + bytes(10_000))
    assert buffer.next_frame() is None
    buffer.writable()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert buffer.capacity <= 4 * 10_000
    assert peak < 1_000_000  # with what other threads of the process allocate meanwhile


def test_memory_is_given_back_after_an_outsized_frame() -> None:
    buffer = ReceiveBuffer()
    buffer.feed(framed(bytes(1_000_000)))
    assert buffer.capacity > 1_000_000
    assert [len(frame) for frame in buffer.frames()] == [1_000_000]
    for _ in range(ReceiveBuffer.QUIET_READS + 1):
        assert buffer.capacity > 1_000_000
        buffer.feed(framed(b"small"))
        assert [bytes(frame) for frame in buffer.frames()] == [b"small"]
    assert buffer.capacity <= 1_000_000
    assert buffer.capacity == 4096


def test_trimming_keeps_what_waits() -> None:
    buffer = ReceiveBuffer()
    buffer.feed(framed(bytes(10_000)) + b"\0\0")
    assert sum(1 for _ in buffer.frames()) == 1
    buffer.trim()
    assert buffer.capacity > 4096
    buffer.feed(b"\0\x01x")
    assert [bytes(frame) for frame in buffer.frames()] == [b"x"]
    buffer.trim()
    assert buffer.capacity == 4096


def test_steady_large_frames_do_not_move_or_grow_forever() -> None:
    buffer = ReceiveBuffer()
    for _ in range(50):
        buffer.feed(framed(bytes(100_000)))
        assert sum(1 for _ in buffer.frames()) == 1
    assert buffer.capacity <= 4 * 100_000


def test_many_small_frames_get_a_comfortable_buffer() -> None:
    buffer = ReceiveBuffer()
    stream = memoryview(framed(b"x" * 46) * 20_000)
    while stream:
        room = buffer.writable()
        count = min(len(room), len(stream))
        room[:count] = stream[:count]
        buffer.received(count)
        stream = stream[count:]
        for _ in buffer.frames():
            pass
    assert buffer.capacity == ReceiveBuffer.COMFORTABLE_SIZE


@pytest.mark.parametrize("size", [1, 4092, 4093, 5_000, 100_000, MIB, 8 * MIB - 4, 8 * MIB, 9 * MIB, 33 * MIB])
def test_what_a_frame_needs_is_known_when_it_begins(size: int) -> None:
    """So that its connection asks for memory once: what it has does not keep others from completing theirs."""
    buffer = ReceiveBuffer()
    buffer.feed(framed(b"before") + framed(bytes(size))[:5])
    assert sum(1 for _ in buffer.frames()) == 1 + (size == 1)
    needed = buffer.needed
    assert 4 + size <= needed
    assert needed <= max(4096, 2 * (4 + size))
    if size > 1:
        for start in range(5, 4 + size, MIB):
            buffer.feed(framed(bytes(size))[start : start + MIB])
        assert buffer.next_frame() is not None
    assert needed <= buffer.capacity <= needed + ReceiveBuffer.COMFORTABLE_SIZE
    assert buffer.needed == buffer.capacity
    buffer.discard()
    assert buffer.needed == buffer.capacity == 4096


def test_a_prefix_alone_asks_for_no_more_than_a_usual_request() -> None:
    buffer = ReceiveBuffer()
    frame = framed(bytes(30 * MIB))
    asked = []
    for start in range(0, len(frame), 4096):
        buffer.feed(frame[start : start + 4096])
        assert buffer.next_frame() is not None or start + 4096 < len(frame)
        asked.append((start + 4096, buffer.wanted(16 * 1024)))
    assert asked[0] == (4096, 4096), "twice that is free"
    assert all(wanted <= max(2 * arrived, 2 * MIB) for arrived, wanted in asked)
    assert max(wanted for _, wanted in asked) == buffer.capacity


def test_a_frame_held_while_the_buffer_grows_is_not_lost() -> None:
    buffer = ReceiveBuffer(initial_size=16)
    buffer.feed(framed(b"first") + b"\0")
    frame = buffer.next_frame()
    assert frame is not None
    buffer.feed(b"\0\0\x64" + b"y" * 100)
    assert bytes(buffer.next_frame() or b"") == b"y" * 100


def test_a_large_frame_grows_without_a_copy() -> None:
    buffer = ReceiveBuffer()
    body = bytes(range(256)) * (5 * 4096)
    stream = memoryview(framed(body))
    while stream:
        if buffer.must_grow_much:
            assert buffer.grow() == 0
        room = buffer.writable()
        count = min(len(room), len(stream))
        room[:count] = stream[:count]
        buffer.received(count)
        stream = stream[count:]
        del room  # as an event loop does, which holds none between two reads
    assert bytes(buffer.next_frame() or b"") == body


def test_a_large_frame_that_is_still_referred_to_survives_growth() -> None:
    buffer = ReceiveBuffer()
    buffer.feed(framed(b"a" * ReceiveBuffer.READ_SIZE_MAX))
    held = buffer.next_frame()
    assert held is not None
    buffer.feed((100 * 1024 * 1024).to_bytes(4) + b"b" * (buffer.capacity - PREFIX_SIZE))
    assert buffer.must_grow_much
    assert buffer.grow() > 0, "copied"
    assert len(buffer.writable()) > 0
    assert len(held) == ReceiveBuffer.READ_SIZE_MAX


def test_discarding_gives_everything_back() -> None:
    buffer = ReceiveBuffer()
    buffer.feed((10_000_000).to_bytes(4) + bytes(2_000_000))
    buffer.discard()
    assert len(buffer) == 0
    assert buffer.capacity == 4096
