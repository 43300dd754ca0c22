"""Figures, what they must reach, and how they are shown."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {"<": operator.lt, ">=": operator.ge, "=": operator.eq}


class Target(NamedTuple):
    """What a figure must reach: ``Target("<", 2.0)``."""

    comparison: str
    limit: float

    def __str__(self) -> str:
        return f"{self.comparison} {self.limit:.3g}"


class Compared(NamedTuple):
    """Two medians, of which a figure is the ratio or the first; ``theirs`` is None where only ours was measured."""

    ours: float
    theirs: float | None
    unit: str


@dataclass(frozen=True, slots=True)
class Figure:
    """One number. Without a target it is information."""

    name: str
    value: float
    unit: str = ""
    target: Target | None = None
    note: str = ""
    compared: Compared | None = None

    @property
    def is_met(self) -> bool | None:
        """Whether the target is reached, or None without one."""
        return None if self.target is None else _COMPARISONS[self.target.comparison](self.value, self.target.limit)

    def as_dict(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "target": self.target and str(self.target),
            "met": self.is_met,
            "note": self.note,
            "compared": self.compared and self.compared._asdict(),
        }


@dataclass(frozen=True, slots=True)
class Run:
    """How the benchmarks are to run: `quick` repeats less, for trying them out."""

    console: Console
    quick: bool = False

    def say(self, text: str) -> None:
        """A line of progress."""
        self.console.print(f"  [dim]{text}[/]", highlight=False)

    def times(self, wanted: int) -> int:
        """How often to repeat what should be repeated that often."""
        return max(2, wanted // 5) if self.quick else wanted


def percentile(values: Iterable[float], share: float) -> float:
    """The nearest-rank percentile: of 20 values the 99th is the largest."""
    ordered = sorted(values)
    rank = -(-len(ordered) * share // 1)
    return ordered[max(0, int(rank) - 1)]


def show(console: Console, title: str, figures: Sequence[Figure]) -> None:
    """Print one table."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for name, justify in (("figure", "left"), ("measured", "right"), ("target", "right"), ("", "left"), ("", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]  # rich wants literals
    for figure in figures:
        verdict = {None: "", True: "[green]met[/]", False: "[bold red]missed[/]"}[figure.is_met]
        target = f"{figure.target} {figure.unit}" if figure.target else ""
        table.add_row(figure.name, f"{number(figure.value)} {figure.unit}", target, verdict, figure.note)
    console.print(table, highlight=False)


def number(value: float) -> str:
    """Three significant digits, or all of a large number."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
