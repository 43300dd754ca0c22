"""The simulated TCP: what real sockets do, protocols see here too; and what is done to links and machines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from socket import IPPROTO_TCP, TCP_KEEPCNT, TCP_KEEPIDLE, TCP_KEEPINTVL
from typing import Any

import pytest
import uvloop
from simulator.kernel import Kernel
from simulator.network import KERNEL_BUFFER_BYTES

World = Any
Scene = Callable[[str, int], Awaitable[list[str]]]

BIG = 3_000_000


class Recorder(asyncio.Protocol):
    """Writes down what happens to it, with runs of bytes joined."""

    def __init__(self, name: str, seen: list[str], *, echoes: bool = False) -> None:
        self.name = name
        self.seen = seen
        self.received = 0
        self.transport: Any = None
        self.ended = asyncio.get_running_loop().create_future()
        self._echoes = echoes

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.seen.append(f"{self.name} made")

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        if self._echoes:
            self.transport.write(data)

    def eof_received(self) -> bool:
        self.seen.append(f"{self.name} eof after {self.received}")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.seen.append(f"{self.name} lost")
        if not self.ended.done():
            self.ended.set_result(None)


async def serve(host: str, port: int, protocol: Callable[[], asyncio.BaseProtocol]) -> Any:
    return await asyncio.get_running_loop().create_server(protocol, host, port)


async def dial(host: str, port: int, protocol: Callable[[], Any]) -> Any:
    _, made = await asyncio.get_running_loop().create_connection(protocol, host, port)
    return made


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110  # nobody tells when it holds
        await asyncio.sleep(0.01)


# -- scenes that a real network plays as well --------------------------------------------------------------------------


async def echo_and_close(host: str, port: int) -> list[str]:
    seen: list[str] = []
    server = await serve(host, port, lambda: Recorder("server", seen, echoes=True))
    client = await dial(host, server.sockets[0].getsockname()[1], lambda: Recorder("client", seen))
    client.transport.write(b"x" * 1000)
    await until(lambda: client.received == 1000)
    client.transport.close()
    await client.ended
    await asyncio.sleep(0.05)
    server.close()
    return seen


async def much_and_close_at_once(host: str, port: int) -> list[str]:
    """Everything that was written before an orderly close arrives."""
    seen: list[str] = []
    servers: list[Recorder] = []

    def make() -> Recorder:
        servers.append(Recorder("server", seen))
        return servers[-1]

    server = await serve(host, port, make)
    client = await dial(host, server.sockets[0].getsockname()[1], lambda: Recorder("client", seen))
    client.transport.write(b"x" * BIG)
    client.transport.close()
    await until(lambda: servers)
    await servers[0].ended
    await client.ended
    server.close()
    return [*sorted(seen), str(servers[0].received)]


async def nobody_listens(host: str, port: int) -> list[str]:
    server = await serve(host, port, asyncio.Protocol)
    free = server.sockets[0].getsockname()[1]
    server.close()
    await asyncio.sleep(0.05)
    try:
        await dial(host, free, asyncio.Protocol)
    except ConnectionRefusedError:
        return ["refused"]
    return ["connected"]


async def abort(host: str, port: int) -> list[str]:
    seen: list[str] = []
    server = await serve(host, port, lambda: Recorder("server", seen))
    client = await dial(host, server.sockets[0].getsockname()[1], lambda: Recorder("client", seen))
    await asyncio.sleep(0.05)
    client.transport.abort()
    await asyncio.sleep(0.2)
    server.close()
    return sorted(each for each in seen if "eof" not in each)


async def slow_reader(host: str, port: int) -> list[str]:
    """Who does not read makes the writer wait; once it reads the writer goes on, and nothing is lost."""
    seen: list[str] = []
    servers: list[Recorder] = []

    class Writer(Recorder):
        def pause_writing(self) -> None:
            self.seen.append("paused")

        def resume_writing(self) -> None:
            self.seen.append("resumed")

    def make() -> Recorder:
        servers.append(Recorder("server", seen))
        return servers[-1]

    server = await serve(host, port, make)
    client = await dial(host, server.sockets[0].getsockname()[1], lambda: Writer("client", seen))
    await until(lambda: servers)
    servers[0].transport.pause_reading()
    for _ in range(40):
        client.transport.write(b"x" * 1_000_000)
    await asyncio.sleep(0.1)
    paused = list(seen)
    servers[0].transport.resume_reading()
    await until(lambda: servers[0].received == 40_000_000)
    await asyncio.sleep(0.05)
    client.transport.close()
    await servers[0].ended
    await client.ended
    server.close()
    return [f"paused {'paused' in paused and 'resumed' not in paused}", f"resumed {'resumed' in seen}"]


SCENES: list[Scene] = [echo_and_close, much_and_close_at_once, nobody_listens, abort, slow_reader]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_real_network_plays_it_the_same_way(world: World, scene: Scene) -> None:
    simulated = world.run(scene("a", 0))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert simulated == runner.run(scene("127.0.0.1", 0))


# -- links ------------------------------------------------------------------------------------------------------------


class Pair:
    """A connection from process a to process b, with what each end received."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen: list[str] = []
        self.at_b: Any = None

        def make() -> Recorder:
            self.at_b = Bytes("b", self.seen)
            return self.at_b

        self.server = world.run(serve("b", 1, make), world.b)
        self.at_a = world.run(dial("b", 1, lambda: Bytes("a", self.seen)), world.a)
        world.simulator.run(world.simulator.now + 1)

    def write(self, data: bytes) -> None:
        self.world.a.enter(lambda: self.at_a.transport.write(data))

    def answer(self, data: bytes) -> None:
        self.world.b.enter(lambda: self.at_b.transport.write(data))

    def wait(self, seconds: float = 1.0) -> None:
        self.world.simulator.run(self.world.simulator.now + seconds)


class Bytes(Recorder):
    """Keeps what it received."""

    data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data


@pytest.fixture
def pair(world: World) -> Pair:
    return Pair(world)


def test_bytes_arrive_in_order_however_they_were_split(pair: Pair) -> None:
    expected = b""
    for number in range(500):
        piece = b"%d," % number
        expected += piece
        pair.write(piece)
    pair.wait()
    assert pair.at_b.data == expected


def test_what_is_written_into_a_cut_link_arrives_once_it_is_mended(pair: Pair) -> None:
    pair.world.network.cut("a", "b")
    pair.write(b"one,")
    pair.write(b"two,")
    pair.wait(60)
    assert pair.at_b.data == b""
    pair.world.network.mend("a", "b")
    pair.write(b"three")
    pair.wait()
    assert pair.at_b.data == b"one,two,three"
    assert pair.seen == ["b made", "a made"] or pair.seen == ["a made", "b made"]


def test_the_other_direction_of_a_cut_link_works(pair: Pair) -> None:
    pair.world.network.cut("a", "b")
    pair.answer(b"hello")
    pair.wait()
    assert pair.at_a.data == b"hello"


def test_connecting_over_a_cut_link_hangs_until_it_is_mended(world: World) -> None:
    world.run(serve("b", 1, asyncio.Protocol), world.b)
    world.network.cut("a", "b")
    task = world.a.spawn(dial("b", 1, asyncio.Protocol))
    world.simulator.run(30)
    assert not task.done()
    world.network.mend("a", "b")
    world.simulator.run(31)
    assert task.done()


def test_giving_up_connecting_leaves_no_connection_behind(world: World) -> None:
    seen: list[str] = []
    world.run(serve("b", 1, lambda: Recorder("b", seen)), world.b)
    world.network.cut("b", "a")  # the answer does not come

    async def main() -> None:
        async with asyncio.timeout(1):
            await dial("b", 1, asyncio.Protocol)

    with pytest.raises(TimeoutError):
        world.run(main())
    world.network.mend("b", "a")
    world.simulator.run(5)
    assert seen == ["b made", "b lost"]


def test_what_the_kernel_did_not_take_dies_with_the_process(pair: Pair) -> None:
    pair.world.b.enter(lambda: pair.at_b.transport.pause_reading())
    pair.write(b"x" * BIG)
    pair.wait()
    pair.world.a.kill()
    pair.world.b.enter(lambda: pair.at_b.transport.resume_reading())
    pair.wait()
    assert len(pair.at_b.data) == KERNEL_BUFFER_BYTES
    assert pair.seen[-1] == "b lost"


def test_who_dies_with_bytes_unread_resets_the_connection(pair: Pair) -> None:
    """And so the peer may never see what had arrived for it."""
    pair.world.b.pause()
    pair.answer(b"delivered, but not read yet")
    pair.write(b"never read")
    pair.world.a.pause()
    pair.wait()
    pair.world.b.kill()
    pair.wait()
    pair.world.a.resume()
    pair.wait()
    assert (pair.at_a.data, pair.seen[-1]) == (b"", "a lost")


def test_what_is_never_acknowledged_times_out_where_it_was_written(pair: Pair) -> None:
    pair.world.network.timeout_s = 20.0
    pair.world.network.cut("a", "b")
    pair.write(b"one,")
    pair.wait(19)
    assert "a lost" not in pair.seen
    pair.wait(2)
    assert "a lost" in pair.seen
    assert "b lost" not in pair.seen
    pair.world.network.mend("a", "b")
    pair.wait()
    assert (pair.at_b.data, "b lost" in pair.seen) == (b"", False)
    pair.answer(b"still there?")
    pair.wait()
    assert "b lost" in pair.seen


def test_a_cut_that_is_mended_in_time_costs_nothing_later(pair: Pair) -> None:
    pair.world.network.timeout_s = 20.0
    for _ in range(3):
        pair.world.network.cut("a", "b")
        pair.write(b"more,")
        pair.wait(15)
        pair.world.network.mend("a", "b")
        pair.wait()
    pair.wait(60)
    assert pair.at_b.data == b"more," * 3
    assert "a lost" not in pair.seen


def test_a_full_backlog_lets_others_knock_again(world: World) -> None:
    made: list[asyncio.Protocol] = []
    world.network.backlog_max = 2

    def make() -> asyncio.Protocol:
        made.append(asyncio.Protocol())
        return made[-1]

    world.run(serve("b", 1, make), world.b)
    world.b.pause()
    dials = [world.a.spawn(dial("b", 1, asyncio.Protocol)) for _ in range(5)]
    world.simulator.run(world.simulator.now + 0.5)
    assert sum(task.done() for task in dials) == 2  # the kernel made them, whether the process looks or not
    world.b.resume()
    world.simulator.run(world.simulator.now + 8)
    assert all(task.done() for task in dials)
    assert len(made) == 5


# -- processes and machines --------------------------------------------------------------------------------------------


def test_a_killed_process_ends_its_connections_and_frees_its_port(pair: Pair) -> None:
    pair.world.b.kill()
    pair.wait()
    assert pair.seen[-1] == "a lost"
    with pytest.raises(ConnectionRefusedError):
        pair.world.run(dial("b", 1, asyncio.Protocol))
    again = pair.world.network.process("b")
    pair.world.run(serve("b", 1, asyncio.Protocol), again)
    pair.world.run(dial("b", 1, asyncio.Protocol))


def test_a_machine_without_power_is_silent_until_it_is_back(pair: Pair) -> None:
    world = pair.world
    world.network.lose_power("b")
    world.b.kill()
    pair.write(b"anyone?")
    pair.wait(60)
    assert "a lost" not in pair.seen
    task = world.a.spawn(dial("b", 1, asyncio.Protocol))
    pair.wait(60)
    assert not task.done()
    world.network.process("b")
    pair.wait()
    assert "a lost" in pair.seen  # what was sent is sent again, and refused


def test_a_machine_that_stays_without_power_times_out(pair: Pair) -> None:
    world = pair.world
    world.network.timeout_s = 20.0
    world.network.lose_power("b")
    world.b.kill()
    pair.write(b"anyone?")
    pair.wait(19)
    assert "a lost" not in pair.seen
    pair.wait(2)
    assert "a lost" in pair.seen


def test_who_writes_nothing_does_not_learn_that_the_power_was_gone(pair: Pair) -> None:
    world = pair.world
    world.network.lose_power("b")
    world.b.kill()
    world.network.process("b")
    pair.wait(60)
    assert "a lost" not in pair.seen
    pair.write(b"anyone?")
    pair.wait()
    assert "a lost" in pair.seen


@pytest.mark.parametrize("is_back", [True, False])
def test_whose_kernel_probes_learns_that_the_power_was_gone(pair: Pair, is_back: bool) -> None:
    world = pair.world
    with Kernel(Random(1)).installed():
        sock = pair.at_a.transport.get_extra_info("socket")
        for option, value in ((TCP_KEEPIDLE, 10), (TCP_KEEPINTVL, 5), (TCP_KEEPCNT, 3)):
            sock.setsockopt(IPPROTO_TCP, option, value)
    world.network.lose_power("b")
    world.b.kill()
    if is_back:
        world.network.process("b")
    pair.wait(9 if is_back else 24)
    assert "a lost" not in pair.seen
    pair.wait(2)
    assert "a lost" in pair.seen


def test_a_paused_process_reads_when_it_goes_on(pair: Pair) -> None:
    pair.world.b.pause()
    pair.write(b"hello")
    pair.wait(10)
    assert pair.at_b.data == b""
    pair.world.b.resume()
    pair.wait()
    assert pair.at_b.data == b"hello"


def test_an_address_is_given_once(world: World) -> None:
    world.run(serve("b", 1, asyncio.Protocol), world.b)
    with pytest.raises(OSError, match="in use"):
        world.run(serve("b", 1, asyncio.Protocol), world.b)
