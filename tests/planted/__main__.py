"""``python tests/planted [SUITE...]``: which suite notices which planted bug, and how soon. Exit 1 when one is missed.

``SEED=n`` begins with that seed instead of 0, ``JOBS=n`` uses that many processes.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table

from planted.found import suites
from planted.sweep import workers


class Verdict(NamedTuple):
    """What became of one sabotage; ``schedules`` is None when none of them noticed."""

    suite: str
    name: str
    schedules: int | None
    seconds: float
    violation: str


def main(names: list[str]) -> int:
    """Try every sabotage of the suites that are named, or of all."""
    found = suites()
    if unknown := set(names) - set(found):
        print(f"no such suite: {', '.join(sorted(unknown))}; there are {', '.join(found)}")
        return 2
    work = [(name, sabotage) for name in names or found for sabotage in found[name].sabotages]
    verdicts: dict[tuple[str, str], Verdict] = {}
    console = Console()
    began = time.monotonic()
    with (
        multiprocessing.get_context("spawn").Pool(min(workers(), len(work))) as pool,
        Live(_table(work, verdicts), console=console, refresh_per_second=2) as live,
    ):
        for verdict in pool.imap_unordered(_try, work):
            verdicts[verdict.suite, verdict.name] = verdict
            live.update(_table(work, verdicts))
    missed = [verdict for verdict in verdicts.values() if verdict.schedules is None]
    caught = f"{len(work) - len(missed)} of {len(work)} planted bugs caught"
    console.print(f"{caught} in {time.monotonic() - began:.0f} s", style="red" if missed else "green", highlight=False)
    for verdict in missed:
        console.print(f"missed: {verdict.name} within {found[verdict.suite].bound:,} of {verdict.suite}", style="red")
    return bool(missed)


def _try(work: tuple[str, str]) -> Verdict:
    suite = suites()[work[0]]
    first = int(os.environ.get("SEED", "0"))
    began = time.process_time()
    catch = suite.catch(suite.sabotages[work[1]], range(first, first + suite.bound))
    if catch is None:
        return Verdict(*work, None, time.process_time() - began, "")
    return Verdict(*work, catch.schedules, catch.seconds, _summary(catch.violation))


def _summary(violation: BaseException) -> str:
    lines = str(violation).splitlines() or [""]
    return lines[0] or type(violation).__name__


def _table(work: list[tuple[str, str]], verdicts: dict[tuple[str, str], Verdict]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column, justify in (("caught by", "left"), ("planted bug", "left"), ("schedules", "right"), ("s", "right")):
        table.add_column(column, justify=justify, no_wrap=column != "planted bug")  # type: ignore[arg-type]
    table.add_column("as", overflow="ellipsis", no_wrap=True, ratio=1)
    for suite, name in work:
        verdict = verdicts.get((suite, name))
        breaks = suites()[suite].sabotages[name].breaks
        if verdict is None:
            table.add_row(f"[dim]{suite}", f"[dim]{breaks}", "", "", "")
        elif verdict.schedules is None:
            table.add_row("[bold red]missed[/]", breaks, f"> {suites()[suite].bound:,}", f"{verdict.seconds:.1f}", "")
        else:
            table.add_row(suite, breaks, f"{verdict.schedules:,}", f"{verdict.seconds:.1f}", verdict.violation)
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
