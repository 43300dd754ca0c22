"""The controller under random schedules (controller_schedules.py says which, and what must hold)."""

from __future__ import annotations

import pytest
from controller_schedules import run
from planted.registry import wanted_seeds


@pytest.mark.spec("P1")
@pytest.mark.spec("P2")
@pytest.mark.spec("C4")
@pytest.mark.spec("R20")
@pytest.mark.spec("A3")
def test_random_schedules() -> None:
    acknowledged = elections = reassignments = lossy_elections = 0
    seeds = wanted_seeds(75)
    for seed in seeds:
        model = run(seed)
        acknowledged += len(model.acknowledged)
        elections += model.current().leader_epoch
        reassignments += model.reassignments
        lossy_elections += model.lossy_elections
    assert acknowledged > 2 * len(seeds), "a dead partition passes every check of safety"
    assert elections > 2 * len(seeds)
    assert reassignments > len(seeds)
    assert 0 < lossy_elections < elections // 5 or len(seeds) < 100


@pytest.mark.parametrize("seed", [100204])
def test_seeds_that_failed_once(seed: int) -> None:
    """100204: a replica was taken for made anew when its broker only said once more in which failed directory it is."""
    run(seed)
