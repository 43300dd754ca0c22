"""What clients say in a TLS handshake is looked at in a line, and nothing before their first record is there."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from functools import cache
from time import time

import pytest
import trustme
from captured_logs import capture_logs
from net_peers import eventually

from minikafka.model import Endpoint
from minikafka.net.accepting import AcceptingContext
from minikafka.net.connection import Connection
from minikafka.net.flights import _HELD_BYTES_MAX, _RECORD_BYTES_MAX, Flights
from minikafka.net.listener import Listener, ListenerLimits
from minikafka.net.tasks import TaskOwner

RECORD = b"\x16\x03\x01\x00\x0a" + bytes(10)
CROWD = 10


def arrives(flights: Flights, data: bytes) -> None:
    while data:
        room = flights.get_buffer(-1)
        count = min(len(room), len(data))
        room[:count] = data[:count]
        flights.buffer_updated(count)
        data = data[count:]


async def is_waiting(task: asyncio.Task[bool]) -> bool:
    for _ in range(20):
        await asyncio.sleep(0)
    return not task.done()


async def test_a_record_is_waited_for_byte_by_byte() -> None:
    flights = Flights()
    waiting = asyncio.create_task(flights.begin())
    for at in range(len(RECORD)):
        assert await is_waiting(waiting)
        arrives(flights, RECORD[at : at + 1])
    assert await waiting


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1", b"\x16\x03\x01\xff\xff", RECORD + b"more", b"\x00"])
async def test_what_openssl_refuses_or_reads_at_once(data: bytes) -> None:
    flights = Flights()
    arrives(flights, data)
    flights.eof_received()
    assert await flights.begin()


@pytest.mark.parametrize("data", [b"", b"\x16\x03", RECORD[:-1]])
async def test_who_ends_before(data: bytes) -> None:
    flights = Flights()
    arrives(flights, data)
    waiting = asyncio.create_task(flights.begin())
    assert await is_waiting(waiting)
    flights.eof_received()
    assert not await waiting


async def test_what_a_stranger_sends_is_not_read_without_bound() -> None:
    """A thousand of them that each send 256 KiB took as much memory, before anybody had logged in."""

    class Transport(asyncio.Transport):
        is_paused = False

        def pause_reading(self) -> None:
            self.is_paused = True

    flights, transport = Flights(), Transport()
    flights.connection_made(transport)
    read = 0
    while not transport.is_paused:
        count = len(flights.get_buffer(-1))
        arrives(flights, bytes(count))
        read += count
    assert _RECORD_BYTES_MAX <= read <= _HELD_BYTES_MAX


@cache
def authority() -> trustme.CA:
    return trustme.CA()


class Client:
    """Writes when it is told to."""

    def __init__(self, version: ssl.TLSVersion, issuer: trustme.CA | None) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.maximum_version = version
        authority().configure_trust(context)
        if issuer is not None:
            issuer.issue_cert("me@here").configure_cert(context)
        self._received, self._sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._received, self._sent, server_hostname="127.0.0.1")

    async def begin(self, port: int) -> None:
        """Say the first part, and hear the answer."""
        self._reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        self.go_on()
        self.flush()
        self._received.write(await self._reader.read(1 << 16))

    def go_on(self) -> None:
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return

    def flush(self) -> None:
        self.writer.write(self._sent.read())

    async def rest(self) -> None:
        """Read to the end."""
        while data := await self._reader.read(1 << 16):
            self._received.write(data)


class Frames:
    """Those that a listener gets."""

    def __init__(self) -> None:
        self.sizes: asyncio.Queue[int] = asyncio.Queue()

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        self.sizes.put_nowait(len(frame))

    def on_read_event_end(self) -> None: ...
    def on_connection_made(self, connection: Connection) -> None: ...
    def on_connection_lost(self, connection: Connection) -> None: ...


def fail(name: str, error: BaseException) -> None:
    raise AssertionError(name) from error


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    context, tasks = AcceptingContext(ssl.PROTOCOL_TLS_SERVER), TaskOwner("test", fail)
    context.now_s = time
    context.verify_mode = ssl.CERT_REQUIRED
    authority().issue_cert("127.0.0.1").configure_cert(context)
    authority().configure_trust(context)
    limits = ListenerLimits(max_connections=100, max_frame_bytes=1 << 20)
    listener = Listener("SSL", Endpoint("127.0.0.1", 0), Frames(), limits, tls=(lambda: context, tasks))
    await listener.start()
    yield listener
    await listener.close()
    await tasks.close()


async def test_certificates_of_many_are_not_looked_at_in_one_turn(listener: Listener) -> None:
    """Fifty small ones of each of thirty clients took half a second."""
    unknown = trustme.CA()
    clients = [Client(ssl.TLSVersion.TLSv1_3, unknown) for _ in range(CROWD)]
    for client in clients:
        await client.begin(listener.endpoint.port)
        client.go_on()
    for client in clients:
        client.flush()
    before, most = 0, 0
    async with asyncio.timeout(30):
        while before < CROWD:
            await asyncio.sleep(0)
            most = max(most, listener.failed_handshakes - before)
            before = listener.failed_handshakes
    assert most == 1


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_what_comes_with_the_last_record_is_the_connections(version: ssl.TLSVersion, listener: Listener) -> None:
    client = Client(version, authority())
    await client.begin(listener.endpoint.port)
    client.go_on()
    if version is ssl.TLSVersion.TLSv1_3:
        for size in (3, 100_000):
            client.tls.write(size.to_bytes(4, "big") + bytes(size))
        client.flush()
        frames = listener._handler
        assert isinstance(frames, Frames)
        async with asyncio.timeout(30):
            assert [await frames.sizes.get() for _ in range(2)] == [3, 100_000]
    else:
        client.flush()
        await eventually(lambda: listener.connection_count == 1, "a connection")
    client.writer.close()
    await eventually(lambda: listener.connection_count == 0, "the end of it")


async def test_who_is_refused_is_told_and_so_is_the_log(listener: Listener) -> None:
    client = Client(ssl.TLSVersion.TLSv1_3, None)
    await client.begin(listener.endpoint.port)
    client.go_on()
    client.flush()
    client.writer.write_eof()  # what came before is looked at
    with capture_logs() as logs:
        await asyncio.wait_for(client.rest(), 30)
    with pytest.raises(ssl.SSLError, match="certificate required"):
        client.tls.read(1)
    assert [line["why"] for line in logs] == ["TLS handshake: it has no certificate, and ssl.client.auth wants one"]
    await eventually(lambda: listener.arriving_count == 0, "the end of it")


async def test_who_leaves_in_the_middle_leaves_nothing(listener: Listener) -> None:
    clients = [Client(ssl.TLSVersion.TLSv1_3, authority()) for _ in range(3)]
    for number, client in enumerate(clients):
        await client.begin(listener.endpoint.port)
        client.go_on()
        if number == 1:
            client.flush()
        if number == 2:
            client.writer.transport.abort()
        else:
            client.writer.close()
    await eventually(lambda: listener.arriving_count + listener.connection_count == 0, "the end of all")
    assert listener.failed_handshakes == 0
