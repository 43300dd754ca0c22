"""Random schedules in which one log is damaged unnoticed keep what can be kept (judging_model.py says what).

``SCHEDULES=n`` in the environment runs as many, ``SEED=n`` the one; a violation comes with the schedule's trace.
"""

from __future__ import annotations

import pytest
from judging_model import run, trace_of
from planted.registry import wanted_seeds
from planted.sweep import Sweep, sweep


@pytest.mark.spec("R26")
@pytest.mark.spec("P5")
def test_no_schedule_cuts_the_wrong_one_or_hangs():
    result = sweep(Sweep("judging"), wanted_seeds(200))
    for seed, violation in result.violations[:1]:
        pytest.fail(f"seed {seed}: {violation}\n{trace_of(seed)}")


@pytest.mark.spec("R18")
@pytest.mark.spec("R26")
def test_schedules_that_once_violated():
    """Two short replicas took each other into the ISR, and elected each other for ever."""
    run(10381)


def test_the_same_seed_gives_the_same_trace():
    assert trace_of(7) == trace_of(7)
    assert trace_of(7) != trace_of(8)


def test_schedules_reach_what_they_are_for():
    traces = "\n".join(trace_of(seed) for seed in (44, 224, 262))
    events = (
        "loses its tail",
        "has false epochs",
        "says: the leader's log differs below the high watermark",
        "says: the log ended below the high watermark of a complete replica",
        "says: leading with less than a returning replica knows as committed",
        "says: a replica knows more as committed than this leader has: it waits for complete replicas",
        "is whole again",
    )
    for event in events:
        assert event in traces, event
