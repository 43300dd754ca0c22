"""Every byte of a voter's files: changed, or the file cut there, while its node runs, or after a kill or a stop.

One cluster of three voters goes through all cases, one at a time. After each the cluster is as before and has taken a
change; the voter has mended itself. Where only a person can help, its node has said so in one line and has ended, the
others went on, and the node mends itself once the file is as it was.

``make sim VOTER=1`` sweeps every byte, ``VOTER=7`` every seventh. Each of ``SEEDS`` begins with another way, moment and
voter: with 18 of them every byte meets all.
"""

from __future__ import annotations

import itertools
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from posixpath import basename
from typing import Final, NamedTuple

from sim_cluster import Machine
from sim_invariants import METADATA_DIRECTORY, InvariantViolatedError
from sim_quorum import STARTS_MAX, Quorum, small_files
from sim_scenario import logs_to
from simulator.disk.damage import damage, plant
from simulator.disk.inodes import Inode

from minikafka.errors import KafkaError
from minikafka.storage.meta import META_FILE, MetaError

HOWS: Final = ("flipped", "zeroed", "cut")
STATES: Final = ("running", "killed", "stopped")
FOR_A_PERSON: Final = (META_FILE,)


class Case(NamedTuple):
    """What is done to whom."""

    path: str
    position: int
    how: str
    state: str
    is_leader: bool

    def __str__(self) -> str:
        who = "the leader" if self.is_leader else "a follower"
        return f"{self.path} {self.how} at {self.position} while {who} is {self.state}"


class VoterReport(NamedTuple):
    """How one seed went; ``violation`` is empty unless it failed."""

    seed: int
    cases: Counter[str]
    for_a_person: int
    cpu_s: float
    violation: str


class VoterSweep:
    """One seed. ``trace`` gets a line for everything that happens."""

    def __init__(self, seed: int, stride: int, *, only: str = "", trace: list[str] | None = None) -> None:
        """``only``: files of that kind."""
        self.done: Counter[str] = Counter()
        """Cases, by kind of file."""
        self.for_a_person = 0
        self._seed, self._stride, self._only = seed, stride, only
        self._rng = random.Random(seed)
        self._quorum = Quorum(seed, trace)
        self._failures: list[str] = []

    def run(self) -> None:
        """InvariantViolatedError, which names the case."""
        case: Case | None = None
        with logs_to(self._quorum.say) as self._failures, small_files():
            try:
                self._quorum.cluster.start()
                self._quorum.wait(self._quorum.is_whole, "the cluster to begin")
                for _ in range(12):
                    self._quorum.change()
                self._quorum.wait(
                    lambda: any(".checkpoint" in path for path in self._files(self._quorum.leader())), "a snapshot"
                )
                of_stops = self._files_of_a_stop()
                for case in itertools.chain(self._cases_of(of_stops), self._cases()):
                    self._quorum.say("sweep", str(case))
                    self._try(case)
                    self.done[kind_of(case.path)] += 1
            except InvariantViolatedError as error:
                raise InvariantViolatedError(f"{case}: {error}") from error
            finally:
                for process in self._quorum.cluster.network.processes():
                    process.kill()

    # -- cases --------------------------------------------------------------------------------------------------------

    def _cases(self) -> Iterator[Case]:
        """Ways, moments and voters take turns from byte to byte."""
        number = self._seed
        for kind in sorted({kind_of(path) for path in self._files(self._quorum.leader())}):
            if kind_of(self._only) not in ("", kind):
                continue
            position = self._seed % self._stride
            while paths := self._longer_than(position, kind):
                yield self._case(self._rng.choice(paths), position, HOWS[number % 3], number // 3)
                position += self._stride
                number += 1
            for how in ("emptied", "lost"):
                paths = self._longer_than(0, kind)
                if paths:
                    yield self._case(self._rng.choice(paths), 0, how, number // 3)

    def _files_of_a_stop(self) -> dict[str, int]:
        """What is there only while a node is stopped, and how large."""
        leader = self._quorum.leader()
        machine = next(one for one in self._quorum.cluster.machines.values() if one is not leader)
        machine.terminate()
        self._quorum.wait(lambda: not machine.is_up, "the node to stop")
        known = {kind_of(path) for path in self._files(leader)}
        found = [path for path in self._files(machine) if kind_of(path) not in known]
        sizes = {path: len(machine.disk.inode(path).content) for path in found}
        if not machine.is_up:
            machine.start()
        self._quorum.wait(self._quorum.is_whole, "the node to start")
        return sizes

    def _cases_of(self, of_stops: dict[str, int]) -> Iterator[Case]:
        for path, size in of_stops.items():
            if kind_of(self._only) not in ("", kind_of(path)):
                continue
            for number, position in enumerate(range(self._seed % self._stride, size, self._stride), self._seed):
                yield Case(path, position, HOWS[number % 3], "stopped", number % 2 == 0)
            for how in ("emptied", "lost"):
                yield Case(path, 0, how, "stopped", self._seed % 2 == 0)

    def _case(self, path: str, position: int, how: str, number: int) -> Case:
        return Case(path, position, how, STATES[number % 3], number // 3 % 2 == 0)

    def _longer_than(self, position: int, kind: str) -> list[str]:
        leader = self._quorum.leader()
        paths = [path for path in self._files(leader) if kind_of(path) == kind]
        return sorted(path for path in paths if len(leader.disk.inode(path).content) > position)

    def _files(self, machine: Machine) -> list[str]:
        """What is in the metadata log's directory, and in the log directory itself."""
        return [path for path in machine.disk.files() if path.count("/") == 2 or path.startswith(METADATA_DIRECTORY)]

    def _try(self, case: Case) -> None:
        leader = self._quorum.leader()
        followers = [one for one in self._quorum.cluster.machines.values() if one is not leader]
        machine = leader if case.is_leader else followers[0]
        self._quorum.starts.clear()
        if case.state == "killed":
            machine.kill()
        elif case.state == "stopped":
            machine.terminate()
            self._quorum.wait(lambda: not machine.is_up, "the node to stop")
            self._quorum.starts.clear()
        alike = (path for path in self._alike(machine, case.path) if self._is_file(machine, path))
        path = next(alike, "")
        before = bytes(machine.disk.inode(path).content) if path else b""
        if path:
            self._damage(machine, path, case)
        if case.state == "running":
            self._quorum.change()
            self._quorum.run(1.0)
            if machine.is_up:
                machine.kill()
        if not machine.is_up:
            machine.start()
        self._quorum.change()
        self._quorum.wait(
            lambda: self._quorum.is_whole() or self._quorum.starts[machine] > STARTS_MAX, "the cluster to be whole"
        )
        if not self._quorum.is_whole():
            self._ask_a_person(machine, path, before)
        if self._failures:
            raise InvariantViolatedError(self._failures[0])

    def _alike(self, machine: Machine, path: str) -> list[str]:
        """That file, or the newest of its kind."""
        alike = [each for each in self._files(machine) if kind_of(each) == kind_of(path)]
        return sorted(alike, key=lambda each: (each == path, each), reverse=True)

    def _is_file(self, machine: Machine, path: str) -> bool:
        return isinstance(machine.disk.find(path), Inode)

    def _damage(self, machine: Machine, path: str, case: Case) -> None:
        inode = machine.disk.inode(path)
        position = min(case.position, len(inode.content) - 1)
        if case.how == "lost":
            damage(machine.disk, path, "lost", self._rng)
        elif case.how == "emptied" or position < 0:
            inode.become(b"")
        elif case.how == "cut":
            damage(machine.disk, path, "cut", self._rng, at=position)
        else:
            changed = bytearray(inode.content)
            changed[position] = 0 if case.how == "zeroed" else changed[position] ^ 1 << self._rng.randrange(8)
            inode.become(changed)

    def _ask_a_person(self, machine: Machine, path: str, before: bytes) -> None:
        """Nobody else can help: the node has to say so, and the others have to go on."""
        error = machine.failure
        if basename(path) not in FOR_A_PERSON or not isinstance(error, (MetaError, KafkaError, OSError)):
            raise InvariantViolatedError(f"node {machine.node_id} does not start: {error!r}")
        if path not in str(error) and path.rpartition("/")[0] not in str(error):
            raise InvariantViolatedError(f"node {machine.node_id} does not say what is wrong: {error}")
        self._quorum.wait(lambda: self._quorum.has_taken(two_of=True), "the others to go on")
        if not self._is_file(machine, path):
            plant(machine.disk, path)
        machine.disk.inode(path).become(before)
        self._quorum.starts.clear()
        if not machine.is_up:
            machine.start()
        self._quorum.wait(self._quorum.is_whole, "the node to start with the file as it was")
        self.for_a_person += 1


def kind_of(path: str) -> str:
    """The path without numbers."""
    return re.sub(r"\d+", "N", path)


def sweep_voter(seed: int, stride: int) -> VoterReport:
    """One seed of ``make sim VOTER=...``."""
    began = time.process_time()
    trace: list[str] = []
    sweep, violation = VoterSweep(seed, stride, trace=trace), ""
    try:
        sweep.run()
    except InvariantViolatedError as error:
        violation = f"{error}\n  " + "\n  ".join(trace[-40:])
    return VoterReport(seed, sweep.done, sweep.for_a_person, time.process_time() - began, violation)
