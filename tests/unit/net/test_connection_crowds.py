"""Thousands of connections: what their parts of requests hold together, who is served beside them, and what one turn of
the loop does for all."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from net_peers import Recorder, framed, turns

from minikafka.model import Endpoint
from minikafka.net.budget import Budget
from minikafka.net.connection import Connection, Shared
from minikafka.net.duplicates import Duplicates
from minikafka.net.listener import Listener, ListenerLimits
from minikafka.net.turns import Turns

KIB = 1024
LIMIT = 8 * 1024 * KIB
CROWD = 1_000
HALF = framed(bytes(120 * KIB))[:-1]

pytestmark = pytest.mark.spec("P6")


class Line:
    """A transport without a socket; ``sent`` waits until the connection reads."""

    def __init__(self, shared: Shared, handler: Recorder) -> None:
        self.connection = Connection(handler, listener="CLIENT", max_frame_bytes=100 << 20, shared=shared)
        self.is_paused = self.is_closed = False
        self._unread = b""
        self.connection.connection_made(cast(asyncio.Transport, self))

    def send(self, data: bytes) -> None:
        self._unread += data
        self.read()

    def read(self) -> None:
        while self._unread and not self.is_paused and not self.is_closed:
            room = self.connection.get_buffer(-1)
            taken, self._unread = self._unread[: len(room)], self._unread[len(room) :]
            room[: len(taken)] = taken
            self.connection.buffer_updated(len(taken))

    # -- what a connection asks of a transport ------------------------------------------------------------------------

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False
        asyncio.get_running_loop().call_soon(self.read)

    def get_extra_info(self, name: str) -> Any:
        return None

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.is_closed

    def write(self, data: bytes) -> None:
        """Its peer takes everything."""

    def abort(self) -> None:
        self.is_closed = True


class File:
    """A region of one that has no descriptor."""

    position = 0
    size = 1024 * KIB

    def fileno(self) -> None:
        return None

    def read(self) -> bytes:
        return bytes(self.size)

    def release(self) -> None:
        pass


@pytest.fixture
async def shared() -> Shared:
    return Shared(Budget(LIMIT, 100 << 20), Turns(asyncio.get_running_loop()), Duplicates(0))


def held_by(lines: list[Line]) -> int:
    return sum(line.connection._buffer.capacity for line in lines if not line.is_closed)


@pytest.mark.parametrize("come_first", [True, False], ids=["all are there first", "one after the other"])
async def test_parts_of_requests_take_bounded_memory(shared: Shared, come_first: bool) -> None:
    """128 KiB of each counted nowhere: 4,000 had 580 MB."""
    handler = Recorder()
    lines = []
    for _ in range(CROWD):
        lines.append(Line(shared, handler))
        if not come_first:
            lines[-1].send(HALF)
    for line in lines if come_first else ():
        line.send(HALF)
    await turns()
    assert held_by(lines) < (2 if come_first else 4) * LIMIT
    assert not handler.frames


async def test_small_requests_beside_them_wait_for_nobody(shared: Shared) -> None:
    handler = Recorder()
    for _ in range(CROWD):
        Line(shared, handler).send(HALF)
    honest = Line(shared, handler)
    for number in range(50):
        honest.send(framed(bytes(100 * number)))
        assert len(handler.frames) == number + 1
        handler.replies.pop().skip()
        await turns()


@pytest.mark.parametrize("size", [120 * KIB, LIMIT, 90 << 20])
async def test_a_large_request_beside_them_is_served_as_soon_as_some_are_closed(shared: Shared, size: int) -> None:
    """It waited in line behind all of them, each of which had a part of the memory and waited for more."""
    handler = Recorder()
    begun = framed(bytes(size))[: len(HALF)]
    crowd = [Line(shared, handler) for _ in range(CROWD)]
    for line in crowd:
        line.send(begun)
    await turns()
    honest = Line(shared, handler)
    honest.send(framed(bytes(1024 * KIB)))
    await turns()
    for line in crowd if not handler.frames else ():
        if not line.is_paused:  # it could have sent the rest
            line.connection.close()
    await turns(10)
    assert [len(frame) for frame in handler.frames] == [1024 * KIB]


async def test_who_is_slow_is_not_closed_while_hundreds_wait_unless_it_would_be_too_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """200 producers with batches of 1 MiB, and 50 KB/s each: all were closed after a second or two, again and again."""
    now_s = 100.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s)
    handler = Recorder()
    limits = ListenerLimits(max_connections=CROWD, max_frame_bytes=100 << 20, held_bytes=LIMIT, frame_deadline_s=30)
    listener = Listener("CLIENT", Endpoint("127.0.0.1", 0), handler, limits)
    crowd = [Line(listener.shared, handler) for _ in range(CROWD)]
    frame = framed(bytes(1000 * KIB))
    step = len(frame) // 20
    for line in crowd:
        line.send(frame[:step])
    going = [line for line in crowd if not line.is_paused]
    steady, dripping, silent = going[:3], going[3:5], going[5:]
    assert silent
    for at in range(step, len(frame), step):
        now_s += 1.2
        for line in steady:
            line.send(frame[at : at + step])
        for line in dripping:
            line.send(b"x")
        listener._relieve()
    assert [len(each) for each in handler.frames] == [1000 * KIB] * len(steady)
    assert not any(line.is_closed for line in steady)
    assert all(line.is_closed for line in dripping + silent)
    await listener.close()


async def test_a_prefix_alone_keeps_nobody_waiting(shared: Shared) -> None:
    """Each says that a large frame comes, and sends none of it."""
    handler = Recorder()
    for _ in range(CROWD):
        Line(shared, handler).send(LIMIT.to_bytes(4) + bytes(100))
    Line(shared, handler).send(framed(bytes(1024 * KIB)))
    await turns()
    assert len(handler.frames) == 1


async def test_all_who_go_on_complete(shared: Shared) -> None:
    """Whoever waits holds little, so there is always somebody who needs to wait for nobody else."""
    handler = Recorder()
    lines = [Line(shared, handler) for _ in range(CROWD)]
    for line in lines:
        line.send(HALF)
    for line in lines:
        line.send(b"x")
    for _ in range(CROWD):
        while handler.replies:
            handler.replies.pop().skip()
        await turns(1)
    assert len(handler.frames) == CROWD
    assert not shared.budget.waiting_count


async def test_answers_out_of_files_are_made_over_several_turns(shared: Shared) -> None:
    """What is to be sent counted nothing: 4,000 that asked for 1 MiB in the same moment took turns of 0.2 s."""

    class Serving(Recorder):
        def on_frame(self, connection: Connection, frame: memoryview) -> None:
            super().on_frame(connection, frame)
            self.replies[-1].send([File()])

    handler = Serving()
    lines = [Line(shared, handler) for _ in range(100)]
    for line in lines:
        line.send(framed(b"ask"))
    assert len(handler.frames) < 40
    await turns(10)
    assert len(handler.frames) == 100
