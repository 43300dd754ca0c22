"""Operating-system processes by id, checked before they are touched.

A process id in a file outlives its process, and the system may reuse it. So every look-up compares the command line of
the present process, and only recognised ones are signalled. A zombie counts as gone. Linux is read from ``/proc``;
elsewhere ``ps`` is asked.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_PROC: Final = Path("/proc")
_PAGE_SIZE: Final = os.sysconf("SC_PAGE_SIZE")
_POLL_INTERVAL_S: Final = 0.01
_EXEC_POLL_S: Final = 0.001
_EXEC_POLLS_MAX: Final = 1_000


class RunningProcess(NamedTuple):
    """An existing process: command line, whether all threads are stopped, resident memory."""

    pid: int
    command: str
    paused: bool
    rss_bytes: int


def look_up(pid: int, *words: str) -> RunningProcess | None:
    """The process with this id, if all of `words` are in its command line; else None."""
    process = _from_proc(pid) if _PROC.joinpath("self").exists() else _from_ps(pid)
    return process if process is not None and _has(process.command, words) else None


def search(*words: str) -> RunningProcess | None:
    """A process with all of `words` in its command line, whose id nobody knows: every visible one is compared."""
    found = (look_up(pid, *words) for pid, command in _visible() if _has(command, words))
    return next((process for process in found if process is not None), None)


def _has(command: str, words: tuple[str, ...]) -> bool:
    return all(f" {word} " in f" {command} " for word in words)


def send_signal(process: RunningProcess, number: signal.Signals) -> bool:
    """Signal a process; False when it is gone."""
    if look_up(process.pid, process.command) is None:
        return False
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def wait_until_gone(process: RunningProcess, timeout_s: float) -> bool:
    """Wait for the process to end; False when it still exists after `timeout_s`.

    While one of its threads is held by the disk, its files and ports are in use, although the process has no command
    line any more.
    """
    return _wait_until(process, lambda now: now is None and not _is_ending(process.pid), timeout_s)


def wait_until_stopped(process: RunningProcess, timeout_s: float) -> bool:
    """Wait until all threads are stopped, or the process is gone; False when it runs after `timeout_s`."""
    return _wait_until(process, lambda now: now is None or now.paused, timeout_s)


def _wait_until(process: RunningProcess, condition: Callable[[RunningProcess | None], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition(look_up(process.pid, process.command)):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_INTERVAL_S)
    return True


def commands() -> list[str]:
    """The command lines of all visible processes."""
    return [command for _, command in _visible()]


def _visible() -> Iterator[tuple[int, str]]:
    """The ids and command lines of all visible processes; a zombie has no command line."""
    if not _PROC.joinpath("self").exists():
        answer = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,command="], capture_output=True, text=True, check=False)
        for line in answer.stdout.splitlines():
            pid, _, command = line.strip().partition(" ")
            yield int(pid), command
        return
    for path in _PROC.iterdir():
        if path.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                yield int(path.name), _command(path)


def _from_proc(pid: int) -> RunningProcess | None:
    directory = _PROC / str(pid)
    try:
        command = _settled_command(directory)
        state = _state(directory)
        stopped = state in "Tt" and all(_state(thread) in "Tt" for thread in directory.joinpath("task").iterdir())
        resident_pages = int(directory.joinpath("statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None
    if state in "ZX":
        return None
    return RunningProcess(pid, command, stopped, resident_pages * _PAGE_SIZE)


def _is_ending(pid: int) -> bool:
    """True when the first thread has ended, and others have not. Only ``/proc`` shows that."""
    directory = _PROC / str(pid)
    try:
        threads = [_state(thread) for thread in directory.joinpath("task").iterdir()]
        return _state(directory) in "ZX" and any(state not in "ZX" for state in threads)
    except (FileNotFoundError, ProcessLookupError):
        return False


def _command(directory: Path) -> str:
    return os.fsdecode(directory.joinpath("cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" "))


def _settled_command(directory: Path) -> str:
    """In the middle of exec, as of a node that starts again, a process has a program and no command line."""
    for _ in range(_EXEC_POLLS_MAX):
        if (command := _command(directory)) or not _has_program(directory):
            return command
        time.sleep(_EXEC_POLL_S)
    return ""


def _has_program(directory: Path) -> bool:
    try:
        return bool(directory.joinpath("exe").readlink())
    except OSError:  # a zombie, a thread of the kernel, or another user's
        return False


def _state(directory: Path) -> str:
    return directory.joinpath("stat").read_text().rpartition(")")[2].split()[0]


def _from_ps(pid: int) -> RunningProcess | None:
    # -ww: with COLUMNS in its environment ps cuts the command line to that width, also for a pipe.
    answer = subprocess.run(
        ["ps", "-ww", "-o", "state=,rss=,command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    if answer.returncode or answer.stdout.lstrip().startswith("Z"):
        return None
    state, rss_kib, command = answer.stdout.rstrip("\n").split(maxsplit=2)
    return RunningProcess(pid, command, state.startswith("T"), int(rss_kib) * 1024)
