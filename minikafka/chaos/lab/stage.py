"""What a lab tells while it runs: its steps, its measured values, what was expected and whether it was seen.

A lab prints nothing. It talks to a stage, which hands each sentence to a narrator and keeps it for the outcome.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from minikafka.chaos.local_cluster import LocalCluster

T = TypeVar("T")

PATIENCE_S: Final = 60.0
_POLL_S: Final = 0.02

Value = int | float | str | bool


class NotSeenError(Exception):
    """What was expected did not come in time, so the rest of the lab makes no sense. The message says what it was."""


class Narrator(Protocol):
    """Whoever shows a lab to people."""

    def step(self, seconds: float, text: str) -> None:
        """Something was done or seen, so long after the lab began."""


@dataclass(frozen=True, slots=True)
class Step:
    """A sentence of the narration."""

    seconds: float
    text: str


@dataclass(frozen=True, slots=True)
class Expectation:
    """Something that the lab is there to show."""

    what: str
    seen: bool


@dataclass(slots=True)
class Outcome:
    """All that came of a lab."""

    lab: str
    steps: list[Step] = field(default_factory=list)
    measured: dict[str, Value] = field(default_factory=dict)
    expected: list[Expectation] = field(default_factory=list)
    happened: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def unseen(self) -> list[str]:
        """What was expected and not seen."""
        return [each.what for each in self.expected if not each.seen]

    @property
    def ok(self) -> bool:
        """All that was expected was seen."""
        return bool(self.expected) and not self.unseen


class Stage:
    """One run of one lab: its cluster, and what is told of it."""

    def __init__(
        self, lab: str, cluster: LocalCluster, narrator: Narrator, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.cluster = cluster
        self.outcome = Outcome(lab)
        self._narrator = narrator
        self._now = now
        self._began = now()

    @property
    def servers(self) -> str:
        """Bootstrap servers for clients."""
        return self.cluster.bootstrap_servers

    def seconds(self) -> float:
        """Since the lab began."""
        return self._now() - self._began

    def say(self, text: str) -> None:
        """Tell what was done, or what was seen."""
        step = Step(round(self.seconds(), 3), text)
        self.outcome.steps.append(step)
        self._narrator.step(step.seconds, text)

    def measure(self, **values: Value) -> None:
        """Keep measured values for the outcome."""
        self.outcome.measured |= {name: round(v, 3) if isinstance(v, float) else v for name, v in values.items()}

    def expect(self, what: str, seen: bool) -> None:
        """Note whether something was seen that the lab is there to show."""
        self.outcome.expected.append(Expectation(what, seen))
        if not seen:
            self.say(f"not seen: {what}")

    def wait(self, what: str, condition: Callable[[], T | None], timeout_s: float = PATIENCE_S) -> T:
        """The first true result of a condition that is asked again and again. NotSeenError: there was none in time."""
        deadline = self._now() + timeout_s
        while not (result := condition()):
            if self._now() >= deadline:
                raise NotSeenError(f"{what} (waited for {timeout_s:g} s)")
            time.sleep(_POLL_S)
        return result

    def happened(self, *sentences: str) -> None:
        """Tell the reason, with what was measured."""
        self.outcome.happened += sentences
