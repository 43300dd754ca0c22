"""Seeds that are known to notice a planted bug, looked for anew where a change elsewhere has moved the schedules.

In a suite whose schedules are quick the first seeds will do, and one is known only where they take long. In a slow one
a bug without a known seed is left to ``make planted``; so is one whose seeds take more than some 4 s.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import as_completed
from typing import Final, NamedTuple

from planted.found import named, suite, suites
from planted.registry import KNOWN_SEEDS, Suite, known_seeds
from planted.sweep import processes

SOON_S: Final = 2.5
"""Of CPU for a schedule; a seed that takes longer is known only where there is none better."""
LIMIT_S: Final = 100.0
PORTION: Final = 4


class Found(NamedTuple):
    """A seed, and the CPU time of its schedule."""

    seed: int
    seconds: float


def pin(words: list[str]) -> int:
    """Look through the suites that are named, or all; 1 when a bug had a seed, and none was found any more."""
    known, lost = dict(known_seeds()), 0
    wanted = {one.name: one for one in named(words)} or suites()
    work = [(one.name, bug) for one in wanted.values() for bug in one.sabotages]
    with processes() as pool:
        for future in as_completed([pool.submit(_look, *one) for one in work]):
            name, bug, found = future.result()
            before = known.pop((name, bug), None)
            if found is not None:
                known[name, bug] = found.seed
                if found.seed != before:
                    print(f"{name}: {bug}: {before} -> {found.seed}, which takes {found.seconds:.1f} s", flush=True)
            elif before is not None:
                lost += 1
                print(f"{name}: {bug}: {before} notices nothing any more; none found in {LIMIT_S:.0f} s", flush=True)
    KNOWN_SEEDS.write_text("".join(f"{name}: {bug} = {seed}\n" for (name, bug), seed in sorted(known.items())))
    return bool(lost)


def _look(name: str, bug: str) -> tuple[str, str, Found | None]:
    """The seed to be known of a bug. None: none is found, or none is needed."""
    one, before = suite(name), known_seeds().get((name, bug))
    if before is None and one.is_slow:
        return name, bug, None
    if before is not None:
        found = _first(one, bug, [before])
        if found is not None and found.seconds < SOON_S:
            return name, bug, found
    began = time.process_time()
    best: Found | None = None
    seed = 0
    while time.process_time() - began < LIMIT_S and (best is None or best.seconds >= SOON_S):
        found = _first(one, bug, range(seed, seed + PORTION))
        if found is not None and (best is None or found.seconds < best.seconds):
            best = found
        seed = seed + PORTION if found is None else found.seed + 1
    took_s = time.process_time() - began
    return name, bug, best if before is not None or took_s > SOON_S else None


def _first(one: Suite, bug: str, seeds: Iterable[int]) -> Found | None:
    """The first that notices."""
    for seed in seeds:
        catch = one.catch(one.sabotages[bug], (seed,))
        if catch is not None:
            return Found(seed, catch.seconds)
    return None
