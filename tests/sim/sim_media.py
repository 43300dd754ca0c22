"""Media that go bad: one machine's at a time, and another's only when everything on the first is whole again (P5).

What may be damaged, and how, is in ``sim_damage.py``; it happens while the node runs, and while it is down. What must
hold: nothing acknowledged is lost, the cluster heals by itself, and a node says what it found. One thing needs a
person: a node does not use a directory whose ``meta.properties`` is damaged, and says so; that disk is replaced by an
empty one.

Damage may lie where nobody reads. Until it passes (``let_pass``), or is found and mended, all others stay whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from posixpath import basename, dirname
from typing import Final

from sim_cluster import Machine, SimulatedCluster
from sim_damage import Strokes
from sim_former import FormerDirectories
from sim_invariants import METADATA_NAME, bytes_of, metadata_directory, segments, unequal
from sim_restored import Restoring
from simulator.disk.damage import HOWS, Damage, How, let_pass, restore
from simulator.disk.inodes import Inode

from minikafka.storage.log import Log
from minikafka.storage.log_ends import LOG_ENDS_FILE
from minikafka.storage.meta import META_FILE, REPLACED_FILE
from minikafka.storage.segment_list import SEGMENTS_FILE

WRONG: Final[tuple[How, ...]] = tuple(how for how in HOWS if how != "unreadable")
UNREADABLE: Final[tuple[How, ...]] = ("unreadable",)
ODD: Final[tuple[How, ...]] = ()
RESTORED: Final[tuple[How, ...]] = ("restored",)
LOST: Final[tuple[How, ...]] = ("lost",)
EPOCHS: Final[tuple[How, ...]] = ("flipped",)
PASSES_AFTER_S: Final = 15.0
WITNESSES: Final = (LOG_ENDS_FILE, SEGMENTS_FILE)
"""They tell what a log has lost: one that goes with what it tells of is damage that nothing shows."""
LOG_SIZE_MAX: Final = 1 << 60
REPAIR_MARK: Final = "repair-in-progress"


class Media:
    """The damage there is. ``machine`` is the one whose disk is not, or may not be, whole."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.machine: Machine | None = None
        self.damages: list[Damage] = []
        self._not_looked_at: list[Damage] = []
        self._struck_at = 0.0
        self._struck_incarnation = 0
        self._older: dict[str, dict[str, bytes]] = {}  # what files held once, by host and path
        self._newer: dict[str, dict[str, bytes]] = {}
        self.former = FormerDirectories(cluster.log_dirs, cluster.rng)
        self.has_exchanged = False
        """A directory of ``machine`` went or came back, and not all is whole since."""
        self.committed_end: Callable[[Log], int] = lambda log: 0
        """Up to where records of a log's partition are committed."""
        self.on_whole: Callable[[Machine], None] = lambda machine: None
        """A machine's logs are whole again, and must stay so."""

    def remember(self) -> None:
        """Keep what is on the disks now: what was kept the last time is what files may be again."""
        for machine in self._cluster.machines.values():
            files = {path: bytes(machine.disk.inode(path).content) for path in machine.disk.files()}
            self._older[machine.host], self._newer[machine.host] = self._newer.get(machine.host, {}), files

    # -- damaging -----------------------------------------------------------------------------------------------------

    def choose(self) -> Machine:
        """Whose disk may be damaged now, if all replicas are in sync: the same again while it is not whole."""
        if self.machine is None or self.is_whole():
            self._begin(self._cluster.rng.choice(list(self._cluster.machines.values())))
        assert self.machine is not None
        return self.machine

    def choose_to_exchange(self) -> Machine:
        """Of whom a directory may go or come back now, if all is whole and all replicas are in sync."""
        away = self.former.away
        self._begin(self._cluster.rng.choice(list(self._cluster.machines.values())) if away is None else away.machine)
        assert self.machine is not None
        return self.machine

    def _begin(self, machine: Machine) -> None:
        self.machine = machine
        self._struck_incarnation = machine.incarnation

    def exchange(self, machine: Machine) -> None:
        """A log directory goes; one that is away comes back."""
        former = self.former
        done = former.take(machine) if former.away is None else former.bring_back()
        self.has_exchanged = True
        self._struck_at, self._struck_incarnation = self._cluster.simulator.now, machine.incarnation
        self._cluster.say(machine.host, f"media: {done}")

    def strike(self, machine: Machine, hows: Sequence[How]) -> None:
        """Damage something on its disk. ``hows``: the ways in which files may be; none: oddly. Lost alone: logs."""
        if self.has_exchanged:
            return  # one of its directories tells of the other
        if machine.incarnation > self._struck_incarnation:
            self._not_looked_at.clear()
        if hows == RESTORED:
            if not self._not_looked_at:
                self._note(machine, self._restoring(machine).some(self._cluster.rng))
        elif not any(basename(one.path) in WITNESSES or one.how == "restored" for one in self._not_looked_at):
            spared = WITNESSES if self._not_looked_at else ()
            strokes = self._strokes(machine)
            if hows == EPOCHS:
                done = strokes.strike_epoch()
            elif hows == LOST:
                done = strokes.lose_logs()
            elif hows == ODD:
                done = strokes.strike_oddly(self._older.get(machine.host, {}), spared)
            else:
                done = strokes.strike(hows, spared)
            self._note(machine, done)

    def strike_own_writes(self, machine: Machine, hows: Sequence[How]) -> None:
        """Damage what its node wrote as a leader, if it is one."""
        if not self.has_exchanged:
            self._note(machine, self._strokes(machine).strike_own_writes(hows))

    def _note(self, machine: Machine, done: list[Damage]) -> None:
        assert machine is self.machine
        self.damages += done
        self._not_looked_at += done
        self._struck_at, self._struck_incarnation = self._cluster.simulator.now, machine.incarnation
        for each in done:
            self._cluster.say(machine.host, f"media: {each}")

    def _restoring(self, machine: Machine) -> Restoring:
        older = self._cluster.rng.choice([self._older, self._newer]).get(machine.host, {})
        others = [other.disk for other in self._cluster.machines.values() if other is not machine]
        return Restoring(machine.disk, older, others, self._cluster.log_dirs)

    def _strokes(self, machine: Machine) -> Strokes:
        return Strokes(machine, machine.log_dirs, self._cluster.rng)

    # -- the person ---------------------------------------------------------------------------------------------------

    def wants_repair(self) -> bool:
        """A node runs without a directory, and says that its identity is damaged."""
        return self.machine is not None and self.machine.is_up and bool(self._spoiled(self.machine))

    def _spoiled(self, machine: Machine) -> list[str]:
        """Directories of another identity, or none, as the node said itself, running or not."""
        directories = [] if machine.node is None else machine.node.store.directories
        said = f"{machine.failure} " + "; ".join(str(one.failure) for one in directories if one.failure is not None)
        spoiled = {dirname(one.path) for one in self.damages if basename(one.path) == META_FILE}
        spoiled |= {one.path for one in self.damages if one.path in self._cluster.log_dirs}
        return sorted(path for path in spoiled if f"{path} " in said or f"{path}/" in said)

    def replace_disk(self, machine: Machine) -> None:
        """What a person does with a node that said it cannot use a directory: a new disk, and a file that says so."""
        for path in self._spoiled(machine) if machine is self.machine else ():
            machine.kill()
            restore(machine.disk, path, {REPLACED_FILE: b""})
            self.damages = [one for one in self.damages if one.path not in (path, f"{path}/{META_FILE}")]
            self.damages.append(Damage(path, "lost"))
            self._cluster.say(machine.host, f"the disk below {path} is replaced")

    # -- healing ------------------------------------------------------------------------------------------------------

    def is_damaged(self, machine: Machine, directory: str) -> bool:
        """True where the bytes of a log on that machine may be wrong."""
        if machine is not self.machine:
            return False
        name = basename(directory)
        return any(_log_of(one.path) == name or one.path in self._cluster.log_dirs for one in self.damages)

    def is_restored(self, machine: Machine, directory: str) -> bool:
        """True where a log may lack its end, and nothing on that machine shows it."""
        logs = [basename(one.path) for one in self.damages if one.how == "restored"]
        return machine is self.machine and basename(directory) in logs

    def _is_complete(self, log: Log) -> bool:
        return log.log_end_offset >= self.committed_end(log)

    def was_looked_at(self) -> bool:
        """A node has started on that machine since it was damaged."""
        return self.machine is not None and self.machine.incarnation > self._struck_incarnation

    def is_whole(self) -> bool:
        """True when nothing is damaged, or when all of it was found and mended: another disk may be next."""
        machine = self.machine
        if machine is None:
            return True
        if not self.was_looked_at():
            return False
        if self._cluster.simulator.now - self._struck_at > PASSES_AFTER_S:
            self._let_pass(machine)
        if not self._has_mended(machine) or self.differences(machine):
            return False
        self._cluster.say(machine.host, "media: all is whole again")
        self.machine = None
        self.has_exchanged = False
        self.damages.clear()
        self.on_whole(machine)
        return True

    def _let_pass(self, machine: Machine) -> None:
        """What nobody came upon for a while was a bad cable."""
        for one in reversed(self.damages):
            if let_pass(machine.disk, one):
                self._cluster.say(machine.host, f"media: it has passed that {one}")
                self.damages = [each for each in self.damages if each is not one or not one.path.endswith(META_FILE)]

    def _has_mended(self, machine: Machine) -> bool:
        """The node knows of no damage any more, and everybody counts on all of its replicas."""
        node = machine.node
        if node is None or not node.data_plane.roles.has_begun:
            return False
        if any(basename(one.path) == META_FILE for one in self.damages):
            return False  # its next start will be refused
        quorum = metadata_directory(node)
        if machine.disk.find(f"{quorum}/{REPAIR_MARK}") is not None or not segments(machine, quorum):
            return False
        for topic, number, state in node.image.partitions():
            if machine.node_id in state.replicas:
                log = next((one for one in node.store if one.topic_partition == (topic.name, number)), None)
                if log is None or log.is_offline or log.corruption is not None or machine.node_id not in state.isr:
                    return False
        if any(_size_of(machine, log.directory) < log.size_in_bytes for log in node.store):
            return False
        if any(self.is_restored(machine, log.directory) and not self._is_complete(log) for log in node.store):
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
        if any(one.path == directory and one.how == "lost" for one in self.damages) and not starts:
            return True
        if any(_is_as_damaged(machine, one) for one in mine):
            return True  # what lies behind is elsewhere
        spoiled = [self._spoiled_bytes(machine, one, starts[one.path]) for one in mine if one.path in starts]
        return all(any(at in some for some in spoiled) for at in wrong)

    def _spoiled_bytes(self, machine: Machine, one: Damage, file_start: int) -> range:
        """Which of a log are not what they should be. A node whose file is cut under it goes on behind the cut."""
        runs_on = machine.incarnation <= self._struck_incarnation and one.how in ("cut", "emptied", "older")
        return range(file_start + one.start, LOG_SIZE_MAX if runs_on else file_start + one.stop)

    def _logs(self, machine: Machine) -> list[str]:
        return [
            path
            for path in self._strokes(machine).partition_directories()
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
    if done.how in ("lost", "displaced"):
        return not isinstance(node, Inode)
    return done.how in ("cut", "emptied", "older") and isinstance(node, Inode) and len(node.content) == done.start


def _size_of(machine: Machine, directory: str) -> int:
    return sum(len(file.content) for file in segments(machine, directory).values())
