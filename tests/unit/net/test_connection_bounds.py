"""How many requests of one connection are handled before their answers have left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from minikafka.chaos.ports import free_base_port
from minikafka.model import Endpoint
from minikafka.net.connection import MAX_REPLIES_IN_FLIGHT, Connection
from minikafka.net.listener import Listener, ListenerLimits
from minikafka.net.reply import Reply

TIMEOUT_S = 30


class Desk:
    """A frame handler that keeps requests until it is told to answer them, each with its own bytes."""

    def __init__(self) -> None:
        self.open: list[tuple[Reply, bytes]] = []

    def on_connection_made(self, connection: Connection) -> None: ...
    def on_connection_lost(self, connection: Connection) -> None: ...
    def on_read_event_end(self) -> None: ...

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        self.open.append((connection.open_reply(), bytes(frame)))

    def answer(self) -> None:
        answered, self.open = self.open, []
        for reply, request in answered:
            reply.send([len(request).to_bytes(4) + request])


Listen = Callable[..., "asyncio.Future[Listener]"]


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def listen(desk: Desk) -> AsyncIterator[Listen]:
    listeners: list[Listener] = []

    async def listen(**limits: float) -> Listener:
        bounds = ListenerLimits(max_connections=10, max_frame_bytes=1 << 20, **limits)
        listener = Listener("TEST", Endpoint("127.0.0.1", free_base_port(1)), desk, bounds)
        await listener.start()
        listeners.append(listener)
        return listener

    yield listen  # type: ignore[misc]  # a coroutine function
    for listener in listeners:
        await listener.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_no_more_requests_are_taken_than_may_wait_and_none_is_lost(desk: Desk, listen: Listen) -> None:
    listener = await listen()
    reader, writer = await asyncio.open_connection(*listener.endpoint)
    requests = [b"request %d" % number for number in range(3 * MAX_REPLIES_IN_FLIGHT + 7)]
    writer.write(b"".join(len(request).to_bytes(4) + request for request in requests))

    answers: list[bytes] = []
    while len(answers) < len(requests):
        expected = min(MAX_REPLIES_IN_FLIGHT, len(requests) - len(answers))
        await until(lambda expected=expected: len(desk.open) >= expected)  # type: ignore[misc]
        assert len(desk.open) == expected
        desk.answer()
        async with asyncio.timeout(TIMEOUT_S):
            for _ in range(expected):
                size = int.from_bytes(await reader.readexactly(4))
                answers.append(await reader.readexactly(size))
    assert answers == requests
    writer.close()


async def test_a_connection_that_waits_for_its_answers_is_neither_late_nor_idle(desk: Desk, listen: Listen) -> None:
    listener = await listen(frame_deadline_s=0.01, idle_timeout_s=0.01)
    reader, writer = await asyncio.open_connection(*listener.endpoint)
    request = (2).to_bytes(4) + b"hi"
    writer.write(request * (MAX_REPLIES_IN_FLIGHT + 1) + request[:3])  # one too many, and the start of another
    await until(lambda: len(desk.open) == MAX_REPLIES_IN_FLIGHT)
    await asyncio.sleep(0.02)
    listener._sweep()
    desk.answer()
    await until(lambda: len(desk.open) == 1)
    desk.answer()
    async with asyncio.timeout(TIMEOUT_S):
        assert await reader.readexactly(6 * (MAX_REPLIES_IN_FLIGHT + 1)) == request * (MAX_REPLIES_IN_FLIGHT + 1)
    writer.close()


async def test_answers_of_no_bytes_behind_one_that_waits_are_counted(
    desk: Desk, listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hold nothing, so no memory stands for them; what came behind is handled when they have left."""
    keep, handled = desk.on_frame, []

    def on_frame(connection: Connection, frame: memoryview) -> None:
        handled.append(bytes(frame))
        if len(handled) == 1:
            keep(connection, frame)
        else:
            connection.open_reply().skip()  # acks=0

    monkeypatch.setattr(desk, "on_frame", on_frame)
    listener = await listen()
    _, writer = await asyncio.open_connection(*listener.endpoint)
    count = MAX_REPLIES_IN_FLIGHT + 7
    writer.write((len(b"ask").to_bytes(4) + b"ask") * count)
    await until(lambda: len(handled) == MAX_REPLIES_IN_FLIGHT)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(handled) == MAX_REPLIES_IN_FLIGHT
    desk.answer()
    await until(lambda: len(handled) == count)
    writer.close()
