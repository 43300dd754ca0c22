"""Random schedules of local replicas keep every invariant (local_replica_model.py says which).

``SCHEDULES=n`` in the environment runs as many, ``SEED=n`` the one; a violation comes with the schedule's trace.
"""

from __future__ import annotations

import pytest
from local_replica_model import run, trace_of
from planted.registry import wanted_seeds
from planted.sweep import PIECE, Sweep, sweep


@pytest.mark.spec("P1")
@pytest.mark.spec("P2")
@pytest.mark.spec("P5")
@pytest.mark.spec("R14")
@pytest.mark.spec("A5")
def test_no_schedule_loses_or_diverges():
    result = sweep(Sweep("local replica"), wanted_seeds(PIECE))
    for seed, violation in result.violations[:1]:
        pytest.fail(f"seed {seed}: {violation}\n{trace_of(seed)}")


@pytest.mark.spec("P5")
@pytest.mark.parametrize("seed", [84, 1369, 218603])
def test_schedules_that_once_violated(seed):
    """A damaged replica was cut before the controller knew; a fetch from before its cut let it join the ISR.

    In the last one it waited for ever for its leader's former process: during the cut another led, and then the same.
    """
    run(seed)


def test_the_same_seed_gives_the_same_trace():
    assert trace_of(7) == trace_of(7)
    assert trace_of(7) != trace_of(8)


def test_schedules_reach_what_they_are_for():
    traces = "\n".join(trace_of(seed) for seed in range(200))
    events = (
        "is damaged from",
        "is whole again",
        "claims 1: NONE",
        "has synced up to",
        "moves its replica to",
        "loses power",
        "cuts from",
        "deletes its replica",
        "gives up on",
        "the controller is replaced",
        "completes the reassignment",
    )
    for event in events:
        assert event in traces, event
