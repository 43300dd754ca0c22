"""What the demonstration makes of a verdict. (That it runs is for `make demo` to show.)"""

from __future__ import annotations

from minikafka.chaos.demo import TOPIC, Fault, Outcome, _a_leader_that_is_not_controller
from minikafka.chaos.probe import ClusterView, PartitionView
from minikafka.cli.demo import as_dict
from minikafka.ledger.checker import check
from minikafka.ledger.events import Event

EVENTS = [
    Event(0, 0, "p", "invoke", "send", [("t-0", "a"), ("t-0", "b"), ("t-0", "c"), ("t-0", "d")]),
    Event(1, 100, "p", "ok", "send", [("t-0", "a", 0), ("t-0", "b", 1)]),
    Event(2, 900, "p", "ok", "send", [("t-0", "d", 3)]),
    Event(3, 1000, "r", "ok", "poll", [("t-0", "a", 0), ("t-0", "c", 2)]),
    Event(4, 1100, "r", "ok", "drained", ["t-0"]),
]


def outcome() -> Outcome:
    fault = Fault("leader", 2, killed_at_ms=150, in_sync_at_ms=950, seconds_to_full_isr=0.5)
    return Outcome(check(EVENTS), [fault], seconds=2.0)


def test_what_cannot_be_read_is_lost_wherever_it_was() -> None:
    assert (outcome().lost, outcome().duplicated, outcome().out_of_order) == (2, 0, 0)


def test_the_time_without_a_write_is_that_around_the_fault() -> None:
    measured = outcome()
    assert measured.seconds_without_write(measured.faults[0]) == 0.8


def test_a_script_gets_everything() -> None:
    found = as_dict(outcome())
    assert found["ok"] is False
    assert (found["sent"], found["acknowledged"], found["read"], found["lost"]) == (4, 3, 2, 2)
    assert found["faults"] == [
        {"killed": "leader", "node": 2, "seconds_without_write": 0.8, "seconds_to_full_isr": 0.5}
    ]


def test_the_first_fault_hits_a_leader_other_than_the_controller_if_there_is_one() -> None:
    def view(*leaders: int) -> ClusterView:
        partitions = tuple(PartitionView(TOPIC, n, leader, (1, 2, 3), (1, 2, 3)) for n, leader in enumerate(leaders))
        return ClusterView("c", 1, frozenset({1, 2, 3}), partitions)

    assert _a_leader_that_is_not_controller(view(1, 3, 2)) == 3
    assert _a_leader_that_is_not_controller(view(1, 1, 1)) == 1
