"""Random schedules keep every invariant. ``SCHEDULES=100000`` in the environment runs more."""

from __future__ import annotations

import os

import pytest
from raft_schedules import Schedule, Stability, run_schedules

from minikafka.raft.quorum import LEGAL_TRANSITIONS, QuorumState

SCHEDULES = int(os.environ.get("SCHEDULES", "3000"))
FIRST_SEED = int(os.environ.get("FIRST_SEED", "0"))
STEPS = 400


@pytest.mark.spec("C1")
@pytest.mark.spec("P1")
def test_random_schedules_keep_the_invariants() -> None:
    run_schedules(FIRST_SEED, SCHEDULES, STEPS)


def test_a_node_that_comes_and_goes_disturbs_nobody() -> None:
    for seed in range(max(30, SCHEDULES // 50)):
        Stability(seed).run(rounds=6)


def test_a_schedule_repeats_itself_exactly() -> None:
    def trace(seed: int) -> list[str]:
        schedule = Schedule(seed)
        steps: list[str] = []
        schedule.on_done = lambda node, effect: steps.append(f"{node.node_id} {effect}")  # type: ignore[method-assign]
        schedule.run(STEPS)
        return steps

    assert trace(7) == trace(7)


def test_schedules_make_every_legal_transition(monkeypatch: pytest.MonkeyPatch) -> None:
    made: set[tuple[type, type]] = set()
    switch = QuorumState._announce

    def noted(quorum: QuorumState) -> None:
        made.add((noted.before, type(quorum.role)))  # type: ignore[attr-defined]
        switch(quorum)

    role_after = QuorumState._role_after

    def remembered(quorum: QuorumState, *arguments: object) -> object:
        noted.before = type(quorum.role)  # type: ignore[attr-defined]
        return role_after(quorum, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(QuorumState, "_announce", noted)
    monkeypatch.setattr(QuorumState, "_role_after", remembered)
    legal = {(source, target) for source, targets in LEGAL_TRANSITIONS.items() for target in targets}
    for seed in range(2000):
        Schedule(seed).run(STEPS)
        if made >= legal:
            break
    assert made == legal
