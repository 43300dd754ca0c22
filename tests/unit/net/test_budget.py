from __future__ import annotations

import random

from minikafka.net.budget import ALLOWANCE_BYTES, ALLOWANCE_BYTES_MIN, Budget

MIB = 1 << 20


class Sink:
    """A holder that notes what it is told."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.calls = 0
        self.less_allowed = 0
        self.is_gone = False

    def on_less_allowed(self) -> None:
        self.less_allowed += 1

    def on_room(self) -> None:
        self.calls += 1

    def give_up(self) -> None:
        self.is_gone = True
        self.budget.forget(self)

    def goes_on(self, excess: int, wanted: int | None = None) -> bool:
        """Whether it may, holding so much, to hold that much."""
        wanted = excess if wanted is None else wanted
        self.budget.report(self, excess, wanted)
        return self.budget.may_go_on(self, wanted, wanted)


def sinks(budget: Budget, count: int) -> list[Sink]:
    return [Sink(budget) for _ in range(count)]


# -- who goes on ------------------------------------------------------------------------------------------------------


def test_while_it_is_roomy_everybody_goes_on() -> None:
    budget = Budget(2000, 100)
    one, two = sinks(budget, 2)
    assert one.goes_on(600)
    assert two.goes_on(700)
    assert not budget.is_tight


def test_what_may_be_held_counts_as_if_it_were() -> None:
    """Thousands that had begun a frame took all room for the begin of more, and none could complete."""
    budget = Budget(1000, 100)
    one, two, three, four = sinks(budget, 4)
    assert one.goes_on(0, 600)
    assert budget.held == 600
    assert two.goes_on(0, 600), "it is served"
    assert not three.goes_on(0, 600)
    assert four.goes_on(0, 400), "there is room for that"
    assert one.goes_on(300, 600), "it was promised"
    assert budget.held == 1000
    one.budget.report(one, 0, 0)
    assert (budget.held, three.calls) == (1000, 1)
    assert three.goes_on(0, 600)


def test_room_goes_to_the_first_and_the_last_in_line_by_turns() -> None:
    budget = Budget(1000, 100)
    first, served, *others = sinks(budget, 6)
    assert first.goes_on(0, 1000)
    assert served.goes_on(0, 1000)
    assert not any(holder.goes_on(0, 1000) for holder in others)
    order = []
    for holder in (first, *[others[number] for number in (0, 3, 1)]):
        budget.forget(holder)
        order += [others.index(other) for other in others if other.calls and others.index(other) not in order]
    assert order == [0, 3, 1, 2]


def test_room_goes_to_small_frames_and_service_to_all() -> None:
    budget = Budget(1000, 100)
    first, served, large, larger, small = sinks(budget, 5)
    assert first.goes_on(1000)
    assert served.goes_on(0, 1000)
    assert not larger.goes_on(0, 600)
    assert not large.goes_on(0, 500)
    assert not small.goes_on(0, 200)
    budget.report(first, 700, 700)
    assert (small.calls, large.calls, larger.calls) == (1, 0, 0)
    budget.forget(served)
    assert (large.calls, larger.calls) == (0, 1), "each size has its turn"


def test_a_large_frame_has_its_turn_whoever_comes_and_goes_between() -> None:
    """They had one count with room: if who was served and who had room left in turn, small frames took all services."""
    budget = Budget(1000, 5000)
    room, served, large, *small = sinks(budget, 20)
    assert room.goes_on(0, 600)
    assert served.goes_on(0, 600)
    assert not large.goes_on(0, 5000)
    assert not any(holder.goes_on(0, 600) for holder in small)
    leaving, seen = [served, room], set[Sink]()
    for _ in range(10):
        budget.forget(leaving.pop(0))
        come = {holder for holder in small if holder.calls} - seen
        leaving += come
        seen |= come
    assert large.calls


def test_who_waits_is_not_overtaken_by_who_waits_and_asks_again() -> None:
    budget = Budget(1000, 100)
    first, served, one, two = sinks(budget, 4)
    assert first.goes_on(0, 900)
    assert served.goes_on(0, 900)
    assert not one.goes_on(0, 900)
    assert not two.goes_on(0, 600)
    budget.forget(first)
    assert (one.calls, two.calls) == (1, 0)
    assert not two.goes_on(0, 600)
    assert one.goes_on(0, 900)


def test_nobody_waits_for_less_than_the_allowance() -> None:
    budget = Budget(1000, 100)
    greedy, other, another, modest = sinks(budget, 4)
    assert greedy.goes_on(1000)
    assert other.goes_on(900)
    assert not another.goes_on(900)
    assert budget.is_tight
    assert modest.goes_on(0)


def test_one_of_those_who_wait_is_served_until_it_lets_go() -> None:
    """All that is held is held by those who wait: without this nobody would ever go on."""
    budget = Budget(1000, 100)
    one, two, three = sinks(budget, 3)
    for holder in (one, two, three):
        budget.report(holder, 600, 600)
    assert one.goes_on(600)
    assert not two.goes_on(600)
    assert not three.goes_on(600)
    assert one.goes_on(700), "it is served, whatever it takes"
    budget.report(one, 500, 500)
    assert (two.calls, three.calls) == (1, 0), "it let go of some: the next is served"
    assert two.goes_on(600)
    assert not one.goes_on(500)


def test_who_waited_and_holds_nothing_any_more_is_not_served() -> None:
    """It had nothing to let go of: it stayed the one that is served, idle, and all others waited."""
    budget = Budget(1000, 100)
    one, two, three = sinks(budget, 3)
    for holder in (one, two, three):
        budget.report(holder, 600, 600)
    assert [holder.goes_on(600) for holder in (one, two, three)] == [True, False, False]
    budget.report(two, 0, 0)
    assert two.calls == 1, "it need not wait"
    budget.report(one, 500, 500)
    assert (two.calls, three.calls) == (1, 1), "the next that holds something is served"
    assert three.goes_on(600)


def test_who_was_served_and_left_makes_room_for_the_next() -> None:
    """Also if it had not begun to hold anything."""
    budget = Budget(1000, 100)
    holders = sinks(budget, 4)
    assert [holder.goes_on(0, 2000) for holder in holders] == [True, False, False, False]
    budget.forget(holders[0])
    assert [holder.calls for holder in holders] == [0, 1, 0, 0]
    budget.forget(holders[2])
    assert [holder.calls for holder in holders] == [0, 1, 0, 0], "one that waited is gone; one is served still"
    budget.forget(holders[1])
    assert [holder.calls for holder in holders] == [0, 1, 0, 1]


def test_frames_beyond_the_limit_keep_no_other_from_its_room() -> None:
    budget = Budget(1000, 5000)
    full, modest, *large = sinks(budget, 5)
    assert full.goes_on(0, 1000)
    assert [holder.goes_on(0, 4000) for holder in large] == [True, False, False]
    assert not modest.goes_on(0, 500)
    budget.forget(full)
    assert modest.calls == 1
    assert modest.goes_on(0, 500)
    budget.forget(large[0])
    assert [holder.calls for holder in large] == [0, 1, 0], "one is served"


def test_the_largest_request_fits_beside_what_may_be_held() -> None:
    budget = Budget(1000, 5000)
    one, other = sinks(budget, 2)
    assert other.goes_on(1000)
    assert one.goes_on(5000)
    assert not one.is_gone


def test_far_beyond_the_limit_the_largest_goes() -> None:
    budget = Budget(1000, 100)
    small, large, newcomer = sinks(budget, 3)
    budget.report(small, 800, 800)
    budget.report(large, 1200, 1200)
    assert not large.is_gone
    budget.report(newcomer, 1, 1)
    assert large.is_gone
    assert not small.is_gone
    assert budget.held == 801


# -- the allowance ----------------------------------------------------------------------------------------------------


def test_all_allowances_together_are_no_more_than_the_limit() -> None:
    """Of 4,000 connections each had its 128 KiB: 580 MB of requests that were never completed."""
    budget = Budget(32 * MIB, 100)
    for number in range(1, 5000):
        budget.join(Sink(budget))
        most = number * budget.allowance
        assert most <= budget.limit or budget.allowance == ALLOWANCE_BYTES_MIN
        assert 2 * most > budget.limit or budget.allowance == ALLOWANCE_BYTES


def test_who_held_by_a_larger_allowance_reports_and_may_complete() -> None:
    class Member(Sink):
        def on_less_allowed(self) -> None:
            super().on_less_allowed()
            assert self.goes_on(ALLOWANCE_BYTES - self.budget.allowance)

    budget = Budget(4 * ALLOWANCE_BYTES, ALLOWANCE_BYTES)
    members = [Member(budget) for _ in range(9)]
    for member in members:
        budget.join(member)
    assert [member.less_allowed for member in members] == [2] * 5 + [1] * 4
    assert budget.held == 9 * (ALLOWANCE_BYTES - budget.allowance) > budget.limit
    assert not budget.waiting_count


def test_connections_that_come_and_go_change_the_allowance_once() -> None:
    """Each change asks all of them."""
    budget = Budget(8 * ALLOWANCE_BYTES, 100)
    members = sinks(budget, 8)
    for member in members:
        budget.join(member)
    for _ in range(100):
        other = Sink(budget)
        budget.join(other)
        budget.forget(other)
    assert members[0].less_allowed == 1
    for member in members[4:]:
        budget.forget(member)
    assert budget.allowance == ALLOWANCE_BYTES


# -- by chance --------------------------------------------------------------------------------------------------------


class Sender(Sink):
    """One that sends frames of a size; its buffer doubles."""

    def __init__(self, budget: Budget, size: int) -> None:
        super().__init__(budget)
        self.size = size
        self.capacity = 0
        self.is_paused = False

    @property
    def grown(self) -> int:
        return min(self.size, max(2 * self.capacity, ALLOWANCE_BYTES_MIN))

    def on_less_allowed(self) -> None:
        self.is_paused = self.is_paused or not self.may_grow()

    def on_room(self) -> None:
        self.is_paused = False

    def may_grow(self) -> bool:
        wanted = self.grown - self.budget.allowance
        self.budget.report(self, max(0, self.capacity - self.budget.allowance), wanted)
        return wanted <= 0 or self.is_gone or self.budget.may_go_on(self, wanted, wanted + self.size)

    def send(self) -> None:
        if self.capacity == self.size:
            self.capacity = 0
            self.budget.report(self, 0, 0)
        elif self.may_grow():
            self.capacity = self.grown
        else:
            self.is_paused = True


def test_whatever_comes_and_goes_what_is_held_is_counted_and_somebody_goes_on() -> None:
    for seed in range(40):
        rng = random.Random(seed)
        budget = Budget(rng.choice((ALLOWANCE_BYTES, MIB, 8 * MIB)), 4 * MIB)
        senders: list[Sender] = []
        for _ in range(300):
            event = rng.random()
            if event < 0.15 or not senders:
                senders.append(Sender(budget, rng.choice((100, 20_000, ALLOWANCE_BYTES, MIB, 4 * MIB))))
                budget.join(senders[-1])
            elif event < 0.2:
                budget.forget(senders.pop(rng.randrange(len(senders))))
            elif going := [sender for sender in senders if not sender.is_paused]:
                rng.choice(going).send()
            senders = [sender for sender in senders if not sender.is_gone]
            budget.check()
        while sending := [sender for sender in senders if not sender.is_paused and sender in budget._holders]:
            rng.choice(sending).send()
            budget.check()
        assert not budget.waiting_count
        assert not budget.held
