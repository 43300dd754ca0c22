"""A simulated cluster and one client of it, in a test that says step by step what happens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from sim_cluster import SimulatedCluster
from simulator.loop import Simulator

from minikafka.broker.node import Node
from minikafka.client import Admin
from minikafka.metadata.image import PartitionImage
from minikafka.model import TopicPartition

T = TypeVar("T")


class Scene:
    """Machines without faults of their own."""

    def __init__(self, settings: Mapping[str, object], seed: int = 1, **cluster: object) -> None:
        self.simulator = Simulator(seed)
        self.cluster = SimulatedCluster(self.simulator, dict(settings), **cluster)  # type: ignore[arg-type]
        self.cluster.start()
        self.client = self.cluster.network.process("client")

    def end(self) -> None:
        """Nothing of it runs any more."""
        for process in self.cluster.network.processes():
            process.kill()

    def run(self, act: Callable[[], Awaitable[T]], limit_s: float = 120.0) -> T:
        """The result of ``act``, run by the client."""

        async def main() -> T:
            return await act()

        return self.simulator.run_until_done(self.client.spawn(main()), limit_s)

    def admin(self) -> Admin:
        return Admin(self.cluster.bootstrap_servers)

    def lead(self, where: TopicPartition, leader: int) -> None:
        """The preferred leaders lead, as each node knows; that of ``where`` is ``leader``."""

        async def elect() -> None:
            async with self.admin() as admin:
                await admin.elect_leaders("preferred")

        self.run(elect)
        self.wait_for(lambda: all(self.leader(where, node) == leader for _, node in self.cluster.nodes()))

    def state(self, where: TopicPartition) -> PartitionImage | None:
        """As the node knows it that knows most."""
        nodes = (node for _, node in self.cluster.nodes())
        return max(nodes, key=lambda node: node.metadata.applied_offset).image.partition(where)

    def leader(self, where: TopicPartition, node: Node) -> int | None:
        """Who leads, as far as the node knows."""
        state = node.image.partition(where)
        return None if state is None else state.leader

    def wait_for(self, condition: Callable[[], object], limit_s: float = 120.0) -> float:
        """Virtual seconds until it holds."""
        began = self.simulator.now
        while not condition():
            assert self.simulator.now - began < limit_s, "waited in vain"
            self.simulator.run(self.simulator.now + 0.1)
        return self.simulator.now - began
