"""Two of three voters get other machines at once, with empty disks; the third comes later, and has all metadata."""

from __future__ import annotations

import pytest
from sim_invariants import InvariantViolatedError
from sim_quorum import Quorum
from simulator.disk import SimulatedDisk

from minikafka.raft import Core

DELAYS_S = (0.0, 0.3, 5.0)
"""A node is there for the others once it has recovered its logs, and an empty one has none."""


def exchange_two(seed: int, delays_s: tuple[float, ...] = DELAYS_S) -> None:
    """InvariantViolatedError when a change is lost, or the cluster does not go on."""
    quorum = Quorum(seed, [])
    try:
        quorum.cluster.start()
        quorum.wait(quorum.is_whole, "the cluster to begin")
        for number, delay_s in enumerate(delays_s):
            quorum.change()
            quorum.wait(quorum.is_whole, "the change everywhere")
            machines = list(quorum.cluster.machines.values())
            third = machines.pop((seed + number) % 3)
            for machine in (*machines, third):
                machine.kill()
            for machine in machines:
                machine.disk = SimulatedDisk()
                machine.start()
            quorum.run(delay_s)
            third.start()
            quorum.wait(quorum.is_whole, f"the cluster to go on when {third.host} comes after {delay_s:g} s")
    finally:
        for process in quorum.cluster.network.processes():
            process.kill()


@pytest.mark.spec("P1")
def test_two_machines_that_are_exchanged_at_once_lose_nothing_while_the_third_is_there() -> None:
    exchange_two(1)


def test_it_notices_empty_disks_that_elect_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: they know of no record, whatever they hear, and wait for nobody."""
    monkeypatch.setattr(Core, "is_blank", property(lambda core: core.is_new and core.log.log_end_offset == 0))
    monkeypatch.setattr(Core, "has_waited_for", lambda _core, _voters, _now_ms: True)
    with pytest.raises(InvariantViolatedError, match=r"waited .* for the cluster to go on"):
        exchange_two(1, (0.5,))
