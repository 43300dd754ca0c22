"""What a node holds does not grow with what is repeated, once what time-outs keep has gone.

``make cycles`` repeats more often, each kind of operation by itself, too, and kills nodes.
"""

from __future__ import annotations

import gc
import os
import time
from collections import deque
from typing import Any, Final

import cycles_held
import pytest
from cycles_ground import Ground
from cycles_held import GARBAGE, Held, grown, held
from cycles_kinds import KINDS, restarts

CYCLES: Final = int(os.environ.get("CYCLES", "12"))
WARM_S: Final = 2.0
SETTLED_S: Final = 8.0
"""What time-outs keep has mostly gone by then; if not, there is another round."""
ROUNDS: Final = 3
_numbers = iter(range(10**9))


def test_nothing_grows_with_what_is_repeated(ground: Ground) -> None:
    _check(ground, list(KINDS), CYCLES)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_grows_with_one_kind(ground: Ground, kind: str) -> None:
    _check(ground, [kind], CYCLES)


@pytest.mark.long
def test_nothing_grows_with_restarts(ground: Ground) -> None:
    """Leader epochs stay with the records that were written in them, and a node that ended is garbage as a whole."""
    _check(ground, ["restarts"], CYCLES, "LeaderEpochCache._epochs", "LeaderEpochCache._starts", GARBAGE)


def _check(ground: Ground, kinds: list[str], cycles: int, *but: str) -> None:
    """What has grown once may have been about to go, or an election: what leaks grows in each round."""
    _repeat(ground, kinds, cycles)
    time.sleep(WARM_S)
    suspects: set[str] | None = None
    for _ in range(ROUNDS):
        before = held(ground.directories)
        _repeat(ground, kinds, cycles)
        more = _growth(ground, before, cycles)
        suspects = {name for name in more if not name.startswith(but) and (suspects is None or name in suspects)}
        if not suspects:
            return
    raise AssertionError(f"{cycles} more cycles, and there are more: { {name: more[name] for name in suspects or ()} }")


def _growth(ground: Ground, before: Held, cycles: int) -> dict[str, int]:
    """What there is more of at each look, until there is nothing."""
    deadline = time.monotonic() + SETTLED_S
    more = grown(before, held(ground.directories), cycles)
    while more and time.monotonic() < deadline:
        time.sleep(0.5)
        now = grown(before, held(ground.directories), cycles)
        more = {name: count for name, count in now.items() if name in more}
    return more


def _repeat(ground: Ground, kinds: list[str], cycles: int) -> None:
    for number in [next(_numbers) for _ in range(cycles)]:
        for kind in kinds:
            (KINDS | {"restarts": restarts})[kind](ground, number)
    ground.hang_up()


class Keeper:
    """Has kept what it was told."""

    def __init__(self) -> None:
        self.names: dict[str, deque[Any]] = {}


def test_what_is_kept_in_containers_and_texts_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycles_held, "PACKAGE", __name__.partition(".")[0])
    keeper = Keeper()
    before = held()
    for number in range(10):
        keeper.names[str(number)] = deque(["x" * 200])
    assert grown(before, held(), 10)[f"{Keeper.__qualname__}.names"] == 10 + 10 + 30


class Part:
    """Refers to what it is part of."""

    def __init__(self, whole: object) -> None:
        self._whole = whole


class Whole:
    """Refers to its part."""

    def __init__(self) -> None:
        self.part = Part(self)


def test_what_only_the_garbage_collector_frees_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycles_held, "PACKAGE", __name__.partition(".")[0])
    before = held()
    gc.disable()
    try:
        for _ in range(10):
            Whole()
        more = grown(before, held(), 10)
    finally:
        gc.enable()
    assert more[f"{GARBAGE} {__name__}.{Whole.__qualname__}"] == 10
