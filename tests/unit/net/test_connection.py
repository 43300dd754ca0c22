from __future__ import annotations

import gc
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from net_peers import Echo, Peer, Recorder, Region, eventually, framed, turns

from minikafka.metrics.requests import Requests
from minikafka.net import connection as connection_module
from minikafka.net.connection import Connection
from minikafka.net.listener import Listener
from minikafka.net.outbox import Chunk
from minikafka.net.reply import Reply
from minikafka.net.turns import TURN_COST
from minikafka.wire.framing import FrameError

Serve = Callable[..., Awaitable[Listener]]
Dial = Callable[..., Awaitable[Peer]]

BODIES = [b"first", b"", b"x" * 300, b"last"]


# -- frames ----------------------------------------------------------------------------


async def test_frames_are_the_same_wherever_they_are_split(serve: Serve, dial: Dial) -> None:
    stream = b"".join(map(framed, BODIES))
    handler = Echo()
    listener = await serve(handler)
    peer = await dial(listener)
    for split in range(1, len(stream)):
        await peer.send(stream[:split])
        await turns()
        await peer.send(stream[split:])
        assert await peer.receive(len(stream)) == stream
    assert handler.frames == BODIES * (len(stream) - 1)


async def test_frames_come_byte_by_byte(serve: Serve, dial: Dial) -> None:
    stream = b"".join(map(framed, BODIES))
    handler = Echo()
    peer = await dial(await serve(handler))
    for position in range(len(stream)):
        await peer.send(stream[position : position + 1])
        await turns(1)
    assert await peer.receive(len(stream)) == stream
    assert handler.frames == BODIES


async def test_all_frames_of_a_read_event_are_handed_over_before_its_end(serve: Serve, dial: Dial) -> None:
    seen: list[int] = []

    class Counting(Recorder):
        def on_read_event_end(self) -> None:
            seen.append(len(self.frames))

    peer = await dial(await serve(Counting()))
    await peer.send(b"".join(map(framed, BODIES)))
    await eventually(lambda: sum(seen) >= len(BODIES), "the frames")
    assert seen == [len(BODIES)]


@pytest.mark.spec("P6")
async def test_a_connection_that_ended_gives_its_memory_back_without_a_garbage_collection(
    serve: Serve, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node hardly ever collects: what the last reference does not free stays, receive buffers of megabytes too."""
    made: list[weakref.ref[Connection]] = []

    class Forgetful(Echo):
        def on_frame(self, connection: Connection, frame: memoryview) -> None:
            connection.open_reply().send([framed(bytes(frame))])

        def on_connection_made(self, connection: Connection) -> None:
            made.append(weakref.ref(connection))

        def on_connection_lost(self, connection: Connection) -> None: ...

    monkeypatch.setattr(connection_module, "MAX_HELD_BYTES", 0)  # reading pauses
    listener = await serve(Forgetful())
    gc.disable()
    try:
        for ending in (b"", framed(b"asked") + b"partial", b"GET / HTTP/1.1"):
            peer = await dial(listener)
            await peer.send(ending)
            await eventually(lambda: made, "the connection")
            await turns()
            peer.close()
            await eventually(lambda: made[0]() is None, f"it to be freed after {ending!r}")
            made.clear()
    finally:
        gc.enable()


@pytest.mark.spec("P6")
@pytest.mark.parametrize(
    "prefix",
    [b"\xff\xff\xff\xff", b"\x80\0\0\0", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"\x7f\xff\xff\xff"],
    ids=["-1", "smallest", "HTTP", "TLS", "largest"],
)
async def test_what_is_not_a_size_closes_and_nothing_is_allocated(serve: Serve, dial: Dial, prefix: bytes) -> None:
    handler = Echo()
    peer = await dial(await serve(handler))
    await peer.send(framed(b"good") + prefix)
    answered = await peer.receive_all()
    assert answered in (b"", framed(b"good"))  # what was asked before may be answered, but need not be
    assert handler.frames == [b"good"]
    assert handler.connections[0]._buffer.capacity == 4096
    await eventually(lambda: handler.lost, "the handler to hear of it")


@pytest.mark.spec("P6")
async def test_a_frame_of_the_greatest_size_passes_and_one_byte_more_does_not(serve: Serve, dial: Dial) -> None:
    handler = Echo()
    listener = await serve(handler, max_frame_bytes=1000)
    peer = await dial(listener)
    await peer.send(framed(b"x" * 1000))
    assert await peer.receive_frame() == b"x" * 1000
    await peer.send((1001).to_bytes(4))
    assert await peer.receive_all() == b""
    assert len(handler.frames) == 1


async def test_the_handler_may_refuse_a_frame(serve: Serve, dial: Dial) -> None:
    class Choosy(Recorder):
        def on_frame(self, connection: Connection, frame: memoryview) -> None:
            super().on_frame(connection, frame)
            if frame == b"bad":
                raise FrameError("not like that")

    handler = Choosy()
    peer = await dial(await serve(handler))
    await peer.send(framed(b"fine") + framed(b"bad") + framed(b"never seen"))
    assert await peer.receive_all() == b""
    assert handler.frames == [b"fine", b"bad"]
    assert handler.read_events == 1
    await eventually(lambda: handler.lost, "the end")


@pytest.mark.spec("P6")
async def test_an_exception_in_the_handler_closes_the_connection_only(
    serve: Serve, dial: Dial, unhandled: list[dict[str, object]]
) -> None:
    class Faulty(Echo):
        def on_frame(self, connection: Connection, frame: memoryview) -> None:
            if frame == b"bug":
                raise ZeroDivisionError
            super().on_frame(connection, frame)

    handler = Faulty()
    listener = await serve(handler)
    peer, other = await dial(listener), await dial(listener)
    await peer.send(framed(b"fine") + framed(b"bug"))
    await peer.receive_all()
    await eventually(lambda: handler.lost, "the end")
    assert handler.read_events == 1, "what was staged before is written all the same"
    assert [type(each["exception"]) for each in unhandled] == [ZeroDivisionError]
    await other.send(framed(b"ok"))
    assert await other.receive_frame() == b"ok"


async def test_no_frame_is_handled_after_the_connection_was_closed(serve: Serve, dial: Dial) -> None:
    class Farewell(Recorder):
        def on_frame(self, connection: Connection, frame: memoryview) -> None:
            super().on_frame(connection, frame)
            self.replies[-1].send([framed(b"bye")])
            connection.close_after_replies()

    handler = Farewell()
    peer = await dial(await serve(handler))
    await peer.send(framed(b"one") + framed(b"two"))
    assert await peer.receive_all() == framed(b"bye")
    assert handler.frames == [b"one"]


async def test_closing_twice_and_after_the_end_is_nothing(serve: Serve, dial: Dial) -> None:
    handler = Recorder()
    peer = await dial(await serve(handler))
    connection = await eventually(lambda: next(iter(handler.connections), None), "the connection")
    assert connection.peer_host == "127.0.0.1"
    assert connection.listener == "CLIENT"
    connection.close("the test says so")
    connection.close()
    assert await peer.receive_all() == b""
    await eventually(lambda: handler.lost, "the end")
    connection.close("again")
    connection.close_after_replies()
    connection.schedule_flush()
    await turns()
    assert handler.lost == [connection]


async def test_a_peer_that_closes_its_side_is_closed(serve: Serve, dial: Dial) -> None:
    handler = Recorder()
    peer = await dial(await serve(handler))
    await peer.send(framed(b"question"))
    await eventually(lambda: handler.frames, "the frame")
    peer.close()
    await eventually(lambda: handler.lost, "the end")
    handler.replies[0].send([framed(b"too late")])
    await turns()


# -- replies ----------------------------------------------------------------------------


async def asked(serve: Serve, dial: Dial, count: int) -> tuple[Peer, Recorder]:
    handler = Recorder()
    peer = await dial(await serve(handler))
    await peer.send(b"".join(framed(b"%d" % number) for number in range(count)))
    await eventually(lambda: len(handler.replies) == count, "the questions")
    return peer, handler


async def test_replies_keep_the_order_of_requests(serve: Serve, dial: Dial) -> None:
    peer, handler = await asked(serve, dial, 5)
    for number in (3, 1, 4, 0, 2):
        assert not handler.replies[number].is_ready
        handler.replies[number].send([framed(b"answer"), framed(b"to %d" % number)])
        await turns()
        if number == 4:
            assert handler.connections[0]._outbox is not None
            assert handler.connections[0]._outbox.pending_bytes == 0, "nothing leaves before the first"
    expected = b"".join(framed(b"answer") + framed(b"to %d" % number) for number in range(5))
    assert await peer.receive(len(expected)) == expected


async def test_a_node_gets_its_answers_as_they_are_ready(serve: Serve, dial: Dial) -> None:
    """Its calls share a connection, and one may wait for half a minute."""
    peer, handler = await asked(serve, dial, 5)
    (connection,) = handler.connections
    connection.keeps_order = False
    for number in (3, 1, 4):
        handler.replies[number].send([framed(b"to %d" % number)])
        assert await peer.receive_frame() == b"to %d" % number
    assert not connection.is_idle
    handler.replies[2].send([framed(b"to 2")])
    handler.replies[0].send([framed(b"to 0")])
    assert [await peer.receive_frame() for _ in range(2)] == [b"to 0", b"to 2"]
    assert connection.is_idle
    assert connection.replies_held == 0


async def test_a_skipped_reply_holds_nobody_up(serve: Serve, dial: Dial) -> None:
    peer, handler = await asked(serve, dial, 3)
    handler.replies[1].skip()
    handler.replies[2].send([framed(b"last")])
    handler.replies[0].skip()
    assert await peer.receive_frame() == b"last"
    connection = handler.connections[0]
    await turns()
    assert connection.is_idle


async def test_every_answered_request_is_counted_for_its_api(serve: Serve, dial: Dial) -> None:
    """Neighbours of one API and one read event are counted at once; others, and uncounted ones, lie between them."""
    requests = Requests()
    kinds = [requests.of("Produce"), requests.of("Metadata"), None]

    class Counting(Echo):
        def on_frame(self, connection: Connection, frame: memoryview) -> None:
            reply = connection.open_reply(kinds[frame[0]])
            self.replies.append(reply)

        def __init__(self) -> None:
            super().__init__()
            self.replies: list[Reply] = []

    handler = Counting()
    peer = await dial(await serve(handler))
    for sent in (b"\0\0\1\2\2\0", b"\0\1\1"):
        await peer.send(b"".join(framed(bytes([kind])) for kind in sent))
        count = len(handler.replies) + len(sent)
        await eventually(lambda count=count: len(handler.replies) == count, "the questions")  # type: ignore[misc]
    for reply in reversed(handler.replies):
        reply.send([framed(b"")])
    assert await peer.receive(9 * 4) == bytes(9 * 4)
    assert [kind.count for kind in kinds if kind is not None] == [4, 3]


async def test_a_request_is_answered_once(serve: Serve, dial: Dial) -> None:
    _, handler = await asked(serve, dial, 1)
    handler.replies[0].send([framed(b"x")])
    with pytest.raises(AssertionError, match="twice"):
        handler.replies[0].send([framed(b"x")])


async def test_regions_of_answers_that_never_leave_are_released(serve: Serve, dial: Dial, tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes(100))
    early, late = Region(path, 0, 100), Region(path, 0, 100)
    peer, handler = await asked(serve, dial, 3)
    handler.replies[1].send([b"head", early])  # ready, but its turn never comes
    await turns()
    peer.close()
    await eventually(lambda: handler.lost, "the end")
    assert (early.releases, early.reads) == (1, 0)
    handler.replies[2].send([memoryview(b"head"), late])  # becomes ready when all is over
    assert (late.releases, late.reads) == (1, 0)
    handler.replies[0].skip()


async def test_a_file_cut_under_an_answer_closes(serve: Serve, dial: Dial, tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes(100))
    peer, handler = await asked(serve, dial, 1)
    handler.replies[0].send([b"head", Region(path, 50, 100)])
    assert await peer.receive_all() == b""
    await eventually(lambda: handler.lost, "the end")


# -- a peer that does not read ----------------------------------------------------------------------------


class Generous(Recorder):
    """Answers every frame with many bytes."""

    def __init__(self, answer: Callable[[], Chunk], size: int) -> None:
        super().__init__()
        self._answer = answer
        self._size = size

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        super().on_frame(connection, frame)
        self.replies[-1].send([self._size.to_bytes(4), self._answer()])


@pytest.mark.spec("P6")
@pytest.mark.parametrize("from_file", [False, True])
async def test_a_peer_that_does_not_read_is_not_read_from(
    serve: Serve, dial: Dial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, from_file: bool
) -> None:
    monkeypatch.setattr(connection_module, "MAX_HELD_BYTES", 200_000)
    size, count = 100_000, 300
    path = tmp_path / "segment"
    path.write_bytes(bytes(size))
    regions: list[Region] = []

    def answer() -> Chunk:
        if not from_file:
            return bytes(size)
        regions.append(Region(path, 0, size))
        return regions[-1]

    handler = Generous(answer, size)
    listener = await serve(handler)
    peer = await dial(listener, receive_buffer=8192)
    worst = 0
    for number in range(count):  # one by one, as long as it is listened to
        await peer.send(framed(b"%d" % number))
        await turns()
        connection = await eventually(lambda: next(iter(handler.connections), None), "the connection")
        assert connection._outbox is not None
        worst = max(worst, connection._outbox.pending_bytes)
        if connection._reading_paused:
            break
    handled = len(handler.frames)
    assert handled < count, "reading never paused"
    assert worst <= 200_000 + size + 4
    rest = b"".join(framed(b"more") for _ in range(10))
    await peer.send(rest)
    await turns(10)
    assert len(handler.frames) == handled
    for _ in range(number + 1 + 10):
        assert len(await peer.receive_frame()) == size
    assert len(handler.frames) == number + 1 + 10
    assert all(region.releases == 1 for region in regions)
    await eventually(lambda: not connection._reading_paused, "reading to go on")


async def test_frames_in_the_buffer_wait_for_answers_to_leave(
    serve: Serve, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "MAX_REPLIES_IN_FLIGHT", 2)
    handler = Recorder()
    peer = await dial(await serve(handler))
    await peer.send(b"".join(framed(b"%d" % number) for number in range(5)))
    await eventually(lambda: len(handler.frames) == 2, "the first two")
    await turns()
    assert handler.frames == [b"0", b"1"]
    handler.replies[0].send([framed(b"answer 0")])
    assert await peer.receive_frame() == b"answer 0"
    await eventually(lambda: len(handler.frames) == 3, "one more")
    for number in range(1, 5):
        await eventually(lambda: len(handler.replies) > number, "the next")  # noqa: B023
        handler.replies[number].send([framed(b"answer %d" % number)])
        assert await peer.receive_frame() == b"answer %d" % number
    await turns()
    assert not handler.connections[0]._reading_paused


async def test_an_exception_in_a_frame_that_waited_closes_as_well(
    serve: Serve, dial: Dial, monkeypatch: pytest.MonkeyPatch, unhandled: list[dict[str, object]]
) -> None:
    class Faulty(Recorder):
        def on_frame(self, connection: Connection, frame: memoryview) -> None:
            super().on_frame(connection, frame)
            if frame == b"bug":
                raise ZeroDivisionError

    monkeypatch.setattr(connection_module, "MAX_REPLIES_IN_FLIGHT", 1)
    handler = Faulty()
    peer = await dial(await serve(handler))
    await peer.send(framed(b"fine") + framed(b"bug"))
    await eventually(lambda: handler.replies, "the first")
    handler.replies[0].send([framed(b"answer")])
    assert await peer.receive_frame() == b"answer"
    assert await peer.receive_all() == b""
    assert [type(each["exception"]) for each in unhandled] == [ZeroDivisionError]


async def test_a_connection_may_end_while_it_is_overloaded(
    serve: Serve, dial: Dial, monkeypatch: pytest.MonkeyPatch, unhandled: list[dict[str, object]]
) -> None:
    class Refusing(Recorder):
        def on_frame(self, connection: Connection, frame: memoryview) -> None:
            super().on_frame(connection, frame)
            raise FrameError("no")

    monkeypatch.setattr(connection_module, "MAX_REPLIES_IN_FLIGHT", 1)
    refusing, parking = Refusing(), Recorder()
    refused, parked = await dial(await serve(refusing)), await dial(await serve(parking))
    await refused.send(framed(b"x"))
    assert await refused.receive_all() == b""
    await parked.send(framed(b"x"))
    await eventually(lambda: parking.replies, "the question")
    await turns()
    parking.connections[0].close()
    assert await parked.receive_all() == b""
    await eventually(lambda: refusing.lost and parking.lost, "both ends")
    assert unhandled == []


# -- muted connections -------------------------------------------------------------------


async def test_a_muted_connection_goes_on_when_its_time_is_over(serve: Serve, dial: Dial) -> None:
    muted: list[float] = []

    class Muting(Echo):
        def on_frame(self, connection: Connection, frame: memoryview) -> None:
            if bytes(frame) == b"first":
                connection.mute(0.2)
                connection.mute(0.1)  # a shorter time changes nothing
                muted.append(connection._loop.time())
            super().on_frame(connection, frame)

    handler = Muting()
    listener = await serve(handler)
    peer, other = await dial(listener), await dial(listener)
    await peer.send(b"".join(map(framed, BODIES)))
    await eventually(lambda: muted, "the first frame")
    await other.send(framed(b"of another"))
    await eventually(lambda: len(handler.frames) > 1, "a frame of another")
    assert handler.frames == [b"first", b"of another"]
    assert await peer.receive(sum(len(framed(body)) for body in BODIES)) == b"".join(map(framed, BODIES))
    assert handler.frames[2:] == BODIES[1:]


async def test_a_muted_connection_that_ends_leaves_no_timer(serve: Serve, dial: Dial) -> None:
    connections: list[Connection] = []

    class Muting(Recorder):
        def on_frame(self, connection: Connection, frame: memoryview) -> None:
            connection.mute(60)
            connections.append(connection)

    handler = Muting()
    peer = await dial(await serve(handler))
    await peer.send(framed(b"x"))
    await eventually(lambda: connections, "the frame")
    timer = connections[0]._unmuting
    connections[0].close()
    await eventually(lambda: handler.lost, "the end")
    assert timer is not None
    assert timer.cancelled()


async def test_strangers_use_up_no_turn_of_users(serve: Serve, dial: Dial) -> None:
    class Asking(Recorder):
        def on_connection_made(self, connection: Connection) -> None:
            super().on_connection_made(connection)
            connection.limit_frames(1000)

    handler = Asking()
    listener = await serve(handler)
    turns_of = listener.shared
    peer = await dial(listener)
    await peer.send(framed(b"a"))
    await eventually(lambda: len(handler.frames) == 1, "the stranger's frame")
    assert turns_of.strangers.left < TURN_COST == turns_of.turns.left
    (connection,) = listener._connections
    connection.user = "alice"
    for count, size_max in ((2, None), (3, 1000)):  # who logs in again is known
        connection.limit_frames(size_max)
        turns_of.turns.left = TURN_COST
        await peer.send(framed(b"b"))
        await eventually(lambda count=count: len(handler.frames) == count, "the user's frame")
        assert turns_of.turns.left < TURN_COST
