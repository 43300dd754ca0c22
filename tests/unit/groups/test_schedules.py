"""Random schedules hold. ``SCHEDULES=n`` in the environment runs as many, ``SEED=n`` the one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from groups_schedules import trace_of
from planted.registry import wanted_seeds
from planted.sweep import Sweep, sweep


@pytest.mark.spec("D7")
def test_schedules_hold() -> None:
    result = sweep(Sweep("groups"), wanted_seeds(20))
    for seed, violation in result.violations[:1]:
        pytest.fail(f"seed {seed}: {violation}\n{trace_of(seed)}")


def test_schedules_are_reproducible() -> None:
    """Also with other hashes of strings: no order comes from a set."""
    script = "import groups_schedules; w = groups_schedules.run(7); print(w.trace, w.driver.log, w.driver.answers)"
    told = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]
