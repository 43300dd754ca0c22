"""A machine goes for good: its disk and all that is on it are never seen again, and no other machine takes its name.

Everything else must go on without it, with nothing lost that was acknowledged: each partition had all of that on at
least two disks. It goes alone, or when all nodes are killed, or when power goes from all (where every write is synced);
as the leader of something, too, when others are out of the ISR already: who is in the ELR has everything, and leads.

Power cuts then take all that was not synced. A hole between unsynced writes may pass for damage to what was synced, and
of a disk that lost such nothing counts as whole: its partitions would wait for the machine that is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sim_cluster import Machine, SimulatedCluster

from minikafka.broker.node import Node

Later = Callable[[float, Callable[[], object]], None]

BEHIND_S: Final = 4.0
"""Others are out of the ISR by then, or about to be."""
CLAIMED_S: Final = 0.1
"""After so long it is looked again whether synced topics are claimed."""


class Departure:
    """The one machine that goes, and how."""

    def __init__(
        self, cluster: SimulatedCluster, later: Later, restart_later: Callable[[Machine], None], *, is_flushed: bool
    ) -> None:
        """``restart_later``: starts a machine's node again after a while. ``is_flushed``: power may go, too."""
        self._cluster = cluster
        self._later = later
        self._restart_later = restart_later
        self._is_flushed = is_flushed
        self.machine: Machine | None = None
        """Which it is, from when it is decided."""

    def begin(self) -> None:
        """Every replica is in sync: choose one that leads something, if there is one, and let it go soon."""
        rng = self._cluster.rng
        machines = list(self._cluster.machines.values())
        leaders = [
            machine
            for machine, node in self._cluster.nodes()
            if any(partition.leader is not None for partition in node.replicas)
        ]
        self.machine = machine = rng.choice(leaders or machines)
        self._cluster.keeps_nothing_unsynced = True
        others = [other for other in machines if other is not machine]
        match rng.choice(("alone", "with all", "with all", "as the last", "as the last")):
            case "alone":
                self._go([])
            case "with all":
                self._go(others)
            case "as the last":
                behind = rng.sample(others, rng.choice((1, 2)))
                for other in behind:
                    self._later(BEHIND_S * rng.random(), lambda other=other: self._end(other))
                self._later(BEHIND_S + BEHIND_S * rng.random(), lambda: self._go(others))

    def _go(self, others: Sequence[Machine]) -> None:
        """For good; ``others`` end with it, and are back later."""
        assert self.machine is not None
        if self._is_flushed and not all(_has_claimed(node) for _, node in self._cluster.nodes()):
            self._later(CLAIMED_S, lambda: self._go(others))
            return
        self.machine.is_gone = True
        self._cluster.say(self.machine.host, "goes for good")
        self._end(self.machine)
        for other in others:
            self._end(other)
            self._restart_later(other)

    def _end(self, machine: Machine) -> None:
        if self._is_flushed and not machine.disk.has_failed_sync and self._cluster.rng.random() < 0.7:
            machine.lose_power()
        else:
            machine.kill()


def _has_claimed(node: Node) -> bool:
    """Its registration names all topics that sync every write. Until then a power cut makes its replicas doubtful, and
    a new topic waits for its last leader.
    """
    topics = node.data_plane.synced_topics
    return topics._has_begun and topics._wanted <= topics._registrations.synced_topics
