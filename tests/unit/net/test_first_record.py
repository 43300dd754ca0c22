"""Nothing is done for a TLS handshake before its first record is there."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from minikafka.net.first_record import first_record

RECORD = b"\x16\x03\x01\x00\x0a" + bytes(10)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    accepted, _ = server.accept()
    accepted.setblocking(False)
    yield client, accepted
    for each in (server, client, accepted):
        each.close()


async def is_waiting(task: asyncio.Task[bool]) -> bool:
    for _ in range(20):
        await asyncio.sleep(0)
    return not task.done()


async def test_it_is_waited_for_byte_by_byte_and_left_there(pair: tuple[socket.socket, socket.socket]) -> None:
    client, accepted = pair
    waiting = asyncio.ensure_future(first_record(accepted))
    for at in range(len(RECORD)):
        assert await is_waiting(waiting)
        client.sendall(RECORD[at : at + 1])
    assert await waiting
    assert accepted.recv(100) == RECORD
    client.sendall(b"x")
    await asyncio.wait_for(asyncio.get_running_loop().sock_recv(accepted, 1), 30)  # a byte is enough again


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1", b"\x16\x03\x01\xff\xff", RECORD + b"more", b"\x00"])
async def test_what_openssl_refuses_or_reads_at_once(data: bytes, pair: tuple[socket.socket, socket.socket]) -> None:
    client, accepted = pair
    client.sendall(data)
    assert await asyncio.wait_for(first_record(accepted), 30)
    assert accepted.recv(100) == data


@pytest.mark.parametrize("data", [b"", b"\x16\x03", RECORD[:-1]])
async def test_who_ends_before(data: bytes, pair: tuple[socket.socket, socket.socket]) -> None:
    client, accepted = pair
    client.sendall(data)
    waiting = asyncio.ensure_future(first_record(accepted))
    assert await is_waiting(waiting)
    client.close()
    assert not await asyncio.wait_for(waiting, 30)
