"""The suites notice every planted bug. Here the well-hidden ones are tried with a seed that is known to notice
(``known_seeds.txt``); ``make planted`` counts from the first seed on."""

from __future__ import annotations

import pytest

from planted.found import suites
from planted.registry import LISTED, Sabotage, Suite, known_seeds

LONG = {bug for bug, known in known_seeds().items() if known.is_long}
SABOTAGES = [
    pytest.param(
        suite,
        sabotage,
        id=f"{suite.name}-{sabotage.name}".replace(" ", "-"),
        marks=[pytest.mark.long] if (suite.name, sabotage.name) in LONG else [],
    )
    for suite in suites().values()
    for sabotage in suite.quick_sabotages()
]


@pytest.mark.spec("P1")
@pytest.mark.parametrize(("suite", "sabotage"), SABOTAGES)
def test_the_schedules_notice(suite: Suite, sabotage: Sabotage) -> None:
    advice = "a change elsewhere may have moved the schedules: make planted PIN=1 looks for another seed"
    assert suite.quick_catch(sabotage), f"{suite.name} did not notice {sabotage.name}: {sabotage.breaks}; {advice}"


@pytest.mark.parametrize("suite", suites().values(), ids=lambda suite: suite.name.replace(" ", "-"))
def test_a_bug_is_gone_when_it_was_looked_for(suite: Suite) -> None:
    """A slow suite is whole clusters, which ``tests/sim`` runs without a bug."""
    for sabotage in suite.sabotages.values():
        suite.catch(sabotage, ())
    assert suite.is_slow or suite.violation(0) is None


def test_there_are_enough() -> None:
    assert len(SABOTAGES) >= 40


def test_everything_listed_is_planted() -> None:
    planted = {sabotage.listed for suite in suites().values() for sabotage in suite.sabotages.values()}
    assert not set(LISTED) - planted
