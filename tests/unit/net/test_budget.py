from __future__ import annotations

from minikafka.net.budget import ALLOWANCE_BYTES, Budget


class Sink:
    """A holder that notes what it is told."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.calls = 0
        self.is_gone = False

    def on_room(self) -> None:
        self.calls += 1

    def give_up(self) -> None:
        self.is_gone = True
        self.budget.forget(self)


def test_while_it_is_roomy_everybody_goes_on() -> None:
    budget = Budget(2000, 100)
    one, two = Sink(budget), Sink(budget)
    budget.report(one, 600)
    budget.report(two, 700)
    assert budget.may_go_on(one)
    assert budget.may_go_on(two)
    assert not budget.is_tight


def test_who_waits_goes_on_in_the_order_of_asking() -> None:
    budget = Budget(10 * ALLOWANCE_BYTES, 100)
    holders = [Sink(budget) for _ in range(5)]
    for holder in holders:
        budget.report(holder, 2 * ALLOWANCE_BYTES)
    assert [budget.may_go_on(holder) for holder in holders] == [True, False, False, False, False], "one is served"
    budget.report(holders[0], 0)
    assert [holder.calls for holder in holders] == [0, 1, 0, 0, 0], "the next is served, and may take all room"
    budget.report(holders[4], 0)
    assert [holder.calls for holder in holders] == [0, 1, 1, 1, 1]


def test_nobody_waits_for_less_than_the_allowance() -> None:
    budget = Budget(1000, 100)
    greedy, other, modest = Sink(budget), Sink(budget), Sink(budget)
    budget.report(greedy, 1000)
    budget.report(other, 900)
    assert budget.may_go_on(greedy)
    assert not budget.may_go_on(other)
    assert budget.is_tight
    assert budget.may_go_on(modest)


def test_one_of_those_who_wait_is_served_until_it_lets_go() -> None:
    """All that is held is held by those who wait: without this nobody would ever go on."""
    budget = Budget(1000, 100)
    one, two, three = Sink(budget), Sink(budget), Sink(budget)
    for holder in (one, two, three):
        budget.report(holder, 600)
    assert budget.may_go_on(one)
    assert not budget.may_go_on(two)
    assert not budget.may_go_on(three)
    budget.report(one, 700)
    assert budget.may_go_on(one), "it is served, whatever it takes"
    budget.report(one, 500)
    assert (two.calls, three.calls) == (1, 0), "it let go of some: the next is served"
    assert budget.may_go_on(two)
    assert not budget.may_go_on(one)


def test_who_waited_and_holds_nothing_any_more_is_not_served() -> None:
    """It had nothing to let go of: it stayed the one that is served, idle, and all others waited."""
    budget = Budget(1000, 100)
    one, two, three = Sink(budget), Sink(budget), Sink(budget)
    for holder in (one, two, three):
        budget.report(holder, 600)
    assert [budget.may_go_on(holder) for holder in (one, two, three)] == [True, False, False]
    budget.report(two, 0)
    assert two.calls == 1, "it need not wait"
    budget.report(one, 500)
    assert (two.calls, three.calls) == (1, 1), "the next that holds something is served"
    assert budget.may_go_on(three)


def test_who_was_served_and_left_makes_room_for_the_next() -> None:
    budget = Budget(1000, 100)
    holders = [Sink(budget) for _ in range(4)]
    for holder in holders:
        budget.report(holder, 500)
    assert [budget.may_go_on(holder) for holder in holders] == [True, False, False, False]
    budget.forget(holders[0])
    assert [holder.calls for holder in holders] == [0, 1, 0, 0]
    budget.forget(holders[2])
    assert [holder.calls for holder in holders] == [0, 1, 0, 0], "one that waited is gone; one is served still"
    budget.forget(holders[1])
    assert [holder.calls for holder in holders] == [0, 1, 0, 1]


def test_far_beyond_the_limit_the_largest_goes() -> None:
    budget = Budget(1000, 100)
    small, large, newcomer = Sink(budget), Sink(budget), Sink(budget)
    budget.report(small, 800)
    budget.report(large, 1200)
    assert not large.is_gone
    budget.report(newcomer, 1)
    assert large.is_gone
    assert not small.is_gone
    assert budget.held == 801


def test_the_largest_request_fits_beside_what_may_be_held() -> None:
    budget = Budget(1000, 5000)
    one, other = Sink(budget), Sink(budget)
    budget.report(other, 1000)
    budget.report(one, 5000)
    assert not one.is_gone
