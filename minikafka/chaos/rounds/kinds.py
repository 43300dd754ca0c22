"""The kinds of faults: each breaks something of a running cluster, says what, and mends it when its block ends."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final

from minikafka.chaos.damage import damage as damage_one
from minikafka.chaos.damage import replicas
from minikafka.chaos.faults import CLIENTS, Party
from minikafka.chaos.layout import ClusterError, NodeDownError
from minikafka.chaos.managed import ManagedCluster
from minikafka.client import Admin
from minikafka.errors import KafkaError
from minikafka.model import TopicPartition

IN_SYNC_S: Final = 60.0
REASSIGN_S: Final = 10.0
NOTHING: Final = "nothing: all that could be broken so is broken already"
STORM_RESTARTS: Final = 4
STORM_PAUSE_S: Final = 0.4
CLOCK_MAX_MS: Final = 3_600_000
REPLICAS: Final = 3


class NothingLeftError(Exception):
    """No node could be broken in this way."""


@dataclass(slots=True)
class Arena:
    """What a fault may touch."""

    cluster: ManagedCluster
    topics: tuple[str, ...]
    """Of the load."""
    client_pattern: str
    """Client ids of the load: rules for requests are for these."""
    coordinated: Callable[[], int | None]
    """The node of the load's coordinator, of a group or of transactions; None: it has none now."""
    rng: random.Random = field(default_factory=random.Random)
    broken: set[int] = field(default_factory=set)
    """Nodes of which another fault of this spell has taken hold."""

    def choose(self) -> int:
        """A node that is up and whole. NothingLeftError: there is none."""
        whole = [node for node in self.cluster.responsive() if node not in self.broken]
        return self.take(self.rng.choice(whole) if whole else None)

    def take(self, node: int | None) -> int:
        """This node. NothingLeftError: another fault has it, or it is not up."""
        if node is None or node in self.broken or node not in self.cluster.responsive():
            raise NothingLeftError
        self.broken.add(node)
        return node

    def others(self, node: int) -> list[Party]:
        """All with whom a node may have a link."""
        return [*(other for other in self.cluster.responsive() if other != node), CLIENTS]

    def raise_up(self, *nodes: int) -> None:
        """Start nodes that are down. Whether they become ready is seen at the end."""
        self.cluster.spawn(*nodes)


Kind = Callable[[Arena], AbstractContextManager[str]]


def _fault(steps: Callable[[Arena], Iterator[str]]) -> Kind:
    """A kind from a generator: it breaks something, yields what, and mends it."""

    @contextmanager
    @wraps(steps)
    def broken(arena: Arena) -> Iterator[str]:
        going = steps(arena)
        try:
            sentence = next(going)
        except NothingLeftError:
            sentence = NOTHING
        yield sentence
        for _ in going:
            raise AssertionError("a fault yields once")

    return broken


@_fault
def kill(arena: Arena) -> Iterator[str]:
    """SIGKILL to one node, which is down until the spell ends."""
    yield from _killed(arena, arena.choose(), "node")


@_fault
def kill_controller(arena: Arena) -> Iterator[str]:
    """SIGKILL to the active controller."""
    yield from _killed(arena, arena.take(arena.cluster.quorum().leader_id), "the controller, node")


@_fault
def kill_coordinator(arena: Arena) -> Iterator[str]:
    """SIGKILL to the coordinator of the load's group or transactions; without one, to the leader of a partition."""
    node, what = arena.coordinated(), "the coordinator, node"
    if node is None:
        what = "a leader, node"
        view = arena.cluster.view()
        leaders = [each.leader_id for each in view.partitions if each.topic in arena.topics] if view else []
        node = arena.rng.choice(leaders) if leaders else None
    yield from _killed(arena, arena.take(node), what)


def _killed(arena: Arena, node: int, what: str) -> Iterator[str]:
    tell(arena.cluster.kill, node)
    yield f"SIGKILL to {what} {node}"
    arena.raise_up(node)


@_fault
def kill_all(arena: Arena) -> Iterator[str]:
    """SIGKILL to all nodes at once."""
    tell(arena.cluster.kill_all)
    yield "SIGKILL to all nodes"
    arena.raise_up(*arena.cluster.node_ids)


@_fault
def pause(arena: Arena) -> Iterator[str]:
    """One node hangs, and comes back as a zombie."""
    node = arena.choose()
    tell(arena.cluster.pause, node)
    yield f"node {node} hangs"
    tell(arena.cluster.resume, node)


@_fault
def isolate(arena: Arena) -> Iterator[str]:
    """All links of one node are cut."""
    node = arena.choose()
    others = [other for other in arena.cluster.responsive() if other != node]
    tell(arena.cluster.isolate, node, others)
    yield f"node {node} is cut off from all others and from clients"
    tell(arena.cluster.rejoin, node, others)


@_fault
def one_way(arena: Arena) -> Iterator[str]:
    """What one node sends to another does not arrive; or what clients send to it."""
    nodes = arena.cluster.responsive()
    source = arena.choose()
    others: list[Party] = [CLIENTS, *(node for node in nodes if node != source)]
    target = arena.rng.choice(others)
    parties = (source, target) if target != CLIENTS or arena.rng.random() < 0.5 else (target, source)
    tell(arena.cluster.cut, *parties, one_way=True)
    sends = "send" if parties[0] == CLIENTS else "sends"
    yield f"what {_named(parties[0])} {sends} does not arrive at {_named(parties[1])}"
    tell(arena.cluster.join, *parties)


@_fault
def slow_link(arena: Arena) -> Iterator[str]:
    """Answers between a node and all others, and clients, come late or slowly."""
    node = arena.choose()
    others = arena.others(node)
    if arena.rng.random() < 0.5:
        delay_ms, rate = arena.rng.choice((20, 100, 400)), 0
        how = f"come {delay_ms} ms late"
    else:
        delay_ms, rate = 0, arena.rng.choice((100_000, 500_000))
        how = f"pass at {rate:,} bytes a second"
    for other in others:
        tell(arena.cluster.slow, node, other, delay_ms=delay_ms, bytes_per_s=rate)
    yield f"answers to and from node {node} {how}"
    for other in others:
        tell(arena.cluster.join, node, other)


@_fault
def restart_storm(arena: Arena) -> Iterator[str]:
    """One node is killed and started again, several times in a row, sooner than it is back in sync."""
    node = arena.choose()
    for _ in range(STORM_RESTARTS):
        tell(arena.cluster.kill, node)
        arena.raise_up(node)
        time.sleep(arena.rng.uniform(0.0, STORM_PAUSE_S))
    yield f"node {node} was killed and started {STORM_RESTARTS} times"


@_fault
def rolling(arena: Arena) -> Iterator[str]:
    """Every node is stopped cleanly and started again, one after the other."""
    for node in arena.cluster.responsive():
        tell(arena.cluster.stop_node, node)
        arena.raise_up(node)
        with suppress(ClusterError):  # whether it becomes ready is seen at the end
            arena.cluster.wait_ready([node])
    yield "a rolling restart of all nodes"


@_fault
def reassign(arena: Arena) -> Iterator[str]:
    """Replicas of a topic of the load move to nodes drawn anew."""
    topic = arena.rng.choice(arena.topics)
    view = arena.cluster.view()
    partitions = [each for each in view.partitions if each.topic == topic] if view else []
    nodes = arena.cluster.node_ids
    replicas = min(REPLICAS, len(nodes) - 1)  # all nodes as before would be no move
    moves = {TopicPartition(topic, each.partition): arena.rng.sample(nodes, replicas) for each in partitions}
    try:
        asyncio.run(_reassign(arena.cluster.bootstrap_servers, moves))
    except (KafkaError, OSError, TimeoutError) as error:
        yield f"no reassignment: {str(error) or f'no answer within {REASSIGN_S:g} s'}"
        return
    yield f"replicas of {topic} move: {', '.join(f'{tp.partition} to {nodes}' for tp, nodes in moves.items())}"


async def _reassign(servers: str, moves: dict[TopicPartition, list[int]]) -> None:
    async with asyncio.timeout(REASSIGN_S), Admin(servers) as admin:
        await admin.alter_partition_reassignments(moves)


@_fault
def disk_full(arena: Arena) -> Iterator[str]:
    """The disk of a node is full: it ends, as it must."""
    node = arena.choose()
    tell(arena.cluster.disk, node, full=True)
    yield f"the disk of node {node} is full"
    mend(arena.cluster, "disk", node)


@_fault
def disk_slow(arena: Arena) -> Iterator[str]:
    """Each sync of one node, or of all, takes long."""
    nodes = arena.cluster.responsive() if arena.rng.random() < 0.5 else [arena.choose()]
    delay_ms = arena.rng.choice((50, 300, 1_000))
    for node in nodes:
        tell(arena.cluster.disk, node, sync_delay_ms=delay_ms)
    yield f"each sync of node {', '.join(map(str, nodes))} takes {delay_ms} ms longer"
    mend(arena.cluster, "disk", *nodes)


@_fault
def damage(arena: Arena) -> Iterator[str]:
    """Bytes of a replica are overwritten, or its end is cut off, while its node is down."""
    _wait_until_whole(arena)
    node = arena.choose()
    tell(arena.cluster.kill, node)
    arena.cluster.fetch(node)
    victim = damage_one(replicas(arena.cluster.layout.data_directory(node), arena.topics), arena.rng)
    arena.cluster.put_back(node)
    arena.raise_up(node)
    yield f"damaged on node {node}: {victim}" if victim else NOTHING
    with suppress(ClusterError):  # what is not mended by then, the end of the round finds
        arena.cluster.wait_in_sync(IN_SYNC_S)


@_fault
def disk_lying(arena: Arena) -> Iterator[str]:
    """The disk of a node says that it syncs, and keeps nothing: when the node is killed, it is as if power went."""
    _wait_until_whole(arena)
    node = arena.choose()
    tell(arena.cluster.disk, node, lying=True)
    yield f"the disk of node {node} keeps nothing of what is written, and the node is killed then"
    tell(arena.cluster.kill, node)
    with suppress(ClusterError):  # as long as it may be needed for what it has lost
        arena.cluster.wait_for(lambda view: all(each.leader_id != node for each in view.partitions), "other leaders")
    arena.raise_up(node)
    with suppress(ClusterError):  # what is not mended by then, the end of the round finds
        arena.cluster.wait_in_sync(IN_SYNC_S)


def _wait_until_whole(arena: Arena) -> None:
    """NothingLeftError: other replicas lack something, and this one is needed."""
    try:
        arena.cluster.wait_in_sync(IN_SYNC_S)
    except ClusterError:
        raise NothingLeftError from None


@_fault
def clock(arena: Arena) -> Iterator[str]:
    """The wall clock of a node jumps, and drifts."""
    node = arena.choose()
    off_ms, drift = arena.rng.randint(-CLOCK_MAX_MS, CLOCK_MAX_MS), arena.rng.choice((0.0, 0.0, -0.5, 2.0))
    tell(arena.cluster.clock, node, off_ms, drift=drift)
    yield f"the clock of node {node} is wrong by {off_ms:+,} ms" + (f", and {drift:+g} s every second" if drift else "")
    mend(arena.cluster, "clock", node)


RULED: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("Produce", {"error": "NOT_LEADER_OR_FOLLOWER", "times": 3}),
    ("Produce", {"error": "REQUEST_TIMED_OUT", "after": True, "times": 2}),
    ("Produce", {"disconnect": True, "after": True, "times": 3}),
    ("Produce", {"disconnect": True, "times": 3}),
    ("Produce", {"delay_ms": 700, "times": 5}),
    ("Fetch", {"error": "NOT_LEADER_OR_FOLLOWER", "times": 3}),
    ("Fetch", {"disconnect": True, "after": True, "times": 3}),
    ("Metadata", {"delay_ms": 500, "times": 10}),
    ("FindCoordinator", {"error": "COORDINATOR_NOT_AVAILABLE", "times": 3}),
    ("OffsetCommit", {"disconnect": True, "after": True, "times": 3}),
    ("OffsetCommit", {"error": "COORDINATOR_LOAD_IN_PROGRESS", "times": 3}),
    ("JoinGroup", {"disconnect": True, "after": True, "times": 1}),
    ("SyncGroup", {"disconnect": True, "after": True, "times": 1}),
    ("Heartbeat", {"disconnect": True, "times": 2}),
    ("ConsumerGroupHeartbeat", {"disconnect": True, "after": True, "times": 2}),
    ("ConsumerGroupHeartbeat", {"error": "FENCED_MEMBER_EPOCH", "times": 1}),
    ("ConsumerGroupHeartbeat", {"error": "COORDINATOR_LOAD_IN_PROGRESS", "times": 3}),
    ("OffsetFetch", {"error": "UNSTABLE_OFFSET_COMMIT", "times": 3}),
    ("OffsetFetch", {"disconnect": True, "times": 2}),
    ("InitProducerId", {"disconnect": True, "after": True, "times": 2}),
    ("EndTxn", {"disconnect": True, "after": True, "times": 2}),
    ("EndTxn", {"error": "CONCURRENT_TRANSACTIONS", "times": 3}),
    ("AddPartitionsToTxn", {"disconnect": True, "after": True, "times": 2}),
    ("TxnOffsetCommit", {"disconnect": True, "after": True, "times": 2}),
)
MET_BY_ALL: Final = frozenset({"Produce", "Fetch"})
"""APIs that each load asks for; others only some do."""


@_fault
def requests(arena: Arena) -> Iterator[str]:
    """Requests of the load fail, are answered late, or lose their answers, at every node."""
    nodes = arena.cluster.responsive()
    chosen = drawn(arena.rng)
    for api, rule in chosen:
        for node in nodes:
            tell(arena.cluster.rule, api, **rule, client_id=arena.client_pattern, brokers=[node])
    yield "; ".join(f"{api} {_ruled(rule)}" for api, rule in chosen)
    mend(arena.cluster, "rules", *nodes)


def drawn(rng: random.Random) -> list[tuple[str, dict[str, Any]]]:
    """Three rules, of which each load meets one, at least."""
    first = rng.choice([each for each in RULED if each[0] in MET_BY_ALL])
    return [first, *rng.sample([each for each in RULED if each is not first], 2)]


def _ruled(rule: dict[str, Any]) -> str:
    what = next(f"{name.replace('_', ' ')} {value}" if value is not True else name for name, value in rule.items())
    return f"{what}{', carried out' if rule.get('after') else ''} (the next {rule['times']} at each node)"


def mend(cluster: ManagedCluster, what: str | None, *nodes: int) -> None:
    """Mend nodes that are up."""
    for node in nodes:
        tell(cluster.mend, [node], what=what)


def tell(command: Callable[..., object], *words: Any, **more: Any) -> None:
    """A command to nodes. One that ended, or ends now, say for its full disk, has no fault any more, and needs none."""
    with suppress(NodeDownError):
        command(*words, **more)


def _named(party: Party) -> str:
    return f"node {party}" if isinstance(party, int) else party


KINDS: Final[dict[str, Kind]] = {
    "kill": kill,
    "kill-all": kill_all,
    "pause": pause,
    "isolate": isolate,
    "one-way": one_way,
    "slow-link": slow_link,
    "restart-storm": restart_storm,
    "rolling": rolling,
    "reassign": reassign,
    "disk-full": disk_full,
    "disk-slow": disk_slow,
    "disk-lying": disk_lying,
    "damage": damage,
    "clock": clock,
    "controller": kill_controller,
    "coordinator": kill_coordinator,
    "requests": requests,
}
