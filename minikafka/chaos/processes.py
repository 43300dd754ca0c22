"""Operating-system processes by id, checked before they are touched.

A process id kept in a file outlives its process, and the system may give the number to a stranger. So every look-up
compares the command line of whoever has the number now; nothing is signalled that is not recognised. A zombie counts
as gone. Linux is read from ``/proc``; elsewhere ``ps`` is asked.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Final, NamedTuple

_PROC: Final = Path("/proc")
_PAGE_SIZE: Final = os.sysconf("SC_PAGE_SIZE")
_POLL_INTERVAL_S: Final = 0.01


class RunningProcess(NamedTuple):
    """A process that exists: its command line, whether it is stopped (SIGSTOP), and its resident memory."""

    pid: int
    command: str
    paused: bool
    rss_bytes: int


def look_up(pid: int, *words: str) -> RunningProcess | None:
    """The process with this id if all of `words` are arguments in its command line, else None."""
    process = _from_proc(pid) if _PROC.joinpath("self").exists() else _from_ps(pid)
    if process is None or not all(f" {word} " in f" {process.command} " for word in words):
        return None
    return process


def send_signal(process: RunningProcess, number: signal.Signals) -> bool:
    """Signal a process that was looked up; False when it is gone by now."""
    if look_up(process.pid, process.command) is None:
        return False
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def wait_until_gone(process: RunningProcess, timeout_s: float) -> bool:
    """Wait for the process to end; False when it is still there after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while look_up(process.pid, process.command) is not None:
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_INTERVAL_S)
    return True


def _from_proc(pid: int) -> RunningProcess | None:
    directory = _PROC / str(pid)
    try:
        command = os.fsdecode(directory.joinpath("cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" "))
        state = directory.joinpath("stat").read_text().rpartition(")")[2].split()[0]
        resident_pages = int(directory.joinpath("statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None
    if state in "ZX":
        return None
    return RunningProcess(pid, command, state in "Tt", resident_pages * _PAGE_SIZE)


def _from_ps(pid: int) -> RunningProcess | None:
    # -ww: with COLUMNS in its environment ps cuts the command line to that width, also for a pipe.
    answer = subprocess.run(
        ["ps", "-ww", "-o", "state=,rss=,command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    if answer.returncode or answer.stdout.lstrip().startswith("Z"):
        return None
    state, rss_kib, command = answer.stdout.rstrip("\n").split(maxsplit=2)
    return RunningProcess(pid, command, state.startswith("T"), int(rss_kib) * 1024)
