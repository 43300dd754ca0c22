"""The HTTP listener answers GET, and bounds what strangers may cost."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus

import pytest
from captured_logs import capture_logs
from hypothesis import given
from hypothesis import strategies as st

from minikafka.model import Endpoint
from minikafka.net import http
from minikafka.net.http import Answer, HttpListener, Request, head_of, parse_head
from minikafka.net.tasks import TaskOwner

PATIENCE_S = 30.0
GET = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"


class Served:
    """A listener with routes that a test can hold up."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self.tasks = TaskOwner("test", lambda _name, error: self.failures.append(error))
        self.gate = asyncio.Event()
        self.asked = 0
        routes = {"/ok": self.ok, "/held": self.held, "/large": self.large, "/bug": self.bug}
        self.listener = HttpListener("METRICS", Endpoint("127.0.0.1", 0), routes, self.tasks)

    async def ok(self) -> Answer:
        return Answer(HTTPStatus.OK, b"fine\n")

    async def held(self) -> Answer:
        self.asked += 1
        await self.gate.wait()
        return Answer(HTTPStatus.OK, b"at last\n")

    async def large(self) -> Answer:
        return Answer(HTTPStatus.OK, b"x" * (64 << 20))

    async def bug(self) -> Answer:
        raise ZeroDivisionError

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.listener.endpoint.host, self.listener.endpoint.port)

    async def ask(self, request: bytes) -> bytes:
        """All that is answered until the connection is closed."""
        reader, writer = await self.dial()
        writer.write(request)
        return await rest(reader)


async def eventually(condition: Callable[[], bool]) -> None:
    deadline_s = asyncio.get_running_loop().time() + PATIENCE_S
    while not condition():
        assert asyncio.get_running_loop().time() < deadline_s
        await asyncio.sleep(0.001)


async def rest(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    made = Served()
    await made.listener.bind()
    await made.listener.serve()
    yield made
    await made.listener.close()
    await made.tasks.close()
    assert not made.failures
    assert not made.listener._waiting
    assert not made.listener._answering


async def test_a_get_is_answered_and_the_connection_closed(served: Served) -> None:
    assert await served.ask(GET % b"/ok?x=1") == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 5\r\n"
        b"Connection: close\r\n\r\nfine\n"
    )


async def test_a_head_gets_no_body(served: Served) -> None:
    assert (await served.ask(b"HEAD /ok HTTP/1.1\r\n\r\n")).endswith(b"Content-Length: 5\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (GET % b"/nowhere", b"404"),
        (b"POST /ok HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", b"405"),
        (b"GET /ok HTTP/2\r\n\r\n", b"400"),
        (b"GET http://elsewhere/ok HTTP/1.1\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"400"),
        (b"\r\n\r\n", b"400"),
        (GET % b"/bug", b"500"),
    ],
)
async def test_what_cannot_be_served_says_why(served: Served, request_: bytes, status: bytes) -> None:
    with capture_logs():
        answer = await served.ask(request_)
    assert answer.startswith(b"HTTP/1.1 " + status)


async def test_too_many_headers_are_not_read(served: Served) -> None:
    reader, writer = await served.dial()
    writer.write(b"GET /ok HTTP/1.1\r\n" + b"X-A: b\r\n" * 100_000)
    assert b"200" not in (await rest(reader))[:20]


async def test_who_is_slow_with_its_head_is_closed(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "HEAD_DEADLINE_S", 0.01)
    assert await served.ask(b"GET /ok HT") == b""


async def test_who_does_not_take_its_answer_is_closed(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "ANSWER_DEADLINE_S", 0.05)
    reader, writer = await served.dial()
    writer.write(GET % b"/large")
    await eventually(lambda: len(served.tasks) == 1)
    await eventually(lambda: len(served.tasks) == 0)
    assert len(await rest(reader)) < 64 << 20
    writer.close()


async def test_slow_clients_keep_nobody_out(served: Served) -> None:
    slow = [await served.dial() for _ in range(3 * http.CONNECTIONS_MAX)]
    assert (await served.ask(GET % b"/ok")).endswith(b"fine\n")
    assert len(served.tasks) <= http.CONNECTIONS_MAX
    assert await rest(slow[0][0]) == b""  # turned out, the oldest first
    for _, writer in slow:
        writer.close()


async def test_requests_under_way_are_not_turned_out(served: Served) -> None:
    held = [asyncio.create_task(served.ask(GET % b"/held")) for _ in range(http.CONNECTIONS_MAX)]
    await eventually(lambda: served.asked == http.CONNECTIONS_MAX)
    assert await served.ask(GET % b"/ok") == b""
    served.gate.set()
    assert all(answer.endswith(b"at last\n") for answer in await asyncio.gather(*held))


async def test_a_peer_may_leave_while_its_answer_is_made(served: Served) -> None:
    _reader, writer = await served.dial()
    writer.write(GET % b"/held")
    await eventually(lambda: served.asked == 1)
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
    writer.transport.abort()
    (answering,) = served.listener._answering
    await eventually(answering.transport.is_closing)
    with capture_logs() as logs:
        served.gate.set()
        await eventually(lambda: len(served.tasks) == 0)
    assert not logs


async def test_close_ends_what_is_under_way(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "HEAD_DEADLINE_S", None)
    slow, _writer = await served.dial()
    asking = asyncio.create_task(served.ask(GET % b"/held"))
    await eventually(lambda: served.asked == 1)
    await served.listener.close()
    assert await rest(slow) == b""
    assert await asking == b""
    with pytest.raises(ConnectionRefusedError):
        await served.dial()
    served.gate.set()


@given(st.binary(max_size=200))
def test_no_bytes_break_the_parser(head: bytes) -> None:
    request = parse_head(head)
    assert request is None or request.path.startswith("/")


def test_the_query_does_not_matter() -> None:
    assert parse_head(b"GET /metrics?name[]=a HTTP/1.0\r\n\r\n") == Request("GET", "/metrics")
    assert b"503 Service Unavailable" in head_of(Answer(HTTPStatus.SERVICE_UNAVAILABLE, b""))
