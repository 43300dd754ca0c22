"""What goes on while something is slow or lacking: a seed of each kind (``sim_availability.py``)."""

from __future__ import annotations

import pytest
from sim_availability import check_availability

NO_NAMES, START_ON_SLOW_DISKS, ELECT_ON_SLOW_DISKS, WRITE_BESIDE_A_SLOW_DISK = 0, 1, 2, 5


@pytest.mark.spec("P6")
@pytest.mark.parametrize("seed", [NO_NAMES, START_ON_SLOW_DISKS, ELECT_ON_SLOW_DISKS, WRITE_BESIDE_A_SLOW_DISK])
def test_a_cluster_does_not_stand_still(seed: int) -> None:
    check_availability(seed)
