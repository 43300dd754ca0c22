"""Random schedules hold, and notice planted bugs."""

from __future__ import annotations

import pytest
from groups_sabotages import SABOTAGES, planted
from groups_schedules import run


@pytest.mark.spec("D7")
@pytest.mark.parametrize("start", range(0, 200, 25))
def test_schedules_hold(start: int) -> None:
    for seed in range(start, start + 25):
        run(seed)


@pytest.mark.parametrize("name", SABOTAGES)
def test_schedules_notice(name: str) -> None:
    with planted(name), pytest.raises(AssertionError):
        for seed in range(400):
            run(seed)


def test_schedules_are_reproducible() -> None:
    assert run(7).trace == run(7).trace
