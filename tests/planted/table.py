"""Which suite notices which planted bug, and how soon."""

from __future__ import annotations

import os
import time
from concurrent.futures import as_completed
from dataclasses import replace
from textwrap import shorten
from typing import Final, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table

from planted.apart import apart
from planted.found import named, suite, suites
from planted.registry import Suite, cpu_s
from planted.sweep import processes

SUMMARY_LENGTH: Final = 160


class Verdict(NamedTuple):
    """What became of one sabotage; ``schedules`` is None when none of them noticed."""

    suite: str
    name: str
    schedules: int | None
    seconds: float
    violation: str


def show_table(words: list[str]) -> int:
    """Try every sabotage of the suites that are named, or of all; 1 when one is missed."""
    try:
        found = {one.name: one for one in named(words)} or suites()
    except KeyError as unknown:
        print(f"no suite is named {unknown}; there are {', '.join(suites())}")
        return 2
    work = [(one.name, sabotage) for one in found.values() for sabotage in one.sabotages]
    verdicts: dict[tuple[str, str], Verdict] = {}
    console = Console()
    console.width = max(150, console.width) if console.is_terminal else 1000  # in a file, a row is a line
    began = time.monotonic()
    with (
        processes() as pool,
        Live(_table(found, work, verdicts), console=console, refresh_per_second=2, transient=True) as live,
    ):
        for future in as_completed([pool.submit(_try, one) for one in work]):
            verdict = future.result()
            verdicts[verdict.suite, verdict.name] = verdict
            live.update(_table(found, work, verdicts))
            if not console.is_terminal:  # an hour's work shows progress in a file, too
                seen = "missed" if verdict.schedules is None else f"caught by schedule {verdict.schedules:,}"
                console.print(
                    f"{len(verdicts)} of {len(work)}: {verdict.suite}: {verdict.name}: {seen}", highlight=False
                )
    console.print(_table(found, work, verdicts))
    missed = [verdict for verdict in verdicts.values() if verdict.schedules is None]
    caught = f"{len(work) - len(missed)} of {len(work)} planted bugs caught"
    console.print(f"{caught} in {time.monotonic() - began:.0f} s", style="red" if missed else "green", highlight=False)
    for verdict in missed:
        console.print(f"missed: {verdict.name} within {found[verdict.suite].bound:,} of {verdict.suite}", style="red")
    return bool(missed)


def _try(work: tuple[str, str]) -> Verdict:
    tried = suite(work[0])
    if tried.is_slow:
        tried = replace(tried, run=apart(tried.run, tried.violations, tried.called))
    first = int(os.environ.get("SEED", "0"))
    began = cpu_s()
    try:
        catch = tried.catch(tried.sabotages[work[1]], range(first, first + tried.bound))
    except AttributeError as error:  # what it breaks has another name now
        return Verdict(*work, None, 0.0, f"cannot be planted: {error}")
    if catch is None:
        is_dead = tried.sabotages[work[1]].is_noted and work[1] not in tried.called
        return Verdict(*work, None, cpu_s() - began, "it was never called" if is_dead else "")
    return Verdict(*work, catch.schedules, catch.seconds, _summary(catch.violation))


def _summary(violation: BaseException) -> str:
    lines = str(violation).splitlines() or [""]
    return shorten(lines[0] or type(violation).__name__, SUMMARY_LENGTH, placeholder=" ...")


def _table(found: dict[str, Suite], work: list[tuple[str, str]], verdicts: dict[tuple[str, str], Verdict]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column, justify in (("caught by", "left"), ("planted bug", "left"), ("schedules", "right"), ("s", "right")):
        table.add_column(column, justify=justify, no_wrap=column != "planted bug")  # type: ignore[arg-type]
    table.add_column("as", overflow="ellipsis", no_wrap=True, ratio=1)
    for of, name in work:
        verdict = verdicts.get((of, name))
        breaks = found[of].sabotages[name].breaks
        if verdict is None:
            table.add_row(f"[dim]{of}", f"[dim]{breaks}", "", "", "")
            continue
        schedules = f"{verdict.schedules:,}" if verdict.schedules is not None else f"> {found[of].bound:,}"
        caught_by = of if verdict.schedules is not None else f"[bold red]not {of}[/]"
        table.add_row(caught_by, breaks, schedules, f"{verdict.seconds:.1f}", verdict.violation)
    return table
