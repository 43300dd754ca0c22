"""Random schedules of threads at work on a node's logs (jobs_model.py says what must hold).

``SCHEDULES=n`` in the environment runs as many, ``SEED=n`` the one.
"""

from __future__ import annotations

import pytest
from planted.registry import wanted_seeds
from planted.sweep import Sweep, sweep


@pytest.mark.spec("P1")
@pytest.mark.spec("P5")
def test_no_job_meets_what_happened_meanwhile() -> None:
    result = sweep(Sweep("jobs"), wanted_seeds(30))
    for seed, violation in result.violations[:1]:
        pytest.fail(f"seed {seed}: {violation}")
