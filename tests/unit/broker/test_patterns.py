"""Regular expressions of clients."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from minikafka.broker import patterns as patterns_module
from minikafka.broker.patterns import INSTRUCTIONS_MAX, Patterns, compiled
from minikafka.errors import ErrorCode, KafkaError


class Thread:
    """Counts what it is to run."""

    def __init__(self) -> None:
        self.portions = 0

    async def __call__(self, act: Callable[[], Any]) -> Any:
        self.portions += 1
        return act()


async def select(pattern: str, *names: str, thread: Thread | None = None, portion_s: float = 0.0) -> list[str]:
    """``portion_s``: what each portion takes."""
    clock = itertools.count()
    return await Patterns(thread or Thread(), lambda: next(clock) * portion_s).matching(pattern, names, str)


async def test_a_whole_name_matches() -> None:
    assert await select("a.*", "a", "ab", "ba") == ["a", "ab"]
    assert await select("a|b", "a", "ab", "b") == ["a", "b"]
    assert await select("(?i)Ä+", "ää", "a") == ["ää"]
    assert await select(r"\p{Greek}{2}.", "αβé", "ab") == ["αβé"]
    assert await select("a.b", "a\nb", "a b") == ["a b"]
    assert await select("a.*") == []


@pytest.mark.parametrize(
    "pattern",
    ["(", "a{2,1}", r"(a)\1", "(?=a)", "a{1001}", "x" * 1_025, r"\pL" * 65, "(.*){900}", r"[\pL]{60}", "\ud800"],
)
async def test_what_is_wrong_or_too_large_is_refused(pattern: str) -> None:
    with pytest.raises(KafkaError, match="the regular expression cannot be used") as caught:
        await select(pattern, "a")
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(("pattern", "why"), [("(a", "missing ): (a"), (r"\é", r"invalid escape sequence: \é")])
def test_the_reason_is_told_in_words(pattern: str, why: str) -> None:
    with pytest.raises(KafkaError) as caught:
        compiled(pattern)
    assert caught.value.message == f"the regular expression cannot be used: {why}"


async def test_work_is_done_in_portions_and_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """An expression whose match by trial and error would outlast the universe."""
    pattern = "(x+x+)+y"
    assert compiled(pattern).programsize < 20 < INSTRUCTIONS_MAX
    monkeypatch.setattr(patterns_module, "WORK_AT_ONCE", 50_000)
    thread = Thread()
    assert await select(pattern, "x" * 32_000, "xxy", "x" * 32_000, thread=thread) == ["xxy"]
    assert thread.portions == 2
    names = ["x" * 32_000] * 10
    assert await select(pattern, *names, portion_s=0.5) == []
    with pytest.raises(KafkaError, match="takes longer than 5 s"):
        await select(pattern, *names, portion_s=0.6)


async def test_what_others_take_is_not_counted() -> None:
    """Else whoever has many slow expressions leaves the groups of others without topics."""
    now_s = 0.0

    async def busy(act: Callable[[], Any]) -> Any:
        nonlocal now_s
        now_s += 1000.0
        return act()

    assert await Patterns(busy, lambda: now_s).matching("a.*", ["ab", "b"], str) == ["ab"]
