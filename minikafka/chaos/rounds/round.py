"""One round: a cluster under load is broken by plan, mended, read to the end, and judged."""

from __future__ import annotations

import platform
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Final

import minikafka
from minikafka.chaos.history import History
from minikafka.chaos.layout import ClusterError
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.ports import free_base_port
from minikafka.chaos.report.run import ChaosRun, Fault, Finding
from minikafka.chaos.rounds import afterwards
from minikafka.chaos.rounds.copy_load import Copy
from minikafka.chaos.rounds.group_load import GroupLoad
from minikafka.chaos.rounds.kinds import KINDS, Arena, mend
from minikafka.chaos.rounds.loads import CLIENT_ID, Load, Produce
from minikafka.chaos.rounds.observer import Observer
from minikafka.chaos.rounds.plan import Spell, plan
from minikafka.chaos.rounds.transaction_loads import Transactions
from minikafka.ledger.judging import judge

LOADS: Final[dict[str, type[Load]]] = {each.name: each for each in (Produce, GroupLoad, Transactions, Copy)}
BROKERS: Final = 4
VOTERS: Final = 3
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
}
HEALED_S: Final = 90.0
NEEDED: Final = 1_000
"""Records that must be acknowledged, or a round proves too little."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """What a round is made of. ``kinds``: of faults."""

    seed: int
    duration_s: float = 60.0
    kinds: tuple[str, ...] = tuple(KINDS)
    load: str = Produce.name
    rate: int = 2_000

    @property
    def command(self) -> str:
        """What plans the same round again."""
        chosen = "" if set(self.kinds) == set(KINDS) else f" --faults {','.join(self.kinds)}"
        return (
            f"minikafka chaos run --seed {self.seed} --duration {self.duration_s:g} --workload {self.load} "
            f"--rate {self.rate}{chosen}"
        )


@dataclass(slots=True)
class InForce:
    """A fault and its time, in ms of the history; ``ended_ms`` is None while it is in force."""

    kind: str
    sentence: str
    began_ms: int
    ended_ms: int | None = None


@dataclass(slots=True, eq=False)
class Round:
    """``with Round(options, directory, history, say) as it: it.run()``. The nodes end with the block."""

    options: Options
    directory: Path
    history: History
    say: Say = lambda sentence: None
    faults: list[InForce] = field(default_factory=list)
    cluster: LocalCluster = field(init=False)
    load: Load = field(init=False)
    observer: Observer = field(init=False)
    findings: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cluster = LocalCluster.create(
            self.directory, brokers=VOTERS, base_port=free_base_port(BROKERS), settings=dict(SETTINGS), detached=False
        )
        options = self.options
        servers = self.cluster.bootstrap_servers
        self.load = load = LOADS[options.load](servers, self.history, options.rate, options.seed)
        self.observer = Observer(self.cluster, load.topics, self.history.now_ms, load.counts)

    def __enter__(self) -> Round:
        return self

    def __exit__(self, *error: object) -> None:
        self.cluster.kill_all()

    # -- the round --------------------------------------------------------------------------------------------------

    def run(self) -> ChaosRun:
        """All of it. ClusterError when the cluster or the load cannot be started."""
        self.cluster.start()
        self.cluster.add_node()  # so that replicas have somewhere to move to
        options = self.options
        self.load.create_topics(3, 2)
        self.cluster.wait_in_sync()
        self.say(f"{BROKERS} brokers are ready; the load is {self.load.name}, {options.rate:,} records a second")
        try:
            with self._observed():
                begin_ms = self.history.now_ms()
                self.load.start()
                self._break(plan(options.seed, options.duration_s, options.kinds))
                end_ms = self.history.now_ms()
                self._heal()
                self._read_to_the_end()
        except BaseException:
            self.load.abandon()
            raise
        return ChaosRun(
            command=options.command,
            seed=options.seed,
            versions=versions(),
            settings=SETTINGS | self.load.settings(),
            workload=options.load,
            client=self.load.client,
            duration_ms=end_ms - begin_ms,
            load_begin_ms=begin_ms,
            load_end_ms=end_ms,
            faults=[Fault(each.kind, each.sentence, each.began_ms, each.ended_ms) for each in self.faults],
            samples=self.observer.samples,
            verdict=judge(self.history.events, has_order=True),
            findings=self.findings,
            succeeded=self.load.acknowledged,
            needed=NEEDED,
        )

    @contextmanager
    def _observed(self) -> Iterator[None]:
        self.observer.start()
        try:
            yield
        finally:
            self.observer.stop()

    def _break(self, spells: Sequence[Spell]) -> None:
        began = time.monotonic()

        def wait_until(at_s: float) -> None:
            time.sleep(max(0.0, began + at_s - time.monotonic()))

        late_s = 0.0  # a fault may take longer than planned; those behind it begin later, if the time is not over
        for spell in spells:
            if late_s and spell.end_s + late_s > self.options.duration_s:
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
        wait_until(self.options.duration_s)

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

    def _heal(self) -> None:
        cluster = self.cluster
        self.say("healing")
        began = time.monotonic()
        cluster.resume(*(node for node, process in cluster.running().items() if process.paused))
        mend(cluster, None, *cluster.responsive())
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

    def _read_to_the_end(self) -> None:
        self.say("the load ends; everything is read once more")
        self.load.stop_sending()
        try:
            self.cluster.wait_in_sync(HEALED_S)
        except ClusterError as error:
            self.findings.append(Finding("replicas are in sync at the end", False, str(error)))
        self.load.drain()
        self.load.stop_reading()
        layout, view = self.cluster.layout, self.cluster.view()
        self.findings += self.load.findings()
        if view is not None:
            self.findings.append(afterwards.replicas_are_equal(layout, view, self.load.topics))
        self.findings.append(afterwards.metadata_logs_agree(layout))
        self.findings.append(afterwards.one_leader_per_epoch(self.observer.leaders))
        self.findings.append(afterwards.no_tracebacks(layout))


def versions() -> dict[str, str]:
    """Of what took part."""
    import confluent_kafka

    return {
        "minikafka": minikafka.__version__,
        "Python": platform.python_version(),
        "confluent-kafka": version("confluent-kafka"),
        "librdkafka": confluent_kafka.libversion()[0],
    }
