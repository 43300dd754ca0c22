"""The schedules catch every planted bug; a suite that catches none proves nothing."""

from __future__ import annotations

import pytest
from replication_model import run_schedule
from replication_sabotages import SABOTAGES

SCHEDULES_AT_MOST = 3000


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda sabotage: sabotage.__name__)
def test_planted_bugs_are_caught(sabotage, monkeypatch):
    sabotage(monkeypatch)
    caught = (seed for seed in range(SCHEDULES_AT_MOST) if run_schedule(seed) is not None)
    assert next(caught, None) is not None, f"no schedule of {SCHEDULES_AT_MOST} noticed"
