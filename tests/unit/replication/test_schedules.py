"""Random schedules keep every invariant (replication_model.py says which).

``SCHEDULES=100000`` in the environment runs more, ``SEED=n`` just one; a violation comes with the schedule's trace.
"""

from __future__ import annotations

import os

import pytest
from replication_model import run_schedule, trace_of
from replication_sabotages import forget_epoch_starts

SCHEDULES = int(os.environ.get("SCHEDULES", "3000"))


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
    seeds = [int(os.environ["SEED"])] if "SEED" in os.environ else range(SCHEDULES)
    for seed in seeds:
        violation = run_schedule(seed)
        assert violation is None, f"seed {seed}: {violation}\n{trace_of(seed)}"


def test_the_same_seed_gives_the_same_trace():
    assert trace_of(7) == trace_of(7)
    assert trace_of(7) != trace_of(8)


def test_schedules_reach_what_they_are_for():
    traces = "\n".join(trace_of(seed) for seed in range(150))
    for event in ("leads epoch 5", "cuts from", "loses power", "is unfenced", "INELIGIBLE_REPLICA", "gives up on"):
        assert event in traces, event


def test_no_record_is_lost_when_leaders_forget_to_note_where_their_epoch_begins(monkeypatch):
    """Undefined answers are then common: the follower asks for the epoch before instead of cutting to its HW."""
    forget_epoch_starts(monkeypatch)
    for seed in range(SCHEDULES // 6):
        assert run_schedule(seed) is None
