"""What was promised holds in every state that a crash may leave: logs, checkpoints, topics, the quorum's files.

``CRASH_STATES=n pytest tests/sim/test_crash_states.py -s`` looks at n states, ``SEED=n`` begins with that seed.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from functools import cache

import pytest
from crash_futures import Branches
from crash_scenarios import SCENARIOS, STATES_PER_LIFE, explore

USUAL = 2100 // len(SCENARIOS)
STATES = int(os.environ.get("CRASH_STATES", "2100")) // len(SCENARIOS)
SEED = int(os.environ.get("SEED", "0"))


@cache
def explored(name: str, seed: int) -> tuple[int, Counter[str]]:
    """Of a life that two tests look at: its states, and before which operations there were crashes."""
    explorer = explore(name, seed, min(max(STATES, USUAL), STATES_PER_LIFE))
    return explorer.states, explorer.points


@pytest.mark.spec("P1")
@pytest.mark.spec("P2")
@pytest.mark.spec("P5")
@pytest.mark.parametrize("name", SCENARIOS)
def test_promises_hold_whatever_a_crash_leaves(name: str) -> None:
    began, states, seed = time.process_time(), 0, SEED
    while states < STATES:
        try:
            states += explored(name, seed)[0]
        except Exception as error:
            error.add_note(f"{name}, seed {seed}")
            raise
        seed += 1
    took_s = time.process_time() - began
    print(f"{name}: {states:,} states from {seed - SEED} lives, {states / took_s:,.0f} per CPU second: 0 violations")


def test_a_seed_leads_to_the_same_states_again() -> None:
    for name in SCENARIOS:
        first, second = explore(name, 3, 30), explore(name, 3, 30)
        assert (first.states, first.points, first.rng.random()) == (second.states, second.points, second.rng.random())


def test_crashes_come_before_every_kind_of_operation() -> None:
    points = sum((explored(name, 0)[1] for name in SCENARIOS), start=Counter[str]())
    points += explore("deletion", 0).points + explore("deletion", 6).points  # the only ones to remove directories
    kinds = {"create", "append", "overwrite", "truncate", "fsync", "fsync_dir", "rename", "unlink", "mkdir", "rmdir"}
    assert set(points) == kinds


def test_branches_are_all_answers() -> None:
    branches, found = Branches(), []
    while True:
        first = branches.randrange(2)
        found.append((first, branches.randrange(3) if first else None))
        if not branches.turn():
            break
    assert found == [(0, None), (1, 0), (1, 1), (1, 2)]
