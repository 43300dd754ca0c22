"""One round: a cluster under load is broken by plan, mended, read to the end, and judged."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

from minikafka.chaos.compose_cluster import ComposeCluster
from minikafka.chaos.history import History
from minikafka.chaos.layout import ClusterError, ClusterLayout
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.managed import ManagedCluster
from minikafka.chaos.ports import ReservedPorts
from minikafka.chaos.probe import ClusterView
from minikafka.chaos.report.run import Finding
from minikafka.chaos.rounds import afterwards
from minikafka.chaos.rounds.kinds import KINDS, Arena
from minikafka.chaos.rounds.kinds import mend as mend_nodes
from minikafka.chaos.rounds.loads import Clients
from minikafka.chaos.rounds.observer import TIMEOUT_S
from minikafka.chaos.rounds.plan import plan
from minikafka.chaos.rounds.reading import CLIENT_ID
from minikafka.chaos.rounds.trial import InForce, Options, Say, Trial

BROKERS: Final = 4
VOTERS: Final = 3
SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0"}
HEALED_S: Final = 90.0


def _processes(directory: Path, stack: ExitStack) -> ManagedCluster:
    """Three voters and a broker, so that replicas have somewhere to move to."""
    ports = stack.enter_context(closing(ReservedPorts(BROKERS)))
    layout = ClusterLayout.create(directory, VOTERS, ports.base_port, dict(SETTINGS)).with_added_node()
    layout.save()
    return LocalCluster(layout, detached=False)


def _compose(directory: Path, _stack: ExitStack) -> ManagedCluster:
    """The nodes of the compose file here."""
    return ComposeCluster.create(directory, dict(SETTINGS))


NEW: Final[dict[str, Callable[[Path, ExitStack], ManagedCluster]]] = {
    "processes": _processes,
    "compose": _compose,
}


class Round(Trial):
    """``with Round(options, directory, history, say, clients) as it: it.run()``. The nodes end with the block."""

    def __init__(self, options: Options, directory: Path, history: History, say: Say, clients: Clients) -> None:
        say(f"a new cluster of {options.target} is made")  # of containers: an image may be built first
        self._stack = ExitStack()
        self.cluster = cluster = NEW[options.target](directory, self._stack)
        super().__init__(options, cluster.bootstrap_servers, self._look, history, say, clients)

    def __enter__(self) -> Round:
        return self

    def __exit__(self, *error: object) -> None:
        with self._stack:
            self.cluster.end()

    def prepare(self) -> None:
        self.cluster.start()
        self.load.create_topics(3, 2)
        self.cluster.wait_in_sync()
        self.say(f"{len(self.cluster.node_ids)} brokers are ready")

    def settings(self) -> dict[str, str]:
        image = {"image": self.cluster.image} if isinstance(self.cluster, ComposeCluster) else {}
        return {"brokers": str(len(self.cluster.node_ids)), **image, **SETTINGS}

    def _look(self) -> list[ClusterView | None]:
        return [self.cluster.probe(node, TIMEOUT_S) for node in self.cluster.responsive()]

    # -- breaking ---------------------------------------------------------------------------------------------------

    def disturb(self) -> None:
        options = self.options
        spells = plan(options.seed, options.duration_s, options.kinds)
        began = time.monotonic()

        def wait_until(at_s: float) -> None:
            self.load.wait(max(0.0, began + at_s - time.monotonic()))

        late_s = 0.0  # a fault may take longer than planned; those behind it begin later, if the time is not over
        for spell in spells:
            if late_s and spell.end_s + late_s > options.duration_s:
                break
            wait_until(spell.begin_s + late_s)
            with ExitStack() as stack:
                arena = self._arena()
                for planned in spell.faults:
                    arena.rng = random.Random(planned.seed)
                    stack.enter_context(self._in_force(planned.kind, arena))
                late_s = max(late_s, time.monotonic() - began - spell.end_s)
                wait_until(spell.end_s + late_s)
            self.cluster.spawn(*self.cluster.node_ids)
            late_s = max(late_s, time.monotonic() - began - spell.end_s)
        wait_until(options.duration_s)

    def _arena(self) -> Arena:
        return Arena(self.cluster, self.load.topics, f"{CLIENT_ID}*", self._coordinator)

    def _coordinator(self) -> int | None:
        load = self.load
        name = load.group or ("transactor-1" if load.is_transactional else None)
        if name is None:
            return None
        try:
            return self.cluster.coordinator_of(name, transactional=load.is_transactional)
        except ClusterError:
            return None

    @contextmanager
    def _in_force(self, kind: str, arena: Arena) -> Iterator[None]:
        began_ms = self.history.now_ms()
        with KINDS[kind](arena) as sentence:
            self.history.append("nemesis", "info", "fault", f"{kind}: {sentence}")
            self.say(f"{kind}: {sentence}")
            fault = InForce(kind, sentence, began_ms)
            self.faults.append(fault)
            yield
        fault.ended_ms = self.history.now_ms()
        self.history.append("nemesis", "info", "fault", f"{kind} is over")

    # -- afterwards -------------------------------------------------------------------------------------------------

    def mend(self) -> None:
        cluster = self.cluster
        self.say("healing")
        began = time.monotonic()
        cluster.resume(*(node for node, process in cluster.running().items() if process.paused))
        mend_nodes(cluster, None, *cluster.responsive())
        sentence = "every replica was in sync"
        try:
            self._wait_until_whole()
        except ClusterError as error:
            sentence = str(error)
        seconds = time.monotonic() - began
        is_whole = seconds < HEALED_S
        self.findings.append(Finding("the cluster heals by itself", is_whole, f"{sentence} after {seconds:.1f} s"))

    def _wait_until_whole(self) -> None:
        """Nodes that end, as one whose disk was full, are started until all stay up."""
        deadline = time.monotonic() + HEALED_S
        while True:
            self.cluster.spawn(*self.cluster.node_ids)
            try:
                self.cluster.wait_ready(timeout_s=HEALED_S)
                self.cluster.wait_in_sync(HEALED_S)
                return
            except ClusterError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def look_afterwards(self) -> None:
        try:
            self.cluster.wait_in_sync(HEALED_S)
        except ClusterError as error:
            self.findings.append(Finding("replicas are in sync at the end", False, str(error)))
        layout, view = self.cluster.layout, self.cluster.view()
        self.cluster.fetch(*self.cluster.node_ids)
        if view is None:
            self.findings.append(Finding("replicas are byte-equal", False, "no node said where the replicas are"))
        else:
            self.findings.append(afterwards.replicas_are_equal(layout, view, self.load.topics))
        self.findings.append(afterwards.metadata_logs_agree(layout))
        self.findings.append(afterwards.metadata_log_names_the_leaders(layout, self.observer.leaders))
        self.findings.append(afterwards.one_leader_per_epoch(self.observer.leaders))
        self.findings.append(afterwards.no_tracebacks(layout))
        may_disk_be_full = any(fault.kind == "disk-full" for fault in self.faults)
        self.findings.append(afterwards.no_node_stopped(layout, may_disk_be_full=may_disk_be_full))
