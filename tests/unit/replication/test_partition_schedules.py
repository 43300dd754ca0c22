"""Random schedules of a partition with the real controller keep every invariant (partition_model.py says which).

``SCHEDULES=n`` in the environment runs as many, ``SEED=n`` the one; a violation comes with the schedule's trace.
"""

from __future__ import annotations

import pytest
from partition_model import run, trace_of
from planted.registry import wanted_seeds
from planted.sweep import PIECE, Sweep, sweep


@pytest.mark.spec("R18")
@pytest.mark.spec("R20")
@pytest.mark.spec("R21")
@pytest.mark.spec("E5")
@pytest.mark.spec("A3")
@pytest.mark.spec("C4")
@pytest.mark.spec("P1")
@pytest.mark.spec("P2")
def test_no_schedule_loses_or_diverges():
    result = sweep(Sweep("partition"), wanted_seeds(PIECE))
    for seed, violation in result.violations[:1]:
        pytest.fail(f"seed {seed}: {violation}\n{trace_of(seed)}")


@pytest.mark.spec("P2")
@pytest.mark.parametrize("seed", [122293, 162062, 192556, 205131, 230033, 301848, 310410])
def test_schedules_that_once_violated(seed):
    """A reassignment was replaced while replicas that were only being added had committed records."""
    run(seed)


def test_the_same_seed_gives_the_same_trace():
    assert trace_of(7) == trace_of(7)
    assert trace_of(7) != trace_of(8)


def test_schedules_reach_what_they_are_for():
    traces = "\n".join(trace_of(seed) for seed in range(180))
    events = (
        "leads epoch 5",
        "cuts from",
        "loses power",
        "INELIGIBLE_REPLICA",
        "gives up on",
        "the controller is replaced",
        "deletes its replica",
        "reassign to (1, 2, 3): NONE",
        "cancel the reassignment: NONE",
        "is elected from the ELR",
        "stops in order",
    )
    for event in events:
        assert event in traces, event
    assert traces.count("completes the reassignment") > 50
