from __future__ import annotations

import asyncio
import os
import random
import resource
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest
from net_peers import Peer, Region, eventually

from minikafka.net import outbox as outbox_module
from minikafka.net.duplicates import Duplicates
from minikafka.net.outbox import PIECE_BYTES, SENDFILE_MIN_BYTES, Outbox
from minikafka.net.turns import TURN_COST, Turns

SMALL_BUFFER = 8 * 1024
FILE_BYTES = 3 * 1024 * 1024


class Sender(asyncio.Protocol):
    """The transport under test is real; nothing of interest ever arrives on it."""

    outbox: Outbox | None = None

    def resume_writing(self) -> None:
        if self.outbox is not None:
            self.outbox.resume()


class Link:
    """An outbox and who receives from it."""

    def __init__(self, outbox: Outbox, transport: asyncio.Transport, peer: Peer, errors: list[Exception]) -> None:
        self.outbox = outbox
        self.transport = transport
        self.peer = peer
        self.errors = errors


@pytest.fixture
async def link() -> AsyncIterator[Callable[..., Awaitable[Link]]]:
    links: list[Link] = []

    shared = Duplicates(8)

    async def connect(*, small_buffers: bool = False, duplicates: Duplicates = shared) -> Link:
        with socket.create_server(("127.0.0.1", 0)) as server:
            receiving = socket.socket()
            if small_buffers:
                receiving.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
            receiving.connect(server.getsockname())
            sending, _ = server.accept()
        if small_buffers:
            sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
        transport, sender = await asyncio.get_running_loop().create_connection(Sender, sock=sending)
        errors: list[Exception] = []
        sender.outbox = Outbox(transport, errors.append, duplicates=duplicates)
        links.append(Link(sender.outbox, transport, Peer(receiving), errors))
        return links[-1]

    yield connect
    for link in links:
        link.outbox.close()
        link.transport.abort()
        link.peer.close()


Connect = Callable[..., Awaitable[Link]]


@pytest.fixture
def content() -> bytes:
    return random.Random(7).randbytes(FILE_BYTES)


@pytest.fixture
def file(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "segment"
    path.write_bytes(content)
    return path


async def test_plain_chunks_arrive_in_order(link: Connect) -> None:
    to = await link()
    to.outbox.write([b"one ", bytearray(b"two "), memoryview(b"three ")])
    to.outbox.write([b"four"])
    to.outbox.write([])
    assert await to.peer.receive(18) == b"one two three four"
    assert to.outbox.pending_bytes == 0


async def test_bytes_and_regions_keep_their_order(link: Connect, file: Path, content: bytes) -> None:
    to = await link()
    large = Region(file, 100, 50_000), Region(file, 0, SENDFILE_MIN_BYTES), Region(file, 1_000_000, 1_500_000)
    small = Region(file, 7, 10), Region(file, 500, SENDFILE_MIN_BYTES - 1)
    to.outbox.write([b"a", large[0], b"b", memoryview(b"c"), small[0], large[1], small[1], b"d"])
    to.outbox.write([b"e"])
    to.outbox.write([large[2], b"f"])
    to.outbox.write([b"g"])
    expected = [
        b"a",
        content[100:50_100],
        b"bc",
        content[7:17],
        content[:SENDFILE_MIN_BYTES],
        content[500 : 500 + SENDFILE_MIN_BYTES - 1],
        b"de",
        content[1_000_000:2_500_000],
        b"fg",
    ]
    assert await to.peer.receive(sum(map(len, expected))) == b"".join(expected)
    assert [region.reads for region in (*large, *small)] == [0, 0, 0, 1, 1], "what is large goes by sendfile"
    assert [region.releases for region in (*large, *small)] == [1] * 5
    assert to.outbox.pending_bytes == 0
    assert not to.errors


async def test_a_region_without_a_descriptor_is_read(link: Connect, file: Path, content: bytes) -> None:
    to = await link()
    region = Region(file, 10, 100_000, is_file=False)
    to.outbox.write([b"<", region, b">"])
    assert await to.peer.receive(100_002) == b"<" + content[10:100_010] + b">"
    assert (region.reads, region.releases) == (1, 1)


async def test_a_slow_reader_gets_everything_in_order(link: Connect, file: Path, content: bytes) -> None:
    to = await link(small_buffers=True)
    first, second = Region(file, 0, FILE_BYTES), Region(file, 5, 60_000)
    to.outbox.write([b"head", first])
    assert to.outbox.pending_bytes > FILE_BYTES // 2
    to.outbox.write([b"middle"])
    to.outbox.write([second, b"tail"])
    before = to.outbox.pending_bytes
    assert await to.peer.receive(4) == b"head"
    assert await to.peer.receive(FILE_BYTES) == content
    assert to.outbox.pending_bytes < before
    assert await to.peer.receive(6) == b"middle"
    assert await to.peer.receive(60_000) == content[5:60_005]
    assert await to.peer.receive(4) == b"tail"
    await eventually(lambda: to.outbox.pending_bytes == 0, "the outbox to be empty")
    assert first.releases == second.releases == 1
    to.outbox.write([b"and on"])
    assert await to.peer.receive(6) == b"and on"


async def test_a_region_behind_unsent_plain_bytes_waits_its_turn(link: Connect, file: Path, content: bytes) -> None:
    to = await link(small_buffers=True)
    plain = bytes(4_000_000)
    to.outbox.write([plain])
    assert to.transport.get_write_buffer_size() > 0
    region = Region(file, 0, 40_000)
    to.outbox.write([region, b"."])
    assert to.outbox.pending_bytes == to.transport.get_write_buffer_size() + 40_001, "it did not overtake"
    assert await to.peer.receive(len(plain)) == plain
    assert await to.peer.receive(40_001) == content[:40_000] + b"."
    assert region.releases == 1


async def test_a_large_region_lets_others_have_their_turn(
    link: Connect, file: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "SENDFILE_CHUNK_BYTES", 16_384)
    to = await link()
    to.outbox.write([Region(file, 0, 65_536)])
    assert to.outbox.pending_bytes == 65_536 - 16_384, "one chunk per turn of the loop"
    assert await to.peer.receive(65_536) == content[:65_536]


@pytest.mark.spec("P6")
async def test_a_file_that_was_cut_under_a_region_ends_the_connection(link: Connect, file: Path) -> None:
    to = await link()
    region, later = Region(file, FILE_BYTES - 40_000, 50_000), Region(file, 0, 50_000)
    to.outbox.write([region, later])
    assert [type(error) for error in to.errors] == [EOFError]
    assert region.releases == later.releases == 1
    assert to.outbox.queued_bytes == 0


@pytest.mark.parametrize("is_file", [True, False])
async def test_a_small_region_that_was_cut_ends_the_connection_too(link: Connect, file: Path, is_file: bool) -> None:
    # Fewer bytes than the frame announced would shift every answer behind them.
    to = await link()
    region, later = Region(file, FILE_BYTES - 10, 20, is_file=is_file), Region(file, 0, 20)
    to.outbox.write([b"head", region, b"tail", later])
    assert [type(error) for error in to.errors] == [EOFError]
    assert region.releases == later.releases == 1
    to.transport.close()
    assert await to.peer.receive_all() == b"", "nothing of a frame that cannot be completed is sent"


@pytest.mark.spec("P6")
async def test_a_region_that_cannot_be_read_ends_the_connection(link: Connect, file: Path) -> None:
    class Broken(Region):
        def read(self) -> bytes:
            raise OSError(5, "Input/output error")

    to = await link()
    broken, later = Broken(file, 0, 20), Region(file, 0, 50_000)
    to.outbox.write([b"head", broken, later])
    assert [str(error) for error in to.errors] == ["[Errno 5] Input/output error"]
    assert broken.releases == later.releases == 1
    assert later.reads == 0


async def test_a_peer_that_vanishes_is_reported_once(link: Connect, file: Path) -> None:
    to = await link(small_buffers=True)
    region, waiting = Region(file, 0, FILE_BYTES), Region(file, 0, 50_000)
    to.outbox.write([region, b"x", waiting])
    to.peer.reset()
    await eventually(lambda: to.errors or to.transport.is_closing(), "the reset to be noticed")
    to.outbox.close()  # as the connection does when the transport noticed it first
    assert len(to.errors) <= 1
    assert all(isinstance(error, OSError) for error in to.errors)
    assert region.releases == waiting.releases == 1


async def test_closing_drops_what_is_unsent(link: Connect, file: Path) -> None:
    to = await link(small_buffers=True)
    under_way, waiting, late = Region(file, 0, FILE_BYTES), Region(file, 0, 50_000), Region(file, 0, 50_000)
    to.outbox.write([under_way, b"plain", waiting])
    to.outbox.close()
    assert under_way.releases == waiting.releases == 1
    assert to.outbox.pending_bytes == to.transport.get_write_buffer_size()
    to.outbox.write([b"late", late])
    assert (late.releases, late.reads) == (1, 0)
    to.outbox.close()
    assert not to.errors


@pytest.mark.spec("P6")
async def test_out_of_descriptors_a_region_is_read(link: Connect, file: Path, content: bytes) -> None:
    to = await link()
    region = Region(file, 0, 50_000)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        to.outbox.write([region])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert await to.peer.receive(50_000) == content[:50_000]
    assert region.releases == 1
    await eventually(lambda: to.outbox.pending_bytes == 0, "the outbox to be empty")


# -- the share of descriptors -----------------------------------------------------------------------------------------


def open_descriptors() -> int:
    """Of this process; 0 on a system that does not tell."""
    return len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0


@pytest.mark.spec("P6")
async def test_duplicates_never_exceed_their_share(link: Connect, file: Path, content: bytes) -> None:
    """Each consumer that was ever served by sendfile held a second descriptor, which nobody counted."""
    share = Duplicates(2)
    links = [await link(duplicates=share) for _ in range(5)]
    before = open_descriptors()
    for _ in range(2):
        for to in links:
            region = Region(file, 0, 50_000)
            to.outbox.write([b"<", region, b">"])
            assert share.in_use <= 2
            assert await to.peer.receive(50_002) == b"<" + content[:50_000] + b">"
            assert (region.reads, region.releases) == (0, 1)
    assert share.in_use == 2, "who sent last keeps its own for the next time"
    assert open_descriptors() in (before + 2, 0)
    for to in links:
        to.outbox.close()
    assert share.in_use == 0


@pytest.mark.spec("P6")
@pytest.mark.parametrize("limit", [0, 1])
async def test_without_a_duplicate_a_region_is_read_in_pieces(
    link: Connect, file: Path, content: bytes, limit: int
) -> None:
    share = Duplicates(limit)
    busy = await link(small_buffers=True, duplicates=share)
    stuck = Region(file, 0, FILE_BYTES)
    if limit:
        busy.outbox.write([stuck])  # its peer reads nothing: the only duplicate is under way
    to = await link(small_buffers=True, duplicates=share)
    large, small = Region(file, 1000, 400_000), Region(file, 0, 10)
    to.outbox.write([b"<", large])
    to.outbox.write([b"-", small, b">"])
    assert share.in_use == limit, "a busy one is nobody else's, and there is no other"
    assert to.transport.get_write_buffer_size() <= 2 * outbox_module.PIECE_BYTES
    assert await to.peer.receive(400_013) == b"<" + content[1000:401_000] + b"-" + content[:10] + b">"
    assert (large.reads, large.releases, small.releases) == (0, 1, 1)
    await eventually(lambda: to.outbox.pending_bytes == 0, "the outbox to be empty")
    assert not to.errors


@pytest.mark.spec("P6")
async def test_a_file_cut_under_a_region_that_is_read_ends_the_connection(link: Connect, file: Path) -> None:
    to = await link(duplicates=Duplicates(0))
    region, later = Region(file, FILE_BYTES - 40_000, 50_000), Region(file, 0, 50_000)
    to.outbox.write([region, later])
    await eventually(lambda: to.errors, "the error")
    assert [type(error) for error in to.errors] == [EOFError]
    assert region.releases == later.releases == 1


class Taking:
    """A transport that takes everything at once, as TLS does while the kernel has room."""

    def __init__(self) -> None:
        self.taken = 0

    def write(self, data: bytes) -> None:
        self.taken += len(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, _name: str) -> None:
        return None

    def set_write_buffer_limits(self, **_limits: int) -> None: ...


async def test_who_is_sent_what_is_read_shares_the_turn_with_others(file: Path) -> None:
    """250 that fetched 8 MiB each over TLS were sent some 3 MiB each in one turn, 0.7 s."""
    turns, errors, told = Turns(asyncio.get_running_loop()), list[Exception](), set[int]()
    transports = [Taking() for _ in range(TURN_COST // PIECE_BYTES + 10)]
    for transport in transports:
        outbox = Outbox(
            cast(asyncio.Transport, transport),
            errors.append,
            on_sent=lambda of=transport: told.add(of.taken),  # type: ignore[misc]
            turns=turns,
        )
        outbox.write([Region(file, 0, FILE_BYTES)])
    assert max(transport.taken for transport in transports) == PIECE_BYTES
    assert sum(transport.taken for transport in transports) == TURN_COST
    await eventually(lambda: all(transport.taken == FILE_BYTES for transport in transports), "all of it")
    assert FILE_BYTES in told, "who waits for room hears of it"
    assert not errors
