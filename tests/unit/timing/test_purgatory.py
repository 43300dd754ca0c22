from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from minikafka.timing import DelayedOperation, Purgatory, TimingWheel
from minikafka.timing.purgatory import ALL


class Operation(DelayedOperation):
    """Completes when told that it may; records what happens to it."""

    __slots__ = ("calls", "may_complete", "tries", "when_complete")

    def __init__(
        self, timeout_ms: int = 1_000, *, may_complete: bool = False, when_complete: Callable[[], object] | None = None
    ) -> None:
        super().__init__(timeout_ms)
        self.may_complete = may_complete
        self.when_complete = when_complete
        self.tries = 0
        self.calls: list[str] = []

    def try_complete(self) -> bool:
        self.tries += 1
        return self.may_complete and self.force_complete()

    def on_complete(self) -> None:
        self.calls.append("complete")
        if self.when_complete is not None:
            self.when_complete()

    def on_expiration(self) -> None:
        self.calls.append("expiration")


class Waiting(DelayedOperation):
    """Waits for its time-out."""

    __slots__ = ()

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        pass


@pytest.fixture
def purgatory() -> Purgatory[str]:
    return Purgatory(TimingWheel())


def watch(purgatory: Purgatory[str], operation: Operation, *keys: str, now_ms: int = 0) -> Operation:
    assert not purgatory.try_complete_else_watch(operation, keys, now_ms)
    return operation


@pytest.mark.spec("D1")
def test_force_complete_succeeds_exactly_once() -> None:
    operation = Operation()
    assert operation.force_complete()
    assert not operation.force_complete()
    operation.expire()
    assert operation.calls == ["complete"]
    assert operation.is_completed


@pytest.mark.spec("D1")
def test_expiry_completes_first_and_then_tells(purgatory: Purgatory[str]) -> None:
    operation = watch(purgatory, Operation(100), "a")
    assert purgatory.advance(99) == 0
    assert not operation.is_completed
    assert purgatory.advance(100) == 1
    assert operation.calls == ["complete", "expiration"]
    assert (purgatory.delayed, purgatory.watched) == (0, 0)


@pytest.mark.spec("D1")
def test_what_is_completed_does_not_expire(purgatory: Purgatory[str]) -> None:
    operation = watch(purgatory, Operation(100), "a")
    assert operation.force_complete()
    assert purgatory.advance(1_000) == 0
    assert operation.calls == ["complete"]


@pytest.mark.spec("D1")
def test_try_complete_may_be_called_often(purgatory: Purgatory[str]) -> None:
    operation = watch(purgatory, Operation(), "a")
    for _ in range(5):
        assert purgatory.check_and_complete("a") == 0
    operation.may_complete = True
    assert purgatory.check_and_complete("a") == 1
    assert operation.tries == 7
    assert operation.calls == ["complete"]


@pytest.mark.spec("D2")
def test_an_operation_that_can_be_answered_does_not_wait(purgatory: Purgatory[str]) -> None:
    operation = Operation(may_complete=True)
    assert purgatory.try_complete_else_watch(operation, ["a"], 0)
    assert operation.calls == ["complete"]
    assert (purgatory.delayed, purgatory.watched) == (0, 0)


@pytest.mark.spec("D2")
def test_an_operation_waits_for_all_of_its_keys_and_leaves_all_at_once(purgatory: Purgatory[str]) -> None:
    operation = watch(purgatory, Operation(), "a", "b", "b", "c")
    other = watch(purgatory, Operation(), "b")
    assert (purgatory.delayed, purgatory.watched) == (2, 4)
    assert purgatory.check_and_complete("x") == 0
    operation.may_complete = True
    assert purgatory.check_and_complete("b") == 1
    assert (purgatory.delayed, purgatory.watched) == (1, 1)
    assert not other.is_completed
    assert other.tries == 2


def test_a_completed_operation_counts_by_its_weight() -> None:
    """Ten fetches of hundreds of partitions each took as long as thousands of one."""

    class Heavy(Operation):
        weight = 6

    purgatory: Purgatory[str] = Purgatory(TimingWheel(), 10, lambda: None)
    for operation in [watch(purgatory, Heavy(), "a") for _ in range(3)]:
        operation.may_complete = True
    assert purgatory.check_and_complete("a") == 2
    assert purgatory.go_on() == 1


def test_checks_are_in_the_order_of_waiting(purgatory: Purgatory[str]) -> None:
    order: list[int] = []
    operations = [
        watch(purgatory, Operation(when_complete=lambda index=index: order.append(index)), "a") for index in range(10)
    ]
    for operation in operations:
        operation.may_complete = True
    assert purgatory.check_and_complete("a") == 10
    assert order == list(range(10))


@pytest.mark.spec("D2")
def test_a_cancelled_operation_leaves_uncompleted(purgatory: Purgatory[str]) -> None:
    first = watch(purgatory, Operation(50), "a", "b")
    second = watch(purgatory, Operation(50), "a")
    third = watch(purgatory, Operation(50), "b")
    for operation in (first, second, first):
        operation.cancel()
    assert (purgatory.delayed, purgatory.watched) == (1, 1)
    assert purgatory.advance(100) == 1
    assert (first.calls, second.calls, third.calls) == ([], [], ["complete", "expiration"])
    assert first.force_complete()
    watch(purgatory, second, "c", now_ms=100)
    assert purgatory.advance(150) == 1
    assert second.calls == ["complete", "expiration"]


def test_purgatories_share_a_wheel() -> None:
    wheel = TimingWheel()
    produces: Purgatory[str] = Purgatory(wheel)
    fetches: Purgatory[int] = Purgatory(wheel)
    produce, fetch = Operation(10), Operation(20)
    watch(produces, produce, "a")
    assert not fetches.try_complete_else_watch(fetch, [1], 0)
    assert len(wheel) == 2
    assert wheel.next_deadline_ms() == 10
    assert produces.advance(30) == 2
    assert produce.calls == fetch.calls == ["complete", "expiration"]
    assert (produces.delayed, fetches.delayed, len(wheel)) == (0, 0, 0)


def test_a_time_out_of_zero_expires_at_the_next_advance(purgatory: Purgatory[str]) -> None:
    operation = watch(purgatory, Operation(0), "a", now_ms=0)
    assert not operation.is_completed
    assert purgatory.advance(0) == 1
    assert operation.calls == ["complete", "expiration"]


@pytest.mark.spec("D2")
def test_memory_is_bounded_by_what_waits(purgatory: Purgatory[str]) -> None:
    for index in range(5_000):
        operation = watch(purgatory, Operation(), f"group-{index}", "shared")
        if index % 2:
            assert operation.force_complete()
        else:
            operation.may_complete = True
            assert purgatory.check_and_complete("shared") == 1
    assert purgatory._watchers == {}
    assert (purgatory.watched, purgatory.delayed, len(purgatory._wheel)) == (0, 0, 0)


@pytest.mark.spec("D2")
@pytest.mark.spec("D3")
def test_many_pending_operations_cost_a_bounded_memory_each_and_leave_none() -> None:
    """``benchmarks/purgatory.py`` has a million of them."""
    purgatory: Purgatory[int] = Purgatory(TimingWheel())
    count = 50_000
    operations = [Waiting(60_000) for _ in range(count)]
    gc.collect()
    tracemalloc.start()
    for index, operation in enumerate(operations):
        assert not purgatory.try_complete_else_watch(operation, (index % 100,), index % 7_000)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / count < 200  # bytes, besides the operation itself
    assert (purgatory.delayed, purgatory.watched) == (count, count)
    for operation in operations[: count // 2]:
        operation.force_complete()
    assert purgatory.advance(70_000) == count // 2
    assert (purgatory.delayed, purgatory.watched, len(purgatory._wheel)) == (0, 0, 0)
    assert purgatory._watchers == {}


class TestReentrancy:
    """Callbacks that come back to the purgatory they are called from."""

    def test_completion_checks_the_same_key(self, purgatory: Purgatory[str]) -> None:
        nested: list[int] = []
        first = watch(purgatory, Operation(), "a")
        second = watch(purgatory, Operation(), "a")

        def let_second_complete() -> None:
            second.may_complete = True
            nested.append(purgatory.check_and_complete("a"))

        first.when_complete = let_second_complete
        first.may_complete = True
        assert purgatory.check_and_complete("a") == 2
        assert nested == [0]
        assert first.calls == second.calls == ["complete"]

    def test_completion_makes_an_older_one_completable(self, purgatory: Purgatory[str]) -> None:
        older = watch(purgatory, Operation(), "a")
        newer = watch(purgatory, Operation(), "a")

        def let_older_complete() -> None:
            older.may_complete = True
            purgatory.check_and_complete("a")

        newer.when_complete = let_older_complete
        newer.may_complete = True
        assert purgatory.check_and_complete("a") == 2
        assert older.is_completed

    def test_a_long_chain_of_completions_takes_no_stack(self, purgatory: Purgatory[str]) -> None:
        length = 20_000
        operations = [watch(purgatory, Operation(), "a", f"own-{index}") for index in range(length)]
        for index, operation in enumerate(operations[:-1]):

            def wake_next(following: Operation = operations[index + 1], key: str = f"own-{index + 1}") -> None:
                following.may_complete = True
                purgatory.check_and_complete(key)

            operation.when_complete = wake_next
        operations[0].may_complete = True
        assert purgatory.check_and_complete("own-0") == length

    def test_completion_watches_a_new_operation_under_the_same_key(self, purgatory: Purgatory[str]) -> None:
        successor = Operation()
        first = watch(purgatory, Operation(), "a")
        first.when_complete = lambda: watch(purgatory, successor, "a")
        first.may_complete = True
        assert purgatory.check_and_complete("a") == 1
        assert successor.tries == 1
        assert purgatory.watched == 1

    def test_a_new_operation_is_woken_by_an_event_during_the_same_check(self, purgatory: Purgatory[str]) -> None:
        successor = Operation()
        first = watch(purgatory, Operation(), "a")

        def hand_over() -> None:
            watch(purgatory, successor, "a")
            successor.may_complete = True
            purgatory.check_and_complete("a")

        first.when_complete = hand_over
        first.may_complete = True
        assert purgatory.check_and_complete("a") == 2
        assert successor.is_completed

    def test_completion_completes_or_cancels_the_next_in_line(self, purgatory: Purgatory[str]) -> None:
        first, second, third = (watch(purgatory, Operation(), "a") for _ in range(3))
        third_only = watch(purgatory, Operation(), "b")
        first.when_complete = lambda: (second.force_complete(), third.cancel())
        first.may_complete = second.may_complete = third.may_complete = True
        assert purgatory.check_and_complete("a") == 1
        assert second.calls == ["complete"]
        assert (third.tries, third.calls) == (1, [])
        assert (purgatory.delayed, third_only.is_completed) == (1, False)

    def test_expiry_wakes_another(self, purgatory: Purgatory[str]) -> None:
        waiting = watch(purgatory, Operation(5_000), "a")

        def wake() -> None:
            waiting.may_complete = True
            assert purgatory.check_and_complete("a") == 1

        watch(purgatory, Operation(10, when_complete=wake), "b")
        assert purgatory.advance(10) == 1
        assert waiting.calls == ["complete"]

    def test_of_two_that_are_due_the_first_completes_the_second(self, purgatory: Purgatory[str]) -> None:
        second = Operation(11)
        watch(purgatory, Operation(10, when_complete=second.force_complete), "a")
        watch(purgatory, second, "a")
        assert purgatory.advance(20) == 1
        assert second.calls == ["complete"]

    def test_operations_that_raise_do_not_keep_others_from_being_tried(self, purgatory: Purgatory[str]) -> None:
        def fail() -> None:
            raise ValueError("broken")

        first = watch(purgatory, Operation(when_complete=fail), "a")
        second = watch(purgatory, Operation(), "a")
        first.may_complete = second.may_complete = True
        with pytest.raises(ValueError, match="broken"):
            purgatory.check_and_complete("a")
        assert second.is_completed
        assert (purgatory.delayed, purgatory.watched) == (0, 0)
        third = watch(purgatory, Operation(), "a")
        third.may_complete = True
        assert purgatory.check_and_complete("a") == 1


class TestInPortions:
    """Ten thousand may wait for one key."""

    @pytest.fixture
    def behind(self) -> list[bool]:
        return []

    @pytest.fixture
    def purgatory(self, behind: list[bool]) -> Purgatory[str]:
        return Purgatory(TimingWheel(), 2, lambda: behind.append(True))

    def test_the_others_are_tried_in_the_next_turns(self, purgatory: Purgatory[str], behind: list[bool]) -> None:
        waiting = [watch(purgatory, Operation(), "a") for _ in range(5)]
        for each in waiting:
            each.may_complete = True
        assert purgatory.check_and_complete("a") == 2
        assert [each.is_completed for each in waiting] == [True, True, False, False, False]
        waiting[2].force_complete()  # its time is up
        assert purgatory.go_on() == 2
        assert len(behind) == 1, "nobody is left"
        assert purgatory.go_on() == 0
        assert [each.tries for each in waiting] == [2, 2, 1, 2, 2]

    def test_no_event_is_lost_meanwhile(self, purgatory: Purgatory[str], behind: list[bool]) -> None:
        early, *others = [watch(purgatory, Operation(), "a") for _ in range(3)]
        other_key = watch(purgatory, Operation(), "b")
        assert purgatory.check_and_complete("a") == 0
        early.may_complete = other_key.may_complete = True  # after it was tried
        assert purgatory.check_and_complete("a") == purgatory.check_and_complete("b") == 0
        completed = 0
        while behind:
            behind.clear()
            completed += purgatory.go_on()
        assert completed == 2
        assert [each.is_completed for each in (early, other_key, *others)] == [True, True, False, False]

    def test_each_turn_begins_with_all_of_its_tries(self, purgatory: Purgatory[str], behind: list[bool]) -> None:
        waiting = [watch(purgatory, Operation(), "a") for _ in range(2)]
        purgatory.check_and_complete("a")
        purgatory.check_and_complete("a")
        assert [each.tries for each in waiting] == [2, 2]
        assert behind, "there were two tries in this turn, and are two in the next"
        purgatory.go_on()
        assert [each.tries for each in waiting] == [3, 3]


KEYS = "abcd"


class PurgatoryAgainstTwin(RuleBasedStateMachine):
    """Against a list of (operation, keys, deadline) that is searched from end to end."""

    operations = Bundle("operations")
    at_once = ALL

    def on_behind(self) -> None:
        self.is_behind = True

    def __init__(self) -> None:
        super().__init__()
        self.is_behind = False
        self.purgatory: Purgatory[str] = Purgatory(TimingWheel(wheel_size=4), self.at_once, self.on_behind)
        self.twin: list[tuple[Operation, frozenset[str], int]] = []
        self.now = 0

    @rule(target=operations, keys=st.frozensets(st.sampled_from(KEYS)), timeout=st.integers(0, 300), done=st.booleans())
    def watch(self, keys: frozenset[str], timeout: int, done: bool) -> Operation:
        operation = Operation(timeout, may_complete=done)
        assert self.purgatory.try_complete_else_watch(operation, keys, self.now) == done
        if not done:
            self.twin.append((operation, keys, self.now + timeout))
        return operation

    @rule(operation=operations, may=st.booleans())
    def let(self, operation: Operation, may: bool) -> None:
        operation.may_complete = may

    @rule(operation=operations)
    def force(self, operation: Operation) -> None:
        was_completed = operation.is_completed
        assert operation.force_complete() != was_completed
        assert operation.calls.count("complete") == 1
        self.twin = [entry for entry in self.twin if entry[0] is not operation]

    @rule(key=st.sampled_from(KEYS))
    def check(self, key: str) -> None:
        done = [entry for entry in self.twin if key in entry[1] and entry[0].may_complete]
        self.twin = [entry for entry in self.twin if entry not in done]
        completed = self.purgatory.check_and_complete(key)
        while self.is_behind:
            self.is_behind = False
            completed += self.purgatory.go_on()
        assert completed == len(done)
        assert all(entry[0].calls == ["complete"] for entry in done)

    @rule(operation=operations)
    def cancel(self, operation: Operation) -> None:
        operation.cancel()
        self.twin = [entry for entry in self.twin if entry[0] is not operation]

    @rule(step=st.integers(0, 200))
    def advance(self, step: int) -> None:
        self.now += step
        due = [entry for entry in self.twin if entry[2] <= self.now]
        self.twin = [entry for entry in self.twin if entry not in due]
        assert self.purgatory.advance(self.now) == len(due)
        assert all(entry[0].calls == ["complete", "expiration"] for entry in due)

    @invariant()
    def agrees(self) -> None:
        assert self.purgatory.delayed == len(self.twin)
        assert self.purgatory.watched == sum(len(keys) for _, keys, _ in self.twin)
        assert all(self.purgatory._watchers.values())
        assert all(not operation.is_completed for operation, _, _ in self.twin)


TestPurgatoryAgainstTwin = pytest.mark.spec("D2")(PurgatoryAgainstTwin.TestCase)
PurgatoryAgainstTwin.TestCase.settings = settings(deadline=None, stateful_step_count=40)


class PurgatoryInPortionsAgainstTwin(PurgatoryAgainstTwin):
    """The same with turns of two tries."""

    at_once = 2


TestPurgatoryInPortionsAgainstTwin = pytest.mark.spec("D2")(PurgatoryInPortionsAgainstTwin.TestCase)
PurgatoryInPortionsAgainstTwin.TestCase.settings = settings(deadline=None, stateful_step_count=40)
