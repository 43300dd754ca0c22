"""A quorum whose disks take long: it has a controller within ten seconds, keeps it, and replaces one that dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sim_cluster import Machine, SimulatedCluster
from simulator.loop import Simulator

WITHIN_S = 10.0
STEP_S = 0.05


class Quorum:
    """Three voters; how long a sync takes on each, in seconds, is half as long or half as long again at random."""

    def __init__(self, seed: int) -> None:
        self.simulator = Simulator(seed)
        self.cluster = SimulatedCluster(self.simulator, {}, brokers=3)
        self.cluster.start()

    def end(self) -> None:
        for process in self.cluster.network.processes():
            process.kill()

    def sync_in(self, *seconds: float) -> None:
        for machine, sync_s in zip(self.cluster.machines.values(), seconds, strict=True):
            machine.sync_s = sync_s

    def controllers(self) -> list[Machine]:
        return [machine for machine, node in self.cluster.nodes() if node.control_plane.controller.is_active]

    def all_are_live(self) -> bool:
        """Every node says so of every broker."""
        nodes = [node for _, node in self.cluster.nodes()]
        return len(nodes) == 3 and all(len(node.image.live_brokers()) == 3 for node in nodes)

    def epoch(self) -> int:
        return max(node.control_plane.raft.machine.epoch for _, node in self.cluster.nodes())

    def wait_for(self, condition: Callable[[], object], within_s: float = WITHIN_S) -> None:
        give_up = self.simulator.now + within_s
        while not condition():
            assert self.simulator.now < give_up, f"waited in vain; epoch {self.epoch()}"
            self.simulator.run(self.simulator.now + STEP_S)


@pytest.fixture(params=[1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3, 4, 5))])
def quorum(request: pytest.FixtureRequest) -> Iterator[Quorum]:
    made = Quorum(request.param)
    yield made
    made.end()


@pytest.mark.spec("C1")
@pytest.mark.parametrize("seconds", [(1.0, 1.0, 1.0), (0.0, 1.0, 1.0), (0.0, 0.0, 1.0), (0.3, 0.6, 1.0)])
def test_a_controller_within_ten_seconds_and_for_good(quorum: Quorum, seconds: tuple[float, float, float]) -> None:
    quorum.wait_for(quorum.all_are_live)
    quorum.sync_in(*seconds)
    for _ in range(2):
        (former,) = quorum.controllers()
        former.kill()
        quorum.wait_for(quorum.controllers)
        former.start()
        quorum.wait_for(quorum.all_are_live, 120.0)
        epoch = quorum.epoch()
        quorum.simulator.run(quorum.simulator.now + 60.0)
        assert quorum.epoch() == epoch
