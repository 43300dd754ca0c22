"""Random schedules of a follower and a leader whose disk goes bad (fetching_model.py says what must hold).

``SCHEDULES=n`` in the environment runs as many, ``SEED=n`` the one.
"""

from __future__ import annotations

import pytest
from fetching_model import run
from planted.registry import wanted_seeds
from planted.sweep import Sweep, sweep


@pytest.mark.spec("P5")
@pytest.mark.spec("R11")
def test_a_follower_takes_what_was_written_or_nothing() -> None:
    result = sweep(Sweep("fetching"), wanted_seeds(250))
    for seed, violation in result.violations[:1]:
        pytest.fail(f"seed {seed}: {violation}")


@pytest.mark.spec("P5")
def test_schedules_that_once_violated() -> None:
    """What a read found out of place before it was prepared was no answer, but an error of the handler's.

    A log was cut, rolled and killed before a flush: an index from before the cut seemed to say that its first segment
    was empty. A leader did not look at a batch in which its log starts, though followers that begin there fetch it. In
    a gap below its start it had no leader epoch.
    """
    run(137)
    run(149)
    run(244)
    run(272)
    run(547803)
