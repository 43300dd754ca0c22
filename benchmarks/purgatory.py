"""What waiting costs with up to a million operations pending, beside the event loop's own timers.

The same is done with each: with so many pending, set some more time-outs and cancel them again, as the time-outs of
requests are that get answered. A timing wheel's cost does not depend on how many are pending; the loops keep a heap.
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

import uvloop

from benchmarks.machine import rss_bytes
from benchmarks.report import Figure, Run, Target
from minikafka.timing import DelayedOperation, Purgatory, TimerTask, TimingWheel

T = TypeVar("T")

SUMMARY = "time-outs and delayed operations, up to a million pending, against the event loop's own timers"
PENDING: Final = (1_000, 10_000, 100_000, 1_000_000)
SAMPLE: Final = 50_000
ROUNDS: Final = 7
DELAY_MAX_MS: Final = 60_000


class Task(TimerTask):
    """A time-out that does nothing."""

    __slots__ = ()

    def expire(self) -> None:
        """Nothing to do."""


class Operation(DelayedOperation):
    """Completes when it is tried for the second time."""

    __slots__ = ("tries",)

    def __init__(self) -> None:
        super().__init__(DELAY_MAX_MS)
        self.tries = 0

    def try_complete(self) -> bool:
        """False, then True."""
        self.tries += 1
        return self.tries > 1 and self.force_complete()

    def on_complete(self) -> None:
        """Nothing to do."""


class Cost(NamedTuple):
    """Microseconds for each, the best of some rounds: others use this machine, too."""

    insert_us: float
    cancel_us: float


def run(run: Run) -> list[Figure]:
    """Fill each with more and more, and measure at every size."""
    gc.collect()
    gc.set_threshold(50_000, 20, 100)  # as the broker sets it
    rounds = run.times(ROUNDS)
    wheel = _measure_wheel(run, rounds)
    figures = _figures("TimingWheel", wheel, is_ours=True)
    for name, new_loop in (("asyncio", asyncio.SelectorEventLoop), ("uvloop", uvloop.new_event_loop)):
        figures += _figures(f"{name} call_later", _measure_loop(run, name, new_loop, rounds))
    return [*figures, *_measure_purgatory(run, rounds)]


def _figures(name: str, costs: dict[int, Cost], *, is_ours: bool = False) -> list[Figure]:
    """A figure per size; the largest of ours has a target."""
    figures = []
    for pending, cost in costs.items():
        target = Target("<", 2.0) if is_ours and pending == PENDING[-1] else None
        what = f"{name}, {pending:,} pending"
        figures.append(Figure(f"{what}: insert", cost.insert_us, "us", target))
        figures.append(Figure(f"{what}: cancel", cost.cancel_us, "us", target))
    return figures


def _delays() -> list[int]:
    rng = random.Random(1)
    return [rng.randrange(1, DELAY_MAX_MS) for _ in range(SAMPLE)]


def _measure_wheel(run: Run, rounds: int) -> dict[int, Cost]:
    wheel, rng, delays = TimingWheel(), random.Random(2), _delays()
    costs: dict[int, Cost] = {}
    before = rss_bytes()
    for pending in PENDING:
        while len(wheel) < pending:
            wheel.insert(Task(), rng.randrange(1, DELAY_MAX_MS))

        def insert() -> list[Task]:
            tasks = [Task() for _ in delays]
            for task, delay in zip(tasks, delays, strict=True):
                wheel.insert(task, delay)
            return tasks

        def cancel(tasks: Sequence[Task]) -> None:
            for task in tasks:
                wheel.cancel(task)

        costs[pending] = _best(insert, cancel, rounds)
        run.say(f"wheel, {pending:,} pending: {costs[pending].insert_us:.2f} + {costs[pending].cancel_us:.2f} us")
    run.say(f"{(rss_bytes() - before) / PENDING[-1]:.0f} bytes for each that is pending")
    return costs


def _measure_loop(
    run: Run, name: str, new_loop: Callable[[], asyncio.AbstractEventLoop], rounds: int
) -> dict[int, Cost]:
    loop, rng = new_loop(), random.Random(2)
    seconds = [3600 + delay / 1000 for delay in _delays()]
    costs: dict[int, Cost] = {}
    held: list[asyncio.TimerHandle] = []
    for pending in PENDING:
        while len(held) < pending:
            held.append(loop.call_later(3600 + rng.random() * DELAY_MAX_MS / 1000, _nothing))

        def insert() -> list[asyncio.TimerHandle]:
            return [loop.call_later(delay, _nothing) for delay in seconds]

        def cancel(handles: Sequence[asyncio.TimerHandle]) -> None:
            for handle in handles:
                handle.cancel()
            loop.run_until_complete(asyncio.sleep(0))  # asyncio forgets what is cancelled only when it runs

        costs[pending] = _best(insert, cancel, rounds)
        run.say(f"{name}, {pending:,} pending: {costs[pending].insert_us:.2f} + {costs[pending].cancel_us:.2f} us")
    for handle in held:
        handle.cancel()
    loop.close()
    return costs


def _nothing() -> None:
    """What a timer calls."""


def _best(insert: Callable[[], T], cancel: Callable[[T], None], rounds: int) -> Cost:
    """The best round of each."""
    inserts, cancels = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        inserted = insert()
        between = time.perf_counter()
        cancel(inserted)
        inserts.append(between - began)
        cancels.append(time.perf_counter() - between)
    return Cost(min(inserts) / SAMPLE * 1e6, min(cancels) / SAMPLE * 1e6)


def _measure_purgatory(run: Run, rounds: int) -> list[Figure]:
    """A million operations on a thousand keys, none of which can be completed yet; then more that can."""
    purgatory: Purgatory[int] = Purgatory(TimingWheel())
    before = rss_bytes()
    for index in range(PENDING[-1]):
        purgatory.try_complete_else_watch(Operation(), (index % 1_000,), 0)
    each = (rss_bytes() - before) / PENDING[-1]
    run.say("a million operations wait")

    def wait() -> None:
        for index in range(SAMPLE):
            purgatory.try_complete_else_watch(Operation(), (1_000 + index % 1_000,), 0)

    def complete(_: None) -> None:
        for key in range(1_000, 2_000):
            purgatory.check_and_complete(key)

    cost = _best(wait, complete, rounds)
    return [
        Figure("Purgatory, 1,000,000 pending: create and watch", cost.insert_us, "us"),
        Figure("Purgatory, 1,000,000 pending: complete by an event", cost.cancel_us, "us"),
        Figure("Purgatory: memory of an operation that waits", each, "bytes", note="with its time-out and watch list"),
    ]
