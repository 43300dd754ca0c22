"""One seed: a cluster of real nodes, clients, faults, invariants after every turn, and the judgement at the end.

The same seed is the same run, in every process: the fingerprint tells.
"""

from __future__ import annotations

import asyncio
import random
import time
import traceback
from asyncio import events
from collections import Counter
from collections.abc import Callable, Collection, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, Final, NamedTuple

import sim_commits
import sim_deletions
import sim_noise
import sim_rights
import sim_sharers
import structlog
from sim_cluster import SimulatedCluster
from sim_commits import Bookmarks
from sim_deletions import LINGER_MS, Deletions
from sim_faults import EXTRA, Faults
from sim_invariants import Invariants, InvariantViolatedError
from sim_rights import Rights
from sim_sharers import Sharing
from sim_transactions import NODE_SETTINGS, OUTPUT, Transacting
from sim_watchdog import EndlessTurnError, no_endless_turn
from sim_workload import Workload
from simulator.kernel import Kernel
from simulator.loop import Process, Simulator

from minikafka.broker.node import Node
from minikafka.event_log import processors
from minikafka.ledger.checker import Verdict
from minikafka.ledger.events import Event
from minikafka.ledger.transaction_checker import TransactionVerdict

DURATION_S: Final = 60.0
HEALING_S: Final = 120.0
MIN_ACKNOWLEDGED_PER_S: Final = 0.3
SCENES: Final = (
    "committed offsets",
    "deleted records",
    "acks of one",
    "transactions",
    "same names",
    "compacted topics",
    "consumer groups",
    "rights",
)
"""What clients do besides, or otherwise, where it is asked for."""
RATE: Final = 20.0
RATES: Final = {"acks of one": 100.0, "transactions": 4.0}
"""Records a second of each of two producers without transactions, by scene."""
CHURN: Final = "churn"
"""How names of topics that come and go begin."""
REPEATED: Final = ("duplicate", "nonmonotonic-send")
"""What producers without acks=all may do: they are not idempotent."""
HARMLESS: Final = frozenset(("slow disk", "slow disks", "no names", "rolling restart"))
DAMAGING: Final = EXTRA.keys() - HARMLESS | {
    "disk full or failing",
    "power loss",
    "power loss after a failover",
    "media",
    "bad sectors",
}
"""Faults after which a log may be damaged."""
EXCUSES: Final = (
    "no space left on device",
    "No space left on device",
    "disk failure",
    "__cluster_metadata-0 cannot be read",
    "No such file or directory: '/a/__cluster_metadata-0/",
)
"""Why a node may stop. One whose metadata log is damaged or gone stops, and mends it when it starts again."""


class Besides(NamedTuple):
    """What clients do in some scenes."""

    bookmarks: Bookmarks | None
    deletions: Deletions | None
    transacting: Transacting | None
    sharing: Sharing | None
    rights: Rights | None


@dataclass
class Report:
    """What became of one seed."""

    seed: int
    fingerprint: int = 0
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    turns: int = 0
    sent_by_kernel: int = 0
    synced_on_loop: Counter[str] = field(default_factory=Counter)
    faults: dict[str, int] = field(default_factory=dict)
    shared: Counter[str] = field(default_factory=Counter)
    """What members of a consumer group were granted."""
    rights: Counter[str] = field(default_factory=Counter)
    """How often users were let in, allowed and denied something."""
    verdict: Verdict | None = None
    transactions: TransactionVerdict | None = None
    violation: str = ""
    trace: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Nothing was violated."""
        return not self.violation


def settings_of(rng: random.Random) -> tuple[dict[str, object], dict[str, dict[str, str]]]:
    """The nodes' settings, and each topic's: what a seed varies."""
    nodes: dict[str, object] = {
        "min.insync.replicas": 2,
        "default.replication.factor": 3,
        "offsets.topic.replication.factor": 3,
        "offsets.topic.num.partitions": 2,
        "replica.lag.time.max.ms": rng.choice((1000, 3000, 10_000)),
        "log.segment.bytes": rng.choice((10 << 10, 64 << 10, 1 << 20)),
        "replica.fetch.max.bytes": rng.choice((4 << 10, 1 << 20)),
        "num.replica.fetchers": rng.choice((1, 1, 2)),
        "leader.imbalance.check.interval.seconds": rng.choice((5, 300)),
        "log.segment.delete.delay.ms": 1000,
        "log.message.timestamp.after.max.ms": 10 * 86_400_000,  # clocks jump by a day
    }
    if rng.random() < 0.25:
        nodes["log.flush.interval.messages"] = 1
    return nodes, {"t": {}, "flushed": {"flush.messages": "1"}}


def simulate(
    seed: int,
    duration_s: float = DURATION_S,
    *,
    without: Collection[str] = frozenset(),
    extra: Collection[str] = frozenset(),
    scenes: Collection[str] = frozenset(),
    mean_pause_s: float = 3.0,
    tracing: bool = False,
) -> Report:
    """Run one seed. ``without``: faults that are left out; ``extra``: those that only come where they are asked for.

    ``scenes``: of :data:`SCENES`. ``mean_pause_s``: from one fault to the next.
    """
    report = Report(seed)
    began = time.process_time()
    simulator = Simulator(seed)

    def say(who: str, what: str) -> None:
        simulator.mark(what)
        faults.beyond.on_line(who, what)
        if tracing:
            report.trace.append(f"{simulator.now:10.6f}  {who:<10} {what}")

    node_settings, topic_settings = settings_of(simulator.rng)
    if "older copies" in extra:
        node_settings["replica.high.watermark.checkpoint.interval.ms"] = 1000  # others must know what is missing
    if "acks of one" in scenes:
        node_settings["auto.leader.rebalance.enable"] = False
    if "committed offsets" in scenes:
        node_settings |= sim_commits.NODE_SETTINGS
    if "deleted records" in scenes:
        node_settings |= sim_deletions.NODE_SETTINGS
    if "transactions" in scenes:
        node_settings |= NODE_SETTINGS
        topic_settings[OUTPUT] = {}
    if "consumer groups" in scenes:
        node_settings |= sim_sharers.NODE_SETTINGS | {"group.consumer.assignment.interval.ms": seed % 2 * 2_000}
    if "rights" in scenes:
        node_settings |= sim_rights.NODE_SETTINGS
    if "compacted topics" in scenes:
        node_settings |= sim_noise.NODE_SETTINGS
    log_dirs = simulator.rng.choice((1, 2))
    if "former directories" in extra:
        log_dirs = 2
    cluster = SimulatedCluster(simulator, node_settings, log_dirs=log_dirs, say=say)
    cluster.has_users = "rights" in scenes
    cluster.sets_clocks = "committed offsets" in scenes
    of_kernel = random.Random(f"kernel {seed}")
    cluster.network.timeout_s = of_kernel.choice((cluster.network.timeout_s, 5.0))
    cluster.network.backlog_max = of_kernel.choice((cluster.network.backlog_max, 2))
    kernel = Kernel(of_kernel, sendfile_min_bytes=of_kernel.choice((1 << 10, 32 << 10)))
    topics = {"t": 2, "flushed": 1} | ({OUTPUT: 2} if "transactions" in scenes else {})
    workload = Workload(cluster, topics, rate=next((RATES[each] for each in scenes if each in RATES), RATE))
    if "same names" in scenes:
        workload.names = ("again-0", "again-1")
    if "compacted topics" in scenes:
        workload.has_keys = cluster.has_noise = True
        topic_settings = {topic: own | sim_noise.settings_of(seed) for topic, own in topic_settings.items()}
        if "deleted records" in scenes:
            topic_settings = {topic: own | sim_deletions.BOTH_POLICIES for topic, own in topic_settings.items()}
    if "acks of one" in scenes:
        workload.acks = 1
        for machine, other in permutations(cluster.machines.values(), 2):  # followers are behind, but not by much
            cluster.network.link(machine.host, other.host).delay_max_s = 0.02
    invariants = Invariants(cluster)
    is_flushed = "log.flush.interval.messages" in node_settings
    besides = random.Random(f"faults besides {seed}")
    faults = Faults(cluster, mean_pause_s, without=without, besides=besides, is_flushed=is_flushed, extra=extra)
    simulator.after_turn = invariants.after_turn
    invariants.on_election = faults.on_election
    invariants.is_damaged, invariants.is_latent = faults.media.is_damaged, faults.media.is_latent
    invariants.is_restored, faults.media.committed_end = faults.media.is_restored, invariants.committed_end
    faults.media.on_whole, invariants.is_beyond = invariants.forget, faults.beyond.holds
    workload.may_go_back = lambda partition: partition in invariants.led_too_short
    workload.is_judged = lambda partition: not faults.beyond.holds(partition)
    often = sim_noise.cleaning_often(cluster.has_noise), sim_rights.snapshots_often(cluster.has_users)
    with logs_to(say) as failures, kernel.installed(), no_endless_turn(simulator), often[0], often[1]:
        invariants.told_of_bugs = failures
        try:
            bookmarks = Bookmarks(cluster, workload) if "committed offsets" in scenes else None
            deletions = Deletions(cluster, workload) if "deleted records" in scenes else None
            transacting = Transacting(cluster, workload) if "transactions" in scenes else None
            if transacting is not None:
                transacting.have_clocks_jumped = lambda: "clock jump" in faults.counts
            sharing = Sharing(cluster, workload) if "consumer groups" in scenes else None
            rights = Rights(cluster, workload) if "rights" in scenes else None
            if rights is not None:
                simulator.after_turn = both(invariants.after_turn, rights.after_turn)
            clients = Besides(bookmarks, deletions, transacting, sharing, rights)
            _drive(simulator, cluster, workload, faults, invariants, topic_settings, duration_s, clients)
            if sharing is not None:
                report.shared.update({"runs": 1, "given": sharing.owners.given, "commits": sharing.owners.commits})
            if rights is not None:
                report.rights.update(rights.counts | {"runs": 1})
            events: Sequence[Event] = workload.history.events
            report.verdict = faults.beyond.judge(events if transacting is None else transacting.outside(events))
            if "same names" in scenes and set(without) >= DAMAGING:
                faults.beyond.check_no_damage()
            if transacting is not None and not faults.beyond.partition:
                report.transactions = transacting.judge(duration_s)
            _judge(report.verdict, duration_s, REPEATED if workload.acks == 1 else ())
        except InvariantViolatedError as violation:
            report.violation = str(violation)
        except (Exception, EndlessTurnError):
            report.violation = traceback.format_exc()
    for process in cluster.network.processes():
        process.kill()
    report.faults = faults.counts
    report.sent_by_kernel, report.synced_on_loop = kernel.sent_bytes, cluster.synced_on_loop
    report.fingerprint, report.turns = simulator.fingerprint, simulator.turns
    report.virtual_s, report.cpu_s = simulator.now, time.process_time() - began
    return report


def _drive(
    simulator: Simulator,
    cluster: SimulatedCluster,
    workload: Workload,
    faults: Faults,
    invariants: Invariants,
    topic_settings: dict[str, dict[str, str]],
    duration_s: float,
    besides: Besides,
) -> None:
    bookmarks, deletions, transacting, sharing, rights = besides
    cluster.start()
    if deletions is not None:
        workload.linger_ms, workload.is_deleted = LINGER_MS, deletions.is_asked
    admin = workload.process("admin")
    simulator.run_until_done(admin.spawn(workload.create_topics(topic_settings)), HEALING_S)
    producers = [workload.process(f"client-{n}") for n in (1, 2)]
    sending = [process.spawn(workload.produce(process.host)) for process in producers]
    consumers = [workload.process(f"client-{n}") for n in (3, 4, 5)]
    reading = [consumers[0].spawn(workload.consume(consumers[0].host))]
    reading += [process.spawn(workload.share(process.host)) for process in consumers[1:]]
    keeping = [] if bookmarks is None else [workload.process("keeper").spawn(bookmarks.run())]
    changing = [admin.spawn(workload.churn(CHURN))]
    if workload.has_keys:
        changing.append(workload.process("noise").spawn(workload.make_noise()))
    if workload.names:
        changing.append(admin.spawn(workload.make_again("again")))
        changing.append(workload.process("again-writer").spawn(workload.write_again("again-writer")))
    if workload.acks == "all":  # a leader that is replaced while it runs may lose what it alone acknowledged
        changing.append(admin.spawn(workload.move("move")))
    changing += [] if deletions is None else [workload.process("deleter").spawn(deletions.run())]
    transactions = [] if transacting is None else transacting.begin()
    coming_and_going = [] if sharing is None else sharing.begin()
    changing += [] if rights is None else [workload.process("rights").spawn(rights.change())]
    asking = [] if rights is None else rights.begin_asking()
    breaking = workload.process("faults").spawn(faults.run())
    simulator.run(simulator.now + duration_s)
    for task in (breaking, *changing):
        task.cancel()
    cluster.say("faults", "mend")
    faults.mend()
    simulator.run(simulator.now + 1.0)
    _heal(simulator, cluster)
    healed_at = simulator.now
    wait_for(
        simulator,
        lambda: not workload.silent_since(healed_at),
        "each partition to take records again: ",
        lambda: " ".join(workload.silent_since(healed_at)),
    )
    workload.is_finishing = True
    for task in sending:
        simulator.run_until_done(task, HEALING_S)
    if transacting is not None:
        _settle(simulator, workload, transacting, transactions)
    wait_for(simulator, lambda: not workload.unshared(), "the group to read everything that was acknowledged")
    committing = workload.process("clerk-of-group").spawn(workload.wait_until_committed())
    wait_for(simulator, committing.done, "the group to commit what it read")
    wait_for(
        simulator,
        lambda: not workload.unfollowed(),
        "a consumer to be handed everything that it follows: ",
        lambda: " ".join(sorted(workload.unfollowed())),
    )
    if sharing is not None:
        for task in coming_and_going:
            task.cancel()
        sharing.end_zombies()
        wait_for(simulator, sharing.is_shared_out, "each partition to have one user", sharing.state)
        simulator.run_until_done(admin.spawn(workload.grow()), HEALING_S)
        wait_for(simulator, sharing.is_shared_out, "one more partition to have a user", sharing.state)
        wait_for(simulator, lambda: not sharing.unread(), "the sharers to read everything that was acknowledged")
        sharing.check()
    for task in (*reading, *keeping, *asking):
        task.cancel()
    if deletions is not None:
        simulator.run_until_done(workload.process("deleter").spawn(deletions.delete_some()), HEALING_S)
    if bookmarks is not None:
        bookmarks.check()
        simulator.run_until_done(workload.process("looker").spawn(bookmarks.look()), HEALING_S)
        bookmarks.check()
    simulator.run_until_done(workload.process("reader").spawn(workload.read_back()), HEALING_S)
    _heal(simulator, cluster)
    simulator.run(simulator.now + 2.0)
    invariants.check_healed()
    if rights is not None:
        rights.check()
    for process in (*producers, *consumers, *(m.process for m in cluster.machines.values())):
        if process is not None and process.unhandled:
            raise InvariantViolatedError(f"{process.host}: unhandled {process.unhandled[0]!r}")


def both(first: Callable[[Process], None], second: Callable[[Process], None]) -> Callable[[Process], None]:
    """Call one after the other."""

    def call(process: Process) -> None:
        first(process)
        second(process)

    return call


def _settle(
    simulator: Simulator, workload: Workload, transacting: Transacting, supervising: Sequence[asyncio.Task[None]]
) -> None:
    """Every transaction ends, and what was committed is copied; a transaction that hangs is left to the judge."""
    *lives, auditing = supervising
    for task in lives:
        task.cancel()
    transacting.end_zombies()
    settling_at = simulator.now
    wait_for(
        simulator,
        lambda: not transacting.silent_since(settling_at),
        "each transactional id to commit again: ",
        lambda: " ".join(transacting.silent_since(settling_at)),
    )
    transacting.is_over = True
    wait_for(simulator, transacting.have_tellers_ended, "the last transactions to end")
    transacting.wait_until_stable(simulator)
    reading = workload.process("reader-of-inputs").spawn(transacting.read_back("reader-of-inputs", transacting.inputs))
    last = simulator.run_until_done(reading, HEALING_S)
    workload.process("clerk").spawn(transacting.wait_until_copied(last))
    wait_for(simulator, lambda: transacting.is_copied, "everything that was committed to be copied")
    transacting.stop()
    auditing.cancel()
    transacting.wait_until_stable(simulator)
    transacting.note_ends()
    simulator.run_until_done(workload.process("clerk").spawn(transacting.note_positions()), HEALING_S)
    name = "reader-of-committed"
    reading = workload.process(name).spawn(transacting.read_back(name, workload.partitions))
    simulator.run_until_done(reading, HEALING_S)


def _heal(simulator: Simulator, cluster: SimulatedCluster) -> None:
    """Wait until every replica is in sync, as every node sees it."""
    wait_for(simulator, lambda: is_healed(cluster), "every replica to be in sync", lambda: state_of(cluster))


def wait_for(
    simulator: Simulator, condition: Callable[[], bool], what: str, details: Callable[[], str] = lambda: ""
) -> None:
    """Let things happen until the condition holds. InvariantViolatedError after HEALING_S."""
    give_up = simulator.now + HEALING_S
    while not condition():
        if simulator.now >= give_up:
            raise InvariantViolatedError(f"waited {HEALING_S:.0f} s in vain for {what}{details()}")
        simulator.run(simulator.now + 0.5)


def is_healed(cluster: SimulatedCluster) -> bool:
    """Every machine is up, moves no replica, and sees the others as they are now, and every replica in sync.

    Except one machine that is gone for good; and then topics that come and go, of which one may be too young to be on
    any other disk.
    """
    nodes = [node for _, node in cluster.nodes()]
    present = {machine.node_id for machine in cluster.present()}
    is_whole = len(present) == len(cluster.machines)
    return len(nodes) == len(present) and all(
        not node.store.moves.under_way()
        and all(_is_member(other, node) for other in nodes)
        and all(
            set(partition.isr) == present.intersection(partition.replicas) and partition.leader >= 0
            for topic, _, partition in node.image.partitions()
            if is_whole or not topic.name.startswith(CHURN)
        )
        for node in nodes
    )


def _is_member(node: Node, to: Node) -> bool:
    """Another one has heard of this process of it: what that one sees is no older."""
    broker = to.image.brokers.get(node.config.node_id)
    epoch = node.control_plane.lifecycle.broker_epoch
    return broker is not None and not broker.fenced and broker.broker_epoch == epoch


def state_of(cluster: SimulatedCluster) -> str:
    """Who is up and what each node sees, for a report."""
    lines = []
    for machine in cluster.machines.values():
        node = machine.node
        if node is None:
            lines.append(f"{machine.host} is down ({machine.failure!r})")
            continue
        seen = [
            f"{topic.name}-{number} leader {partition.leader} isr {list(partition.isr)}"
            for topic, number, partition in node.image.partitions()
            if len(partition.isr) < len(partition.replicas) or partition.leader < 0
        ]
        lines.append(
            f"{machine.host} sees {'; '.join(seen) or 'all in sync'}, and moves {len(node.store.moves.under_way())}"
        )
    return "\n  ".join(["", *lines])


def _judge(verdict: Verdict, duration_s: float, excused: Collection[str]) -> None:
    broken = {rule: count for rule, count in verdict.violations.items() if count and rule not in excused}
    if broken:
        examples = [example for rule in broken for example in verdict.examples.get(rule, ())[:3]]
        raise InvariantViolatedError(f"the history breaks {broken}: {'; '.join(examples)}")
    if verdict.not_judged:
        raise InvariantViolatedError(f"acknowledged records that no reader looked for: {verdict.not_judged}")
    if verdict.acknowledged < MIN_ACKNOWLEDGED_PER_S * duration_s or not verdict.read:
        raise InvariantViolatedError(
            f"only {verdict.acknowledged} records were acknowledged: a dead cluster proves nothing"
        )


@contextmanager
def logs_to(say: Any) -> Iterator[list[str]]:
    """The nodes' own log lines become part of the trace. Yields those that tell of a bug: it fills as they come."""
    before = processors.copy()
    failures: list[str] = []

    def capture(_logger: Any, level: str, event: MutableMapping[str, Any]) -> Any:
        host = getattr(events._get_running_loop(), "host", "-")
        error = event.pop("exc_info", None)
        text = " ".join(f"{name}={value}" for name, value in event.items() if name != "event")
        line = f"[{level}] {event.get('event')} {text}"
        say(host, line)
        if isinstance(error, BaseException):
            for each in "".join(traceback.format_exception(error)).splitlines():
                say("", each)
        if (error or level == "critical") and not any(excuse in line for excuse in EXCUSES):
            failures.append(f"{host}: {line}")
        raise structlog.DropEvent

    processors[:] = [capture]
    try:
        yield failures
    finally:
        processors[:] = before
