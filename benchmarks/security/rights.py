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
from benchmarks.security.turns import read as read_once
from benchmarks.security.turns import turn, write
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
READINGS: Final = 6
"""One is over in a tenth of a second, of which a part is a consumer that connects: of each round so many."""
CLUSTERS: Final = 8
"""Of each kind, one after the other."""
ROUNDS: Final = 4
"""Turns of each."""
QUESTIONS: Final = 10_000
TOPIC: Final = "free"
WARMING: Final = "free-warming"
SMALL: Final = "free-small"
WITHOUT: Final = "without"
AGAIN: Final = "without, again"
WITH: Final = "with ACLs"
SETTINGS: Final = {
    WITHOUT: {},
    # Who asks for what no ACL is about is let in: topics are created by clients without a name, too.
    WITH: {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"},
    AGAIN: {},
}


Samples = dict[str, list[tuple[float, float]]]
"""Of each kind of cluster: megabytes a second, and CPU seconds of all nodes."""


def run(run: Run) -> list[Figure]:
    """Turns of clusters that are up at the same time."""
    written: Samples = {name: [] for name in SETTINGS}
    read: Samples = {name: [] for name in SETTINGS}
    requests_us: dict[str, list[float]] = {name: [] for name in SETTINGS}
    more_mb = []
    for _ in range(run.times(CLUSTERS)):
        with ExitStack() as stack:
            clusters = {name: stack.enter_context(running_cluster(settings)) for name, settings in SETTINGS.items()}
            more_mb.append(_create_acls(clusters[WITH]))
            sides = {name: of_cluster(cluster, name) for name, cluster in clusters.items()}
            for name, cluster in clusters.items():  # warms everything up
                create_topic(cluster, WARMING, partitions=PARTITIONS)
                turn(sides[name], WARMING, RECORDS // 4)
            for number in range(run.times(ROUNDS)):
                for name in _in_turn(number):
                    create_topic(clusters[name], TOPIC, partitions=PARTITIONS)
                    written[name].append(write(sides[name], TOPIC, RECORDS))
                for again in range(READINGS):
                    for name in _in_turn(again):
                        read[name].append(read_once(sides[name], TOPIC, RECORDS))
                for name in _in_turn(number):
                    delete_topic(clusters[name], TOPIC)
                    requests_us[name].append(_request_us(clusters[name]))
                    run.say(
                        f"{name}: written {written[name][-1][0]:.0f} MB/s, read {read[name][-1][0]:.0f} MB/s; "
                        f"{requests_us[name][-1]:.1f} us a small request"
                    )
    return [
        *_figures("written", written, ", RF 3"),
        *_figures("read", read, ""),
        Figure(
            "CPU of the leader for a request of one record, with ACLs to without",
            median(two / one for one, two in zip(requests_us[WITHOUT], requests_us[WITH], strict=True)),
        ),
        Figure("RSS of a node, more with 10,000 ACLs", max(more_mb), "MB", Target("<", 30)),
        *_checks(),
    ]


def _in_turn(number: int) -> list[str]:
    """Every other time the other way round."""
    return list(SETTINGS)[:: 1 if number % 2 else -1]


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


def _request_us(cluster: LocalCluster) -> float:
    """CPU of the leader for a request of one record, in microseconds."""
    create_topic(cluster, SMALL, copies=1)
    request_us, _ = requests_cost_us(cluster, SMALL, ACKS_LEADER)
    delete_topic(cluster, SMALL)
    return request_us


def _rss_mb(cluster: LocalCluster) -> list[float]:
    return [process.rss_bytes / 1e6 for process in cluster.running().values()]


def _figures(what: str, samples: Samples, how: str) -> list[Figure]:
    def ratio(name: str, which: int) -> float:
        pairs = zip(samples[WITHOUT], samples[name], strict=True)
        return median(two[which] / one[which] for one, two in pairs)

    note = f"median of {len(samples[WITHOUT])} pairs"
    return [
        Figure(f"{what} with ACLs to without{how}", ratio(WITH, 0), "", Target(">=", 0.97), note),
        Figure(f"{what} without to without", ratio(AGAIN, 0), "", None, "what the measurement is worth"),
        Figure(f"CPU of all brokers, {what} with ACLs to without", ratio(WITH, 1), "", None, note),
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
