"""Workers that Spark hangs up on."""

from __future__ import annotations

import socket

import pytest
from pyspark import daemon as pyspark_daemon

from minikafka.spark import daemon


def test_a_worker_that_was_hung_up_on_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, sparks = socket.socketpair()

    def work(sock: socket.socket, authenticated: bool) -> int:
        sock.sendall(b"rows")
        return 0

    monkeypatch.setattr(daemon, "_work", work)
    assert daemon.worker(ours, authenticated=True) == 0
    sparks.close()
    assert daemon.worker(ours, authenticated=True) != 0
    ours.close()


def test_pyspark_still_has_what_is_taken_over() -> None:
    assert pyspark_daemon.manager.__globals__["worker"] is pyspark_daemon.worker
