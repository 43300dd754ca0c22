"""What is done to a simulated cluster: a seeded plan of faults that keeps within what the cluster promises to survive.

Processes die in any number and at any moment, all at once too (P1). Power goes from one machine at a time, the next
only when every replica is in sync again, because ``min.insync.replicas`` is 2; where every write is synced before it is
acknowledged it goes from any number at any moment (P2).
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from sim_cluster import Machine, SimulatedCluster
from sim_departed import Departure
from sim_losses import BeyondThePromise
from sim_media import EPOCHS, LOST, ODD, RESTORED, UNREADABLE, WRONG, Media
from sim_room import Room
from sim_shortages import Shortages
from simulator.disk.damage import How
from simulator.disk.operations import Kind

from minikafka.model import NO_NODE

WEIGHTS: Final = {
    "orderly restart": 2,
    "kill": 2,
    "kill at operation": 3,
    "kill controller": 2,
    "kill leader": 2,
    "kill two": 1,
    "kill all": 1,
    "restart storm": 1,
    "pause": 1,
    "isolate": 1,
    "cut one way": 1,
    "cut between two": 1,
    "slow network": 1,
    "slow machine": 1,
    "stalled threads": 1,
    "clock jump": 1,
    "disk full or failing": 1,
    "power loss": 2,
    "power loss after a failover": 1,
    "media": 2,
    "bad sectors": 1,
    "no descriptors": 1,
}
"""How often each fault comes, relative to the others."""
BESIDES: Final = {"little room": 2, "short writes": 2}
"""As often, of a random stream of their own: until one comes, a seed is the same run with and without them."""
EXTRA: Final = {
    "disk fails at operation": 2,
    "odd files": 2,
    "older copies": 2,
    "former directories": 2,
    "leader epochs": 2,
    "lost logs": 2,
    "damage beyond the promise": 2,
    "machine goes for good": 3,
    "slow disk": 2,
    "slow disks": 1,
    "no names": 1,
    "rolling restart": 3,
}
"""Those that come only where they are asked for."""
ALL: Final = WEIGHTS | BESIDES | EXTRA
REFUSED: Final[tuple[Kind, ...]] = (
    "rename",
    "rename",
    "fsync",
    "fsync_dir",
    "create",
    "append",
    "overwrite",
    "truncate",
    "unlink",
    "mkdir",
    "rmdir",
)
"""Operations at which a disk begins to fail."""
CHECKPOINTED_AFTER_S: Final = 8.0
LOOKS_AFTER_S: Final = 2.0
REMEMBERS_AFTER_S: Final = 3.0
"""What a file is again is so old, or twice."""
WHILE_UP: Final = ("running", "running, one behind")
WHILE_DOWN: Final = ("killed", "all killed", "all killed, it is first", "stopped")
"""When media go bad."""
ONE_BEHIND: Final = "all killed, it and one that is behind are first"
ONLY_WHILE: Final[Mapping[Sequence[How], Sequence[str]]] = {RESTORED: WHILE_DOWN, LOST: ("all killed, it is first",)}
"""When else nothing would come of it: others lead, and a node is not asked what it has."""
JUDGED_TOPICS: Final = ("t", "flushed")
PATIENCE: Final = 20
"""How often media look again whether all replicas are in sync, twice a second."""


class Faults:
    """Breaks something every now and then. :meth:`run` is a task of a process of its own; :meth:`mend` ends it all."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        mean_pause_s: float,
        without: Collection[str] = frozenset(),
        *,
        besides: random.Random,
        is_flushed: bool = False,
        extra: Collection[str] = frozenset(),
    ) -> None:
        """``besides`` is the random stream of :data:`BESIDES`."""
        self._cluster = cluster
        self._is_flushed = is_flushed
        weights = WEIGHTS | {name: weight for name, weight in EXTRA.items() if name in extra}
        self._faults = [name for name, weight in weights.items() for _ in range(weight) if name not in without]
        self._besides = besides
        self._faults_besides = [name for name, weight in BESIDES.items() for _ in range(weight) if name not in without]
        self._may_die_of_it = set(self._faults) != {"rolling restart"}
        self._is_remembering = not {"odd files", "older copies"}.isdisjoint(self._faults)
        self.media = Media(cluster)
        self.beyond = BeyondThePromise(cluster)
        self._shortages = Shortages(cluster, self._later, self._short)
        self._departure = Departure(
            cluster, self._later, lambda one: self._restart_later(one, self._short()), is_flushed=is_flushed
        )
        self._room = Room(cluster, besides, self._later_besides, self._use_again)
        self._strike_at_exit: Callable[[], None] = lambda: None
        self._is_power_at_stake = False  # it goes at the next election
        self._mean_pause_s = mean_pause_s
        self._lost_power = False
        self._is_active = False
        self._is_over = False
        self._remembered_at = 0.0
        cluster.on_exit = self._on_exit
        cluster.simulator.after(LOOKS_AFTER_S, lambda _: self._look_after())
        self.counts: dict[str, int] = {}

    async def run(self) -> None:
        """Until cancelled."""
        rng = self._cluster.rng
        self._is_active = True
        self._plan_besides()
        while self._faults:
            await asyncio.sleep(rng.expovariate(1 / self._mean_pause_s))
            self._do(rng.choice(self._faults))

    def _plan_besides(self) -> None:
        """Where they are alone they come as often as the others would."""
        if self._faults_besides:
            share = len(self._faults_besides) / (len(self._faults_besides) + len(self._faults))
            delay_s = self._besides.expovariate(share / self._mean_pause_s)
            self._later_besides(delay_s, self._do_besides)

    def _do_besides(self) -> None:
        if self._is_active:
            self._do(self._besides.choice(self._faults_besides))
            self._plan_besides()

    def _do(self, fault: str) -> None:
        {
            "orderly restart": self.restart_orderly,
            "rolling restart": self.restart_next,
            "kill": self.kill_one,
            "kill at operation": self.kill_at_operation,
            "kill controller": self.kill_controller,
            "kill leader": self.kill_leader,
            "kill two": self.kill_two,
            "kill all": self.kill_all,
            "restart storm": self.storm,
            "pause": self.pause,
            "isolate": self.isolate,
            "cut one way": self.cut_one_way,
            "cut between two": self.cut_between,
            "slow network": self.slow_network,
            "slow machine": self.slow_machine,
            "clock jump": self.jump_clock,
            "disk full or failing": self.fill_disk,
            "power loss": self.lose_power,
            "power loss after a failover": self.lose_power_after_failover,
            "media": lambda: self.damage_media("media", WRONG),
            "bad sectors": lambda: self.damage_media("bad sectors", UNREADABLE),
            "damage beyond the promise": self.damage_beyond,
            "machine goes for good": self.let_one_go,
            "odd files": lambda: self.damage_media("odd files", ODD),
            "leader epochs": lambda: self.damage_media("leader epochs", EPOCHS),
            "lost logs": lambda: self.damage_media("lost logs", LOST),
            "former directories": self.exchange_directory,
            "older copies": lambda: self.damage_media("older copies", RESTORED),
            "disk fails at operation": self.fail_at_operation,
            "slow disk": self._counted("slow disk", self._shortages.slow_disk),
            "stalled threads": self._counted("stalled threads", self._shortages.stall_threads),
            "slow disks": self._counted("slow disks", self._shortages.slow_disks),
            "no descriptors": self._counted("no descriptors", self._shortages.no_descriptors),
            "no names": self._counted("no names", self._shortages.no_names),
            "little room": self.leave_little_room,
            "short writes": self._counted("short writes", self.shorten_writes),
        }[fault]()

    def mend(self) -> None:
        """Everything runs and reaches everything from now on; what was planned for later does not happen."""
        self._is_active = False
        self._is_over = True
        cluster = self._cluster
        cluster.network.mend_all()
        self._shortages.end()
        self._room.end()
        self._mend_former_directory()
        for machine in cluster.machines.values():
            machine.kill_at_operation(1 << 60)
            machine.resume()
            self._repair(machine)
            for other in cluster.machines.values():
                link = cluster.network.link(machine.host, other.host)
                link.delay_min_s, link.delay_max_s = 50e-6, 500e-6
            if machine.process is not None:
                machine.process.slowness = 1.0
        self._mend_media()
        cluster.start()

    def _mend_media(self) -> None:
        """A start looks at everything; a node that runs need not have come upon what was done to it since."""
        if self.media.machine is not None and not self.media.was_looked_at():
            self.media.machine.kill()

    def _mend_former_directory(self) -> None:
        """While another machine may lack something, it stays away."""
        away = self.media.former.away
        if away is not None and self.media.machine is away.machine:
            away.machine.kill()
            self.media.exchange(away.machine)

    # -- processes ----------------------------------------------------------------------------------------------------

    def restart_orderly(self) -> None:
        """SIGTERM; it is started again once it ended."""
        self._count("orderly restart")
        self._any().terminate()

    def restart_next(self) -> None:
        """SIGTERM, as long as every replica is in sync: what an operator does."""
        if self._is_in_sync():
            self._count("rolling restart")
            self._any().terminate()

    def kill_one(self) -> None:
        self._kill("kill", [self._any()])

    def kill_two(self) -> None:
        self._kill("kill two", self._cluster.rng.sample(list(self._cluster.machines.values()), 2))

    def kill_all(self) -> None:
        self._kill("kill all", list(self._cluster.machines.values()))

    def kill_controller(self) -> None:
        for machine, node in self._cluster.nodes():
            if node.control_plane.raft.machine.leader == machine.node_id:
                self._kill("kill controller", [machine])
                return

    def kill_leader(self) -> None:
        led = [
            machine
            for machine, node in self._cluster.nodes()
            if any(partition.leader is not None for partition in node.replicas)
        ]
        if led:
            self._kill("kill leader", [self._cluster.rng.choice(led)])

    def kill_at_operation(self) -> None:
        self._count("kill at operation")
        machine = self._any()
        machine.kill_at_operation(self._cluster.rng.randrange(1, 40))
        self._restart_later(machine, 1.0 + self._short())

    def storm(self) -> None:
        """One machine's node is killed and started again and again, before it is quite up."""
        self._count("restart storm")
        machine = self._any()
        for turn in range(self._cluster.rng.randrange(2, 6)):
            self._later(turn * self._short() / 4, lambda: self._restart(machine))

    def pause(self) -> None:
        self._count("pause")
        machine = self._any()
        machine.pause()
        self._later(self._cluster.rng.choice((0.5, 3.0, 12.0)) * self._cluster.rng.random(), machine.resume)

    def slow_machine(self) -> None:
        self._count("slow machine")
        machine = self._any()
        if machine.process is not None:
            machine.process.slowness = self._cluster.rng.choice((5.0, 30.0, 200.0))
            process = machine.process
            self._later(self._short(), lambda: setattr(process, "slowness", 1.0))

    def on_election(self, machine: Machine) -> None:
        """A node just began to lead something: now and then it dies of it."""
        if self._is_power_at_stake:
            self._is_power_at_stake = False
            self._later(0.05 + self._cluster.rng.random(), self._lose_all_power)
        if self._may_die_of_it and self._is_active and self._cluster.rng.random() < 0.03:
            self._count("kill at election")
            self._later(0.005 * self._cluster.rng.random(), machine.kill)
            self._restart_later(machine, 0.01 + self._short())

    # -- network ------------------------------------------------------------------------------------------------------

    def isolate(self) -> None:
        """A machine reaches none of the others, though clients may reach it."""
        self._count("isolate")
        machine = self._any()
        for other in self._others(machine):
            self._cut_both(machine, other)

    def cut_one_way(self) -> None:
        self._count("cut one way")
        machine, rng = self._any(), self._cluster.rng
        hears = rng.random() < 0.5
        for other in self._others(machine):
            pair = (other.host, machine.host) if hears else (machine.host, other.host)
            self._cut(*pair, self._short())

    def cut_between(self) -> None:
        self._count("cut between two")
        machine = self._any()
        self._cut_both(machine, self._cluster.rng.choice(self._others(machine)))

    def slow_network(self) -> None:
        self._count("slow network")
        machine = self._any()
        for other in self._others(machine):
            for pair in ((machine.host, other.host), (other.host, machine.host)):
                link = self._cluster.network.link(*pair)
                link.delay_max_s = self._cluster.rng.choice((0.005, 0.05, 0.5))
                self._later(self._short(), lambda link=link: setattr(link, "delay_max_s", 500e-6))

    # -- disks, clocks, power -----------------------------------------------------------------------------------------

    def fill_disk(self) -> None:
        machine, rng = self._any(), self._cluster.rng
        if self._may_fail(machine):
            self._count("disk full or failing")
            machine.failing_path = rng.choice(("/", *self._cluster.log_dirs))
            machine.disk_error = self._disk_error()
            self._later(self._short(), lambda: self._repair(machine))

    def fail_at_operation(self) -> None:
        """A directory, or one file in it, cannot be written from one rename, sync, truncation, ... on."""
        machine, rng = self._any(), self._cluster.rng
        if self._may_fail(machine):
            self._count("disk fails at operation")
            below = rng.choice(self._cluster.log_dirs)
            machine.refuse(rng.choice(REFUSED), below, self._disk_error(), is_file=rng.random() < 0.5)
            self._later(3.0 + self._short(), lambda: self._repair(machine))

    def leave_little_room(self) -> None:
        if self._room.leave_little(self._may_fail):
            self._count("little room")

    def shorten_writes(self) -> None:
        self._room.shorten_writes(1.0 + self._besides.choice((1.0, 12.0)) * self._besides.random())

    def _may_fail(self, machine: Machine) -> bool:
        """One replica at a time."""
        is_at_stake = bool(self.beyond.partition) or self._departure.machine is not None
        return not is_at_stake and self.media.machine in (None, machine) and not self.media.has_exchanged

    def _disk_error(self) -> OSError:
        number = self._cluster.rng.choice((errno.ENOSPC, errno.EIO))
        return OSError(number, "no space left on device" if number == errno.ENOSPC else "disk failure")

    def _repair(self, machine: Machine) -> None:
        """The disk works again; a node that went on without a directory is restarted to use it."""
        machine.allow()
        self._use_again(machine)

    def _use_again(self, machine: Machine) -> None:
        """What a node went on without."""
        if machine.node is not None and len(machine.node.store.online) < len(machine.log_dirs):
            machine.terminate()

    def jump_clock(self) -> None:
        self._count("clock jump")
        self._any().wall_offset_s = self._cluster.rng.choice((-86_400.0, -60.0, 0.0, 60.0, 86_400.0))

    def lose_power(self) -> None:
        """Not where a sync failed: a process that starts there later is told of no error and no loss by its kernel."""
        rng = self._cluster.rng
        machines = [machine for machine in self._cluster.present() if not machine.disk.has_failed_sync]
        if self.beyond.partition or (self.media.machine is not None and not self.media.is_whole()):
            return
        if not machines or (not self._is_flushed and self._lost_power and not self._is_in_sync()):
            return
        if not self._is_flushed and self._departure.machine is not None:
            return  # that was one replica already
        self._lost_power = self.beyond.has_lost_power = True
        self._count("power loss")
        for machine in rng.sample(machines, rng.randrange(1, 1 + len(machines)) if self._is_flushed else 1):
            machine.lose_power()
            self._restart_later(machine, self._short())

    def lose_power_after_failover(self) -> None:
        """Of all, while a new leader's disk has not taken yet what it leads with. Where every write is synced."""
        machines = self._cluster.present()
        is_at_stake = bool(self.beyond.partition) or self.media.machine is not None
        if not self._is_flushed or is_at_stake or any(one.disk.has_failed_sync for one in machines):
            return
        self._count("power loss after a failover")
        rng = self._cluster.rng
        for machine in machines:
            self._shortages.slow(machine, rng.choice((0.3, 1.0, 3.0)), 8.0)
        self._later(1.0 + 2.0 * rng.random(), self._kill_leader_and_power)

    def _kill_leader_and_power(self) -> None:
        self.kill_leader()
        self._is_power_at_stake = True

    def _lose_all_power(self) -> None:
        if self.media.machine is not None or self.beyond.partition:
            return  # damaged since this was planned
        self.beyond.has_lost_power = True
        for machine in self._cluster.present():
            if not machine.disk.has_failed_sync:
                machine.lose_power()
                self._restart_later(machine, self._short())

    def let_one_go(self, patience: int = PATIENCE) -> None:
        """One machine, once, when nothing else is at stake; from then on nothing else takes a replica away."""
        media = self.media
        is_at_stake = bool(self.beyond.partition) or media.former.away is not None
        if is_at_stake or self._departure.machine is not None:
            return
        if not self._is_in_sync() or not media.is_whole() or any(map(_is_unsound, self._cluster.machines.values())):
            if patience:
                self._later(0.5, lambda: self.let_one_go(patience - 1))
            return
        self._count("machine goes for good")
        self._departure.begin()

    # -- media --------------------------------------------------------------------------------------------------------

    def damage_beyond(self) -> None:
        """All replicas of one partition, once. From then on nothing else is lost that may hide what became of it."""
        is_known = self._cluster.simulator.now > CHECKPOINTED_AFTER_S  # a younger log can be gone without a trace
        if self._departure.machine is not None or self.media.machine is not None:
            return
        if self.beyond.partition or not is_known or not self._is_in_sync():
            return
        self._count("damage beyond the promise")
        replicas = self._replicas_of_some_partition()
        self.kill_all()
        self.beyond.strike(*replicas)

    def _replicas_of_some_partition(self) -> tuple[str, list[Machine]]:
        _, node = next(self._cluster.nodes())
        found = [
            (f"{topic.name}-{number}", [self._cluster.machines[one] for one in state.replicas])
            for topic, number, state in node.image.partitions()
            if topic.name in JUDGED_TOPICS
        ]
        return self._cluster.rng.choice(found)

    def damage_media(self, name: str, hows: Sequence[How], patience: int = PATIENCE) -> None:
        """Of one machine, while it runs or is down, and of no other before all is whole again."""
        if self.beyond.partition or self._departure.machine is not None:
            return
        if not self._is_in_sync() or any(machine.disk.has_failed_sync for machine in self._cluster.machines.values()):
            if patience:
                self._later(0.5, lambda: self.damage_media(name, hows, patience - 1))
            return
        rng = self._cluster.rng
        machine = self.media.choose()
        self._count(name)
        match rng.choice(ONLY_WHILE.get(hows, (*WHILE_UP, *WHILE_DOWN))):
            case "running":
                self.media.strike(machine, hows)
            case "running, one behind":
                self._kill("kill", [rng.choice(self._others(machine))])
                self._later(2.0 * rng.random(), lambda: self._strike_own_writes(machine, hows))
            case when:
                self._strike_while_down(machine, when, lambda: self.media.strike(machine, hows))

    def _strike_while_down(self, machine: Machine, when: str, strike: Callable[[], None]) -> None:
        match when:
            case "killed":
                self._kill("kill", [machine])
                strike()
            case "all killed":
                self.kill_all()
                strike()
            case "all killed, it is first":
                self._kill_all_but_first(machine)
                strike()
            case "stopped":
                self._strike_at_exit = strike
                machine.terminate()

    def _kill_all_but_first(self, *first: Machine) -> None:
        """All are killed; those are up again before the others."""
        self._count("kill all")
        for other in self._cluster.machines.values():
            if other not in first:
                other.kill()
                self._restart_later(other, 1.0 + self._short())
        for machine in first:
            machine.kill()
            self._restart_later(machine, 0.0)

    def exchange_directory(self, patience: int = PATIENCE) -> None:
        """A log directory of one machine goes, or comes back as it was."""
        machines = self._cluster.machines.values()
        is_at_stake = bool(self.beyond.partition) or self._departure.machine is not None
        if len(self._cluster.log_dirs) == 1 or is_at_stake or self.media.former.must_come_back:
            return
        if not self._is_in_sync() or not self.media.is_whole() or any(map(_is_unsound, machines)):
            if patience:
                self._later(0.5, lambda: self.exchange_directory(patience - 1))
            return
        rng = self._cluster.rng
        machine = self.media.choose_to_exchange()
        self._count("directory goes" if self.media.former.away is None else "directory comes back")
        when = rng.choice((*WHILE_DOWN, ONE_BEHIND, ONE_BEHIND))
        if when == ONE_BEHIND:
            behind = rng.choice(self._others(machine))
            behind.kill()
            self._later(2.0 * rng.random(), lambda: self._exchange_before_one_behind(machine, behind))
        else:
            self._strike_while_down(machine, when, lambda: self._exchange(machine))

    def _exchange_before_one_behind(self, machine: Machine, behind: Machine) -> None:
        self._kill_all_but_first(machine, behind)
        self._exchange(machine)

    def _exchange(self, machine: Machine) -> None:
        self.media.exchange(machine)
        if self.media.former.must_come_back:
            self._later(1.0 + self._short(), self._mount)

    def _mount(self) -> None:
        away = self.media.former.away
        assert away is not None
        self._kill("kill", [away.machine])
        self.media.exchange(away.machine)

    def _strike_own_writes(self, machine: Machine, hows: Sequence[How]) -> None:
        if machine is self.media.machine and hows:
            self.media.strike_own_writes(machine, hows)

    def _look_after(self) -> None:
        """A person reads what nodes say, to the very end."""
        if self._is_remembering and self._cluster.simulator.now > self._remembered_at + REMEMBERS_AFTER_S:
            self._remembered_at = self._cluster.simulator.now
            self.media.remember()
        if self.media.wants_repair():
            assert self.media.machine is not None
            self.media.replace_disk(self.media.machine)
            self._restart_whatever(self.media.machine)
        self._cluster.simulator.after(LOOKS_AFTER_S, lambda _: self._look_after())

    def _restart_whatever(self, machine: Machine) -> None:
        """Also when all is mended."""
        self._cluster.simulator.after(0.1 + self._short(), lambda _: self._start(machine))

    def _on_exit(self, machine: Machine) -> None:
        """A service manager starts it again."""
        if machine is self.media.machine:
            strike, self._strike_at_exit = self._strike_at_exit, lambda: None
            strike()
        self.media.replace_disk(machine)
        self._restart_whatever(machine)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _is_in_sync(self) -> bool:
        """Every node has registered since it started, and sees every replica in the ISR."""
        cluster = self._cluster
        if not all(machine.is_up and machine.node is not None for machine in cluster.machines.values()):
            return False
        for _, node in cluster.nodes():
            if not node.data_plane.roles.has_begun or any(
                len(partition.isr) < len(partition.replicas) or partition.leader == NO_NODE
                for _, _, partition in node.image.partitions()
            ):
                return False
        return True

    def _kill(self, name: str, machines: list[Machine]) -> None:
        self._count(name)
        for machine in machines:
            machine.kill()
            self._restart_later(machine, self._short())

    def _restart_later(self, machine: Machine, delay_s: float) -> None:
        self._later(delay_s, lambda: self._start(machine))

    def _restart(self, machine: Machine) -> None:
        machine.kill()
        self._start(machine)

    def _start(self, machine: Machine) -> None:
        if not machine.is_up and not machine.is_gone:
            machine.start()

    def _cut_both(self, machine: Machine, other: Machine) -> None:
        seconds = self._short()
        self._cut(machine.host, other.host, seconds)
        self._cut(other.host, machine.host, seconds)

    def _cut(self, source: str, target: str, seconds: float) -> None:
        self._cluster.say("network", f"cuts {source} -> {target} for {seconds:.1f} s")
        self._cluster.network.cut(source, target)
        self._later(seconds, lambda: self._cluster.network.mend(source, target))

    def _any(self) -> Machine:
        return self._cluster.rng.choice(list(self._cluster.machines.values()))

    def _others(self, machine: Machine) -> list[Machine]:
        return [other for other in self._cluster.machines.values() if other is not machine]

    def _short(self) -> float:
        """A few seconds, or a moment."""
        return self._cluster.rng.choice((0.05, 1.0, 6.0)) * self._cluster.rng.random()

    def _later(self, delay_s: float, act: Callable[[], object]) -> None:
        self._cluster.simulator.after(delay_s, lambda _: None if self._is_over else act())

    def _later_besides(self, delay_s: float, act: Callable[[], object]) -> None:
        order = self._besides.random()
        self._cluster.simulator.after(delay_s, lambda _: None if self._is_over else act(), order=order)

    def _counted(self, name: str, act: Callable[[], None]) -> Callable[[], None]:
        def do() -> None:
            self._count(name)
            act()

        return do

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1
        self._cluster.say("faults", name)


def _is_unsound(machine: Machine) -> bool:
    """Its disk may lack something that its node has written."""
    return machine.disk.has_failed_sync or machine.is_disk_failing
