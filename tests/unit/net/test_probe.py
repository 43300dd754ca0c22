from __future__ import annotations

import asyncio
import errno
import os
import select
import socket
from collections.abc import Awaitable, Callable

import pytest
from net_peers import Recorder

from minikafka.model import Endpoint
from minikafka.net import probe
from minikafka.net.channel import Channel
from minikafka.net.listener import Listener
from minikafka.net.probe import is_refused

HERE = Endpoint("localhost", 9092)
REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
NO_IPV6 = OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))


async def test_only_a_port_that_refuses_is_gone(serve: Callable[..., Awaitable[Listener]], deaf: Endpoint) -> None:
    listener = await serve(Recorder())
    assert not await is_refused(listener.endpoint)
    assert not await is_refused(deaf, timeout_s=0.02)
    await listener.close()
    assert await is_refused(listener.endpoint)


async def test_a_port_that_a_killed_process_still_holds_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "ANSWER_TIMEOUT_S", 60.0)
    with socket.create_server(("127.0.0.1", 0)) as dying:
        looking = asyncio.create_task(is_refused(Endpoint(*dying.getsockname()), timeout_s=60.0))
        await asyncio.to_thread(select.select, [dying], [], [], 60.0)  # a connection came, and nobody accepts it
    assert await looking


async def test_a_process_that_accepts_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Awaitable[Listener]]
) -> None:
    monkeypatch.setattr(probe, "ANSWER_TIMEOUT_S", 600.0)
    listener = await serve(Recorder())
    assert not await is_refused(listener.endpoint, timeout_s=600.0)


async def test_a_process_that_accepts_nothing_is_not_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as paused:
        assert not await is_refused(Endpoint(*paused.getsockname()))


@pytest.mark.parametrize(
    ("error", "is_gone"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), True),
        (socket.gaierror(socket.EAI_NODATA, "No address associated with hostname"), True),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), False),
        (socket.gaierror(socket.EAI_FAIL, "Non-recoverable failure in name resolution"), False),
        (socket.gaierror(socket.EAI_MEMORY, "Memory allocation failure"), False),
        (OSError(errno.EMFILE, "Too many open files"), False),
        (NO_IPV6, False),
        (REFUSED, True),
    ],
)
async def test_a_resolver_that_fails_says_nothing_of_a_peer(
    monkeypatch: pytest.MonkeyPatch, error: OSError, is_gone: bool
) -> None:
    async def fail(*_: object, **__: object) -> Channel:
        raise error

    monkeypatch.setattr(probe.Channel, "open", fail)
    assert await is_refused(HERE) is is_gone
