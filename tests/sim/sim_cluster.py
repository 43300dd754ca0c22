"""Real nodes on simulated machines: start them, kill them at any moment, take their power, stop their clocks."""

from __future__ import annotations

import errno
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from posixpath import basename
from types import FrameType
from typing import Final, NamedTuple

from simulator.disk import KilledInside, MountedDisk, Operation, SimulatedDisk
from simulator.disk.operations import Kind
from simulator.killed import Killed
from simulator.loop import Process, Simulator
from simulator.network import Network
from simulator.threads import Job

from minikafka.broker.clock import Clock
from minikafka.broker.node import Node
from minikafka.config import BrokerConfig
from minikafka.errors import KafkaError
from minikafka.storage.aside import TEMPORARY_SUFFIX
from minikafka.storage.log import Log
from minikafka.storage.meta import MetaError
from minikafka.storage.new_log import NewLogs

CLUSTER_ID: Final = "simulated-cluster"
SECRET: Final = "a secret of some length"
LOG_DIRS: Final = ("/a", "/b")
WALL_START_S: Final = 1.7e9
CLIENT_PORT: Final = 9092
USERS_PORT: Final = 9093
INTERRUPTED_SHARE: Final = 0.02
"""Of the operations of threads, those before which everything else may happen."""
INTERRUPTION_S: Final = 2e-3
STALLED_SHARE: Final = 0.03
"""Of the operations of threads, those that take long while threads stall."""

RARE: Final = (NewLogs.remake.__code__, Log.write_due_mark.__code__)
"""What may take some ten syncs of the loop, for one replica, or one or two, for each of a portion of replicas."""

Say = Callable[[str, str], None]


class Refusal(NamedTuple):
    """Which operation a disk refuses first, and what from then on."""

    kind: Kind
    below: str
    error: OSError
    is_file: bool


class Nothing:
    """Decides that nothing of what was not synced is there after a power cut."""

    def randrange(self, _stop: int, /) -> int:
        """The first possibility."""
        return 0


class Machine:
    """One machine: a disk that outlives its processes, a wall clock, and at most one process, which runs a node."""

    def __init__(self, cluster: SimulatedCluster, node_id: int) -> None:
        self.node_id = node_id
        self.host = f"node-{node_id}"
        self.disk = SimulatedDisk()
        self.wall_offset_s = 0.0
        self.log_dirs: Sequence[str] = cluster.log_dirs
        """What ``log.dirs`` names at the next start."""
        self.node: Node | None = None
        self.process: Process | None = None
        self.failure: BaseException | None = None
        """Why its node ended by itself, since it was last started."""
        self.incarnation = 0
        self.is_paused = False
        self.is_gone = False
        """For good (``sim_departed``): nothing is started on it any more."""
        self.disk_error: OSError | None = None
        """What every write and sync below ``failing_path`` fails with while it is set."""
        self.failing_path = "/"
        self.sync_s = 0.0
        """How long a sync takes while the disk is slow."""
        self.stall_s = 0.0
        """How long one of some operations of threads takes at most, while threads stall."""
        self.synced_in_turn = 0
        """How many syncs the loop of a node that serves waited for in its present turn; but for what is rare."""
        self.takes: Callable[[int], int] = lambda size: size
        """How many bytes, of so many, one write takes: at least one."""
        self._operations_to_live: int | None = None
        self._refusal: Refusal | None = None
        self._cluster = cluster
        self._boot = 0

    @property
    def has_noise(self) -> bool:
        """Some batches may go from its logs: the cleaner takes them (``sim_noise``)."""
        return self._cluster.has_noise

    @property
    def is_disk_failing(self) -> bool:
        """True while writes fail, or will from some operation on."""
        return self.disk_error is not None or self._refusal is not None or self.disk.is_short

    @property
    def is_up(self) -> bool:
        """True while a process runs on it, paused or not."""
        return self.process is not None

    def start(self) -> None:
        """Start a node as a service manager would."""
        assert self.process is None, f"{self.host} runs already"
        self.incarnation += 1
        self.failure = None
        self.is_paused = False
        self._operations_to_live = None
        self.process = self._cluster.network.process(self.host)
        self._cluster.note(self.process, self)
        self.process.spawn(self._main(self.process), "node")
        self._cluster.say(self.host, "starts")

    def kill(self) -> None:
        """SIGKILL."""
        if self.process is not None:
            self._cluster.say(self.host, "is killed")
            self._end()

    def terminate(self) -> None:
        """SIGTERM: the node hands over and ends by itself."""
        if self.node is not None:
            self._cluster.say(self.host, "is told to stop")
            self.node.stopped.set()

    def kill_at_operation(self, count: int) -> None:
        """SIGKILL at the ``count``-th write or sync of its disk from now: before it, or in the middle of it."""
        self._operations_to_live = count

    def refuse(self, kind: Kind, below: str, error: OSError, *, is_file: bool) -> None:
        """From the next operation of that kind on, whatever is ``below`` fails; ``is_file``: only that one file."""
        self._refusal = Refusal(kind, below, error, is_file)

    def allow(self) -> None:
        """Everything on its disk works again."""
        self.disk_error = self._refusal = None

    def lose_power(self) -> None:
        """The machine is off; what was not synced may be gone."""
        self._cluster.say(self.host, "loses power")
        self._cluster.network.lose_power(self.host)
        if self.process is not None:
            self._end()
        self.disk.lose_power(Nothing() if self._cluster.keeps_nothing_unsynced else self._cluster.rng)
        self._boot += 1

    def pause(self) -> None:
        """SIGSTOP."""
        if self.process is not None:
            self._cluster.say(self.host, "is paused")
            self.is_paused = True
            self.process.pause()

    def resume(self) -> None:
        """SIGCONT."""
        self.is_paused = False
        if self.process is not None:
            self._cluster.say(self.host, "goes on")
            self.process.resume()

    def _end(self) -> None:
        process, self.process = self.process, None
        assert process is not None
        self.node = None
        process.kill()
        self.disk.kill()

    async def _main(self, process: Process) -> None:
        cluster = self._cluster
        if cluster.sets_clocks:
            self.wall_offset_s = 0.0
        try:
            node = Node(
                cluster.config(self.node_id),
                cluster_id=CLUSTER_ID,
                secret=SECRET.encode(),
                disk=self._mount(process),
                clock=Clock(process, lambda: WALL_START_S + cluster.simulator.now + self.wall_offset_s, process.time),
                rng=random.Random(cluster.rng.getrandbits(64)),
                nonce=lambda: cluster.rng.randbytes(32),
                boot_id=f"{self.host}-{self._boot}",
            )
            self.node = node
            try:
                await node.start()
                await node.stopped.wait()
            finally:
                await node.stop()
            self.failure = node.failure
        except (MetaError, KafkaError, OSError) as error:  # what run_node ends with one line for
            self.failure = error
        cluster.simulator.after(0.0, self._on_exit, process)

    def _on_exit(self, process: Process) -> None:
        if process is self.process:
            self._cluster.say(self.host, f"ended by itself: {self.failure!r}")
            self._end()
            self._cluster.on_exit(self)

    def _mount(self, process: Process) -> MountedDisk:
        def before(operation: Operation) -> None:
            if operation.kind != "rename" or not operation.path.endswith(TEMPORARY_SUFFIX):
                self._interrupt(process)  # else it holds the lock of a small file
            if operation.kind in ("fsync", "fsync_dir") and self._is_dirty(operation.path):
                if Job.current is None and self.node is not None and self.node.data_plane.roles.has_begun:
                    self._cluster.synced_on_loop[basename(operation.path)] += 1
                    self.synced_in_turn += not (self.node.stopped.is_set() or _is_rare())
                process.spend(self._sync_time_s() / mounted.jobs_at_once)
            self._before(operation)

        def before_read(operation: Operation) -> None:
            self._interrupt(process)
            if operation.kind == "open" and process.is_out_of_descriptors:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), operation.path)

        mounted = self.disk.mount(before, before_read)
        mounted.takes = lambda size: self.takes(size)
        return mounted

    def _interrupt(self, process: Process) -> None:
        """A thread may lose the processor at any operation, and while threads stall, for long."""
        rng = self._cluster.rng
        if Job.current is None:
            return
        if self.stall_s and rng.random() < STALLED_SHARE:
            process.spend(self.stall_s * rng.random())
        elif rng.random() < INTERRUPTED_SHARE:
            process.spend(INTERRUPTION_S * rng.random() * process.slowness)

    def _is_dirty(self, path: str) -> bool:
        """A sync of what is clean waits for nothing."""
        node = self.disk.find(path)
        return node is None or bool(node.unsynced)

    def _sync_time_s(self) -> float:
        rng = self._cluster.rng
        if self.sync_s:
            return self.sync_s * (0.5 + rng.random())
        return 100e-6 * rng.random() + (0.02 * rng.random() ** 2 if rng.random() < 0.1 else 0.0)

    def _before(self, operation: Operation) -> None:
        cluster = self._cluster
        cluster.simulator.mark(f"{self.host} {operation.kind} {operation.path} {operation.size}")
        if self._operations_to_live is not None:
            self._operations_to_live -= 1
            if self._operations_to_live <= 0:
                self._operations_to_live = None
                cluster.say(self.host, f"is killed at {operation.kind} of {operation.path}")
                inside = operation.kind == "append" and operation.size and cluster.rng.random() < 0.5
                self._end()
                raise KilledInside(cluster.rng.randrange(operation.size)) if inside else Killed
        refusal = self._refusal
        if refusal is not None and operation.kind == refusal.kind and operation.path.startswith(refusal.below):
            cluster.say(self.host, f"{operation.kind} of {operation.path}: {refusal.error.strerror}")
            self.failing_path = operation.path if refusal.is_file else refusal.below
            self.disk_error, self._refusal = refusal.error, None
        if self.disk_error is not None and operation.path.startswith(self.failing_path):
            is_sync = operation.kind in ("fsync", "fsync_dir")
            raise OSError(errno.EIO, "disk failure") if is_sync else self.disk_error


def _is_rare() -> bool:
    """The caller makes a log anew without files, or writes down that one is whole again."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code not in RARE:
        frame = frame.f_back
    return frame is not None


class SimulatedCluster:
    """Machines with the network between them. The first ``voters`` are the controller quorum, the others brokers only.

    ``settings`` are those of every node, ``settings_of`` those of some.
    """

    def __init__(
        self,
        simulator: Simulator,
        settings: Mapping[str, object],
        *,
        brokers: int = 4,
        voters: int = 3,
        log_dirs: int = 1,
        settings_of: Mapping[int, Mapping[str, object]] | None = None,
        say: Say | None = None,
    ) -> None:
        self.simulator = simulator
        self.rng = simulator.rng
        self.network = Network(simulator)
        self._by_process: dict[Process, Machine] = {}
        self.say = say or (lambda who, what: None)
        self.on_exit: Callable[[Machine], None] = lambda machine: None
        """A node ended by itself."""
        self.has_noise = False
        self.sets_clocks = False
        """The wall clock of a node that starts is right: it will be believed."""
        self.keeps_nothing_unsynced = False
        """A power cut takes all that was not synced, rather than any part of it."""
        self.has_users = False
        """Nodes have one more listener, where clients log in."""
        self.synced_on_loop: Counter[str] = Counter()
        """What nodes that serve made their loops wait for, by file name."""
        self.log_dirs = LOG_DIRS[:log_dirs]
        """Of every machine, unless one of them is away (``sim_former``)."""
        self._settings = dict(settings)
        self._settings_of = settings_of or {}
        self._voters = range(1, voters + 1)
        self.machines = {node_id: Machine(self, node_id) for node_id in range(1, brokers + 1)}

    @property
    def bootstrap_servers(self) -> str:
        """Where clients begin."""
        return ",".join(f"{machine.host}:{CLIENT_PORT}" for machine in self.machines.values())

    def config(self, node_id: int) -> BrokerConfig:
        """A node's settings."""
        host = self.machines[node_id].host
        listeners = f"CLIENT://{host}:{CLIENT_PORT},REPLICATION://{host}:9091,CONTROLLER://{host}:9090"
        if self.has_users:
            listeners += f",USERS://{host}:{USERS_PORT}"
        voters = ",".join(f"{voter}@{self.machines[voter].host}:9090" for voter in self._voters)
        return BrokerConfig(
            {
                "node.id": node_id,
                "process.roles": "broker,controller" if node_id in self._voters else "broker",
                "cluster.id": CLUSTER_ID,
                "cluster.secret": SECRET,
                "log.dirs": ",".join(self.machines[node_id].log_dirs),
                "listeners": listeners,
                "listener.security.protocol.map": "USERS:SASL_PLAINTEXT" if self.has_users else "",
                "controller.quorum.voters": voters,
                **self._settings,
                **self._settings_of.get(node_id, {}),
            }
        )

    def start(self) -> None:
        """Start every machine that is not up, and may be."""
        for machine in self.present():
            if not machine.is_up:
                machine.start()

    def present(self) -> list[Machine]:
        """All machines but the one that is gone for good."""
        return [machine for machine in self.machines.values() if not machine.is_gone]

    def nodes(self) -> Iterator[tuple[Machine, Node]]:
        """The nodes that run, paused ones too."""
        for machine in self.machines.values():
            if machine.node is not None:
                yield machine, machine.node

    def note(self, process: Process, machine: Machine) -> None:
        """The process runs on that machine."""
        self._by_process[process] = machine

    def machine_of(self, process: Process) -> Machine | None:
        """The machine whose node this process is."""
        return self._by_process.get(process)
