"""Idempotent producers over failovers (sequences_model.py says what must hold)."""

from __future__ import annotations

import pytest
from planted.registry import wanted_seeds
from planted.sweep import PIECE, Sweep, sweep
from sequences_model import trace_of


@pytest.mark.spec("P3")
def test_nothing_is_committed_twice_or_out_of_order():
    result = sweep(Sweep("sequences"), wanted_seeds(PIECE))
    for seed, violation in result.violations[:1]:
        pytest.fail(f"seed {seed}: {violation}\n{trace_of(seed)}")


def test_schedules_reach_what_they_are_for():
    traces = "\n".join(trace_of(seed) for seed in range(50))
    for event in ("OUT_OF_ORDER_SEQUENCE_NUMBER", "has (1, 3) at", "acknowledges (0, 3)", "cuts from"):
        assert event in traces, event
