"""Losses beyond the promise: every replica of one partition is damaged at once. What is lost must be said.

A node says so by a line ``records lost`` in its log and by one in its file ``losses``, which ``cluster status`` counts.
Nothing else may suffer: other partitions are judged as ever. And no node may say so where nothing was lost, unless a
machine lost power.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sim_cluster import Machine, SimulatedCluster
from sim_damage import Strokes
from sim_invariants import InvariantViolatedError
from simulator.disk.inodes import Inode

from minikafka.broker.losses import LOSSES_FILE
from minikafka.ledger.checker import Verdict, check
from minikafka.ledger.events import Event
from minikafka.replication.replica_effects import Saying

SAID: Final = "[error] records lost partition="
OF_NOTHING: Final = f"what={Saying.LOSS_BY_ELECTION.value}; from offset 0 on, high watermark 0"
"""Where nothing was written yet: all who made the replica were killed before it was theirs, and one leads all the same.
Whether others had more it cannot know."""
DAMAGE: Final = ("[error] log damaged", "[error] replica damaged", "[error] log missing")


class BeyondThePromise:
    """Which partition lost what nobody promised to keep, and what nodes said."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.partition = ""
        self.has_lost_power = False
        """A machine did: holes in what it had not synced may be taken for lost records, and nobody can tell."""
        self._said: dict[str, str] = {}
        self._damage: list[str] = []

    def holds(self, partition: object) -> bool:
        """True when all promises about the partition are void."""
        return bool(self.partition) and str(partition) == self.partition

    def strike(self, partition: str, machines: Sequence[Machine]) -> None:
        """Damage the log of the partition on each of those."""
        self.partition = partition
        for machine in machines:
            strokes = Strokes(machine, self._cluster.log_dirs, self._cluster.rng)
            for done in strokes.strike_log(partition):
                self._cluster.say(machine.host, f"beyond the promise: {done}")

    def on_line(self, host: str, line: str) -> None:
        """A node's log line."""
        if line.startswith(SAID) and not line.endswith(OF_NOTHING):
            self._said.setdefault(line.removeprefix(SAID).split(" ")[0], f"{host}: {line}")
        elif line.startswith(DAMAGE):
            self._damage.append(f"{host}: {line}")

    def check_no_damage(self) -> None:
        """InvariantViolatedError when a node says that a log is damaged, though no disk did anything to one."""
        if self._damage:
            raise InvariantViolatedError(f"nothing was damaged, and a node says so: {self._damage[0]}")

    def judge(self, events: Sequence[Event]) -> Verdict:
        """The verdict on everything else. InvariantViolatedError when a loss was not said, or something else was."""
        untrue = [line for partition, line in self._said.items() if not self.holds(partition)]
        if untrue and not self.has_lost_power:
            raise InvariantViolatedError(f"nothing was lost, and a node says so: {untrue[0]}")
        rest = check(_without(events, self.partition)) if self.partition else check(events)
        if not self.partition:
            return rest
        broken = {rule: count for rule, count in check(events).violations.items() if count > rest.violations[rule]}
        if broken and self.partition not in self._said:
            raise InvariantViolatedError(f"{self.partition} broke {broken}, and no node said that records were lost")
        if broken and not self._is_written_down():
            raise InvariantViolatedError(f"the loss of {self.partition} is in no file that 'cluster status' counts")
        return rest

    def _is_written_down(self) -> bool:
        paths = [f"{path}/{LOSSES_FILE}" for path in self._cluster.log_dirs]
        files = [machine.disk.find(path) for machine in self._cluster.machines.values() for path in paths]
        return any(f" {self.partition} ".encode() in file.content for file in files if isinstance(file, Inode))


def _without(events: Iterable[Event], partition: str) -> list[Event]:
    """A history in which the partition never occurs."""

    def is_of(entry: Any) -> bool:
        return partition == (entry if isinstance(entry, str) else entry[0])

    left = []
    for event in events:
        value = event.value
        if isinstance(value, list):
            value = [entry for entry in value if not is_of(entry)]
        if value:
            left.append(event._replace(value=value))
    return left
