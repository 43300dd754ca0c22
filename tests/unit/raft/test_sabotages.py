"""The schedules notice every planted bug, and within a bounded number of them."""

from __future__ import annotations

import pytest
from raft_sabotages import SABOTAGES, planted
from raft_schedules import Schedule, Stability

from minikafka.raft import CommittedDataLostError

SCHEDULES_MAX = 10_000
STEPS = 400

# Seeds known to notice the well-hidden ones: tried first, so that the test is quick; any other seed will do as well.
NOTICED_BY = {
    "former_epochs_are_committed_by_counting": 3469,
    "repair_ends_at_a_new_leaders_old_high_watermark": 4105,
    "the_vote_is_not_persisted": 808,
}


def first_violation(name: str) -> BaseException | None:
    with planted(name):
        for seed in (NOTICED_BY.get(name, 0), *range(SCHEDULES_MAX)):
            try:
                Schedule(seed).run(STEPS)
                if seed < 50:
                    Stability(seed).run(rounds=6)
            except (AssertionError, CommittedDataLostError) as error:
                return error
    return None


@pytest.mark.spec("P1")
@pytest.mark.parametrize("name", SABOTAGES)
def test_the_schedules_notice(name: str) -> None:
    assert first_violation(name), f"{SCHEDULES_MAX} schedules did not notice that {name.replace('_', ' ')}"


def test_there_are_enough() -> None:
    assert len(SABOTAGES) >= 15
