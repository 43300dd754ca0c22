"""Every scenario of tests/golden/raft plays as written; ``UPDATE_GOLDEN=1 pytest ...`` writes them anew."""

from __future__ import annotations

import os

import pytest
import raft_simulation
from raft_scenarios import GOLDEN, SCENARIOS, run_scenario


@pytest.mark.spec("C1")
@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raft_simulation, "WIRE_CHECKED", True)  # every message to its wire form and back
    path = GOLDEN / f"{name}.txt"
    text = path.read_text()
    played = run_scenario(text)
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(played)
    assert played == text


def test_scenarios_are_found() -> None:
    assert len(SCENARIOS) >= 18
