"""What ACLs cost those who may do what they ask for: a cluster with 10,000 of them, and one without an authorizer.

They take turns, over plaintext. Clients are ``ANONYMOUS``, who may do everything with topics that begin with ``free``,
by one of the ACLs; the others are of a hundred users, a third of them for prefixes. What is asked for again is
remembered (``security.authorizer``): the last figures are of a decision that is, and of one that is not.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from statistics import median
from typing import Final, NamedTuple

from benchmarks.clusters import broker_cpu, create_topic, delete_topic, running_cluster, spent
from benchmarks.replication import RECORD_SIZE, connected_producer, send
from benchmarks.report import Figure, Run, Target
from benchmarks.security.reading import read
from benchmarks.small_requests import ACKS_LEADER, requests_cost_us
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.client import Admin
from minikafka.config.security import STANDARD_AUTHORIZER
from minikafka.security.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from minikafka.security.authorizer import StandardAuthorizer

SUMMARY = "10,000 ACLs against no authorizer: throughput, CPU, memory"
ACLS: Final = 10_000
USERS: Final = 100
AT_ONCE: Final = 1000
RECORDS: Final = 100_000
PARTITIONS: Final = 3
ROUNDS: Final = 9
QUESTIONS: Final = 10_000
WITHOUT: Final = "without"
WITH: Final = "with ACLs"
SETTINGS: Final = {
    WITHOUT: {},
    # Who asks for what no ACL is about is let in: topics are created by clients without a name, too.
    WITH: {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"},
}


class Turn(NamedTuple):
    """Megabytes a second, and CPU of the brokers."""

    written_mb_per_s: float
    read_mb_per_s: float
    cpu_s: float
    request_us: float  # of CPU of the leader, for a request of one record


def run(run: Run) -> list[Figure]:
    """Turns of two clusters that are both up."""
    turns: dict[str, list[Turn]] = {WITHOUT: [], WITH: []}
    with ExitStack() as stack:
        clusters = {name: stack.enter_context(running_cluster(settings)) for name, settings in SETTINGS.items()}
        before_mb = _rss_mb(clusters[WITH])
        asyncio.run(_create(clusters[WITH].bootstrap_servers))
        time.sleep(2)  # all nodes know them
        more_mb = max(after - before for before, after in zip(before_mb, _rss_mb(clusters[WITH]), strict=True))
        for cluster in clusters.values():
            _turn(cluster, RECORDS // 10)  # warms everything up
        for number in range(run.times(ROUNDS)):
            for name in (WITHOUT, WITH) if number % 2 else (WITH, WITHOUT):
                turns[name].append(_turn(clusters[name], RECORDS))
                run.say(f"{name}: {_line(turns[name][-1])}")
    return [
        *_figures(turns),
        Figure("RSS of a node, more with 10,000 ACLs", more_mb, "MB", Target("<", 30)),
        *_checks(),
    ]


def _acls() -> list[AclBinding]:
    """Those of others, and the one that counts here."""
    free = ("free", PatternType.PREFIXED, "User:ANONYMOUS", "*", AclOperation.ALL, AclPermission.ALLOW)
    return [AclBinding(ResourceType.TOPIC, *free)] + [
        AclBinding(
            ResourceType.TOPIC,
            f"topic-{number}",
            PatternType.LITERAL if number % 3 else PatternType.PREFIXED,
            f"User:user-{number % USERS}",
            "*",
            AclOperation.READ,
            AclPermission.ALLOW,
        )
        for number in range(1, ACLS)
    ]


async def _create(servers: str) -> None:
    acls = _acls()
    async with Admin(servers) as admin:
        for first in range(0, len(acls), AT_ONCE):
            await admin.create_acls(acls[first : first + AT_ONCE])


def _turn(cluster: LocalCluster, records: int) -> Turn:
    topic = "free"
    create_topic(cluster, topic, partitions=PARTITIONS)
    producer = connected_producer(cluster, topic, PARTITIONS)
    before, began = broker_cpu(cluster), time.monotonic()
    send(producer, topic, PARTITIONS, records)
    written_s = time.monotonic() - began
    began = time.monotonic()
    read(cluster, topic, PARTITIONS, records)
    read_s = time.monotonic() - began
    cpu_s = sum(spent(before, broker_cpu(cluster)).values())
    delete_topic(cluster, topic)
    create_topic(cluster, "free-small", copies=1)
    request_us, _ = requests_cost_us(cluster, "free-small", ACKS_LEADER)
    delete_topic(cluster, "free-small")
    megabytes = records * RECORD_SIZE / 1e6
    return Turn(megabytes / written_s, megabytes / read_s, cpu_s, request_us)


def _rss_mb(cluster: LocalCluster) -> list[float]:
    return [process.rss_bytes / 1e6 for process in cluster.running().values()]


def _line(turn: Turn) -> str:
    return (
        f"written {turn.written_mb_per_s:.0f} MB/s, read {turn.read_mb_per_s:.0f} MB/s, "
        f"brokers {turn.cpu_s:.2f} CPU s; {turn.request_us:.1f} us a small request"
    )


def _figures(turns: dict[str, list[Turn]]) -> list[Figure]:
    pairs = list(zip(turns[WITHOUT], turns[WITH], strict=True))
    note = f"median of {len(pairs)} pairs of turns"

    written, read_back, cpu, request = (
        median(two[field] / one[field] for one, two in pairs) for field in range(len(Turn._fields))
    )
    return [
        Figure("written with ACLs to without, RF 3", written, "", Target(">=", 0.97), note),
        Figure("read with ACLs to without", read_back, "", Target(">=", 0.97), note),
        Figure("CPU of all brokers for these, with ACLs to without", cpu, "", None, note),
        Figure("CPU of the leader for a request of one record, the same", request, "", None, note),
    ]


def _checks() -> list[Figure]:
    """Microseconds of a decision among those ACLs."""
    authorizer = StandardAuthorizer()
    authorizer.update({acl.acl_id: acl for acl in _acls()})
    asked = [(f"user-{number % USERS}", f"topic-{number}") for number in range(QUESTIONS)]

    def decided_us() -> float:
        began = time.process_time()
        for user, topic in asked:
            authorizer.is_allowed(user, "127.0.0.1", AclOperation.READ, ResourceType.TOPIC, topic)
        return (time.process_time() - began) / QUESTIONS * 1e6

    anew = decided_us()
    again = min(decided_us() for _ in range(5))
    return [
        Figure("a decision, remembered", again, "us", Target("<", 2.0)),
        Figure("a decision, made anew", anew, "us"),
    ]
