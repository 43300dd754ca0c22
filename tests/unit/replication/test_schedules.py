"""Random schedules keep every invariant (replication_model.py says which).

``SCHEDULES=n`` in the environment runs as many, ``SEED=n`` the one; a violation comes with the schedule's trace.
"""

from __future__ import annotations

import pytest
from planted.registry import wanted_seeds
from planted.sweep import PIECE, Sweep, sweep
from replication_model import Cluster, run, trace_of
from replication_sabotages import forget_epoch_starts


@pytest.mark.spec("R10")
@pytest.mark.spec("R17")
@pytest.mark.spec("R18")
@pytest.mark.spec("R19")
@pytest.mark.spec("R20")
@pytest.mark.spec("R21")
@pytest.mark.spec("E5")
@pytest.mark.spec("E6")
@pytest.mark.spec("P1")
def test_no_schedule_loses_or_diverges():
    result = sweep(Sweep("replication"), wanted_seeds(PIECE))
    for seed, violation in result.violations[:1]:
        pytest.fail(f"seed {seed}: {violation}\n{trace_of(seed)}")


def test_the_same_seed_gives_the_same_trace():
    assert trace_of(7) == trace_of(7)
    assert trace_of(7) != trace_of(8)


def test_schedules_reach_what_they_are_for():
    traces = "\n".join(trace_of(seed) for seed in range(150))
    for event in ("leads epoch 5", "cuts from", "loses power", "is unfenced", "INELIGIBLE_REPLICA", "gives up on"):
        assert event in traces, event


def test_a_request_that_reached_a_dead_node_is_given_up():
    """Nothing else wakes a follower whose leader comes back, or leads again, before it has heard of another."""
    cluster = Cluster(0)
    leader, *followers = cluster.nodes
    leader.alive = False
    while cluster.network:
        cluster.deliver()
    assert [node.token == node.unanswered for node in followers] == [True, True]
    leader.alive = True
    cluster.produce()
    cluster.settle()


def test_no_record_is_lost_when_leaders_forget_to_note_where_their_epoch_begins(monkeypatch):
    """Undefined answers are then common: the follower asks for the epoch before instead of cutting to its HW."""
    forget_epoch_starts(monkeypatch)
    for seed in range(500):
        run(seed)
