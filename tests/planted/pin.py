"""Seeds that are known to notice a planted bug, looked for anew where a change elsewhere has moved the schedules.

In a suite whose schedules are quick the first seeds will do, and one is known only where they take a while. In a slow
one a bug without a known seed is left to ``make planted``. One whose best seed takes long is tried by ``make
test-long``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import as_completed
from typing import Final, NamedTuple

from planted.found import named, suite, suites
from planted.registry import KNOWN_SEEDS, Known, Suite, known_seeds
from planted.sweep import processes

WHILE_S: Final = 0.3  # of CPU, for all seeds up to the first that notices
SOON_S: Final = 2.5
"""Of CPU for a schedule; a seed that takes longer is taken only where there is none better."""
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
                known[name, bug] = Known(found.seed, found.seconds >= SOON_S)
                if before is None or found.seed != before.seed:
                    print(
                        f"{name}: {bug}: {before and before.seed} -> {found.seed}, which takes {found.seconds:.1f} s",
                        flush=True,
                    )
            elif before is not None:
                lost += 1
                print(
                    f"{name}: {bug}: {before.seed} notices nothing any more; none found in {LIMIT_S:.0f} s", flush=True
                )
    rows = (f"{name}: {bug} = {one.seed}{' long' * one.is_long}\n" for (name, bug), one in sorted(known.items()))
    KNOWN_SEEDS.write_text("".join(rows))
    return bool(lost)


def _look(name: str, bug: str) -> tuple[str, str, Found | None]:
    """The seed to be known of a bug. None: none is found, or none is needed."""
    one, before = suite(name), known_seeds().get((name, bug))
    if before is None and one.is_slow:
        return name, bug, None
    if before is not None:
        found = _first(one, bug, [before.seed])
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
    return name, bug, best if before is not None or took_s > WHILE_S else None


def _first(one: Suite, bug: str, seeds: Iterable[int]) -> Found | None:
    """The first that notices."""
    for seed in seeds:
        catch = one.catch(one.sabotages[bug], (seed,))
        if catch is not None:
            return Found(seed, catch.seconds)
    return None
