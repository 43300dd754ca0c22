from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minikafka.chaos import processes
from minikafka.chaos.processes import RunningProcess, look_up, search, send_signal, wait_until_gone

Sleeper = subprocess.Popen[bytes]
LookUp = Callable[..., RunningProcess | None]


@pytest.fixture
def sleeper() -> Iterator[Sleeper]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "--mark"]) as process:
        assert _eventually(
            lambda: look_up(process.pid, "--mark") is not None
        )  # exec shows a moment after Popen returns
        yield process
        process.kill()


@pytest.fixture(params=["proc", "ps"])
def look_up_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> LookUp:
    """`look_up` on a system with /proc and on one without."""
    if request.param == "ps":
        if subprocess.run(["ps", "-ww", "-o", "state=", "-p", str(os.getpid())], capture_output=True).returncode:
            pytest.skip("this ps knows no -o and -p (busybox)")
        monkeypatch.setattr(processes, "_PROC", Path("/nonexistent"))
    elif not Path("/proc/self").exists():
        pytest.skip("no /proc here")
    return look_up


def _eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


def test_a_process_is_recognised_by_the_words_of_its_command_line(sleeper: Sleeper, look_up_by: LookUp) -> None:
    process = look_up_by(sleeper.pid, "--mark")
    assert process is not None
    assert process.pid == sleeper.pid
    assert process.rss_bytes > 0
    assert look_up_by(sleeper.pid, "--other") is None
    assert look_up_by(sleeper.pid, "mark") is None  # whole arguments only


def test_a_process_is_found_without_its_id(sleeper: Sleeper, look_up_by: LookUp) -> None:
    mark = f"--mark-{sleeper.pid}"
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", mark]) as process:
        assert _eventually(lambda: search(mark) is not None)
        found = search(mark)
        assert found is not None
        assert found.pid == process.pid
        assert look_up_by(process.pid, mark) is not None
        process.kill()
    assert search(mark) is None


def test_a_command_line_wider_than_the_terminal_is_read_whole(
    sleeper: Sleeper, look_up_by: LookUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    process = look_up_by(sleeper.pid, "--mark")
    assert process is not None
    assert len(process.command) > 20


def test_a_pause_shows(sleeper: Sleeper, look_up_by: LookUp) -> None:
    def paused() -> bool:
        process = look_up_by(sleeper.pid)
        assert process is not None
        return process.paused

    os.kill(sleeper.pid, signal.SIGSTOP)
    assert _eventually(paused)
    os.kill(sleeper.pid, signal.SIGCONT)
    assert _eventually(lambda: not paused())


def test_a_process_that_ended_is_gone_even_before_it_is_reaped(sleeper: Sleeper, look_up_by: LookUp) -> None:
    process = look_up_by(sleeper.pid)
    assert process is not None
    assert not wait_until_gone(process, timeout_s=0.02)
    assert send_signal(process, signal.SIGKILL)
    assert wait_until_gone(process, timeout_s=10)
    assert not send_signal(process, signal.SIGKILL)


def test_a_stranger_with_a_recycled_id_is_never_signalled(sleeper: Sleeper) -> None:
    remembered = RunningProcess(sleeper.pid, "python -m minikafka.broker --config x", paused=False, rss_bytes=0)
    assert not send_signal(remembered, signal.SIGKILL)
    assert sleeper.poll() is None


def test_an_id_that_nobody_has_is_nobody(look_up_by: LookUp) -> None:
    assert look_up_by(2**22 - 1) is None


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc here")
def test_a_process_is_not_gone_while_one_of_its_threads_lives() -> None:
    """Its ports and files are in use until then: a thread may be held by the disk for seconds after a kill."""
    program = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
print(flush=True)
input()
ctypes.CDLL(None).pthread_exit(None)
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program, "--mark"], stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        found = look_up(process.pid, "--mark")
        assert found is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert _eventually(lambda: look_up(process.pid, "--mark") is None)
        assert not wait_until_gone(found, 0.05)
        process.kill()
        assert wait_until_gone(found, 10)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc here")
def test_a_process_that_begins_anew_is_never_gone(tmp_path: Path) -> None:
    """While it replaces its program it has no command line for a moment: a stop took it for ended."""
    script = tmp_path / "again"
    script.write_text('#!/bin/sh\nexec "$0" "$@"\n')
    script.chmod(0o755)
    with subprocess.Popen([script, "--mark"]) as process:
        is_seen = _eventually(lambda: look_up(process.pid, "--mark") is not None)
        found = [look_up(process.pid, "--mark") for _ in range(200)]
        process.kill()
    assert is_seen
    assert None not in found
