"""The command that a report names plans the same round again."""

from __future__ import annotations

import shlex

import pytest

from minikafka.chaos.rounds.kinds import KINDS
from minikafka.chaos.rounds.plan import plan
from minikafka.chaos.rounds.trial import Options


@pytest.mark.parametrize("kinds", [tuple(KINDS), tuple(reversed(KINDS)), ("kill", "pause")])
def test_the_command_of_a_round_plans_it_again(kinds: tuple[str, ...]) -> None:
    """It left out all kinds in another order, which plan something else, and the seventh digit of the duration."""
    words = shlex.split(Options(5, 60.123456, kinds).command)
    given = dict(zip(words[3::2], words[4::2], strict=True))
    again = tuple(given["--faults"].split(",")) if "--faults" in given else tuple(KINDS)
    assert plan(int(given["--seed"]), float(given["--duration"]), again) == plan(5, 60.123456, kinds)
    assert float(given["--duration"]) == 60.123456


def test_servers_with_a_space_are_one_word() -> None:
    assert "a:1, b:2" in shlex.split(Options(5, servers="a:1, b:2").command)


def test_the_seed_of_a_round_on_another_cluster_is_in_its_command() -> None:
    """The load draws from it, say the protocol of its group."""
    words = shlex.split(Options(5, load="group", servers="a:1").command)
    assert words[words.index("--seed") + 1] == "5"
