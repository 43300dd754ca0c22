"""Strangers at the HTTP listener, while somebody scrapes and produces."""

from __future__ import annotations

import random
import socket
import struct
from urllib.parse import urlsplit

import pytest
from live_attack import MIB, Target
from live_cluster import PATIENCE_S, eventually, http_get, metrics_url

from minikafka.chaos.local_cluster import LocalCluster

pytestmark = pytest.mark.spec("P6")


@pytest.fixture(scope="module")
def url(attacked: LocalCluster) -> str:
    return metrics_url(attacked, 1)


def dial(url: str, *, receive_bytes: int = 0) -> socket.socket:
    at = urlsplit(url)
    sock = socket.socket()
    sock.settimeout(PATIENCE_S)
    if receive_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    sock.connect((at.hostname, at.port))
    return sock


def is_closed(sock: socket.socket) -> bool:
    """Whatever was answered before."""
    try:
        while sock.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


def test_slow_clients_keep_no_scraper_out(target: Target, url: str) -> None:
    slow = []
    for _ in range(100):
        slow.append(dial(url))
        slow[-1].sendall(b"GET /metri")
        assert http_get(url, "/metrics")[0] == 200
    assert all(map(is_closed, slow))


def test_a_head_without_an_end(target: Target, url: str) -> None:
    with dial(url) as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\n")
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            sock.sendall(b"X-Header: y\r\n" * 10_000_000)
    assert http_get(url, "/healthz") == (200, "ok\n")
    assert target.peak_memory() < 200 * MIB


def test_bytes_that_are_no_request(target: Target, url: str) -> None:
    rng = random.Random(13)
    for _ in range(200):
        with dial(url) as sock:
            sock.sendall(rng.randbytes(rng.randrange(1, 3000)) + b"\r\n\r\n")
            assert is_closed(sock)
    assert http_get(url, "/metrics")[0] == 200


def test_scrapers_that_do_not_read(target: Target, url: str) -> None:
    """The system takes what they are sent, or they are closed after a while: others have a place meanwhile."""
    many = [dial(url, receive_bytes=1024) for _ in range(60)]
    for sock in many:
        sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    eventually(lambda: _answers(url), "a place")
    for sock in many:
        sock.close()


def test_scrapers_that_reset_their_connection(target: Target, url: str) -> None:
    """One that did so while its answer was made ended the node. It has its place until the node hears of the reset."""
    for _ in range(300):
        with dial(url) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    eventually(lambda: _answers(url), "a place")
    assert http_get(url, "/metrics")[0] == 200


def _answers(url: str) -> bool:
    try:
        return http_get(url, "/readyz")[0] == 200
    except OSError:
        return False
