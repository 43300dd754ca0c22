"""Random schedules hold. ``SCHEDULES=n`` in the environment runs as many, ``SEED=n`` the one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from planted.registry import wanted_seeds
from planted.sweep import Sweep, sweep
from transactions_schedules import run, trace_of


def test_schedules_hold() -> None:
    result = sweep(Sweep("transactions"), wanted_seeds(125))
    for seed, violation in result.violations[:1]:
        pytest.fail(f"seed {seed}: {violation}\n{trace_of(seed)}")


def test_schedules_commit_and_abort() -> None:
    """A schedule in which nothing happens holds, too."""
    worlds = [run(seed) for seed in range(60)]
    fates = [fate for world in worlds for log in world.logs.values() for fate in log.fates.values()]
    assert min(fates.count(True), fates.count(False)) > 50
    assert {world.version for world in worlds} == {1, 2}


def test_schedules_are_reproducible() -> None:
    """Also with other hashes of strings: no order comes from a set."""
    script = "import transactions_schedules; print(transactions_schedules.trace_of(7))"
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
