"""Answers by sendfile, over simulated files and sockets: in pieces, in order, and nothing left behind."""

from __future__ import annotations

import asyncio
import random
from typing import Any, cast

import pytest
from simulator.disk import MountedFile, SimulatedDisk
from simulator.kernel import Kernel

from minikafka.net.duplicates import Duplicates
from minikafka.net.outbox import Outbox
from minikafka.storage.slice import LogSlice

World = Any
PORT = 9092


class Sink(asyncio.Protocol):
    """Reads everything, slowly where asked to."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.received += data


class Source(Sink):
    """Writes by an outbox."""

    outbox: Outbox
    errors: list[Exception]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.errors = []
        self.outbox = Outbox(cast(asyncio.Transport, transport), self.errors.append, duplicates=Duplicates(1))

    def connection_lost(self, exc: Exception | None) -> None:
        self.outbox.close()

    def resume_writing(self) -> None:
        self.outbox.resume()


async def connect(world: World) -> tuple[Source, Sink]:
    """From machine a to machine b."""
    sink = Sink()
    world.b.enter(lambda: world.network._listen(world.b, lambda: sink, "b", PORT, True, 10))
    _transport, source = await asyncio.get_running_loop().create_connection(Source, "b", PORT)
    return source, sink


def file_of(data: bytes) -> MountedFile:
    disk = SimulatedDisk().mount()
    disk.write_bytes("/a", data)
    return disk.open_read("/a")


@pytest.mark.parametrize("seed", range(20))
def test_regions_and_bytes_arrive_whole_and_in_order(world: World, seed: int) -> None:
    rng = random.Random(seed)
    kernel = Kernel(rng, sendfile_min_bytes=1000)
    content = rng.randbytes(900_000)
    file = file_of(content)

    async def main() -> None:
        source, sink = await connect(world)
        sent = bytearray()
        for _ in range(30):
            if rng.random() < 0.5:
                chunk = rng.randbytes(rng.randrange(1, 3000))
                source.outbox.write([chunk])
                sent += chunk
            else:
                position = rng.randrange(len(content))
                size = min(rng.choice((10, 5_000, 400_000)), len(content) - position)
                region = LogSlice(file, position, size)
                source.outbox.write([b"head", region])
                sent += b"head" + content[position : position + size]
            if rng.random() < 0.3:
                await asyncio.sleep(0.01 * rng.random())
            if rng.random() < 0.1 and sink.transport is not None:
                sink.transport.pause_reading()
                asyncio.get_running_loop().call_later(0.05, sink.transport.resume_reading)
        await asyncio.sleep(2)
        assert bytes(sink.received) == bytes(sent)
        assert not source.errors
        assert source.outbox.pending_bytes == 0

    with kernel.installed():
        world.run(main())
    assert kernel.sent_bytes > 100_000


def test_a_peer_that_goes_away_ends_it_and_lets_go_of_the_file(world: World) -> None:
    kernel = Kernel(random.Random(1), sendfile_min_bytes=1000)
    region = LogSlice(file_of(bytes(2_000_000)), 0, 2_000_000)

    async def main() -> None:
        source, sink = await connect(world)
        assert sink.transport is None or sink.transport.is_reading()
        await asyncio.sleep(0.01)
        assert sink.transport is not None
        sink.transport.pause_reading()
        source.outbox.write([region])
        await asyncio.sleep(0.1)
        assert source.outbox.pending_bytes > 0
        sink.transport.abort()
        await asyncio.sleep(0.1)
        assert source.outbox.pending_bytes == 0
        assert region.fileno() is None

    with kernel.installed():
        world.run(main())


def test_without_a_descriptor_it_goes_the_long_way(world: World) -> None:
    kernel = Kernel(random.Random(1), sendfile_min_bytes=1000)
    file = file_of(b"x" * 300_000)

    async def main() -> None:
        source, sink = await connect(world)
        world.a.is_out_of_descriptors = True
        source.outbox.write([LogSlice(file, 0, 300_000), b"end"])
        await asyncio.sleep(1)
        assert bytes(sink.received) == b"x" * 300_000 + b"end"
        assert not source.errors

    with kernel.installed():
        world.run(main())
    assert kernel.sent_bytes == 0
