from __future__ import annotations

import gc
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from minikafka.timing import TimerTask, TimingWheel
from minikafka.timing import wheel as wheel_module


class Task(TimerTask):
    __slots__ = ("name",)

    def __init__(self, name: object = None) -> None:
        super().__init__()
        self.name = name

    def expire(self) -> None:
        pass


def is_pending(task: Task) -> bool:
    return task._next is not None


class Callback(TimerTask):
    __slots__ = ("call",)

    def __init__(self, call: object) -> None:
        super().__init__()
        self.call = call

    def expire(self) -> None:
        self.call()  # type: ignore[operator]


class SortedListTwin:
    """What the wheel does, with none of its cleverness."""

    def __init__(self, start_ms: int, tick_ms: int) -> None:
        self.tick_ms = tick_ms
        self.now = start_ms // tick_ms * tick_ms
        self.pending: list[tuple[int, Task]] = []

    def insert(self, task: Task, deadline_ms: int) -> None:
        rounded_up = -(-deadline_ms // self.tick_ms) * self.tick_ms
        self.pending.append((rounded_up, task))

    def cancel(self, task: Task) -> bool:
        before = len(self.pending)
        self.pending = [entry for entry in self.pending if entry[1] is not task]
        return len(self.pending) < before

    def advance(self, now_ms: int) -> list[tuple[int, Task]]:
        self.now = max(self.now, now_ms // self.tick_ms * self.tick_ms)
        expired = [entry for entry in self.pending if entry[0] <= self.now]
        self.pending = [entry for entry in self.pending if entry[0] > self.now]
        return sorted(expired, key=lambda entry: entry[0])


class WheelAgainstTwin(RuleBasedStateMachine):
    tasks = Bundle("tasks")
    tick_ms = 1
    wheel_size = 4

    def __init__(self) -> None:
        super().__init__()
        self.start = 1_000
        self.wheel = TimingWheel(self.start, tick_ms=self.tick_ms, wheel_size=self.wheel_size)
        self.twin = SortedListTwin(self.start, self.tick_ms)
        self.deadlines: dict[Task, int] = {}
        self.now = self.start

    @rule(target=tasks, delay=st.integers(-20, 20) | st.integers(0, 400) | st.integers(0, 100_000))
    def insert(self, delay: int) -> Task:
        task = Task()
        self._insert(task, delay)
        return task

    @rule(task=tasks, delay=st.integers(0, 400))
    def insert_again(self, task: Task, delay: int) -> None:
        if not is_pending(task):
            self._insert(task, delay)

    def _insert(self, task: Task, delay: int) -> None:
        self.wheel.insert(task, self.now + delay)
        self.twin.insert(task, self.now + delay)
        self.deadlines[task] = self.now + delay

    @rule(task=consumes(tasks))
    def cancel(self, task: Task) -> None:
        assert is_pending(task) == any(entry[1] is task for entry in self.twin.pending)
        assert self.wheel.cancel(task) == self.twin.cancel(task)
        assert not is_pending(task)

    @rule(step=st.integers(-5, 10) | st.integers(0, 500) | st.integers(0, 200_000))
    def advance(self, step: int) -> None:
        self._advance_to(self.now + step)

    @rule()
    def advance_as_a_driver_would(self) -> None:
        deadline = self.wheel.next_deadline_ms()
        if deadline is not None:
            self._advance_to(deadline)

    def _advance_to(self, now: int) -> None:
        expired = self.wheel.advance(now)
        self.now = max(self.now, now)
        expected = self.twin.advance(now)
        assert set(expired) == {task for _, task in expected}
        ticks = [-(-self.deadlines[task] // self.tick_ms) for task in expired]
        assert ticks == sorted(ticks)
        assert all(self.deadlines[task] <= self.now for task in expired)
        assert not any(is_pending(task) for task in expired)

    @invariant()
    def agrees(self) -> None:
        assert len(self.wheel) == len(self.twin.pending)
        deadline = self.wheel.next_deadline_ms()
        assert (deadline is None) == (not self.twin.pending)
        if deadline is not None:
            earliest = min(entry[0] for entry in self.twin.pending)
            assert deadline <= max(earliest, self.twin.now)
            assert deadline > self.twin.now or earliest <= self.twin.now  # never a wake-up that achieves nothing

    @invariant()
    def buckets_are_bounded(self) -> None:
        wheel = self.wheel
        assert len(wheel._heap) == sum(map(len, wheel._levels))
        for buckets in wheel._levels:
            assert len(buckets) < self.wheel_size


class CoarseWheelAgainstTwin(WheelAgainstTwin):
    tick_ms = 7
    wheel_size = 20


TestWheelAgainstTwin = pytest.mark.spec("D3")(WheelAgainstTwin.TestCase)
TestCoarseWheelAgainstTwin = pytest.mark.spec("D3")(CoarseWheelAgainstTwin.TestCase)
WheelAgainstTwin.TestCase.settings = settings(deadline=None, stateful_step_count=40)
CoarseWheelAgainstTwin.TestCase.settings = settings(deadline=None, stateful_step_count=40)


@pytest.mark.spec("D3")
@settings(deadline=None)
@given(st.lists(st.integers(1, 3_000_000), min_size=1, max_size=30), st.sampled_from([2, 20, 256]))
def test_a_driver_that_sleeps_until_the_next_deadline_meets_every_deadline_exactly(
    delays: list[int], wheel_size: int
) -> None:
    wheel = TimingWheel(wheel_size=wheel_size)
    tasks = [Task(delay) for delay in delays]
    for task, delay in zip(tasks, delays, strict=True):
        wheel.insert(task, delay)
    seen = []
    wake_ups = 0
    while (deadline := wheel.next_deadline_ms()) is not None:
        wake_ups += 1
        seen += [(task.name, deadline) for task in wheel.advance(deadline)]  # type: ignore[attr-defined]
    assert seen == [(delay, delay) for delay in sorted(delays)]
    levels = len(wheel._levels)
    assert wake_ups <= levels * len(delays)  # each task causes at most one per level


@pytest.mark.spec("D3")
def test_the_clock_is_driven_by_buckets_that_hold_something() -> None:
    wheel = TimingWheel(wheel_size=20)
    assert wheel.next_deadline_ms() is None
    near, far = Task(), Task()
    wheel.insert(near, 15)
    wheel.insert(far, 30_000)
    assert wheel.next_deadline_ms() == 15
    assert wheel.cancel(near)
    deadline = wheel.next_deadline_ms()
    assert deadline is not None
    assert 15 < deadline <= 30_000
    assert wheel.cancel(far)
    assert wheel.next_deadline_ms() is None
    assert wheel.advance(60_000) == []


def test_what_is_over_leaves_no_garbage() -> None:
    """A bucket is a ring: each that was dropped waited for the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        wheel = TimingWheel(0)
        tasks = [Task() for _ in range(40)]
        for number, task in enumerate(tasks, 1):
            wheel.insert(task, number)
        for task in tasks[20:]:
            wheel.cancel(task)
        assert len(wheel.advance(20)) == 20
        assert wheel.next_deadline_ms() is None
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()  # what other tests left may be among it
        left = [each for each in gc.garbage if type(each).__module__.startswith(("minikafka.timing", __name__))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not left


def test_order_is_by_deadline_and_within_one_by_insertion() -> None:
    wheel = TimingWheel()
    for name, deadline in (("a", 500), ("b", 3), ("c", 500), ("d", 2), ("e", 3)):
        wheel.insert(Task(name), deadline)
    assert [task.name for task in wheel.advance(1_000)] == ["d", "b", "e", "a", "c"]  # type: ignore[attr-defined]


def test_a_past_deadline_is_met_by_the_next_advance_at_any_time() -> None:
    wheel = TimingWheel(start_ms=100)
    late, now = Task(), Task()
    wheel.insert(late, 40)
    wheel.insert(now, 100)
    assert wheel.next_deadline_ms() == 100
    assert wheel.advance(100) == [late, now]
    wheel.insert(late, 40)
    assert wheel.cancel(late)
    assert not wheel.cancel(late)
    assert wheel.advance(90) == []


def test_no_deadline_is_met_early_by_a_coarse_wheel() -> None:
    wheel = TimingWheel(tick_ms=10)
    task = Task()
    wheel.insert(task, 41)
    assert wheel.advance(49) == []
    assert wheel.next_deadline_ms() == 50
    assert wheel.advance(50) == [task]


def test_the_clock_does_not_go_back() -> None:
    wheel = TimingWheel()
    assert wheel.advance(100) == []
    assert wheel.advance(50) == []
    task = Task()
    wheel.insert(task, 80)
    assert wheel.advance(60) == [task]


@pytest.mark.spec("D3")
@pytest.mark.parametrize("start", [0, 1, 19, 20, 12_345])
def test_a_level_has_fewer_buckets_than_the_wheel_size(start: int) -> None:
    wheel = TimingWheel(start, wheel_size=20)
    for delay in range(1, 1_000):
        wheel.insert(Task(), start + delay)
    assert len(wheel._levels) == 3
    assert max(map(len, wheel._levels)) == 19


def test_inserting_a_pending_task_is_a_programmers_mistake() -> None:
    wheel = TimingWheel()
    task = Task()
    wheel.insert(task, 5)
    with pytest.raises(AssertionError):
        wheel.insert(task, 6)


def test_expire_due_lets_a_task_cancel_others_that_are_due() -> None:
    wheel = TimingWheel()
    fired: list[str] = []
    second = Callback(lambda: fired.append("second"))
    third = Callback(lambda: fired.append("third"))
    wheel.insert(Callback(lambda: (fired.append("first"), wheel.cancel(second))), 5)
    wheel.insert(second, 6)
    wheel.insert(third, 7)
    assert wheel.expire_due(10) == 2
    assert fired == ["first", "third"]
    assert len(wheel) == 0


def test_expire_due_leaves_what_a_task_inserts_to_the_next_time() -> None:
    wheel = TimingWheel()
    fired: list[int] = []

    def again() -> None:
        fired.append(len(wheel))
        wheel.insert(task, 0)

    task = Callback(again)
    wheel.insert(task, 5)
    assert wheel.expire_due(10) == 1
    assert wheel.next_deadline_ms() == 10
    assert wheel.expire_due(10) == 1
    assert fired == [0, 0]


def test_expire_due_leaves_what_is_too_many_to_the_next_time() -> None:
    wheel = TimingWheel()
    fired: list[int] = []
    tasks = [Callback(lambda number=number: fired.append(number)) for number in range(5)]  # type: ignore[misc]
    for number, task in enumerate(tasks):
        wheel.insert(task, number)
    assert wheel.expire_due(10, 2) == 2
    assert (fired, len(wheel), wheel.next_deadline_ms()) == ([0, 1], 3, 10)
    wheel.cancel(tasks[3])
    assert wheel.expire_due(11, 2) == 2
    assert (fired, len(wheel), wheel.next_deadline_ms()) == ([0, 1, 2, 4], 0, None)


def test_what_stays_due_is_not_looked_at_again_by_each_advance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding: 30,000 that were due, a hundred a turn, took 300 turns of 10 ms to be sorted anew."""
    moves: list[TimerTask] = []
    append = wheel_module._Bucket.append

    def counted(bucket: wheel_module._Bucket, task: TimerTask) -> None:
        moves.append(task)
        append(bucket, task)

    monkeypatch.setattr(wheel_module._Bucket, "append", counted)
    wheel = TimingWheel()
    fired: list[int] = []
    for number in range(1000):
        wheel.insert(Callback(lambda number=number: fired.append(number)), 10)  # type: ignore[misc]
    while len(wheel):
        wheel.expire_due(20, 10)
    assert fired == list(range(1000))
    assert len(moves) == 2000, "into its bucket, and out of it"


def test_a_task_that_raises_does_not_keep_others_from_expiring() -> None:
    wheel = TimingWheel()
    fired: list[str] = []

    def fail() -> None:
        raise ValueError("broken")

    wheel.insert(Callback(fail), 1)
    wheel.insert(Callback(lambda: fired.append("x")), 2)
    with pytest.raises(ValueError, match="broken"):
        wheel.expire_due(5)
    assert fired == ["x"]

    wheel.insert(Callback(fail), 6)
    wheel.insert(Callback(fail), 7)
    with pytest.raises(ExceptionGroup) as caught:
        wheel.expire_due(10)
    assert len(caught.value.exceptions) == 2
    assert len(wheel) == 0


@pytest.mark.spec("D3")
def test_memory_is_bounded_by_what_is_pending() -> None:
    wheel = TimingWheel()
    task = Task()
    now = 0
    wheel.insert(Task(), 10**9)
    for _ in range(300):  # inserted and cancelled, as the time-outs of requests that are answered are
        for delay in (1, 500, 30_000):
            wheel.insert(task, now + delay)
            wheel.cancel(task)
        now += 100
        wheel.advance(now)
    assert len(wheel._heap) <= sum(len(buckets) for buckets in wheel._levels)
    assert len(wheel._heap) < 300 + 5 * 256

    count = 20_000
    gc.collect()
    tracemalloc.start()
    tasks = [Task() for _ in range(count)]
    for index, each in enumerate(tasks):
        wheel.insert(each, now + 1 + index % 60_000)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / count < 200  # bytes, with the task itself
