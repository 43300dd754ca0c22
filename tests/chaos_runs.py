"""Runs of chance for the report: what a cluster might have done under faults."""

from __future__ import annotations

import random
from typing import Final

from minikafka.chaos.report import ChaosRun, Fault, Finding, PartitionState, Sample
from minikafka.ledger.events import Event
from minikafka.ledger.judging import judge

KINDS: Final = {
    "kill": "SIGKILL node {}",
    "pause": "SIGSTOP node {}",
    "partition": "cut node {} off",
    "one-way": "node {} hears nobody",
    "slow-disk": "every sync of node {} takes 200 ms",
    "full-disk": "the disk of node {} is full",
    "clock": "the clock of node {} jumps by an hour",
}


def chaos_run(
    seed: int = 7, *, partitions: int = 12, seconds: int = 120, faults: int = 50, lost: int = 0, unread: bool = False
) -> ChaosRun:
    """A run in which ``lost`` acknowledged records are missing, or of which nobody read to the end."""
    rng = random.Random(seed)
    duration_ms, load_end_ms = seconds * 1000, max(seconds * 1000 - 8000, seconds * 900)
    found = []
    for _ in range(faults):
        kind = rng.choice([*KINDS])
        begin = rng.randrange(500, load_end_ms - 200)
        end = begin if kind == "clock" else min(begin + rng.randrange(200, 7000), load_end_ms)
        found.append(Fault(kind, KINDS[kind].format(rng.randrange(1, 4)), begin, None if rng.random() < 0.02 else end))
    found.sort(key=lambda fault: fault.begin_ms)
    names = [f"orders-{number}" for number in range(partitions)]
    samples = [*_samples(rng, names, found, duration_ms, load_end_ms)]
    return ChaosRun(
        command=f"minikafka chaos run --seed {seed} --duration {seconds} --faults all --workload queue",
        seed=seed,
        versions={"minikafka": "0.1.0", "Python": "3.11.7", "confluent-kafka": "2.6.1", "librdkafka": "2.6.1"},
        settings={"acks": "all", "min.insync.replicas": "2", "replication.factor": "3", "enable.idempotence": "true"},
        workload="queue",
        client="confluent-kafka",
        duration_ms=duration_ms,
        load_begin_ms=200,
        load_end_ms=load_end_ms,
        faults=found,
        samples=samples,
        verdict=judge(_events(rng, names, found, load_end_ms, lost, unread=unread)),
        findings=[
            Finding("replicas are byte-equal up to the high watermark", True, f"{partitions} partitions of 3 replicas"),
            Finding("one leader per partition and epoch", True, "of 96 epochs in the metadata log"),
            Finding("no traceback in any log", True, "3 logs, 4,211 lines"),
        ],
        succeeded=50_000 if seconds > 10 else 40,
        needed=1000 if seconds > 10 else 10,
    )


def _trouble(found: list[Fault], t_ms: int) -> list[Fault]:
    return [fault for fault in found if fault.begin_ms <= t_ms < (fault.end_ms or 1 << 60) + 300]


def _samples(rng: random.Random, names: list[str], found: list[Fault], duration_ms: int, load_end_ms: int):  # type: ignore[no-untyped-def]
    epochs, leaders = dict.fromkeys(names, 0), {name: 1 + number % 3 for number, name in enumerate(names)}
    acknowledged = read = 0
    for t_ms in range(0, duration_ms + 1, 250):
        bad = {int(fault.sentence.split("node ")[1].split()[0]) for fault in _trouble(found, t_ms)}
        states = []
        for name in names:
            if leaders[name] in bad and rng.random() < 0.3 and len(bad) < 3:
                leaders[name] = rng.choice([node for node in (1, 2, 3) if node not in bad])
                epochs[name] += 1
            isr = tuple(node for node in (1, 2, 3) if node not in bad or node == leaders[name])
            leader = None if len(bad) == 3 and rng.random() < 0.2 else leaders[name]
            states.append(PartitionState(name, leader, epochs[name], isr, (1, 2, 3)))
        if t_ms < load_end_ms:
            acknowledged += int(rng.gauss(1000, 80) * max(0.0, 1 - 0.4 * len(bad)))
        read = max(read, acknowledged - rng.randrange(1, 500))
        yield Sample(t_ms, tuple(states), acknowledged, max(read, 0))


def _events(
    rng: random.Random, names: list[str], found: list[Fault], load_end_ms: int, lost: int, *, unread: bool
) -> list[Event]:
    events: list[Event] = []

    def tell(t_ms: int, process: str, kind: str, function: str, value: object) -> None:
        events.append(Event(len(events), t_ms, process, kind, function, value))  # type: ignore[arg-type]

    placed: dict[str, list[str]] = {name: [] for name in names}
    for t_ms in range(200, load_end_ms, 100):
        for name in names:
            if rng.random() < 0.35 * len(_trouble(found, t_ms)):
                continue
            record = f"{name}/{len(placed[name])}"
            tell(t_ms, "producer", "invoke", "send", [[name, record]])
            tell(t_ms + rng.randrange(40), "producer", "ok", "send", [[name, record, len(placed[name])]])
            placed[name].append(record)
    tell(load_end_ms, "reader", "ok", "assign", names)
    gone = [(name, n) for name in names for n in range(len(placed[name]))]
    gone = rng.sample(gone, min(lost, len(gone)))
    for name, records in placed.items():
        handed = [[name, record, n] for n, record in enumerate(records) if (name, n) not in gone]
        tell(load_end_ms + 500, "reader", "ok", "poll", handed)
    if not unread:
        tell(load_end_ms + 900, "reader", "ok", "drained", names)
    return events
