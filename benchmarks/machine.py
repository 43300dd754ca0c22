"""The machine: what it is, what processes use of it, and what others use of it meanwhile (Linux, ``/proc``)."""

from __future__ import annotations

import os
import platform
import resource
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_OF_SCHEDULER: Final = 2
"""Which clock of a process: what the scheduler has counted (``CPUCLOCK_SCHED`` of ``clock_getcpuclockid(3)``)."""
_PAGE_SIZE: Final = os.sysconf("SC_PAGE_SIZE")

_adopted_cpu_s = 0.0


def description() -> str:
    """Cores, processor, memory, system, Python."""
    fields = dict(
        line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")
    )
    processor = " ".join(next(iter(fields.values()), platform.machine()).split())
    memory_gib = os.sysconf("SC_PHYS_PAGES") * _PAGE_SIZE / 2**30
    return (
        f"{os.cpu_count()} cores ({processor}), {memory_gib:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}"
    )


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used, in user and kernel mode. OSError when it has ended.

    From its clock: ``/proc/PID/stat`` tells it in steps of a hundredth of a second, which is all that some turns use.
    """
    return time.clock_gettime(~pid << 3 | _OF_SCHEDULER)


def descendants(pid: int) -> Iterator[int]:
    """A process, its children, theirs, and so on."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # it has ended
            for child in task.read_text().split():
                yield from descendants(int(child))


def cpu_seconds_of_all() -> float:
    """CPU time that this process and its present descendants have used."""
    total = 0.0
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            total += cpu_seconds(pid)
    return total


def rss_bytes(pid: int | str = "self") -> int:
    """Memory of a process that is resident."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_SIZE


def own_cpu_seconds() -> float:
    """CPU time of this process, of its children that have ended and were waited for, and of what was adopted."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return _adopted_cpu_s + sum(usage.ru_utime + usage.ru_stime for usage in usages)


def adopt_cpu_seconds(seconds: float) -> None:
    """Count CPU time as ours that processes used which we did not start, but had started."""
    global _adopted_cpu_s
    _adopted_cpu_s += seconds


def _busy_seconds() -> float:
    user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = map(
        int, Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
    )
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_S


class Neighbours:
    """How busy everything else kept the machine, neighbours of a virtual machine included.

    It counts what this process and its children did as ours, so it is to be asked when the brokers have ended.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._busy = _busy_seconds()
        self._own = own_cpu_seconds()

    def cores_used(self) -> float:
        """Cores that others used on average since this was made."""
        seconds = time.monotonic() - self._began
        others = _busy_seconds() - self._busy - (own_cpu_seconds() - self._own)
        return max(0.0, others / seconds)
