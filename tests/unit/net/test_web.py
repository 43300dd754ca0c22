"""Reading a page ends in time."""

from __future__ import annotations

import socket
import ssl
from types import SimpleNamespace
from typing import Any
from urllib.error import URLError
from urllib.request import HTTPRedirectHandler

import pytest

from minikafka.net import web
from minikafka.net.web import read_page

ADDRESSES = ["192.0.2.1", "192.0.2.2", "192.0.2.3"]


@pytest.mark.parametrize(("answering", "handshake"), [(None, []), ("192.0.2.3", [2.0]), ("192.0.2.2", [5.0])])
def test_all_addresses_of_a_name_and_the_handshake_share_its_time(
    answering: str | None, handshake: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each silent address had all of it, and the handshake of the next one again."""
    now_s, connects, handshakes = 0.0, [], []
    of_system = socket.getaddrinfo

    def resolved(name: str, port: int, *kind: Any, **named: Any) -> Any:
        """As the system knows numbers."""
        known = ADDRESSES if name == "issuer" else [name]
        return [row for address in known for row in of_system(address, port, *kind, **named)]

    class Socket(socket.socket):
        def connect(self, address: Any) -> None:
            nonlocal now_s
            timeout_s = self.gettimeout()
            assert timeout_s is not None
            connects.append((address[0], timeout_s))
            if address[0] == answering:
                now_s += 1
            else:
                now_s += timeout_s
                raise TimeoutError("timed out")

    def shake(_context: Any, sock: socket.socket, **_named: Any) -> None:
        handshakes.append(sock.gettimeout())
        raise TimeoutError("timed out")

    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(web, "time", SimpleNamespace(monotonic=lambda: now_s))
    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    monkeypatch.setattr(socket, "socket", Socket)
    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", shake)
    with pytest.raises(URLError, match="timed out"):
        read_page("https://issuer/keys", HTTPRedirectHandler(), within_s=9.0, size_max=1)
    reached = ADDRESSES if answering is None else ADDRESSES[: ADDRESSES.index(answering) + 1]
    assert connects == [(address, 3.0) for address in reached]
    assert handshakes == handshake


def test_a_port_that_is_none_is_an_error_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that redirects there stopped the node: nobody expected an OverflowError."""
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(URLError, match="there is no port 9999"):
        read_page(f"http://127.0.0.1:{'9' * 30}/", HTTPRedirectHandler(), within_s=9.0, size_max=1)
