"""What all trials of a cluster have in common: load, its history, and what becomes of both."""

from __future__ import annotations

import asyncio
import platform
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

import minikafka
from minikafka.chaos.history import History
from minikafka.chaos.report.run import ChaosRun, Fault, Finding
from minikafka.chaos.rounds.afterwards import nodes_name_the_same_leaders
from minikafka.chaos.rounds.copy_load import Copy
from minikafka.chaos.rounds.following import left_behind
from minikafka.chaos.rounds.group_load import GroupLoad
from minikafka.chaos.rounds.kinds import KINDS
from minikafka.chaos.rounds.loads import Clients, Load, Produce
from minikafka.chaos.rounds.observer import Look, Observer
from minikafka.chaos.rounds.reached import Reached
from minikafka.chaos.rounds.repetitions import resent
from minikafka.chaos.rounds.transaction_load import Transactions
from minikafka.client import Security
from minikafka.client.properties import security_of_file
from minikafka.client.security import PLAIN
from minikafka.ledger.judging import HistoryVerdict, judge

LOADS: Final[dict[str, type[Load]]] = {each.name: each for each in (Produce, GroupLoad, Transactions, Copy)}
NEEDED: Final = 1_000
"""Records that must be acknowledged, or a trial proves too little."""

MORE: Final = 100
MORE_WITHIN_S: Final = 60.0
SAME_WITHIN_S: Final = 30.0

CLIENTS: Final = ("confluent", "minikafka", "java")
TARGETS: Final = ("processes", "compose")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """What a round is made of. ``kinds``: of faults."""

    seed: int
    duration_s: float = 60.0
    kinds: tuple[str, ...] = tuple(KINDS)
    load: str = Produce.name
    rate: int = 2_000
    client: str = CLIENTS[0]
    servers: str | None = None
    """Of a cluster that is there already; None: a new one."""
    target: str = TARGETS[0]
    """What a new one is made of."""
    command_config: Path | None = None
    """How clients connect to one that is there."""

    @property
    def security(self) -> Security:
        """The same. Raises ValueError for a file that cannot be used."""
        return PLAIN if self.command_config is None else security_of_file(self.command_config)

    @property
    def command(self) -> str:
        """What plans the same round again."""
        whose = "" if self.client == CLIENTS[0] else f" --client {self.client}"
        load = f"--duration {self.duration_s:.12g} --workload {self.load} --rate {self.rate}{whose}"
        if self.servers is not None:
            how = "" if self.command_config is None else f"--command-config {shlex.quote(str(self.command_config))} "
            return f"minikafka chaos run -b {shlex.quote(self.servers)} {how}--seed {self.seed} {load}"
        chosen = "" if self.kinds == tuple(KINDS) else f" --faults {','.join(self.kinds)}"
        target = "" if self.target == TARGETS[0] else f" --target {self.target}"
        return f"minikafka chaos run --seed {self.seed} {load}{chosen}{target}"


@dataclass(slots=True)
class InForce:
    """A fault and its time, in ms of the history; ``ended_ms`` is None while it is in force."""

    kind: str
    sentence: str
    began_ms: int
    ended_ms: int | None = None


class Trial(ABC):
    """One trial of one cluster."""

    def __init__(
        self, options: Options, servers: str, look: Look, history: History, say: Say, clients: Clients
    ) -> None:
        self.options = options
        self.history = history
        self.say = say
        self.faults: list[InForce] = []
        self.findings: list[Finding] = []
        self.load = LOADS[options.load](
            Reached(servers, options.command_config, options.security), history, options.rate, options.seed, clients
        )
        self._look_at_nodes = look
        self.observer = Observer(look, self.load.topics, history.now_ms, self.load.counts)

    # -- what differs -----------------------------------------------------------------------------------------------

    @abstractmethod
    def prepare(self) -> None:
        """Have a cluster, with the topics of the load. ClusterError: there is none."""

    @abstractmethod
    def disturb(self) -> None:
        """While the load runs, for its duration."""

    @abstractmethod
    def mend(self) -> None:
        """Before the load ends."""

    @abstractmethod
    def look_afterwards(self) -> None:
        """When nobody writes any more."""

    @abstractmethod
    def settings(self) -> dict[str, str]:
        """Of the cluster, as a report names them."""

    # -- the trial --------------------------------------------------------------------------------------------------

    def run(self) -> ChaosRun:
        """All of it. ClusterError when the cluster or the load cannot be started."""
        options = self.options
        self.prepare()
        self.say(f"the load is {self.load.name}, {options.rate:,} records a second")
        try:
            with self._observed():
                self.load.start()
                self._wait_until(lambda: self.load.acknowledged > 0)  # a client of Java takes a second to begin
                begin_ms = self.history.now_ms()
                self.disturb()
                end_ms = self.history.now_ms()
                self.mend()
                self.findings.append(self._goes_on())
                self.say("the load ends; everything is read once more")
                self.load.stop_sending()
                self.load.drain()
                self.findings += self._all_read()
                self.load.stop_reading()
                self.findings += [*self.load.findings(), self._same_leaders()]
                self.look_afterwards()
        except BaseException:
            self.load.abandon()
            raise
        return ChaosRun(
            command=options.command,
            seed=options.seed,
            versions=versions(),
            settings=self.settings() | self.load.settings(),
            workload=options.load,
            client=self.load.client,
            duration_ms=end_ms - begin_ms,
            load_begin_ms=begin_ms,
            load_end_ms=end_ms,
            faults=[Fault(each.kind, each.sentence, each.began_ms, each.ended_ms) for each in self.faults],
            samples=self.observer.samples,
            verdict=self._verdict(),
            findings=self.findings,
            succeeded=self.load.acknowledged,
            needed=NEEDED,
        )

    def _verdict(self) -> HistoryVerdict:
        """A record that is there twice is looked at again: its producer may have sent it twice."""
        verdict = judge(self.history.events)
        if verdict.records.violations["duplicate"]:
            rows = asyncio.run(resent(self.load.cluster, self.history.events))
            self.history.append("reader", "ok", "resent", rows)
            verdict = judge(self.history.events)
        return verdict

    def _all_read(self) -> Iterator[Finding]:
        """Who reads along from all partitions gets to the end, and got something. A group has nobody who does."""
        if not (followers := [each.name for each in self.load.followers]):
            return
        deadline = time.monotonic() + MORE_WITHIN_S
        while (late := left_behind(self.history.events, followers)) and time.monotonic() < deadline:
            time.sleep(1)
        if not late:
            late = [f"{each.name} was handed none" for each in self.load.followers if not each.handed]
        what = "; ".join(late) if late else f"{len(followers)} of them"
        yield Finding("those who read along were handed everything", not late, what)

    def _same_leaders(self) -> Finding:
        """Nodes hear of a new leader one after the other; a busy one may not answer at once."""
        deadline = time.monotonic() + SAME_WITHIN_S
        while True:
            views = self._look_at_nodes()
            finding = nodes_name_the_same_leaders((view for view in views if view is not None), self.load.topics)
            if (finding.ok and None not in views) or time.monotonic() > deadline:
                return finding
            time.sleep(0.1)

    def _goes_on(self) -> Finding:
        """A cluster that is whole takes records again: of every writer, for every partition."""
        began = time.monotonic()
        self.load.listen_anew()
        name, enough = "records are taken again when all is mended", self.load.acknowledged + MORE
        if not self._wait_until(lambda: self.load.acknowledged >= enough):
            self.say("no records are taken any more; what clients still wait for may take minutes")
            return Finding(name, False, f"not {MORE} within {MORE_WITHIN_S:g} s")
        self._wait_until(lambda: not self.load.unheard())
        if unheard := self.load.unheard():
            return Finding(name, False, f"none of {', '.join(unheard)} within {MORE_WITHIN_S:g} s")
        return Finding(
            name, True, f"{MORE} more, for each partition, were acknowledged after {time.monotonic() - began:.1f} s"
        )

    def _wait_until(self, condition: Callable[[], bool]) -> bool:
        """False: it did not come true in time."""
        deadline = time.monotonic() + MORE_WITHIN_S
        while not (is_true := condition()) and time.monotonic() < deadline:
            self.load.wait(0.02)
        return is_true

    @contextmanager
    def _observed(self) -> Iterator[None]:
        self.observer.start()
        try:
            yield
        finally:
            self.observer.stop()


def versions() -> dict[str, str]:
    """Of what took part."""
    import confluent_kafka

    return {
        "minikafka": minikafka.__version__,
        "Python": platform.python_version(),
        "confluent-kafka": version("confluent-kafka"),
        "librdkafka": confluent_kafka.libversion()[0],
    }
