"""A planted bug that no schedule reaches any more is told from one that goes unnoticed."""

from __future__ import annotations

import pytest

from planted import registry, table
from planted.found import named
from planted.registry import SLOW_TRIES, Known, MisfitError, Suite


class Machine:
    """What is put to the test."""

    def used(self) -> int:
        return 1

    async def awaited(self) -> int:
        return 1

    def unused(self) -> int:
        return 1


def run(_seed: int) -> None:
    assert Machine().used() < 3
    with pytest.raises(StopIteration):
        Machine().awaited().send(None)


@pytest.mark.parametrize(("name", "tells"), [("used", ""), ("awaited", ""), ("unused", "it was never called")])
def test_a_bug_that_is_never_called_is_told(monkeypatch: pytest.MonkeyPatch, name: str, tells: str) -> None:
    suite = Suite("machine", "a machine", run, 3)

    async def harmless_coroutine(_machine: Machine) -> int:
        """Breaks nothing that is looked at."""
        return 2

    def harmless(_machine: Machine) -> int:
        """Breaks nothing that is looked at."""
        return 2

    broken = harmless_coroutine if name == "awaited" else harmless
    suite.replaces(Machine, name)(broken)
    monkeypatch.setattr(table, "suite", lambda _name: suite)
    verdict = table._try(("machine", broken.__name__))
    assert (verdict.schedules, verdict.violation) == (None, tells)


def test_a_bug_that_does_not_fit_into_the_code_any_more_is_told() -> None:
    """Five of 350 had been noticed by a TypeError of their own since the functions that they replace had changed."""

    def run_in_words(_seed: int) -> None:
        try:
            Machine().used()
        except Exception as error:
            raise AssertionError(f"unhandled {error!r}") from None

    suite = Suite("machine", "a machine", run_in_words, 3)

    def takes_too_little() -> int:
        """Had no arguments once."""
        return 2

    with pytest.raises(MisfitError, match="takes_too_little does not take what used takes"):
        suite.replaces(Machine, "used")(takes_too_little)

    @suite.plants()
    def is_planted_by_hand(patch: pytest.MonkeyPatch) -> None:
        """Nobody looks at what it takes."""
        patch.setattr(Machine, "used", takes_too_little)

    with pytest.raises(MisfitError, match=r"is_planted_by_hand does not fit .* 0 positional arguments but 1 was given"):
        suite.quick_catch(suite.sabotages["is_planted_by_hand"])


@pytest.mark.parametrize(("notices", "is_caught"), [(7, True), (SLOW_TRIES + 9, False)])
def test_a_slow_suite_tries_a_few_seeds_when_the_known_one_is_silent(
    monkeypatch: pytest.MonkeyPatch, notices: int, is_caught: bool
) -> None:
    tried: list[int] = []

    def run(seed: int) -> None:
        tried.append(seed)
        assert Machine().used() == 1 or seed != notices

    suite = Suite("machine", "a machine", run, 100, is_slow=True)

    @suite.replaces(Machine, "used")
    def broken(_machine: Machine) -> int:
        """Is seen with one seed."""
        return 2

    monkeypatch.setattr(registry, "known_seeds", lambda: {("machine", "broken"): Known(40, False)})
    assert (suite.quick_catch(suite.sabotages["broken"]) is not None) == is_caught
    assert tried == [40, *range(8 if is_caught else SLOW_TRIES)]


def test_suites_are_named_in_one_line_whether_their_names_have_one_word_or_more() -> None:
    assert [one.name for one in named(["consumer groups", "raft"])] == ["consumer groups", "raft"]
    assert [one.name for one in named(["raft", "local", "replica", "groups"])] == ["raft", "local replica", "groups"]
    with pytest.raises(KeyError, match="nonsense"):
        named(["raft", "nonsense"])
