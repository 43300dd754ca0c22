from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from net_peers import Peer, Recorder, eventually, framed, turns

from minikafka.model import Endpoint
from minikafka.net.channel import Channel, ChannelClosedError, kafka_correlation_id
from minikafka.net.connection import Connection
from minikafka.net.listener import Listener
from minikafka.wire.framing import FrameError

Serve = Callable[..., Awaitable[Listener]]


class Responder(Recorder):
    """Keeps requests and answers them out of turn; each begins with its correlation id, and so do its answers."""

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        self.frames.append(bytes(frame))

    def respond(self, number: int, body: bytes = b"") -> None:
        self.connections[-1].open_reply().send([framed(self.frames[number][:4] + body)])


@pytest.fixture
def responder() -> Responder:
    return Responder()


@pytest.fixture
async def channel(serve: Serve, responder: Responder) -> AsyncIterator[Channel]:
    listener = await serve(responder)
    opened = await Channel.open(listener.endpoint, timeout_s=20)
    yield opened
    opened.close()
    await opened.closed


def ask(channel: Channel, body: bytes = b"") -> asyncio.Future[bytes]:
    correlation_id = channel.next_correlation_id()
    return channel.request(correlation_id, framed(correlation_id.to_bytes(4) + body))


async def answered(future: asyncio.Future[bytes]) -> bytes:
    async with asyncio.timeout(20):
        return await future


async def test_the_kernel_is_to_notice_a_dead_broker_soon(channel: Channel) -> None:
    """A machine that lost its power says nothing, and JoinGroup may be answered after minutes."""
    assert channel._transport is not None
    sock = channel._transport.get_extra_info("socket")
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    if hasattr(socket, "TCP_KEEPIDLE"):
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10


async def test_answers_find_their_requests_in_any_order(channel: Channel, responder: Responder) -> None:
    asked = [ask(channel, b"%d" % number) for number in range(3)]
    assert channel.in_flight == 3
    assert channel.is_open
    await eventually(lambda: len(responder.frames) == 3, "the requests")
    for number in (2, 0, 1):
        responder.respond(number, b"answer %d" % number)
    for number, future in enumerate(asked):
        assert (await answered(future))[4:] == b"answer %d" % number
    assert channel.in_flight == 0


async def test_a_request_may_come_in_pieces(channel: Channel, responder: Responder) -> None:
    future = channel.request(7, [(8).to_bytes(4), (7).to_bytes(4), memoryview(b"rest")])
    await eventually(lambda: responder.frames, "the request")
    assert responder.frames == [(7).to_bytes(4) + b"rest"]
    responder.respond(0)
    assert await answered(future) == (7).to_bytes(4)


async def test_what_gets_no_answer_is_posted(channel: Channel, responder: Responder) -> None:
    channel.post(framed(b"take note"))
    assert channel.in_flight == 0
    await eventually(lambda: responder.frames == [b"take note"], "the frame")


async def test_an_answer_that_nobody_waits_for_is_dropped(channel: Channel, responder: Responder) -> None:
    forgotten, kept = ask(channel), ask(channel)
    forgotten.cancel()
    await eventually(lambda: len(responder.frames) == 2, "the requests")
    responder.frames.append((99).to_bytes(4))
    responder.respond(2)  # never asked
    responder.respond(0)  # no longer wanted
    responder.respond(1, b"wanted")
    assert await answered(kept) == (2).to_bytes(4) + b"wanted"
    assert channel.in_flight == 0


async def test_what_is_not_answered_in_time_fails_and_nothing_else(channel: Channel, responder: Responder) -> None:
    """All have one timer; the next one may be due sooner than what it is set to."""
    in_time = channel.request(1, framed((1).to_bytes(4)), timeout_s=20)
    late = channel.request(2, framed((2).to_bytes(4)), timeout_s=0.01)
    unwanted = channel.request(3, framed((3).to_bytes(4)), timeout_s=0.01)
    at_leisure = channel.request(4, framed((4).to_bytes(4)))
    unwanted.cancel()
    with pytest.raises(TimeoutError):
        await answered(late)
    await eventually(lambda: len(responder.frames) == 4, "the requests")
    for number in (1, 0, 3):
        responder.respond(number)
    assert await answered(in_time) == (1).to_bytes(4)
    assert await answered(at_leisure) == (4).to_bytes(4)
    assert channel.in_flight == 0


async def test_an_answer_ends_the_watch_for_it(channel: Channel, responder: Responder) -> None:
    answered_soon = channel.request(1, framed((1).to_bytes(4)), timeout_s=20)
    await eventually(lambda: responder.frames, "the request")
    responder.respond(0)
    await answered(answered_soon)
    channel._end_overdue()
    assert channel._watchdog is None, "it would wake an idle node"


async def test_when_the_peer_closes_waiting_calls_fail(channel: Channel, responder: Responder) -> None:
    first, second, cancelled = ask(channel), ask(channel), ask(channel)
    cancelled.cancel()
    await eventually(lambda: len(responder.frames) == 3, "the requests")
    responder.connections[0].close()
    for future in (first, second):
        with pytest.raises(ChannelClosedError, match="the connection ended"):
            await answered(future)
    await channel.closed
    assert not channel.is_open
    assert channel.in_flight == 0
    with pytest.raises(ChannelClosedError, match="is closed"):
        await ask(channel)
    with pytest.raises(ChannelClosedError, match="is closed"):
        channel.post(framed(b"x"))
    channel.close()


async def test_closing_fails_waiting_calls(channel: Channel, responder: Responder) -> None:
    waiting = ask(channel)
    channel.close()
    assert not channel.is_open
    late = ask(channel)
    for future in (waiting, late):
        with pytest.raises(ChannelClosedError):
            await answered(future)


@pytest.mark.parametrize("answer", [framed(b"abc"), b"\xff\xff\xff\xff", b"HTTP/1.1 400 Bad Request\r\n"])
async def test_an_answer_that_is_none_closes(serve: Serve, answer: bytes, unhandled: list[dict[str, object]]) -> None:
    handler = Recorder()
    listener = await serve(handler)
    channel = await Channel.open(listener.endpoint, timeout_s=20)
    waiting = ask(channel)
    await eventually(lambda: handler.replies, "the request")
    handler.replies[0].send([answer])
    with pytest.raises(ChannelClosedError):
        await answered(waiting)
    assert not unhandled


async def test_an_answer_may_be_refused_by_its_size(serve: Serve) -> None:
    handler = Recorder()
    listener = await serve(handler)
    channel = await Channel.open(listener.endpoint, timeout_s=20, max_frame_bytes=100)
    waiting = ask(channel)
    await eventually(lambda: handler.replies, "the request")
    handler.replies[0].send([(101).to_bytes(4)])
    with pytest.raises(ChannelClosedError):
        await answered(waiting)


async def test_a_large_request_leaves_a_piece_at_a_time(serve: Serve) -> None:
    handler = Recorder()
    listener = await serve(handler, max_frame_bytes=10_000_000)
    channel = await Channel.open(listener.endpoint, timeout_s=20)
    body = (1).to_bytes(4) + bytes(9_000_000)
    waiting = channel.request(1, framed(body))
    await eventually(lambda: handler.frames, "the request")
    assert handler.frames == [body]
    handler.replies[0].send([framed(body)])
    assert await answered(waiting) == body
    channel.close()


async def test_correlation_ids_wrap_within_int32(channel: Channel) -> None:
    assert [channel.next_correlation_id() for _ in range(3)] == [1, 2, 3]
    channel._next_correlation_id = 0x7FFFFFFF
    assert channel.next_correlation_id() == 0


def test_a_response_without_correlation_id_is_none() -> None:
    assert kafka_correlation_id(memoryview(b"\0\0\1\0rest")) == 256
    with pytest.raises(FrameError):
        kafka_correlation_id(memoryview(b"\0\0\1"))


async def test_nobody_listening_is_refused(serve: Serve) -> None:
    listener = await serve(Recorder())
    await listener.close()
    with pytest.raises(ConnectionRefusedError):
        await Channel.open(listener.endpoint, timeout_s=20)
    with pytest.raises(socket.gaierror):
        await Channel.open(Endpoint("no-such-name.invalid", 1), timeout_s=20)


@pytest.mark.parametrize("host", ["a..b", "a" * 64, "\u00fc" * 64, "\udcff", "a\0b"])
async def test_what_cannot_be_a_name_is_a_name_that_does_not_exist(host: str) -> None:
    """The resolver is not asked, and complains of the argument: a peer that says it is there must end nobody."""
    with pytest.raises(socket.gaierror) as raised:
        await Channel.open(Endpoint(host, 1), timeout_s=20)
    assert raised.value.errno == socket.EAI_NONAME


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((111, 111), ConnectionRefusedError),
        ((101, 111), ConnectionRefusedError),  # no way to one, and the other refuses
        ((110, 111), OSError),  # one may be there
        ((99, 101), OSError),
        ((), OSError),
    ],
)
async def test_a_name_whose_addresses_are_all_refused_is_refused(
    monkeypatch: pytest.MonkeyPatch, numbers: tuple[int, ...], expected: type[OSError]
) -> None:
    """As ``localhost`` is on a machine with IPv6: asyncio puts several failures into the text of one plain OSError."""
    failures = ", ".join(f"[Errno {number}] Connect call failed ('::1', 1, 0, 0)" for number in numbers)

    async def fail(*_: object, **__: object) -> None:
        raise OSError(f"Multiple exceptions: {failures}")

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", fail)
    with pytest.raises(OSError, match=r"refused|Multiple exceptions") as raised:
        await Channel.open(Endpoint("localhost", 1), timeout_s=30)
    assert type(raised.value) is expected


async def test_failures_that_nobody_waits_for_make_no_noise(
    channel: Channel, responder: Responder, unhandled: list[dict[str, object]]
) -> None:
    """A caller that was cancelled left its future behind; the connection's end must not complain about it."""

    async def call() -> None:
        await ask(channel)

    task = asyncio.get_running_loop().create_task(call())
    await eventually(lambda: responder.frames, "the request")
    task.cancel()
    await turns()
    channel.close()
    await channel.closed
    gc.collect()
    await turns()
    assert not unhandled


async def test_a_connection_that_is_not_answered_times_out(deaf: Endpoint) -> None:
    with pytest.raises(TimeoutError):
        await Channel.open(deaf, timeout_s=0.05)


async def test_bytes_split_anywhere_make_the_same_answers(serve: Serve) -> None:
    """The receiving side of a channel, frame by frame and byte by byte."""
    loop = asyncio.get_running_loop()
    accepted: asyncio.Future[Peer] = loop.create_future()

    class Raw(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted.set_result(transport)  # type: ignore[arg-type]

    server = await loop.create_server(Raw, "127.0.0.1", 0)
    channel = await Channel.open(Endpoint("127.0.0.1", server.sockets[0].getsockname()[1]), timeout_s=20)
    transport: asyncio.Transport = await accepted  # type: ignore[assignment]
    asked = [ask(channel) for _ in range(3)]
    bodies = [(number + 1).to_bytes(4) + b"body" * number for number in range(3)]
    for byte in b"".join(map(framed, bodies)):
        transport.write(bytes([byte]))
        await turns(1)
    assert [await answered(future) for future in asked] == bodies
    transport.write_eof()
    await channel.closed
    server.close()
