"""The controller under random schedules (controller_schedules.py says which, and what must hold)."""

from __future__ import annotations

import pytest
from controller_schedules import WHERE, run
from planted.registry import wanted_seeds


@pytest.mark.spec("P1")
@pytest.mark.spec("C4")
@pytest.mark.spec("R20")
def test_random_schedules() -> None:
    acknowledged = elections = 0
    seeds = wanted_seeds(200)
    for seed in seeds:
        model = run(seed)
        acknowledged += len(model.acknowledged)
        partition = model.cluster.image.partition(WHERE)
        assert partition is not None
        elections += partition.leader_epoch
    assert acknowledged > 7 * len(seeds), "a dead partition passes every check of safety"
    assert elections > 2 * len(seeds)
