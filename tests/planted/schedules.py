"""``python tests/planted/schedules.py N [SUITE...]``: sweep over N schedules. Exit 1 when one violates an invariant.

The schedules are divided among the suites, by default all that are quick. ``SEED=n`` begins with that seed instead
of 0; with N = 1 it prints the trace of that one. ``JOBS=n`` uses that many processes.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console

from planted.found import SWEPT, named, suite, suites
from planted.sweep import Sweep, sweep


def main(arguments: list[str]) -> int:
    """Sweep, and say what was found."""
    count = int(arguments[0]) if arguments else 10_000
    try:
        names = [one.name for one in named(arguments[1:])] or list(SWEPT)
    except KeyError as unknown:
        print(f"no suite is named {unknown}; there are {', '.join(suites())}")
        return 2
    first = int(os.environ.get("SEED", "0"))
    if count == 1:
        return _show(names[0], first)
    results = [_sweep(name, range(first, first + count // len(names))) for name in names]
    total = sum(result.schedules for result in results)
    violations = sum(len(result.violations) for result in results)
    print(f"{total:,} schedules, {violations} violations")
    return bool(violations)


def _show(name: str, seed: int) -> int:
    wanted = suite(name)
    if wanted.trace is not None:
        print(wanted.trace(seed))
    violation = wanted.violation(seed)
    print(f"{name}, seed {seed}: {violation or 'no violation'}")
    return violation is not None


def _sweep(name: str, seeds: range) -> Sweep:
    console = Console(stderr=True)
    began = time.monotonic()
    result = Sweep(name)
    with console.status(name) as status:

        def show(so_far: Sweep) -> None:
            share = so_far.schedules / len(seeds)
            status.update(f"{name}: {so_far.schedules:,} ({share:.0%}), {len(so_far.violations)} violations")

        try:
            sweep(result, seeds, show)
        except KeyboardInterrupt:
            print("interrupted; so far:")
    print(
        f"{name}: {result.schedules:,} schedules from seed {seeds.start} in {time.monotonic() - began:.0f} s, "
        f"{result.rate:,.0f} per CPU second: {len(result.violations)} violations",
        flush=True,
    )
    for seed, what in result.violations:
        print(f"  seed {seed}: {what}   (make schedules N=1 SEED={seed} SUITE='{name}')")
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
