"""Three voters without topics, which take changes one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

import pytest
from sim_cluster import Machine, SimulatedCluster
from sim_invariants import InvariantViolatedError
from simulator.loop import Simulator

from minikafka.broker import control_plane as control_plane_module
from minikafka.broker import data_plane as data_plane_module
from minikafka.broker import node as node_module
from minikafka.broker.drivers import metadata as metadata_module
from minikafka.broker.node import Node
from minikafka.errors import KafkaError
from minikafka.metadata.controller.configs import AlterConfigOp
from minikafka.metadata.image import ConfigResource
from minikafka.metadata.records import ConfigResourceType
from minikafka.net.channel import ChannelClosedError
from minikafka.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

SETTING: Final = "leader.replication.throttled.rate"
EVERYWHERE: Final = ConfigResource(ConfigResourceType.BROKER, "")
HEALED_WITHIN_S: Final = 60.0
STARTED_AGAIN_AFTER_S: Final = 0.3
STARTS_MAX: Final = 4
"""A node that ends by itself more often in one case cannot mend itself."""
STEP_S: Final = 0.05


class Quorum:
    """One seed. ``trace`` gets a line for everything that happens."""

    def __init__(self, seed: int, trace: list[str] | None) -> None:
        self.trace = trace
        self.simulator = Simulator(seed)
        self.cluster = SimulatedCluster(self.simulator, {}, brokers=3, say=self.say)
        self.cluster.on_exit = self._on_exit
        self.starts: Counter[Machine] = Counter()
        """How often each ended by itself, and was started again."""
        self._value = 0

    def _on_exit(self, machine: Machine) -> None:
        """A service manager starts it again, until nobody believes in it any more."""
        self.starts[machine] += 1
        if self.starts[machine] <= 10 * STARTS_MAX:
            self.simulator.after(STARTED_AGAIN_AFTER_S, self._start_again, machine)

    def _start_again(self, machine: Machine) -> None:
        if not machine.is_up and self.starts[machine]:
            machine.start()

    def leader(self) -> Machine:
        """Whose node is the active controller."""
        self.wait(lambda: len(self.controllers()) == 1, "a controller")
        return self.controllers()[0]

    def controllers(self) -> list[Machine]:
        """Whose nodes say that they are."""
        return [machine for machine, node in self.cluster.nodes() if node.control_plane.controller.is_active]

    def change(self) -> None:
        """A change is committed, whoever leads."""
        self._value += 1
        config = AlterableConfig(name=SETTING, config_operation=AlterConfigOp.SET, value=str(self._value))
        kind, name = EVERYWHERE
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        give_up = self.simulator.now + HEALED_WITHIN_S
        while not self.has_taken(two_of=True):
            if self.simulator.now > give_up:
                raise InvariantViolatedError("no change is committed any more")
            for machine, node in list(self.cluster.nodes()):
                if node.control_plane.controller.is_active and machine.process is not None:
                    machine.process.spawn(_ask(node, request), "change")
            self.run(STEP_S)

    def has_taken(self, *, two_of: bool = False) -> bool:
        """A majority, or all, have the last change, and nothing that came before it is gone."""
        values = [int(node.image.config_of(EVERYWHERE).get(SETTING, "0")) for _, node in self.cluster.nodes()]
        return values.count(self._value) >= (2 if two_of else 3)

    def is_whole(self) -> bool:
        """One controller, all nodes live, voting and alike, and the last change everywhere."""
        nodes = [node for _, node in self.cluster.nodes()]
        if len(nodes) < 3 or len(self.controllers()) != 1 or not self.has_taken():
            return False
        machines = [node.control_plane.raft.machine for node in nodes]
        if any(machine.vote_disabled or machine.is_new for machine in machines):
            return False
        images = [node.image for node in nodes]
        return all(len(image.live_brokers()) == 3 for image in images) and all(
            (image.cluster_id, image.configs, image.topic_names, image.metadata_version)
            == (images[0].cluster_id, images[0].configs, images[0].topic_names, images[0].metadata_version)
            for image in images
        )

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.simulator.run(self.simulator.now + seconds)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """InvariantViolatedError when it does not come true in time."""
        give_up = self.simulator.now + HEALED_WITHIN_S
        while not condition():
            if self.simulator.now > give_up:
                raise InvariantViolatedError(f"waited {HEALED_WITHIN_S:g} s in vain for {what}")
            self.run(STEP_S)

    def say(self, who: str, what: str) -> None:
        """A line of the trace."""
        self.simulator.mark(what)
        if self.trace is not None:
            self.trace.append(f"{self.simulator.now:10.6f}  {who:<10} {what}")


async def _ask(node: Node, request: IncrementalAlterConfigsRequest) -> None:
    with suppress(KafkaError, ChannelClosedError):  # then it is asked again
        await node.control_plane.controller.handle(request)


@contextmanager
def small_files() -> Iterator[None]:
    """A snapshot after few records, and segments of some batches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metadata_module, "RECORDS_BETWEEN_SNAPSHOTS", 6)
        patch.setattr(node_module, "SNAPSHOT_CHECK_INTERVAL_S", 1.0)
        config = replace(control_plane_module.METADATA_LOG_CONFIG, segment_bytes=600)
        for module in (control_plane_module, data_plane_module):
            patch.setattr(module, "METADATA_LOG_CONFIG", config)
        yield
