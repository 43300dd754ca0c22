"""When what is broken, from a seed: spells of one or two faults, with quiet ones between. Pure.

The same seed, duration and kinds give the same plan. What a fault chooses (a node, a delay) it draws from its own seed,
among what there is at that moment.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

ALONE: Final = frozenset({"damage", "disk-lying", "kill-all", "rolling"})
"""Nothing is promised when files of one node are damaged, or older, and others are down; two touch all nodes."""
FIRST_S: Final = 3.0
"""Before the first fault: there is something to lose by then."""
SPELL_S: Final = (2.0, 8.0)
QUIET_S: Final = (1.0, 6.0)
TWO_AT_ONCE: Final = 0.35


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault of a spell."""

    kind: str
    seed: int


@dataclass(frozen=True, slots=True)
class Spell:
    """From ``begin_s`` to ``end_s`` of the load, both in seconds, all of its faults are in force."""

    begin_s: float
    end_s: float
    faults: tuple[Planned, ...]


def plan(seed: int, duration_s: float, kinds: Sequence[str]) -> list[Spell]:
    """Spells that end before the load does. Every kind comes once before one comes again."""
    rng = random.Random(seed)
    spells: list[Spell] = []
    now_s = FIRST_S
    left: list[str] = []

    def draw() -> Planned:
        if not left:
            left.extend(rng.sample(kinds, len(kinds)))
        return Planned(left.pop(), rng.getrandbits(32))

    while kinds:
        now_s += rng.uniform(*QUIET_S) if spells else 0.0
        end_s = now_s + rng.uniform(*SPELL_S)
        if not spells:
            end_s = min(end_s, duration_s)  # a short round has one, at least
        if end_s > duration_s or end_s <= now_s:
            return spells
        faults = [draw()]
        if left and rng.random() < TWO_AT_ONCE and not ALONE & {faults[0].kind, left[-1]}:
            faults.append(draw())
        spells.append(Spell(now_s, end_s, tuple(faults)))
        now_s = end_s
    return spells
