"""Every scenario of tests/golden/groups plays as written; ``UPDATE_GOLDEN=1 pytest ...`` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from groups_scenario import play

GOLDEN = Path(__file__).parents[2] / "golden" / "groups"
SCENARIOS = sorted(path.stem for path in GOLDEN.glob("*.txt"))


@pytest.mark.spec("D7")
@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str) -> None:
    path = GOLDEN / f"{name}.txt"
    text = path.read_text()
    played = play(text)
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(played)
    assert played == text


def test_scenarios_are_found() -> None:
    assert len(SCENARIOS) >= 10
