"""Media that go bad: one machine's at a time, and another's only when everything on the first is whole again (P5).

Any file there is may be damaged, whole directories may be gone, while the node runs or is down. What must hold: nothing
acknowledged is lost, the cluster heals by itself, and a node says what it found. One thing needs a person: a node whose
``meta.properties`` is damaged refuses to start and says so; that disk is replaced by an empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from posixpath import basename, dirname
from typing import Final

from sim_cluster import Machine, SimulatedCluster
from sim_invariants import METADATA_DIRECTORY, METADATA_NAME, bytes_of, segments, unequal

from minikafka.storage.meta import META_FILE
from minikafka.testing.disk.damage import HOWS, Damage, How, damage
from minikafka.testing.disk.inodes import Directory, Inode

WRONG: Final[tuple[How, ...]] = tuple(how for how in HOWS if how != "unreadable")
UNREADABLE: Final[tuple[How, ...]] = ("unreadable",)
LAST_BYTES: Final = 300
"""Where a crash tears a log; damage there may be taken for it."""
REPAIR_MARK: Final = "repair-in-progress"
BY_SUFFIX: Final = (".log", ".index", ".timeindex", ".snapshot", ".checkpoint", "-checkpoint")
NOT_DAMAGED: Final = (".lock", ".tmp", ".corrupt", ".damaged", ".deleted")
"""Files that hold nothing, or nothing that anybody waits for."""


class Media:
    """The damage there is. ``machine`` is the one whose disk is not, or may not be, whole."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.machine: Machine | None = None
        self.damages: list[Damage] = []
        self._offline = ""
        self.on_whole: Callable[[Machine], None] = lambda machine: None
        """A machine's logs are whole again, and must stay so."""

    # -- damaging -----------------------------------------------------------------------------------------------------

    def choose(self) -> Machine:
        """Whose disk may be damaged now, if all replicas are in sync: the same again while it is not whole."""
        if self.machine is None or self.is_whole():
            self.machine = self._cluster.rng.choice(list(self._cluster.machines.values()))
        return self.machine

    def strike(self, machine: Machine, hows: Sequence[How]) -> None:
        """Damage something on its disk, in one of those ways."""
        assert machine is self.machine
        rng = self._cluster.rng
        kinds = self._targets(machine, directories="lost" in hows)
        path = rng.choice(kinds[rng.choice(sorted(kinds))])
        how = "lost" if isinstance(machine.disk.find(path), Directory) else rng.choice(hows)
        of_last = LAST_BYTES if path.endswith(".log") and rng.random() < 0.5 else None
        done = damage(machine.disk, path, how, rng, of_last=of_last)
        self.damages.append(done)
        self._cluster.say(machine.host, f"media: {done}")

    def _targets(self, machine: Machine, *, directories: bool) -> dict[str, list[str]]:
        """Paths by what they are, so that there is as much of the rare as of the frequent."""
        found: dict[str, list[str]] = {}
        for path in machine.disk.files():
            name = basename(path)
            if not name.endswith(NOT_DAMAGED) and "-delete/" not in path:
                kind = next((suffix for suffix in BY_SUFFIX if name.endswith(suffix)), name)
                is_metadata = path.startswith(METADATA_DIRECTORY)
                is_active = kind == ".log" and name == max(segments(machine, dirname(path)))
                found.setdefault(f"{kind} {is_active} {is_metadata}", []).append(path)
                if is_active:
                    found.setdefault(f"end of {kind} {is_metadata}", []).append(path)
        if directories:
            found["partitions"] = list(self._partition_directories(machine))
        if directories and not machine.is_up:
            found["log.dirs"] = list(self._cluster.log_dirs)
        return {kind: sorted(paths) for kind, paths in found.items() if paths}

    def _partition_directories(self, machine: Machine) -> Iterator[str]:
        for path in self._cluster.log_dirs:
            entries = machine.disk.directory(path).entries
            yield from (f"{path}/{name}" for name, node in entries.items() if isinstance(node, Directory))

    def replace_disk(self, machine: Machine) -> None:
        """What a person does while a node is down that said it cannot use a directory because of its identity."""
        spoiled = {one.path for one in self.damages if basename(one.path) == META_FILE}
        for path in sorted(spoiled) if machine is self.machine else ():
            if dirname(path) in f"{machine.failure} {self._offline}":
                damage(machine.disk, dirname(path), "lost", self._cluster.rng)
                self.damages.append(Damage(dirname(path), "lost"))
                self.damages = [one for one in self.damages if one.path != path]
                self._cluster.say(machine.host, f"the disk below {dirname(path)} is replaced")

    def note_offline(self, machine: Machine) -> None:
        """Read why a node that runs does without some directory."""
        directories = [] if machine.node is None else machine.node.store.directories
        self._offline = "; ".join(str(one.failure) for one in directories if one.failure is not None)

    # -- healing ------------------------------------------------------------------------------------------------------

    def is_damaged(self, machine: Machine, directory: str) -> bool:
        """True where the bytes of a log on that machine may be wrong."""
        if machine is not self.machine:
            return False
        name = basename(directory)
        return any(_log_of(one.path) == name or one.path in self._cluster.log_dirs for one in self.damages)

    def is_whole(self) -> bool:
        """True when nothing is damaged, or when all of it was found and mended: another disk may be next."""
        machine = self.machine
        if machine is None:
            return True
        if not self._has_mended(machine) or self.differences(machine):
            return False
        self._cluster.say(machine.host, "media: all is whole again")
        self.machine = None
        self.damages.clear()
        self.on_whole(machine)
        return True

    def _has_mended(self, machine: Machine) -> bool:
        """The node knows of no damage any more, and everybody counts on all of its replicas."""
        node = machine.node
        if node is None or not node.data_plane.roles.has_begun:
            return False
        if any(basename(one.path) == META_FILE for one in self.damages):
            return False  # its next start will be refused
        if machine.disk.find(f"{METADATA_DIRECTORY}/{REPAIR_MARK}") is not None or not segments(
            machine, METADATA_DIRECTORY
        ):
            return False
        for topic, number, state in node.image.partitions():
            if machine.node_id in state.replicas:
                log = next((one for one in node.store if one.topic_partition == (topic.name, number)), None)
                if log is None or log.is_offline or log.corruption is not None or machine.node_id not in state.isr:
                    return False
        if any(len(bytes_of(machine, log.directory)) < log.size_in_bytes for log in node.store):
            return False
        return not any(_is_unreadable(machine, path) for path in self._logs(machine))

    def differences(self, machine: Machine) -> dict[str, list[int]]:
        """By log: positions at which its bytes are not those of another replica, as far as both go."""
        found: dict[str, list[int]] = {}
        for path in self._logs(machine):
            mine = bytes_of(machine, path)
            for other in self._cluster.machines.values():
                for theirs in self._logs(other) if other is not machine else ():
                    if basename(theirs) == basename(path):
                        wrong = unequal(mine, bytes_of(other, theirs))
                        if wrong:
                            found[path] = wrong
        return found

    def is_latent(self, machine: Machine, directory: str, wrong: Iterable[int]) -> bool:
        """True when a log's bytes are ``wrong`` because of damage that nobody has come upon."""
        if machine is not self.machine:
            return False
        starts: dict[str, int] = {}
        position = 0
        for name, file in segments(machine, directory).items():
            starts[f"{directory}/{name}"] = position
            position += len(file.content)
        mine = [one for one in self.damages if one.path.startswith(f"{directory}/") and one.path.endswith(".log")]
        if any(_is_as_damaged(machine, one) for one in mine):
            return True  # what lies behind is elsewhere
        spoiled = [range(starts[one.path] + one.start, starts[one.path] + one.stop) for one in mine]
        return all(any(at in some for some in spoiled) for at in wrong)

    def _logs(self, machine: Machine) -> list[str]:
        return [
            path
            for path in self._partition_directories(machine)
            if basename(path) == METADATA_NAME or "." not in basename(path)
        ]


def _is_unreadable(machine: Machine, directory: str) -> bool:
    return any(len(file.unreadable) for file in segments(machine, directory).values())


def _log_of(path: str) -> str:
    """The name of the partition directory that a path is, or is in."""
    names = path.split("/")
    return names[2] if len(names) > 2 else ""


def _is_as_damaged(machine: Machine, done: Damage) -> bool:
    """True when a file that was cut, emptied or lost is exactly so."""
    node = machine.disk.find(done.path)
    if done.how == "lost":
        return node is None
    return done.how in ("cut", "emptied") and isinstance(node, Inode) and len(node.content) == done.start
