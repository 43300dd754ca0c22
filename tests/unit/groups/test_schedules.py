"""Random schedules hold, and notice planted bugs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from groups_sabotages import SABOTAGES, planted
from groups_schedules import run


def run_all(seeds: range) -> None:
    for seed in seeds:
        run(seed)


@pytest.mark.spec("D7")
@pytest.mark.parametrize("start", range(0, 120, 20))
def test_schedules_hold(start: int) -> None:
    run_all(range(start, start + 20))


@pytest.mark.parametrize("name", SABOTAGES)
def test_schedules_notice(name: str) -> None:
    with planted(name), pytest.raises(AssertionError):
        run_all(range(1_000))


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
