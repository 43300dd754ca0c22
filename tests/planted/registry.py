"""One form for every suite of schedules and for every planted bug."""

from __future__ import annotations

import inspect
import math
import os
import re
import traceback
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


MISFITS: Final = re.compile(r"\b(?:TypeError|AttributeError|NameError|UnboundLocalError)\b")


class MisfitError(Exception):
    """A planted bug does something else than what it says."""


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
            sound = vars(owner)[name]
            is_property = isinstance(sound, property)
            called = sound.fget if is_property else getattr(sound, "__func__", sound)
            if not _takes_as_much(broken, called):
                raise MisfitError(f"{broken.__name__} does not take what {name} takes")
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
                    _check_fit(sabotage, violation)
                    return Catch(seed, schedules, cpu_s() - began, violation)
        return None

    def quick_catch(self, sabotage: Sabotage) -> Catch | None:
        """As :meth:`catch`, beginning with the seed that is known to notice. A change elsewhere may have moved the
        schedules: in a slow suite a few others are tried then."""
        known = known_seeds().get((self.name, sabotage.name))
        seeds = () if known is None else (known.seed,)
        return self.catch(sabotage, (*seeds, *range(min(self.bound, SLOW_TRIES) if self.is_slow else self.bound)))


def _takes_as_much(broken: Callable[..., Any], sound: Callable[..., Any]) -> bool:
    """Whoever calls the one can call the other."""
    ours, theirs = _Takes.of(broken), _Takes.of(sound)
    return (
        ours.least <= theirs.least
        and ours.most >= theirs.most
        and (ours.keywords is None or theirs.keywords is None or theirs.keywords <= ours.keywords)
    )


class _Takes(NamedTuple):
    """How many positional arguments a function takes, and which keyword-only ones; None: any."""

    least: int
    most: float
    keywords: frozenset[str] | None

    @classmethod
    def of(cls, function: Callable[..., Any]) -> _Takes:
        """By its signature."""
        parameters = inspect.signature(function).parameters.values()
        kinds = {each.kind for each in parameters}
        positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
        keywords = frozenset(each.name for each in parameters if each.kind is each.KEYWORD_ONLY)
        return cls(
            sum(each.default is each.empty for each in positional),
            math.inf if inspect.Parameter.VAR_POSITIONAL in kinds else len(positional),
            None if inspect.Parameter.VAR_KEYWORD in kinds else keywords,
        )


def _check_fit(sabotage: Sabotage, violation: BaseException) -> None:
    """A broken function that no longer fits into the code is noticed by anybody: it proves nothing.

    Its error may be wrapped in words.
    """
    text = "".join(traceback.format_exception(violation))
    if (found := MISFITS.search(text)) is not None:
        raise MisfitError(
            f"{sabotage.name} does not fit into the code any more: {text[found.start() :].splitlines()[0]}"
        )


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
