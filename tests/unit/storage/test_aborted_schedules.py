"""Random schedules of transactions in a log (aborted_model.py says what must hold).

``SCHEDULES=n`` in the environment runs as many, ``SEED=n`` the one.
"""

from __future__ import annotations

import pytest
from aborted_model import run
from planted.registry import wanted_seeds
from planted.sweep import Sweep, sweep


@pytest.mark.spec("T20")
@pytest.mark.spec("T21")
@pytest.mark.spec("T23")
def test_a_consumer_reads_what_was_committed() -> None:
    result = sweep(Sweep("aborted"), wanted_seeds(40))
    for seed, violation in result.violations[:1]:
        pytest.fail(f"seed {seed}: {violation}")


@pytest.mark.spec("T22")
def test_schedules_that_once_violated() -> None:
    """A follower kept a transaction open that its leader had cleaned away, and a log one of its last snapshot."""
    run(82)
    run(4013775)  # a snapshot from before the log was believed
    run(5005937)  # it was forgotten that there had been transactions
    run(256)
