"""What a connection holds, alone and with others, and how its end and its progress are noticed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path

import pytest
from net_peers import Echo, Peer, Recorder, Region, eventually, framed, turns

from minikafka.net import connection as connection_module
from minikafka.net import listener as listener_module
from minikafka.net.budget import ALLOWANCE_BYTES
from minikafka.net.connection import MAX_HELD_BYTES, Connection
from minikafka.net.listener import Listener

Serve = Callable[..., Awaitable[Listener]]
Dial = Callable[..., Awaitable[Peer]]

MIB = 1 << 20

pytestmark = pytest.mark.spec("P6")


class Parking(Recorder):
    """Keeps the first request waiting and answers each of the others at once, with many bytes."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._answer = framed(bytes(size))

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        super().on_frame(connection, frame)
        if len(self.frames) > 1:
            self.replies[-1].send([bytes(self._answer)])


async def the_connection(handler: Recorder) -> Connection:
    return await eventually(lambda: next(iter(handler.connections), None), "the connection")


# -- what one connection holds ----------------------------------------------------------------------------------------


async def test_answers_behind_one_that_waits_count(serve: Serve, dial: Dial) -> None:
    """A thousand of them were 197 MiB that nobody counted."""
    handler = Parking(200_000)
    peer = await dial(await serve(handler))
    await peer.send(framed(b"ask") * 500)
    connection = await the_connection(handler)
    await eventually(lambda: connection._reading_paused, "reading to pause")
    await turns(20)
    assert connection.replies_held <= MAX_HELD_BYTES + 200_004
    handled = len(handler.frames)
    assert handled < 30
    handler.replies[0].send([framed(b"first")])
    assert await peer.receive_frame() == b"first"
    for _ in range(499):
        assert len(await peer.receive_frame()) == 200_000
    assert connection.replies_held == 0
    await eventually(lambda: not connection._reading_paused, "reading to go on")


async def test_what_a_request_holds_while_it_waits_counts(serve: Serve, dial: Dial) -> None:
    class Heavy(Recorder):
        def on_frame(self, connection: Connection, frame: memoryview) -> None:
            super().on_frame(connection, frame)
            self.replies[-1].hold(MIB)

    handler = Heavy()
    peer = await dial(await serve(handler))
    await peer.send(framed(b"ask") * 20)
    connection = await the_connection(handler)
    await eventually(lambda: connection._reading_paused, "reading to pause")
    await turns()
    assert len(handler.frames) == 4
    for number in range(20):
        await eventually(lambda: len(handler.replies) > number, "the next")  # noqa: B023
        handler.replies[number].send([framed(b"done")])
        assert await peer.receive_frame() == b"done"
    assert connection.replies_held == 0


# -- what all hold together -------------------------------------------------------------------------------------------


async def test_beyond_the_common_limit_large_holders_wait_and_small_ones_do_not(serve: Serve, dial: Dial) -> None:
    handler = Recorder()
    listener = await serve(handler, held_bytes=MIB, max_frame_bytes=4 * MIB)
    greedy = [await dial(listener) for _ in range(4)]
    half = framed(bytes(3 * MIB))[: MIB + MIB // 2]
    senders = [asyncio.get_running_loop().create_task(peer.send(half)) for peer in greedy]
    budget = listener.shared.budget
    await eventually(lambda: budget.is_tight and budget.waiting_count, "some to wait")
    modest = await dial(listener)
    for _ in range(3):
        await modest.send(framed(bytes(1000)))
        await eventually(lambda: handler.replies, "the question")
        handler.replies.pop().send([framed(b"answer")])
        assert await modest.receive_frame() == b"answer"
    assert budget.held <= budget.hard_limit
    for sender in senders:
        sender.cancel()


async def test_those_who_wait_for_memory_are_served_one_after_the_other(
    serve: Serve, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All memory is held by frames that are half there: each is completed in its turn, and none is lost."""
    monkeypatch.setattr(listener_module, "RELIEF_INTERVAL_S", 0.01)
    monkeypatch.setattr(listener_module, "STALL_S", 1000.0)
    handler = Echo()
    listener = await serve(handler, held_bytes=MIB, max_frame_bytes=4 * MIB)
    peers = [await dial(listener) for _ in range(6)]
    size = MIB + MIB // 4

    async def ask(peer: Peer, number: int) -> None:
        await peer.send(framed(bytes([number]) * size))
        assert await peer.receive(4 + size) == framed(bytes([number]) * size)

    async with asyncio.timeout(20):
        await asyncio.gather(*(ask(peer, number) for number, peer in enumerate(peers)))
    assert not listener.shared.budget.waiting_count


async def test_who_holds_memory_that_others_need_and_stalls_is_closed(
    serve: Serve, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_module, "RELIEF_INTERVAL_S", 0.01)
    monkeypatch.setattr(listener_module, "STALL_S", 0.02)
    handler = Echo()
    listener = await serve(handler, held_bytes=MIB, max_frame_bytes=4 * MIB)
    stalled = [await dial(listener) for _ in range(3)]
    for peer in stalled:
        await peer.send(framed(bytes(2 * MIB))[: MIB // 2 + 1000])
    honest = await dial(listener)
    await honest.send(framed(bytes(MIB)))
    assert len(await honest.receive_frame()) == MIB
    await eventually(lambda: len(handler.lost) >= 1, "a stalled one to be closed")


async def test_an_answer_that_nobody_takes_is_given_up_when_others_need_its_memory(
    serve: Serve, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_module, "RELIEF_INTERVAL_S", 0.01)
    monkeypatch.setattr(listener_module, "STALL_S", 0.02)

    class Generous(Recorder):
        def on_frame(self, connection: Connection, frame: memoryview) -> None:
            super().on_frame(connection, frame)
            self.replies[-1].send([framed(bytes(8 * MIB))])

    handler = Generous()
    listener = await serve(handler, held_bytes=4 * MIB)
    deaf = await dial(listener, receive_buffer=8192)
    await deaf.send(framed(b"ask"))
    await eventually(lambda: handler.lost, "it to be closed")


async def test_a_closed_connection_gives_its_memory_back_before_others_take_it(serve: Serve, dial: Dial) -> None:
    """It lived on until its last reference was gone: three frames of 100 MiB were there, and one counted."""
    handler = Recorder()
    listener = await serve(handler, held_bytes=MIB, max_frame_bytes=4 * MIB)
    peer = await dial(listener)
    await peer.send(framed(bytes(3 * MIB))[: 2 * MIB])
    connection = await the_connection(handler)
    await eventually(lambda: listener.shared.budget.held >= MIB, "much to be held")
    connection.close()
    assert listener.shared.budget.held == 0
    assert connection._buffer.capacity < ALLOWANCE_BYTES


async def test_far_beyond_the_limit_the_largest_is_closed_at_once(serve: Serve, dial: Dial) -> None:
    class Generous(Recorder):
        def on_frame(self, connection: Connection, frame: memoryview) -> None:
            super().on_frame(connection, frame)
            self.replies[-1].send([framed(bytes(8 * MIB))])

    handler = Generous()
    listener = await serve(handler, held_bytes=9 * MIB, max_frame_bytes=1000)
    for _ in range(14):
        peer = await dial(listener, receive_buffer=8192)
        await peer.send(framed(b"ask"))
    await eventually(lambda: len(handler.frames) == 14, "the questions")
    await eventually(lambda: len(handler.lost) >= 6, "most to be closed")
    assert listener.shared.budget.held <= listener.shared.budget.hard_limit


async def test_what_is_in_files_takes_no_memory(serve: Serve, dial: Dial, tmp_path: Path) -> None:
    """Slow consumers of large answers are no danger, and must not be closed for them."""
    path = tmp_path / "segment"
    path.write_bytes(bytes(8 * MIB))

    class Serving(Recorder):
        def on_frame(self, connection: Connection, frame: memoryview) -> None:
            super().on_frame(connection, frame)
            self.replies[-1].send([(8 * MIB).to_bytes(4), Region(path, 0, 8 * MIB)])

    handler = Serving()
    listener = await serve(handler, held_bytes=MIB, max_frame_bytes=1000)
    peers = [await dial(listener, receive_buffer=8192) for _ in range(6)]
    for peer in peers:
        await peer.send(framed(b"ask"))
    await eventually(
        lambda: len(handler.connections) == 6 and all(c.owed_bytes for c in handler.connections), "answers"
    )
    await turns(10)
    assert not handler.lost
    assert listener.shared.budget.held <= 6 * MIB // 2, "what the transport was handed may count, no region"
    for peer in peers:
        peer.close()
    await eventually(lambda: len(handler.lost) == 6, "all to be gone")
    assert all(connection.replies_in_files == 0 for connection in handler.connections)


async def test_an_empty_buffer_is_given_back_while_memory_is_short(serve: Serve, dial: Dial) -> None:
    handler = Echo()
    listener = await serve(handler, held_bytes=1, max_frame_bytes=MIB)
    peer = await dial(listener)
    await peer.send(framed(bytes(MIB)))
    assert len(await peer.receive_frame()) == MIB
    connection = await the_connection(handler)
    await eventually(lambda: connection._buffer.capacity <= ALLOWANCE_BYTES, "the buffer to shrink")
    assert listener.shared.budget.held == 0


async def test_a_peer_that_rests_gives_back_what_a_large_request_took(serve: Serve, dial: Dial) -> None:
    """A producer that had sent a batch of 1 MiB once, and rested, kept 2 MiB."""
    handler = Echo()
    listener = await serve(handler)
    peer = await dial(listener)
    await peer.send(framed(bytes(MIB)))
    assert len(await peer.receive_frame()) == MIB
    connection = await the_connection(handler)
    large = connection._buffer.capacity
    listener._sweep()  # it has just moved
    assert connection._buffer.capacity == large > MIB
    listener._sweep()
    assert connection._buffer.capacity < MIB
    await peer.send(framed(b"more"))
    assert await peer.receive_frame() == b"more"


# -- one turn of the loop ---------------------------------------------------------------------------------------------


async def test_large_requests_of_one_connection_leave_turns_to_others(
    serve: Serve, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests that arrived together are handled over several turns of the loop, and what others ask in between."""
    monkeypatch.setattr("minikafka.net.turns.TURN_COST", 100_000)
    order: list[bytes] = []

    class Ordered(Echo):
        def on_frame(self, connection: Connection, frame: memoryview) -> None:
            super().on_frame(connection, frame)
            order.append(bytes(frame[:1]))

    handler = Ordered()
    listener = await serve(handler)
    heavy, light = await dial(listener), await dial(listener)
    await heavy.send(framed(b"h" * 90_000))
    assert len(await heavy.receive_frame()) == 90_000  # the buffer is large by now
    order.clear()
    await asyncio.gather(heavy.send(framed(b"h" * 60_000) * 40), *(light.send(framed(b"l")) for _ in range(5)))
    await eventually(lambda: order.count(b"h") == 40 and order.count(b"l") == 5, "all requests")
    assert order.index(b"l") < 20, "the light one waited for the heavy one to end"


async def test_a_request_may_cost_more_than_its_bytes(serve: Serve, dial: Dial) -> None:
    events: list[int] = []

    class Costly(Recorder):
        def on_frame(self, connection: Connection, frame: memoryview) -> None:
            super().on_frame(connection, frame)
            connection.spend(10 * MIB)

        def on_read_event_end(self) -> None:
            events.append(len(self.frames))

    handler = Costly()
    peer = await dial(await serve(handler))
    await peer.send(framed(b"x") * 5)
    await eventually(lambda: len(handler.frames) == 5, "all of them")
    assert {later - before for before, later in pairwise(events)} <= {0, 1}, "one a turn"


# -- how it ends ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_peer_that_left_is_noticed_while_it_is_not_read_from(
    serve: Serve, dial: Dial, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(connection_module, "MAX_REPLIES_IN_FLIGHT", 3)
    handler = Recorder()
    listener = await serve(handler)
    peer = await dial(listener)
    await peer.send(framed(b"x") * 5)
    connection = await the_connection(handler)
    await eventually(lambda: connection._reading_paused, "reading to pause")
    listener._sweep()
    await turns()
    assert not handler.lost
    getattr(peer, how)()

    def swept() -> list[Connection]:
        listener._sweep()
        return handler.lost

    await eventually(swept, "the end to be noticed")


async def test_what_waits_is_cancelled_with_its_connection(serve: Serve, dial: Dial) -> None:
    handler = Recorder()
    peer = await dial(await serve(handler))
    await peer.send(framed(b"x") * 3)
    await eventually(lambda: len(handler.replies) == 3, "the questions")
    cancelled: list[int] = []
    for number, reply in enumerate(handler.replies):
        reply.cancel_with_connection(lambda number=number: cancelled.append(number))  # type: ignore[misc]
    handler.replies[1].send([framed(b"answered")])
    peer.close()
    await eventually(lambda: handler.lost, "the end")
    assert cancelled == [0, 2]
    handler.replies[0].cancel_with_connection(lambda: cancelled.append(9))
    assert cancelled == [0, 2, 9], "who begins to wait when it is over is told at once"


async def test_keep_alive_is_asked_of_the_kernel(serve: Serve, dial: Dial) -> None:
    handler = Recorder()
    await dial(await serve(handler))
    connection = await the_connection(handler)
    assert connection._transport is not None
    sock = connection._transport.get_extra_info("socket")
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@pytest.mark.parametrize("is_read", [True, False])
async def test_an_answer_under_way_is_no_idleness_unless_nobody_takes_it(
    serve: Serve, dial: Dial, tmp_path: Path, is_read: bool
) -> None:
    """It was cut off when it took longer than ``connections.max.idle.ms``, again and again."""
    path = tmp_path / "segment"
    size = 8 * MIB
    path.write_bytes(bytes(size))
    handler = Recorder()
    listener = await serve(handler, idle_timeout_s=-1)
    peer = await dial(listener, receive_buffer=8192)
    await peer.send(framed(b"x"))
    await eventually(lambda: handler.replies, "the question")
    handler.replies[0].send([size.to_bytes(4), Region(path, 0, size)])
    connection = await the_connection(handler)
    await eventually(lambda: connection.owed_bytes and not connection._replies, "the answer to be under way")
    listener._sweep()
    assert not handler.lost
    if not is_read:
        await eventually(lambda: (listener._sweep(), handler.lost)[1], "one whose peer takes nothing to be closed")
        return
    received = 0
    while connection.owed_bytes:
        moved = connection.moved_bytes
        received += len(await peer.receive(256 * 1024))
        if connection.moved_bytes != moved:
            listener._sweep()
        assert not handler.lost
    received += len(await peer.receive(4 + size - received))
    assert received == 4 + size


async def test_who_rests_while_taking_an_answer_is_idle_since_then(serve: Serve, dial: Dial, tmp_path: Path) -> None:
    """And not since the request: who had needed longer than ``connections.max.idle.ms`` was cut off at its first rest,
    or as soon as it had everything."""
    path = tmp_path / "segment"
    size, hour_s = 32 * MIB, 3600.0  # more than the kernel takes at once, and than lets requests be read meanwhile
    with path.open("wb") as file:
        file.truncate(size)
    handler = Recorder()
    listener = await serve(handler, idle_timeout_s=hour_s)
    peer = await dial(listener, receive_buffer=8192)
    await peer.send(framed(b"x"))
    await eventually(lambda: handler.replies, "the question")
    handler.replies[0].send([size.to_bytes(4), Region(path, 0, size)])
    connection = await the_connection(handler)
    await eventually(lambda: connection.owed_bytes and not connection._replies, "the answer to be under way")
    connection.last_active_s -= 2 * hour_s
    moved = connection.moved_bytes
    while connection.moved_bytes == moved:
        await peer.receive(256 * 1024)
    listener._sweep()
    listener._sweep()  # since the first one nothing has moved
    await turns()
    assert not handler.lost
