"""Who connects over TLS and renews keys again and again, as no client does, is turned out before it costs much."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from time import time
from typing import cast

import pytest
import trustme
from captured_logs import capture_logs
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from net_peers import eventually

from minikafka.model import Endpoint
from minikafka.net import turns
from minikafka.net.accepting import AcceptingContext
from minikafka.net.connection import Connection
from minikafka.net.encrypted import END_COST, EncryptedConnection
from minikafka.net.listener import Listener, ListenerLimits
from minikafka.net.tasks import TaskOwner
from minikafka.net.tls_records import (
    AT_ONCE,
    FRUITFUL_FOR_ONE_MORE,
    FRUITLESS_COST,
    FRUITLESS_MAX,
    READ_AT_ONCE,
    RECORD_COST,
    SHAKING_HANDS_MAX,
    FewRecords,
)

HANDSHAKE, DATA = 22, 23
RENEW = b"\x18\x00\x00\x01\x00"
"""A message KeyUpdate, which asks for none in return."""


@cache
def authority() -> trustme.CA:
    return trustme.CA()


class Client:
    """Shakes hands with OpenSSL, and then makes records of its own."""

    def __init__(self, directory: Path, *, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.maximum_version = version
        context.keylog_filename = str(directory / "keys")
        authority().configure_trust(context)
        self.received, self.sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.received, self.sent, server_hostname="127.0.0.1")
        self._keys = directory / "keys"
        self._secret = b""
        self._number = 0

    def begin(self) -> None:
        """Write records itself from now on."""
        cipher = self.tls.cipher()
        assert cipher is not None
        self._hash = hashlib.sha384 if cipher[0].endswith("SHA384") else hashlib.sha256
        self._key_bytes = 32 if "256_GCM" in cipher[0] else 16
        lines = (line.split() for line in self._keys.read_text().splitlines())
        self._secret = next(bytes.fromhex(line[2]) for line in lines if line[0] == "CLIENT_TRAFFIC_SECRET_0")

    def record(self, content: bytes, kind: int = DATA) -> bytes:
        """RFC 8446, 5.2."""
        header = b"\x17\x03\x03" + (len(content) + 17).to_bytes(2, "big")
        nonce = int.from_bytes(self._of_secret(b"iv", 12), "big") ^ self._number
        self._number += 1
        key = AESGCM(self._of_secret(b"key", self._key_bytes))
        return header + key.encrypt(nonce.to_bytes(12, "big"), content + bytes([kind]), header)

    def renew(self) -> bytes:
        """RFC 8446, 7.2."""
        record = self.record(RENEW, HANDSHAKE)
        self._secret = self._of_secret(b"traffic upd", len(self._secret))
        self._number = 0
        return record

    def _of_secret(self, label: bytes, size: int) -> bytes:
        info = size.to_bytes(2, "big") + bytes([6 + len(label)]) + b"tls13 " + label + b"\x00\x01"
        return hmac.new(self._secret, info, self._hash).digest()[:size]


class Server:
    """The side of the node. It has turns enough."""

    def __init__(self) -> None:
        self.turns = turns.Turns(asyncio.new_event_loop())
        context = AcceptingContext(ssl.PROTOCOL_TLS_SERVER)
        context.now_s = time
        authority().issue_cert("127.0.0.1").configure_cert(context)
        self.arrived, self.sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.arrived, self.sent, server_side=True)

    def allow(self) -> None:
        self.turns.left = turns.TURN_COST
        self.tls.allow(self.turns)

    def read(self) -> bytes:
        """What it makes of all that has arrived."""
        found = b""
        try:
            while True:
                self.allow()
                found += self.tls.read(100_000)
        except ssl.SSLWantReadError:
            return found


def connected(client: Client, piece: int = 1 << 20) -> Server:
    """A server that the client has shaken hands with; bytes arrive in pieces."""
    server = Server()
    ends = [client.tls, server.tls]
    while ends:
        for end in tuple(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                pass
            client.received.write(server.sent.read())
            server.arrived.write(client.sent.read(piece))
    server.arrived.write(client.sent.read())
    return server


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path)


def test_keys_may_be_renewed_now_and_then(client: Client) -> None:
    server = connected(client)
    client.begin()
    for number in range(FRUITLESS_MAX):
        text = b"%d" % number
        server.arrived.write(client.record(text) + client.renew() + client.record(text))
        assert server.read() == text + text


def test_nobody_renews_keys_again_and_again(client: Client) -> None:
    server = connected(client)
    client.begin()
    records = [client.renew() for _ in range(10 * FRUITLESS_MAX)]
    server.arrived.write(b"".join(records))
    with pytest.raises(ssl.SSLError, match="without data"):
        server.read()
    assert server.arrived.pending == (len(records) - AT_ONCE) * len(records[0]), "the rest is not even looked at"


def test_a_record_that_renews_keys_costs_its_turn_more_than_others(client: Client) -> None:
    """Three hundred strangers with 32 of them each held the loop for 160 ms in one turn."""
    server = connected(client)
    client.begin()
    server.arrived.write(client.renew() + client.record(b"x") + client.renew())
    server.allow()
    assert server.tls.read(100, memoryview(bytearray(100))) == 1
    assert server.turns.left == turns.TURN_COST - 3 * RECORD_COST - 2 * FRUITLESS_COST
    with pytest.raises(ssl.SSLWantReadError):
        server.tls.read(100, memoryview(bytearray(100)))
    server.arrived.write(client.renew())
    server.allow()
    with pytest.raises(ssl.SSLWantReadError):
        server.tls.read(100, memoryview(bytearray(100)))
    assert server.turns.left == turns.TURN_COST - RECORD_COST - FRUITLESS_COST


def test_who_sends_much_may_renew_them_once_more(client: Client) -> None:
    server = connected(client)
    client.begin()
    server.arrived.write(b"".join(client.record(b"x") for _ in range(FRUITFUL_FOR_ONE_MORE)))
    server.arrived.write(b"".join(client.renew() for _ in range(FRUITLESS_MAX + 1)))
    assert len(server.read()) == FRUITFUL_FOR_ONE_MORE
    server.arrived.write(client.renew())
    with pytest.raises(ssl.SSLError, match="without data"):
        server.read()


def test_some_records_are_read_and_then_others_have_their_turn(client: Client) -> None:
    server = connected(client)
    for _ in range(READ_AT_ONCE + 7):
        client.tls.write(b"x")
    server.arrived.write(client.sent.read())
    buffer = memoryview(bytearray(4096))
    for count in (READ_AT_ONCE, 7):
        server.allow()
        assert server.tls.read(len(buffer), buffer) == count
        assert server.turns.left == turns.TURN_COST - count * RECORD_COST
        assert server.tls.holds_back is (count == READ_AT_ONCE)
        with pytest.raises(ssl.SSLWantReadError):
            server.tls.read(len(buffer), buffer)
    assert not server.tls.pending() + server.arrived.pending


def test_what_is_not_read_yet_stays_where_the_event_loop_counts_it(client: Client) -> None:
    """It was taken out of there, and more came: memory grew as fast as a stranger sends."""
    server = connected(client)
    buffer, sent, read = memoryview(bytearray(4096)), 0, 0
    for _ in range(10):
        while server.arrived.pending < 64 * 1024:
            client.tls.write(b"x")
            sent += 1
            server.arrived.write(client.sent.read())
        server.allow()
        read += server.tls.read(len(buffer), buffer)
    assert read == 10 * READ_AT_ONCE
    assert server.arrived.pending >= (sent - read) * 23


def test_an_end_is_told_in_a_turn_of_its_own(client: Client) -> None:
    server, buffer = connected(client), memoryview(bytearray(10))
    client.tls.write(b"x")
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    server.arrived.write(client.sent.read())
    assert server.tls.read(10, buffer) == 1
    assert server.tls.holds_back
    with pytest.raises(ssl.SSLWantReadError):
        server.tls.read(10, buffer)
    server.allow()
    assert server.tls.read(10, buffer) == 0


def test_what_comes_when_a_connection_is_closed_costs_nothing(client: Client) -> None:
    """The event loop reads all of it, before it says goodbye."""
    server = connected(client)
    for _ in range(2 * READ_AT_ONCE):
        client.tls.write(b"x")
    server.arrived.write(client.sent.read())
    assert b"".join(server.tls.read(100_000) for _ in range(READ_AT_ONCE)) == b"x" * READ_AT_ONCE
    with pytest.raises(ssl.SSLWantReadError):
        server.tls.read(100_000)
    assert not server.tls.pending() + server.arrived.pending
    client.received.write(server.sent.read())
    with pytest.raises(ssl.SSLWantReadError):
        server.tls.unwrap()
    client.received.write(server.sent.read())
    assert client.tls.read(10) == b"", "it was said"


def test_whether_a_whole_record_is_there(client: Client) -> None:
    server = connected(client)
    client.tls.write(bytes(100))
    record = client.sent.read()
    for at in range(len(record)):
        assert not server.tls.has_record
        server.arrived.write(record[at : at + 1])
    assert server.tls.has_record
    assert server.read() == bytes(100)
    assert not server.tls.has_record
    server.tls.hold_back()
    assert server.tls.has_record, "there may be: what holds back the event loop is to stay"
    assert server.arrived.pending == 1
    server.arrived.write(b"GET / HTTP")
    assert server.tls.has_record, "OpenSSL is to see it"
    server.allow()
    with pytest.raises(ssl.SSLError, match=r"WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE"):
        server.tls.read(100, memoryview(bytearray(100)))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_records_arrive_in_any_pieces(version: ssl.TLSVersion, piece: int, tmp_path: Path) -> None:
    client = Client(tmp_path, version=version)
    server = connected(client, piece)
    sent = bytes(range(256)) * 200
    client.tls.write(sent)
    found = b""
    while arriving := client.sent.read(piece * 50):
        server.arrived.write(arriving)
        found += server.read()
    assert found == sent
    buffer = bytearray(10)
    client.tls.write(b"0123456789abc")
    server.arrived.write(client.sent.read())
    assert server.tls.read(10, memoryview(buffer)) == 10
    assert (buffer, server.read()) == (b"0123456789", b"abc")


def test_the_end_is_noticed(client: Client) -> None:
    server = connected(client)
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    server.arrived.write(client.sent.read())
    assert server.tls.read(10) == b""
    server.tls.unwrap()


def test_what_is_not_tls_is_refused_at_once() -> None:
    server = Server()
    server.arrived.write(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(ssl.SSLError):
        server.tls.do_handshake()


def test_a_handshake_does_not_come_in_thousands_of_records() -> None:
    """An event loop hands over 256 KiB at once: 43,000 of these held it for a second."""
    client_hello = b"\x01" + (100_000).to_bytes(3, "big") + b"\x03\x03" + bytes(10_000)
    records = [b"\x16\x03\x01\x00\x01" + bytes([byte]) for byte in client_hello]
    server = Server()
    server.arrived.write(b"".join(records))
    with pytest.raises(ssl.SSLError, match="too many records in a handshake"):
        server.tls.do_handshake()
    rest = (len(records) - SHAKING_HANDS_MAX) * len(records[0])
    assert server.tls.pending() + server.arrived.pending == rest, "it is not even looked at"


def test_a_first_message_is_no_longer_than_clients_send() -> None:
    """OpenSSL compares each of its key shares with each of its groups."""
    server = Server()
    server.arrived.write(b"\x16\x03\x01\x3f\xff" + b"\x01\x00\xff\xff\x03\x03" + bytes((1 << 14) - 7))
    with pytest.raises(ssl.SSLError, match="first message is too long"):
        server.tls.do_handshake()
    assert not server.sent.pending


def test_a_handshake_is_no_longer_than_a_chain_of_certificates(client: Client) -> None:
    """OpenSSL decodes each of them before it looks whether anybody trusts them."""
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.do_handshake()
    server = Server()
    server.arrived.write(client.sent.read())
    with pytest.raises(ssl.SSLWantReadError):
        server.tls.do_handshake()
    server.arrived.write(b"\x17\x03\x03\x40\x00" + bytes(1 << 14))
    with pytest.raises(ssl.SSLError, match="its certificates have more than 16 KiB"):
        server.tls.do_handshake()


def test_a_handshake_may_come_in_pieces(client: Client) -> None:
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.do_handshake()
    begin = client.sent.read()
    pieces = [begin[at : at + 30] for at in range(5, len(begin), 30)]
    server = Server()
    server.arrived.write(b"".join(begin[:3] + len(piece).to_bytes(2, "big") + piece for piece in pieces))
    with pytest.raises(ssl.SSLWantReadError):
        server.tls.do_handshake()
    assert server.sent.pending, "it was answered"


class Frames:
    """Those that a listener gets."""

    def __init__(self) -> None:
        self.sizes: asyncio.Queue[int] = asyncio.Queue()
        self.has_ended = asyncio.Event()

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        self.sizes.put_nowait(len(frame))

    def on_read_event_end(self) -> None: ...
    def on_connection_made(self, connection: Connection) -> None: ...

    def on_connection_lost(self, connection: Connection) -> None:
        self.has_ended.set()


def fail(name: str, error: BaseException) -> None:
    raise AssertionError(name) from error


@asynccontextmanager
async def listening(frames: Frames) -> AsyncIterator[Listener]:
    """With TLS."""
    context, tasks = AcceptingContext(ssl.PROTOCOL_TLS_SERVER), TaskOwner("test", fail)
    context.now_s = time
    authority().issue_cert("127.0.0.1").configure_cert(context)
    limits = ListenerLimits(max_connections=50, max_frame_bytes=1 << 20)
    listener = Listener("SSL", Endpoint("127.0.0.1", 0), frames, limits, tls=(lambda: context, tasks))
    await listener.start()
    yield listener
    await listener.close()
    await tasks.close()


async def shaken(client: Client, listener: Listener, *, says_last: bool = True) -> asyncio.StreamWriter:
    """A connection whose client may write. ``says_last``: it has sent the last message of the handshake."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.endpoint.port)
    while True:
        try:
            client.tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            writer.write(client.sent.read())
            client.received.write(await reader.read(1 << 16))
    if says_last:
        writer.write(client.sent.read())
    return writer


async def test_a_listener_says_whom_it_turned_out_for_it(client: Client) -> None:
    frames = Frames()
    async with listening(frames) as listener:
        writer = await shaken(client, listener)
        client.begin()
        sizes = [1, 200_000, 5, 16_000]
        content = b"".join(size.to_bytes(4, "big") + bytes(size) for size in sizes)
        for at in range(0, len(content), 5_000):
            writer.write(client.record(content[at : at + 5_000]) + (client.renew() if at < 50_000 else b""))
        async with asyncio.timeout(30):
            assert [await frames.sizes.get() for _ in sizes] == sizes
        writer.write(b"".join(client.renew() for _ in range(2 * AT_ONCE)))
        with capture_logs() as logs:
            await asyncio.wait_for(frames.has_ended.wait(), 30)
        assert [line["why"] for line in logs if line["event"] == "connection closed"] == [
            "TLS: too many records without data: it renews its keys"
        ]
        writer.close()


async def test_small_records_of_many_are_not_read_in_one_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred strangers, each with 11,000 records of a byte, held a node for a second: it lost what it led."""
    frames, turn, read, hand_over = Frames(), 0, Counter[int](), FewRecords._hand_over
    clients, size = [Client(tmp_path) for _ in range(20)], 1_000
    monkeypatch.setattr(turns, "TURN_COST", 4 * READ_AT_ONCE * RECORD_COST)

    def counted(tls: FewRecords, count: int) -> int:
        number = hand_over(tls, count)
        read[turn] += number
        return number

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async with listening(frames) as listener, asyncio.timeout(60):
        writers = [await shaken(each, listener) for each in clients]
        await eventually(lambda: listener.connection_count == len(clients), "the connections")
        monkeypatch.setattr(FewRecords, "_hand_over", counted)
        counting = asyncio.ensure_future(count_turns())
        for client, writer in zip(clients, writers, strict=True):
            for byte in size.to_bytes(4, "big") + bytes(size):
                client.tls.write(bytes((byte,)))
            writer.write(client.sent.read())
        assert [await frames.sizes.get() for _ in clients] == [size] * len(clients)
        counting.cancel()
        for writer in writers:
            writer.close()
    assert sum(read.values()) == len(clients) * (4 + size)
    assert max(read.values()) <= 10 * READ_AT_ONCE  # in the turn before, some took one more


async def test_many_who_are_refused_for_their_first_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand, each with 120 KiB, took a node from 100 to 500 MB, in a turn of 0.2 s: all was read, and copied,
    before anybody looked at the first record. And to end them cost nothing of the turn."""
    frames, turn, arrived, ended = Frames(), 0, [0], Counter[int]()
    clients, take_header, end = [Client(tmp_path) for _ in range(20)], FewRecords._take_header, EncryptedConnection._end
    monkeypatch.setattr(turns, "TURN_COST", 4 * END_COST)

    def noted(tls: FewRecords) -> int:
        arrived.append(tls._arrived.pending)
        return take_header(tls)

    def counted(connection: EncryptedConnection, transport: asyncio.Transport) -> None:
        ended[turn] += 1
        end(connection, transport)

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async with listening(frames) as listener, asyncio.timeout(60):
        writers = [await shaken(each, listener) for each in clients]
        await eventually(lambda: listener.connection_count == len(clients), "the connections")
        monkeypatch.setattr(FewRecords, "_take_header", noted)
        monkeypatch.setattr(EncryptedConnection, "_end", counted)
        counting = asyncio.ensure_future(count_turns())
        for client, writer in zip(clients, writers, strict=True):
            client.tls.write(b"\x7f" + bytes(120_000))
            writer.write(client.sent.read())
        await eventually(lambda: not listener.connection_count, "their ends")
        counting.cancel()
        for writer in writers:
            writer.close()
    assert max(arrived) <= 10_000
    assert sum(ended.values()) == len(clients)
    assert max(ended.values()) <= 5


class Answering(Frames):
    """Answers each frame with more than the kernel takes for a connection."""

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        connection.open_reply().send([bytes(24 << 20)])


async def test_what_tls_holds_for_a_peer_that_takes_nothing_counts(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """600 that fetched and read nothing took 0.4 GB, of which the listener knew a tenth."""
    monkeypatch.setattr(EncryptedConnection, "stalled_bytes", 60 << 20)
    async with listening(Answering()) as listener:
        writer = await shaken(client, listener)
        cast(asyncio.ReadTransport, writer.transport).pause_reading()
        client.tls.write((10).to_bytes(4, "big") + bytes(10))
        writer.write(client.sent.read())
        await eventually(lambda: listener.held_bytes > 60 << 20, "what is held to count")
        writer.close()


@pytest.mark.parametrize("says_so", [False, True])
@pytest.mark.parametrize("is_in", [False, True])
@pytest.mark.parametrize("requests_per_turn", [10, 1_000])
async def test_who_sends_and_ends_is_heard_out(
    says_so: bool, is_in: bool, requests_per_turn: int, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who wants no answers writes and closes, maybe with the last message of the handshake. The end came first, and
    what waited for a turn was forgotten."""
    monkeypatch.setattr(turns, "TURN_COST", requests_per_turn * turns.REQUEST_COST)
    frames, count = Frames(), READ_AT_ONCE + 50
    async with listening(frames) as listener:
        writer = await shaken(client, listener, says_last=is_in)
        if is_in:
            await eventually(lambda: listener.connection_count, "the connection")
        for _ in range(count):
            client.tls.write((10).to_bytes(4, "big") + bytes(10))
        if says_so:
            with pytest.raises(ssl.SSLWantReadError):
                client.tls.unwrap()
        writer.write(client.sent.read())
        writer.close()
        await asyncio.wait_for(frames.has_ended.wait(), 30)
        assert frames.sizes.qsize() == count
