"""Each scenario of tests/golden/local_replica plays as written; ``UPDATE_GOLDEN=1 pytest ...`` writes them anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from local_replica_scenarios import play

from minikafka.replication import replica_effects
from minikafka.replication.replica_effects import ReplicaEffect, Saying

GOLDEN = Path(__file__).parents[2] / "golden" / "local_replica"
SCENARIOS = sorted(GOLDEN.glob("*.txt"))


@pytest.mark.spec("P5")
@pytest.mark.spec("R14")
@pytest.mark.spec("R26")
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path):
    played = play(path.read_text())
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(played)
    assert played == path.read_text()


def test_each_effect_and_each_saying_is_in_a_scenario():
    """A reader finds every one of them in its place; a new one needs a scenario."""
    words = set(re.findall(r"\w+", "\n".join(path.read_text() for path in SCENARIOS)))
    effects = {effect.__name__ for effect in ReplicaEffect.__args__}
    assert effects <= set(dir(replica_effects))
    assert effects | {saying.name for saying in Saying} <= words
