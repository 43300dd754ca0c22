"""The plan of a round: the same for the same seed, within its time, and fair to all kinds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from minikafka.broker.faults.switchboard import _parsed
from minikafka.chaos.layout import ClusterLayout
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.rounds.kinds import KINDS, RULED, drawn
from minikafka.chaos.rounds.plan import ALONE, FIRST_S, QUIET_S, SPELL_S, plan
from minikafka.chaos.rounds.round import NEW
from minikafka.chaos.rounds.trial import LOADS, TARGETS
from minikafka.cli import chaos_run


@pytest.mark.parametrize("seed", range(50))
def test_spells_follow_each_other_with_quiet_between_and_end_in_time(seed: int) -> None:
    spells = plan(seed, 120, tuple(KINDS))
    assert spells == plan(seed, 120, tuple(KINDS))
    assert spells[0].begin_s >= FIRST_S
    assert spells[-1].end_s <= 120
    for before, after in pairwise(spells):
        assert QUIET_S[0] <= after.begin_s - before.end_s <= QUIET_S[1]
    for spell in spells:
        assert SPELL_S[0] <= spell.end_s - spell.begin_s <= SPELL_S[1]
        kinds = [fault.kind for fault in spell.faults]
        assert len(kinds) == 1 or not ALONE & {*kinds}


def test_another_seed_is_another_plan() -> None:
    assert plan(1, 60, ("kill", "pause")) != plan(2, 60, ("kill", "pause"))


def test_every_kind_comes_once_before_one_comes_again() -> None:
    faults = [fault.kind for spell in plan(3, 2_000, tuple(KINDS)) for fault in spell.faults]
    for turn in range(len(faults) // len(KINDS)):
        assert Counter(faults[turn * len(KINDS) : (turn + 1) * len(KINDS)]) == Counter(KINDS.keys())
    assert any(len(spell.faults) == 2 for spell in plan(3, 2_000, tuple(KINDS)))


def test_nothing_is_planned_of_nothing() -> None:
    assert plan(1, 60, ()) == []
    assert plan(1, FIRST_S, ("kill",)) == []


@pytest.mark.parametrize("seed", range(20))
def test_a_short_round_has_a_spell(seed: int) -> None:
    (spell,) = plan(seed, 5, ("kill",))
    assert (spell.begin_s, spell.end_s <= 5) == (FIRST_S, True)


def test_the_help_names_every_load_and_target() -> None:
    assert tuple(LOADS) == chaos_run.LOADS
    assert tuple(NEW) == chaos_run.TARGETS == TARGETS


def test_each_load_meets_a_rule_for_requests() -> None:
    """One of eight was of groups and transactions only, and did nothing to a load without."""
    for seed in range(100):
        rules = drawn(random.Random(seed))
        assert {api for api, _ in rules} & {"Produce", "Fetch"}
        assert len({id(rule) for rule in rules}) == 3


def test_a_node_takes_each_rule_for_requests() -> None:
    """And groups of either protocol have rules for their heartbeats: those of the newer one had none."""
    told: list[dict[str, Any]] = []

    class Told(LocalCluster):
        def _break(self, nodes: Iterable[int], body: dict[str, Any]) -> dict[int, dict[str, Any]]:
            told.append(body)
            return {}

    cluster = Told(ClusterLayout(Path("c"), "id", 9092, [1], {}))
    for api, rule in RULED:
        cluster.rule(api, **rule)
    names = {_parsed(body).api.camel_name for body in told}
    assert {"Heartbeat", "ConsumerGroupHeartbeat"} <= names == {api for api, _ in RULED}
