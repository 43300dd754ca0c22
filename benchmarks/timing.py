"""What time-outs cost with a million of them pending: ``python benchmarks/timing.py [pending]``.

Beside the wheel, the same is done with the event loop's own timers (``loop.call_later``), which are a heap.
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import time
from collections.abc import Callable

from minikafka.timing import DelayedOperation, Purgatory, TimerTask, TimingWheel

SAMPLE = 200_000
MAX_DELAY_MS = 60_000


class Task(TimerTask):
    """A timer that does nothing."""

    __slots__ = ()

    def expire(self) -> None:
        """Nothing to do."""


class Operation(DelayedOperation):
    """An operation that completes when asked for the second time."""

    __slots__ = ("tries",)

    def __init__(self) -> None:
        super().__init__(30_000)
        self.tries = 0

    def try_complete(self) -> bool:
        """False, then True."""
        self.tries += 1
        return self.tries > 1 and self.force_complete()

    def on_complete(self) -> None:
        """Nothing to do."""


def resident_bytes() -> int:
    """Resident memory of this process."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def measure(work: Callable[[], object], count: int) -> float:
    """Microseconds for each of ``count``."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) / count * 1e6


def line(name: str, value: str) -> None:
    """Print one result."""
    print(f"  {name:<46}{value}")


def bench_wheel(pending: int, wheel_size: int) -> None:
    """Fill, insert and cancel among what is pending, expire all."""
    rng = random.Random(1)
    delays = [rng.randrange(1, MAX_DELAY_MS) for _ in range(pending)]
    wheel = TimingWheel(wheel_size=wheel_size)
    gc.collect()
    before = resident_bytes()

    def fill() -> None:
        for delay in delays:
            wheel.insert(Task(), delay)

    def insert_and_cancel() -> None:
        for delay in delays[:SAMPLE]:
            task = Task()
            wheel.insert(task, delay)
            wheel.cancel(task)

    def expire_all() -> None:
        now = 0
        while (deadline := wheel.next_deadline_ms()) is not None:
            now = max(now + 1, deadline)
            wheel.expire_due(now)

    print(f"TimingWheel(wheel_size={wheel_size})")
    line("fill", f"{measure(fill, pending):.2f} us each")
    line("memory", f"{(resident_bytes() - before) / pending:.0f} bytes each, with the task")
    line("insert + cancel", f"{measure(insert_and_cancel, min(SAMPLE, pending)):.2f} us")
    line("buckets", f"{len(wheel._heap)} in {len(wheel._levels)} levels")
    line("expire, a wake-up per bucket", f"{measure(expire_all, pending):.2f} us each")


def bench_loop(pending: int) -> None:
    """The same with asyncio's timers."""
    rng = random.Random(1)
    delays = [1_000 + rng.randrange(1, MAX_DELAY_MS) / 1e3 for _ in range(pending)]
    loop = asyncio.new_event_loop()
    gc.collect()
    before = resident_bytes()

    def fill() -> None:
        for delay in delays:
            loop.call_later(delay, print)

    def insert_and_cancel() -> None:
        for delay in delays[:SAMPLE]:
            loop.call_later(delay, print).cancel()

    print("loop.call_later")
    line("fill", f"{measure(fill, pending):.2f} us each")
    line("memory", f"{(resident_bytes() - before) / pending:.0f} bytes each")
    line("insert + cancel (what is cancelled stays)", f"{measure(insert_and_cancel, min(SAMPLE, pending)):.2f} us")
    loop.close()


def bench_purgatory(pending: int) -> None:
    """Operations that wait for a partition each, of a thousand, are completed by an event on it."""
    wheel = TimingWheel()
    purgatory: Purgatory[int] = Purgatory(wheel)
    for _ in range(pending):
        wheel.insert(Task(), MAX_DELAY_MS)

    def wait_and_complete() -> None:
        for index in range(SAMPLE):
            purgatory.try_complete_else_watch(Operation(), (index % 1_000,), 0)
            purgatory.check_and_complete(index % 1_000)

    print("Purgatory")
    line("create, wait, complete by an event", f"{measure(wait_and_complete, SAMPLE):.2f} us")


def main() -> None:
    """Run everything with as many pending as the command line says."""
    pending = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    gc.set_threshold(50_000, 20, 100)  # as the broker sets it
    print(f"{pending:,} pending")
    for wheel_size in (20, 256):
        bench_wheel(pending, wheel_size)
    bench_purgatory(pending)
    bench_loop(pending)


if __name__ == "__main__":
    main()
