"""What ACLs cost those who may do what they ask for: a cluster with 10,000 of them, and one without an authorizer.

They take turns, over plaintext. How fast a cluster is depends a little on where its processes happen to lie: so there
are several of each, and among them a second one without, which shows what the measurement itself is worth.

Clients are ``ANONYMOUS``, who may do everything with topics that begin with ``free``, by one of the ACLs; the others
are of a hundred users, a third of them for prefixes. What is asked for again is remembered (``security.authorizer``):
the last figures are of a decision that is, and of one that is not.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from statistics import median
from typing import Final

from benchmarks.beside.sides import PARTITIONS, of_cluster
from benchmarks.clusters import create_topic, delete_topic, running_cluster
from benchmarks.report import Figure, Run, Target
from benchmarks.security.turns import Turn, ratios, turn
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
RECORDS: Final = 60_000
CLUSTERS: Final = 8
"""Of each kind, one after the other."""
ROUNDS: Final = 4
"""Turns of each."""
QUESTIONS: Final = 10_000
WITHOUT: Final = "without"
AGAIN: Final = "without, again"
WITH: Final = "with ACLs"
SETTINGS: Final = {
    WITHOUT: {},
    # Who asks for what no ACL is about is let in: topics are created by clients without a name, too.
    WITH: {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"},
    AGAIN: {},
}


def run(run: Run) -> list[Figure]:
    """Turns of clusters that are up at the same time."""
    turns: dict[str, list[tuple[Turn, float]]] = {name: [] for name in SETTINGS}
    more_mb = []
    for _ in range(run.times(CLUSTERS)):
        with ExitStack() as stack:
            clusters = {name: stack.enter_context(running_cluster(settings)) for name, settings in SETTINGS.items()}
            more_mb.append(_create_acls(clusters[WITH]))
            for name, cluster in clusters.items():
                _turn(name, cluster, RECORDS // 4)  # warms everything up
            for number in range(run.times(ROUNDS)):
                for name in list(clusters)[:: 1 if number % 2 else -1]:
                    measured, request_us = _turn(name, clusters[name], RECORDS)
                    turns[name].append((measured, request_us))
                    run.say(f"{name}: {measured}; {request_us:.1f} us a small request")
    return [
        *_figures(turns),
        Figure("RSS of a node, more with 10,000 ACLs", max(more_mb), "MB", Target("<", 30)),
        *_checks(),
    ]


def _create_acls(cluster: LocalCluster) -> float:
    """All of them; megabytes that they take a node."""
    before_mb = _rss_mb(cluster)
    asyncio.run(_create(cluster.bootstrap_servers))
    time.sleep(2)  # all nodes know them
    return max(after - before for before, after in zip(before_mb, _rss_mb(cluster), strict=True))


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


def _turn(name: str, cluster: LocalCluster, records: int) -> tuple[Turn, float]:
    """And CPU of the leader for a request of one record, in microseconds."""
    create_topic(cluster, "free", partitions=PARTITIONS)
    measured = turn(of_cluster(cluster, name), "free", records)
    delete_topic(cluster, "free")
    create_topic(cluster, "free-small", copies=1)
    request_us, _ = requests_cost_us(cluster, "free-small", ACKS_LEADER)
    delete_topic(cluster, "free-small")
    return measured, request_us


def _rss_mb(cluster: LocalCluster) -> list[float]:
    return [process.rss_bytes / 1e6 for process in cluster.running().values()]


def _figures(turns: dict[str, list[tuple[Turn, float]]]) -> list[Figure]:
    def of(name: str) -> tuple[Turn, float]:
        pairs = list(zip(turns[WITHOUT], turns[name], strict=True))
        return ratios([(one, two) for (one, _), (two, _) in pairs]), median(two / one for (_, one), (_, two) in pairs)

    (found, request), (control, _) = of(WITH), of(AGAIN)
    note = f"median of {len(turns[WITHOUT])} pairs of turns"
    return [
        Figure("written with ACLs to without, RF 3", found.written_mb_per_s, "", Target(">=", 0.97), note),
        Figure("read with ACLs to without", found.read_mb_per_s, "", Target(">=", 0.97), note),
        Figure("written without to without", control.written_mb_per_s, "", None, "what the measurement is worth"),
        Figure("read without to without", control.read_mb_per_s, "", None, "the same"),
        Figure("CPU of all brokers, writing, with ACLs to without", found.writing_cpu_s, "", None, note),
        Figure("CPU of all brokers, reading, with ACLs to without", found.reading_cpu_s, "", None, note),
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
