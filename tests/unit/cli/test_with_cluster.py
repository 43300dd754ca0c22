"""``minikafka run``: what becomes of signals. The rest is seen with clusters, in cluster/test_pytest_plugin.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from minikafka.cli import with_cluster

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture(autouse=True)
def in_the_environment_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(with_cluster, "environment", lambda _layout, outside: dict(outside))


def signalled_while_it_begins(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The command may have said that it is up before this process goes on."""

    class Popen(subprocess.Popen[bytes]):
        def __init__(self, *what: Any, **how: Any) -> None:
            super().__init__(*what, **how)
            os.kill(os.getpid(), number)

    monkeypatch.setattr(with_cluster.subprocess, "Popen", Popen)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_while_the_command_begins_reaches_it(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Ctrl-C ended this process then, and left the command alone with a cluster that was gone."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have it ignored in the background
    try:
        signalled_while_it_begins(monkeypatch, number)
        status, by_hand = with_cluster._finished(SLEEP, None)  # type: ignore[arg-type]
    finally:
        signal.signal(signal.SIGINT, before)
    assert status in (128 + number, 1)  # Python ends with 1 after Ctrl-C before it has begun
    assert by_hand == (number == signal.SIGINT)


def test_a_signal_that_is_ignored_reaches_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below ``nohup`` the end of a session does not end the command."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        signalled_while_it_begins(monkeypatch, signal.SIGHUP)
        done = with_cluster._finished([sys.executable, "-c", "print('done')"], None)  # type: ignore[arg-type]
        assert done == (0, False)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
