"""One form for every suite of schedules and for every planted bug."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, wraps
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

from pytest import MonkeyPatch  # noqa: PT013

KNOWN_SEEDS: Final = Path(__file__).parent / "known_seeds.txt"
SLOW_TRIES: Final = 16

F = TypeVar("F", bound=Callable[..., Any])

# What published systems got wrong, each of which some sabotage must do.
LISTED: Final = (
    "truncate to the high watermark",
    "skip OffsetForLeaderEpoch",
    "unfenced fetch",
    "eager ISR expand",
    "vote not persisted",
    "reply before persist",
    "high watermark from the committed ISR only",
    "stale ISR proposal accepted",
    "epoch cache lost on restart",
    "ack before ISR",
    "sequence state lost on failover",
    "two owners of one group member",
)


@dataclass(frozen=True, slots=True)
class Sabotage:
    """One decision of the code, broken in a way that is easy to get wrong."""

    name: str
    breaks: str  # what is wrong with it, in a sentence
    plant: Callable[[MonkeyPatch], None]
    listed: str | None = None  # which of LISTED it is
    is_noted: bool = False  # when it is called


class Known(NamedTuple):
    """A seed that notices a bug, and whether its schedule takes long: then it is left to ``make test-long``."""

    seed: int
    is_long: bool


class Catch(NamedTuple):
    """A violation, and how long it took to see it."""

    seed: int
    schedules: int
    seconds: float  # of CPU
    violation: BaseException


@dataclass
class Suite:
    """Schedules, each made of a seed, that must not violate what the suite checks whatever the seed is."""

    name: str
    what: str  # is put to the test
    run: Callable[[int], object]  # one schedule; raises one of ``violations``
    bound: int  # schedules within which each sabotage must be noticed
    violations: tuple[type[BaseException], ...] = (AssertionError,)
    trace: Callable[[int], str] | None = None  # every step of a schedule, to be read
    is_slow: bool = False  # with every test run only the sabotages are tried that a known seed notices
    sabotages: dict[str, Sabotage] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)
    """Broken functions that some schedule has called, by name. One that none calls is no bug any more."""

    def plants(self, *, listed: str | None = None) -> Callable[[F], F]:
        """Register a function that plants a bug with pytest's ``MonkeyPatch``; its docstring says what that breaks."""

        def register(plant: F) -> F:
            self._add(plant, plant, listed)
            return plant

        return register

    def replaces(self, owner: Any, name: str, *, listed: str | None = None) -> Callable[[F], F]:
        """Register a function as the broken form of ``owner.name``; its docstring says what that breaks."""

        def register(broken: F) -> F:
            is_property = isinstance(vars(owner)[name], property)
            noting = self._noting(broken)
            value = property(noting) if is_property else noting
            self._add(broken, lambda patch: patch.setattr(owner, name, value), listed, is_noted=True)
            return broken

        return register

    def _noting(self, broken: F) -> F:
        @wraps(broken)
        def noting(*args: Any, **kwargs: Any) -> Any:
            self.called.add(broken.__name__)
            return broken(*args, **kwargs)

        @wraps(broken)
        async def noting_coroutine(*args: Any, **kwargs: Any) -> Any:
            return await noting(*args, **kwargs)

        return cast(F, noting_coroutine if iscoroutinefunction(broken) else noting)

    def _add(
        self,
        broken: Callable[..., Any],
        plant: Callable[[MonkeyPatch], None],
        listed: str | None,
        *,
        is_noted: bool = False,
    ) -> None:
        name = broken.__name__
        assert name not in self.sabotages
        assert listed is None or listed in LISTED
        breaks = " ".join((broken.__doc__ or "").split())
        assert breaks, f"{name} does not say what it breaks"
        self.sabotages[name] = Sabotage(name, breaks, plant, listed, is_noted)

    def quick_sabotages(self) -> list[Sabotage]:
        """Those that are tried with every test run."""
        return [each for each in self.sabotages.values() if not self.is_slow or (self.name, each.name) in known_seeds()]

    def violation(self, seed: int) -> BaseException | None:
        """Run one schedule; what it violated, or None."""
        try:
            self.run(seed)
        except self.violations as violation:
            return violation
        return None

    def catch(self, sabotage: Sabotage, seeds: Iterable[int]) -> Catch | None:
        """The first of ``seeds`` whose schedule notices ``sabotage``; None when none does."""
        began = cpu_s()
        with MonkeyPatch.context() as patch:
            sabotage.plant(patch)
            for schedules, seed in enumerate(seeds, 1):
                violation = self.violation(seed)
                if violation is not None:
                    return Catch(seed, schedules, cpu_s() - began, violation)
        return None

    def quick_catch(self, sabotage: Sabotage) -> Catch | None:
        """As :meth:`catch`, beginning with the seed that is known to notice. A change elsewhere may have moved the
        schedules: in a slow suite a few others are tried then."""
        known = known_seeds().get((self.name, sabotage.name))
        seeds = () if known is None else (known.seed,)
        return self.catch(sabotage, (*seeds, *range(min(self.bound, SLOW_TRIES) if self.is_slow else self.bound)))


def cpu_s() -> float:
    """CPU time of this process and of those that it waited for."""
    return sum(os.times()[:4])


@cache
def known_seeds() -> dict[tuple[str, str], Known]:
    """By suite and bug, a seed that notices a well-hidden one; ``make planted PIN=1`` writes them."""
    rows = (re.fullmatch(r"(.+): (\w+) = (\d+)( long)?", row) for row in KNOWN_SEEDS.read_text().splitlines())
    return {(row[1], row[2]): Known(int(row[3]), row[4] is not None) for row in rows if row}


def wanted_seeds(count: int) -> range:
    """``SCHEDULES=n`` in the environment asks for n schedules, ``SEED=n`` for those from n on (alone: for that one)."""
    first = os.environ.get("SEED")
    default = count if first is None else 1
    return range(int(first or 0), int(first or 0) + int(os.environ.get("SCHEDULES", default)))
