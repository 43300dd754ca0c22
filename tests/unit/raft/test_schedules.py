"""Random schedules keep every invariant. ``SCHEDULES=n`` in the environment runs as many, ``SEED=n`` the one."""

from __future__ import annotations

import pytest
from planted.registry import wanted_seeds
from planted.sweep import PIECE, Sweep, sweep
from raft_schedules import run_schedule, trace_of
from raft_simulation import Simulation

from minikafka.raft.quorum import LEGAL_TRANSITIONS, QuorumState

RARE = (97, 933, 1075)  # where one that resigned, follows, or leads learns of the next leader by its epoch


@pytest.mark.spec("C1")
@pytest.mark.spec("P1")
def test_random_schedules_keep_the_invariants() -> None:
    result = sweep(Sweep("raft"), wanted_seeds(PIECE))
    assert not result.violations, result


@pytest.mark.parametrize("seed", [26959, 38464])
def test_links_that_were_cut_are_no_disruption_on_slow_disks(seed: int) -> None:
    """Followers that heard nothing for long asked for votes a moment after the links were whole, as they must."""
    run_schedule(seed)


def test_a_write_that_the_end_of_another_begins_ends_too() -> None:
    """The flush of an observer's log begins the write of its election state, on which all that it does next waits."""
    run_schedule(13408)


@pytest.mark.parametrize("sync_ms", [0, 30])
def test_a_flush_that_makes_a_log_whole_has_that_written(sync_ms: int) -> None:
    """A single voter and its observer, neither of which has a deadline then: no other event comes to the rescue."""
    simulation = Simulation(voters=1, observers=1)
    observer = simulation.nodes[2]
    observer.disk.new_mark = True
    observer.sync_ms = sync_ms
    simulation.start()
    assert simulation.run_fairly(lambda: not observer.disk.new_mark, limit_ms=1000), observer.disk


@pytest.mark.spec("C1")
def test_a_node_that_comes_and_goes_disturbs_nobody() -> None:
    result = sweep(Sweep("raft stability"), wanted_seeds(50))
    assert not result.violations, result


def test_a_schedule_repeats_itself_exactly() -> None:
    assert trace_of(7) == trace_of(7)
    assert trace_of(7) != trace_of(8)


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
    for seed in (*RARE, *range(5000)):
        run_schedule(seed)
        if made >= legal:
            break
    assert made == legal
