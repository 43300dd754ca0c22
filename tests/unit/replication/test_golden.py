"""Every scenario of tests/golden/replication plays as written; ``UPDATE_GOLDEN=1 pytest ...`` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from replication_scenarios import play

GOLDEN = Path(__file__).parents[2] / "golden" / "replication"
SCENARIOS = sorted(GOLDEN.glob("*.txt"))


@pytest.mark.spec("E5")
@pytest.mark.spec("R13")
@pytest.mark.spec("R20")
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path):
    played = play(path.read_text())
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(played)
    assert played == path.read_text()


def test_there_are_scenarios():
    assert len(SCENARIOS) >= 6
