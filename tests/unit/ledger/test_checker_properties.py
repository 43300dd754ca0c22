"""Honest histories of chance are never flagged; one wrong thing in any of them always is."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_random import MUTATIONS, Mutation, Tale, honest

from minikafka.ledger.checker import check
from minikafka.ledger.rules import RULES

SEEDS = st.integers(0, 2**32)


def told(tale: Tale) -> str:
    return "\n".join(event.to_json() for event in tale.events())


@given(SEEDS)
def test_an_honest_history_is_never_flagged(seed: int) -> None:
    tale = honest(random.Random(seed))
    verdict = check(tale.events())
    assert verdict.outcome in ("kept", "nothing proved"), f"{verdict.examples} {verdict.not_judged}\n{told(tale)}"


@pytest.mark.parametrize("mutate", MUTATIONS, ids=[mutate.__name__ for mutate in MUTATIONS])
def test_one_wrong_thing_is_always_caught(mutate: Mutation) -> None:
    tried = 0
    for seed in range(300):
        rng = random.Random(f"{mutate.__name__} {seed}")
        tale = honest(rng)
        expected = mutate(tale, rng)
        if expected is None:
            continue
        tried += 1
        verdict = check(tale.events())
        assert not verdict.ok, f"seed {seed}, {expected}\n{told(tale)}"
        found = verdict.broken.keys() | {verdict.outcome}
        assert expected & found, f"seed {seed}: {expected}, but {verdict.broken}\n{told(tale)}"
    assert tried >= 30, "few histories offer it a place"


def test_mutations_break_every_rule() -> None:
    found: Counter[str] = Counter()
    for mutate in MUTATIONS:
        for seed in range(20):
            rng = random.Random(f"{mutate.__name__} {seed}")
            tale = honest(rng)
            if mutate(tale, rng):
                found.update(check(tale.events()).broken.keys())
    assert found.keys() == RULES.keys()
