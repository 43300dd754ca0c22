from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable

import pytest
from broker_node import eventually, in_time

from minikafka.broker.backoff import Backoff
from minikafka.broker.clock import Clock
from minikafka.broker.timers import Alarm, Timers
from minikafka.timing.purgatory import DelayedOperation


@pytest.fixture
async def clock() -> Clock:
    return Clock(asyncio.get_running_loop())


@pytest.fixture
async def timers(clock: Clock) -> Timers:
    return Timers(clock, asyncio.get_running_loop())


class ManualLoop:
    """A clock, and the timers of a loop that runs when it is told to."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._calls: list[tuple[float, asyncio.TimerHandle]] = []

    def monotonic_ms(self) -> int:
        return self.now_ms

    def call_later(self, delay_s: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        at_ms = self.now_ms + delay_s * 1000
        handle = asyncio.TimerHandle(at_ms, call, (), asyncio.get_running_loop())
        self._calls.append((at_ms, handle))
        return handle

    def run_at(self, now_ms: int) -> None:
        """One turn."""
        self.now_ms = now_ms
        due = [handle for at_ms, handle in self._calls if at_ms <= now_ms]
        self._calls = [each for each in self._calls if each[0] > now_ms]
        for handle in due:
            if not handle.cancelled():
                handle._run()


class Rung:
    """Alarms by name, and the order in which they went off."""

    def __init__(self, timers: Timers, clock: Clock) -> None:
        self.order: list[str] = []
        self._timers = timers
        self._start_ms = clock.monotonic_ms()
        self._alarms: dict[str, Alarm] = {}

    def set(self, name: str, after_ms: int, weight: int = 1) -> None:
        alarm = self._alarms.setdefault(name, Alarm(lambda: self.order.append(name), weight))
        self._timers.set(alarm, self._start_ms + after_ms)

    def cancel(self, name: str) -> None:
        self._timers.cancel(self._alarms[name])


@pytest.fixture
async def rung(timers: Timers, clock: Clock) -> Rung:
    return Rung(timers, clock)


@pytest.mark.spec("D3")
async def test_alarms_go_off_in_their_order_not_in_that_of_setting(rung: Rung) -> None:
    for name, after_ms in [("c", 30), ("a", 10), ("e", 300), ("d", 40), ("b", 20)]:
        rung.set(name, after_ms)
    await eventually(lambda: len(rung.order) == 5, "all alarms")
    assert rung.order == ["a", "b", "c", "d", "e"]


async def test_many_alarms_of_one_moment_leave_turns_to_others(rung: Rung) -> None:
    """30,000 groups ended a phase in three turns of half a second."""
    for number in range(1000):
        rung.set(f"{number:03}", 1)
    went_off = {0}
    for _ in range(1_000_000):
        await asyncio.sleep(0)
        went_off.add(len(rung.order))
        if len(rung.order) == 1000:
            break
    assert rung.order == sorted(rung.order)
    assert len(went_off) >= 10


async def test_heavy_alarms_have_a_turn_each(rung: Rung) -> None:
    """Fifty shards of groups looked for offsets of deleted topics in one turn, 90 ms."""
    for number in range(50):
        rung.set(f"{number:03}", 1, weight=100)
    went_off = {0}
    while len(rung.order) < 50:
        await asyncio.sleep(0)
        went_off.add(len(rung.order))
    assert went_off == set(range(51))


async def test_an_earlier_alarm_does_not_wait_for_a_later_one(rung: Rung) -> None:
    rung.set("far", 3_600_000)
    rung.set("near", 5)
    await eventually(lambda: rung.order, "the near one")
    assert rung.order == ["near"]


async def test_setting_again_replaces_the_deadline(rung: Rung, timers: Timers) -> None:
    rung.set("moved earlier", 3_600_000)
    rung.set("moved later", 1)
    rung.set("moved later", 3_600_000)
    rung.set("moved earlier", 5)
    rung.set("last", 20)
    await eventually(lambda: "last" in rung.order, "the last")
    assert rung.order == ["moved earlier", "last"]
    rung.cancel("moved later")
    assert len(timers._wheel) == 0


async def test_a_cancelled_alarm_is_silent(rung: Rung) -> None:
    rung.set("cancelled", 1)
    rung.set("kept", 10)
    rung.cancel("cancelled")
    await eventually(lambda: rung.order, "the kept one")
    assert rung.order == ["kept"]
    rung.cancel("kept")  # too late, and harmless


async def test_what_is_overdue_goes_off_at_once(rung: Rung) -> None:
    rung.set("overdue", -1000)
    await eventually(lambda: rung.order == ["overdue"], "it")


async def test_an_alarm_may_set_itself_again(timers: Timers, clock: Clock) -> None:
    beats: list[int] = []

    def beat() -> None:
        beats.append(clock.monotonic_ms())
        if len(beats) < 5:
            timers.set(alarm, clock.monotonic_ms() + 2)

    alarm = Alarm(beat)
    timers.set(alarm, clock.monotonic_ms())
    await eventually(lambda: len(beats) == 5, "five beats")
    assert all(later - earlier >= 2 for earlier, later in itertools.pairwise(beats))


async def test_one_that_raises_does_not_stop_the_others(timers: Timers, rung: Rung, clock: Clock) -> None:
    seen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: seen.append(context["exception"]))

    def fail() -> None:
        raise ZeroDivisionError

    timers.set(Alarm(fail), clock.monotonic_ms() + 1)
    rung.set("same time", 1)
    rung.set("later", 15)
    await eventually(lambda: len(rung.order) == 2, "the others")
    assert [type(error) for error in seen] == [ZeroDivisionError]


async def test_a_node_that_stood_still_hears_first_what_came_meanwhile() -> None:
    """And what is set meanwhile waits, too. Slow once more, it does not wait for ever."""
    loop = ManualLoop()
    timers = Timers(loop, loop)  # type: ignore[arg-type]
    order: list[str] = []
    timers.set(Alarm(lambda: order.append("session")), 100)
    loop.run_at(4_000)
    timers.set(Alarm(lambda: order.append("next")), 4_010)
    loop.run_at(4_900)
    assert order == []
    loop.run_at(9_000)
    assert order == ["session", "next"]
    timers.set(Alarm(lambda: order.append("in time")), 9_100)
    loop.run_at(9_900)
    assert order == ["session", "next", "in time"]


async def test_after_the_end_nothing_goes_off(timers: Timers, rung: Rung) -> None:
    rung.set("before", 5)
    timers.close()
    rung.set("after", 5)
    await asyncio.sleep(0.02)
    assert rung.order == []
    timers.close()


async def test_purgatories_share_the_wheel(timers: Timers, clock: Clock) -> None:
    class Operation(DelayedOperation):
        __slots__ = ("done",)

        def __init__(self) -> None:
            super().__init__(5)
            self.done = asyncio.get_running_loop().create_future()

        def try_complete(self) -> bool:
            return False

        def on_complete(self) -> None:
            self.done.set_result("expired")

    operation = Operation()
    purgatory = timers.purgatory()
    assert not purgatory.try_complete_else_watch(operation, ["key"], clock.monotonic_ms())
    assert await in_time(operation.done) == "expired"
    assert purgatory.delayed == 0


def test_back_off_doubles_within_bounds_and_is_shortened_at_random() -> None:
    backoff = Backoff(random.Random(5), first_ms=20, last_ms=100)
    for ceiling_ms in (20, 40, 80, 100, 100, *[100] * 30):
        assert ceiling_ms / 2 <= backoff.next_s() * 1000 <= ceiling_ms
    backoff.reset()
    assert backoff.next_s() <= 0.020
    assert Backoff(random.Random(5)).next_s() == Backoff(random.Random(5)).next_s()


async def test_the_clock_is_the_loops_and_the_walls() -> None:
    loop = asyncio.get_running_loop()
    clock = Clock(loop, lambda: 12.3456)
    assert clock.wall_ms() == 12_345
    assert abs(clock.monotonic_ms() - loop.time() * 1000) < 1000
    assert Clock(loop).wall_ms() > 1_600_000_000_000


async def test_a_jump_of_the_wall_clock_makes_nothing_look_old() -> None:
    wall_s, day_s = [1_000_000.0], 86_400.0
    clock = Clock(asyncio.get_running_loop(), lambda: wall_s[0])
    wall_s[0] += day_s
    assert 0 <= clock.age_ms() - 1_000_000_000 < 60_000
    assert clock.stamp_ms() == clock.wall_ms()
    wall_s[0] -= 2 * day_s
    assert clock.age_ms() == clock.wall_ms()
    assert 0 <= clock.stamp_ms() - 1_000_000_000 < 60_000
