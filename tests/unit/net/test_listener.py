from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from net_peers import Echo, Peer, Recorder, eventually, framed, turns

from minikafka.model import Endpoint
from minikafka.net import listener as listener_module
from minikafka.net.addresses import Addresses
from minikafka.net.connection import Connection, FrameHandler
from minikafka.net.listener import Listener, ListenerLimits

Serve = Callable[..., Awaitable[Listener]]
Dial = Callable[..., Awaitable[Peer]]


async def test_port_0_becomes_the_port_that_was_given(serve: Serve, dial: Dial) -> None:
    listener = await serve(Echo())
    assert listener.endpoint.port > 0
    peer = await dial(listener)
    await peer.send(framed(b"hello"))
    assert await peer.receive_frame() == b"hello"


async def test_a_taken_port_is_named(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "BIND_PATIENCE_S", 0.0)
    taken = (await serve(Echo())).endpoint
    second = Listener("REPLICATION", taken, Echo(), ListenerLimits(max_connections=1, max_frame_bytes=100))
    with pytest.raises(OSError, match=f"listener REPLICATION cannot bind 127.0.0.1:{taken.port}: "):
        await second.start()
    await second.close()


async def test_a_port_that_becomes_free_is_waited_for(serve: Serve) -> None:
    first = await serve(Echo())
    second = Listener("CLIENT", first.endpoint, Echo(), ListenerLimits(max_connections=1, max_frame_bytes=100))
    starting = asyncio.get_running_loop().create_task(second.start())
    await turns()
    assert not starting.done()
    await first.close()
    async with asyncio.timeout(20):
        await starting
    await second.close()


async def test_an_address_that_is_not_of_this_machine_is_refused_at_once() -> None:
    nowhere = Listener("CLIENT", Endpoint("192.0.2.1", 0), Echo(), ListenerLimits(max_connections=1, max_frame_bytes=9))
    with pytest.raises(OSError, match=r"listener CLIENT cannot bind 192\.0\.2\.1:0"):
        await nowhere.start()


@pytest.mark.spec("P6")
async def test_more_connections_than_allowed_are_turned_away(serve: Serve, dial: Dial) -> None:
    handler = Echo()
    listener = await serve(handler, max_connections=2)
    first, second = await dial(listener), await dial(listener)
    await eventually(lambda: len(handler.connections) == 2, "two connections")
    third = await dial(listener)
    assert await third.receive_all() == b""
    assert len(listener._connections) == 2
    assert len(handler.connections) == 2, "the handler was told of the third"
    assert not handler.lost
    first.close()
    await eventually(lambda: len(listener._connections) == 1, "the first to leave")
    assert handler.lost == handler.connections[:1]
    fourth = await dial(listener)
    await fourth.send(framed(b"welcome"))
    assert await fourth.receive_frame() == b"welcome"
    await second.send(framed(b"still here"))
    assert await second.receive_frame() == b"still here"


@pytest.mark.spec("P6")
async def test_strangers_cannot_keep_peers_out(serve: Serve, dial: Dial) -> None:
    handler = Echo()
    listener = await serve(handler, max_connections=2, asks_who=True)
    peer, stranger = await dial(listener), await dial(listener)
    await eventually(lambda: len(handler.connections) == 2, "two connections")
    handler.connections[0].principal = 7
    newcomer = await dial(listener)
    assert await stranger.receive_all() == b""
    await eventually(lambda: len(handler.connections) == 3, "the newcomer")
    assert handler.lost == handler.connections[1:2]
    handler.connections[2].principal = 8
    assert await (await dial(listener)).receive_all() == b""
    for known in (peer, newcomer):
        await known.send(framed(b"still here"))
        assert await known.receive_frame() == b"still here"
    assert len(listener._connections) == 2
    assert handler.lost == handler.connections[1:2]


async def test_one_address_takes_no_more_than_its_places_on_all_listeners(serve: Serve, dial: Dial) -> None:
    addresses = Addresses(2)
    first, second = await serve(Echo(), addresses), await serve(Echo(), addresses)
    held, _ = await dial(first), await dial(second)
    assert await (await dial(first)).receive_all() == b""
    held.close()
    await eventually(lambda: addresses.enter("127.0.0.1"), "a place to be free")
    addresses.leave("127.0.0.1")
    newcomer = await dial(second)
    await newcomer.send(framed(b"hello"))
    assert await newcomer.receive_frame() == b"hello"


async def test_closing_closes_every_connection(serve: Serve, dial: Dial) -> None:
    handler = Recorder()
    listener = await serve(handler)
    peers = [await dial(listener) for _ in range(3)]
    await eventually(lambda: len(handler.connections) == 3, "three connections")
    await listener.close()
    for peer in peers:
        assert await peer.receive_all() == b""
    await eventually(lambda: len(handler.lost) == 3, "the handler to hear of it")
    assert len(listener._connections) == 0


class _ClosesWhenOneComes(Listener):
    """Closes between the moment a connection is accepted and the one its protocol hears of it."""

    closing: asyncio.Task[None] | None = None

    def _accept(self) -> Connection:
        self.closing = self.closing or asyncio.ensure_future(self.close())
        return super()._accept()


async def test_who_was_being_accepted_when_it_closed_is_not_let_in(dial: Dial) -> None:
    handler = Recorder()
    listener = _ClosesWhenOneComes("CLIENT", Endpoint("127.0.0.1", 0), handler, ListenerLimits(10, 100))
    await listener.start()
    peer = await dial(listener)
    assert await peer.receive_all() == b""
    assert listener.closing is not None
    await listener.closing
    assert not handler.connections
    assert len(listener._connections) == 0


# Limits of less than nothing: whatever may be closed is overdue at once, so that no test waits for time to pass.


async def sweep_finds(serve: Serve, dial: Dial, handler: FrameHandler, sent: bytes, **limits: float) -> Peer:
    """A peer that sent some bytes, after a sweep."""
    listener = await serve(handler, **limits)
    peer = await dial(listener)
    await peer.send(sent)
    connection = await eventually(lambda: next(iter(listener._connections), None), "the connection")
    await eventually(lambda: not sent or len(connection._buffer) or connection._replies, "its bytes")
    listener._sweep()
    return peer


@pytest.mark.spec("P6")
async def test_an_idle_connection_is_closed(serve: Serve, dial: Dial) -> None:
    peer = await sweep_finds(serve, dial, Recorder(), b"", idle_timeout_s=-1)
    assert await peer.receive_all() == b""


async def test_one_that_waits_for_an_answer_is_not_idle(serve: Serve, dial: Dial) -> None:
    handler = Recorder()
    peer = await sweep_finds(serve, dial, handler, framed(b"x"), idle_timeout_s=-1)
    handler.replies[0].send([framed(b"late")])
    assert await peer.receive_frame() == b"late"


@pytest.mark.spec("P6")
@pytest.mark.parametrize("sent", [b"\0", b"\0\0\0", b"\0\0\0\x09", b"\0\0\0\x09half"])
async def test_a_frame_that_is_not_completed_in_time_closes(serve: Serve, dial: Dial, sent: bytes) -> None:
    peer = await sweep_finds(serve, dial, Recorder(), sent, frame_deadline_s=-1)
    assert await peer.receive_all() == b""


async def test_without_anything_partial_the_frame_deadline_is_nothing(serve: Serve, dial: Dial) -> None:
    handler = Recorder()
    peer = await sweep_finds(serve, dial, handler, framed(b"whole"), frame_deadline_s=-1)
    handler.replies[0].send([framed(b"well")])
    assert await peer.receive_frame() == b"well"


@pytest.mark.spec("P6")
async def test_bytes_that_trickle_do_not_put_the_deadline_off(serve: Serve, dial: Dial) -> None:
    handler = Recorder()
    listener = await serve(handler)
    peer = await dial(listener)
    await peer.send(framed(b"slow loris")[:5])
    connection = await eventually(lambda: next(iter(listener._connections), None), "the connection")
    began_s = await eventually(lambda: connection.partial_since_s, "the first bytes")
    await eventually(lambda: asyncio.get_running_loop().time() > began_s, "the clock, which may count milliseconds")
    await peer.send(b"x")
    await eventually(lambda: connection.last_active_s != began_s, "the next byte")
    assert connection.partial_since_s == began_s
    await peer.send(b"xxxxxxxx" + b"\0")  # completes the frame and begins another
    await eventually(lambda: handler.frames, "the frame")
    assert connection.partial_since_s is not None
    assert connection.partial_since_s > began_s
    await peer.send(b"\0\0\0")
    await eventually(lambda: len(handler.frames) == 2, "the empty frame")
    assert connection.partial_since_s is None


async def test_sweeps_follow_one_another(serve: Serve, dial: Dial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "SWEEP_INTERVAL_S", 0.01)
    listener = await serve(Recorder(), idle_timeout_s=0.02)
    for _ in range(2):
        peer = await dial(listener)
        assert await peer.receive_all() == b""


# -- a listener for the cluster's own nodes ---------------------------------------------------------------------------


class Gate(Recorder):
    """Takes a peer's first frame as its proof."""

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        super().on_frame(connection, frame)
        connection.principal = int(bytes(frame))
        self.replies[-1].send([framed(b"welcome")])


@pytest.mark.spec("P6")
async def test_peers_are_never_turned_out(serve: Serve, dial: Dial) -> None:
    gate = Gate()
    listener = await serve(gate, max_connections=3, asks_who=True)
    peer = await dial(listener)
    await peer.send(framed(b"7"))
    assert await peer.receive_frame() == b"welcome"
    strangers = [await dial(listener) for _ in range(2)]
    await eventually(lambda: len(listener._connections) == 3, "all places to be taken")
    newcomer = await dial(listener)
    assert await strangers[0].receive_all() == b"", "the oldest that did not prove who it is makes room"
    await newcomer.send(framed(b"8"))
    assert await newcomer.receive_frame() == b"welcome"
    assert len(listener._connections) == 3
    assert [connection.principal for connection in gate.lost] == [None]
    another = await dial(listener)
    assert await strangers[1].receive_all() == b""
    await another.send(framed(b"9"))
    assert await another.receive_frame() == b"welcome"
    late = await dial(listener)
    assert await late.receive_all() == b"", "there is room for no more peers"
    assert len(gate.lost) == 2
    await peer.send(framed(b"7"))
    assert await peer.receive_frame() == b"welcome"


async def test_an_address_may_be_taken_before_anyone_is_let_in(serve: Serve, dial: Dial) -> None:
    limits = ListenerLimits(max_connections=1, max_frame_bytes=100)
    listener = Listener("CLIENT", Endpoint("127.0.0.1", 0), Echo(), limits)
    await listener.bind()
    assert listener.endpoint.port > 0
    with pytest.raises(ConnectionRefusedError):
        await Peer.connect(listener.endpoint)
    await listener.serve()
    peer = await dial(listener)
    await peer.send(framed(b"now"))
    assert await peer.receive_frame() == b"now"
    await listener.close()
