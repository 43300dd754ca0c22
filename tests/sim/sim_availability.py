"""What must go on while something is slow or lacking, and not only after it is mended.

Each seed makes a cluster, lets it come to rest, does one thing to it and watches: row 20 (a controller while every disk
is slow), row 24 (name look-ups that fail fence nobody), and writing while one node's disk is slow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sim_cluster import Machine, SimulatedCluster
from sim_invariants import Invariants, InvariantViolatedError
from sim_scenario import HEALING_S, is_healed, logs_to, state_of, wait_for
from sim_workload import Workload
from simulator.loop import Simulator

SLOW_SYNC_S: Final = 1.0
CONTROLLER_WITHIN_S: Final = 10.0
PROGRESS_WITHIN_S: Final = 10.0
WITHOUT_NAMES_S: Final = 2.5
"""Shorter than a session: who cannot look a new controller up for longer is fenced, and rightly."""
WATCHED_S: Final = 20.0
STEP_S: Final = 0.05


class Availability:
    """One seed. ``trace`` gets a line for everything that happens."""

    def __init__(self, seed: int, trace: list[str] | None = None) -> None:
        self.simulator = Simulator(seed)
        self._trace = trace
        settings = {
            "min.insync.replicas": 2,
            "default.replication.factor": 3,
            "offsets.topic.replication.factor": 3,
            "offsets.topic.num.partitions": 2,
            "replica.lag.time.max.ms": 3000,
        }
        self.cluster = SimulatedCluster(self.simulator, settings, say=self._say)
        self.workload = Workload(self.cluster, {"t": 2, "flushed": 1}, rate=20.0)
        self._shapes = (
            self._elect_on_slow_disks,
            self._start_on_slow_disks,
            self._write_beside_a_slow_disk,
            self._no_names,
        )

    def run(self) -> None:
        """InvariantViolatedError when the cluster stood still for too long."""
        invariants = Invariants(self.cluster)
        self.simulator.after_turn = invariants.after_turn
        with logs_to(self._say) as failures:
            try:
                self.simulator.rng.choice(self._shapes)()
                if failures:
                    raise InvariantViolatedError(failures[0])
            finally:
                for process in self.cluster.network.processes():
                    process.kill()

    # -- what is done -------------------------------------------------------------------------------------------------

    def _elect_on_slow_disks(self) -> None:
        """The controller dies while every sync takes a second."""
        self._begin()
        for machine in self.cluster.machines.values():
            machine.sync_s = SLOW_SYNC_S
        self._run(1.0)
        controller = self._controller()
        assert controller is not None
        controller.kill()
        self._within(CONTROLLER_WITHIN_S, lambda: self._controller() is not None, "a controller")

    def _start_on_slow_disks(self) -> None:
        """Everything starts while every sync takes a second."""
        self._begin()
        for machine in self.cluster.machines.values():
            machine.sync_s = SLOW_SYNC_S
            machine.kill()
        self.cluster.start()
        self._within(2 * CONTROLLER_WITHIN_S, lambda: self._controller() is not None, "a controller")

    def _write_beside_a_slow_disk(self) -> None:
        """One disk is slow: every partition takes writes all the same."""
        self._begin()
        machine = self._any()
        machine.sync_s = 3 * SLOW_SYNC_S
        self._say("faults", f"slow disk on {machine.host}")
        for _ in range(int(WATCHED_S / STEP_S)):
            self._run(STEP_S)
            for tp in self.workload.partitions:
                silent_s = self.simulator.now - self.workload.acknowledged_at.get(str(tp), 0.0)
                if silent_s > PROGRESS_WITHIN_S:
                    what = f"nothing was acknowledged on {tp} for {silent_s:.0f} s"
                    raise InvariantViolatedError(f"{what} while the disk of {machine.host} is slow")

    def _no_names(self) -> None:
        """Nobody can look a name up for a while, and the controller dies: nobody who lives is taken for gone."""
        self._begin()
        controller = self._controller()
        assert controller is not None
        lost = self.cluster.network.lost_resolvers
        lost.update(machine.host for machine in self.cluster.machines.values())
        self.simulator.after(WITHOUT_NAMES_S, lambda _: lost.clear())
        controller.kill()
        for _ in range(int(WATCHED_S / 2 / STEP_S)):
            self._run(STEP_S)
            acting = self._controller()
            image = None if acting is None or acting.node is None else acting.node.image
            for machine in self.cluster.machines.values() if image is not None else ():
                broker = image.broker(machine.node_id) if image is not None else None
                if broker is not None and broker.fenced and machine.is_up:
                    raise InvariantViolatedError(f"{machine.host} lives and is fenced: its name could not be looked up")

    # -- inside -------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """A cluster at rest, and two producers."""
        self.cluster.start()
        admin = self.workload.process("admin")
        topics = self.workload.create_topics({"t": {}, "flushed": {"flush.messages": "1"}})
        self.simulator.run_until_done(admin.spawn(topics), HEALING_S)
        wait_for(
            self.simulator,
            lambda: is_healed(self.cluster),
            "every replica to be in sync",
            lambda: state_of(self.cluster),
        )
        for number in (1, 2):
            process = self.workload.process(f"client-{number}")
            process.spawn(self.workload.produce(process.host))
        self._run(3.0)

    def _run(self, seconds: float) -> None:
        self.simulator.run(self.simulator.now + seconds)

    def _within(self, seconds: float, condition: Callable[[], bool], what: str) -> None:
        began = self.simulator.now
        while not condition():
            if self.simulator.now - began > seconds:
                raise InvariantViolatedError(f"{seconds:.0f} s without {what}: {state_of(self.cluster)}")
            self._run(STEP_S)
        self._say("faults", f"{what} after {self.simulator.now - began:.2f} s")

    def _controller(self) -> Machine | None:
        """The machine whose node is the active controller."""
        return next(
            (machine for machine, node in self.cluster.nodes() if node.control_plane.controller.is_active), None
        )

    def _any(self) -> Machine:
        return self.simulator.rng.choice(list(self.cluster.machines.values()))

    def _say(self, who: str, what: str) -> None:
        self.simulator.mark(what)
        if self._trace is not None:
            self._trace.append(f"{self.simulator.now:10.6f}  {who:<10} {what}")


def check_availability(seed: int) -> None:
    """One seed; InvariantViolatedError when the cluster stood still for too long."""
    Availability(seed).run()


def trace_of(seed: int) -> str:
    """Everything that happens with one seed."""
    trace: list[str] = []
    try:
        Availability(seed, trace).run()
    except InvariantViolatedError as violation:
        trace.append(str(violation))
    return "\n".join(trace)
