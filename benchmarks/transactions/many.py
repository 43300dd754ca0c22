"""Coordinators of 10,000 transactional ids with 1,000 open transactions: their memory, and how soon others take over.

Every id gets a producer; the first thousand begin a transaction of one record. The memory is what a node has more than
before. Then nodes are killed by turns: the failover of a shard ends when a survivor has committed one of its open
transactions. Bare clients ask the survivors by turns, as in ``failover``.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple, TypeVar

from benchmarks.bare import PRODUCE_VERSION, BareClient, produce_request
from benchmarks.clusters import create_topic, partitions_of, running_cluster, settled_view
from benchmarks.failover import SETTINGS, is_balanced
from benchmarks.report import Figure, Run, Target, percentile
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.coordination.partitioning import partition_for
from minikafka.errors import ErrorCode
from minikafka.model import TRANSACTION_STATE_TOPIC
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from minikafka.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from minikafka.wire.messages.produce import ProduceResponse

SUMMARY = "memory and failover of coordinators of many ids"
IDS: Final = 10_000
OPEN: Final = 1_000
KILLS: Final = 9
TOPIC: Final = "many"
PARTITIONS: Final = 3
TIMEOUT_MS: Final = 900_000
_KEY_TYPE: Final = 1
_FIND_VERSION: Final = 2
_INIT_VERSION: Final = 4
_ADD_VERSION: Final = 3
_END_VERSION: Final = 4
_AT_ONCE: Final = 100
_DOWN_S: Final = 1.0
_TICK_S: Final = 0.005

Clients = dict[int, BareClient]
T = TypeVar("T")


class Application(NamedTuple):
    """A transactional id with its producer."""

    transactional_id: str
    shard: int
    producer_id: int
    epoch: int


def run(run: Run) -> list[Figure]:
    """Fill the coordinators, then kill them."""
    with running_cluster(SETTINGS) as cluster:
        create_topic(cluster, TOPIC, partitions=PARTITIONS)
        _create_shards(cluster)
        before = _rss_mb(cluster)
        began = time.monotonic()
        open_ = _fill(cluster)
        run.say(f"{IDS:,} ids and {OPEN:,} open transactions after {time.monotonic() - began:.1f} s")
        time.sleep(2)
        more = {node_id: after - before[node_id] for node_id, after in _rss_mb(cluster).items()}
        seconds: list[float] = []
        for number in range(run.times(KILLS)):
            victim = cluster.node_ids[number % len(cluster.node_ids)]
            seconds += _kill(run, cluster, victim, open_)
    note = "nodes: " + ", ".join(f"{each:.1f}" for each in more.values())
    kills = f"{len(seconds)} shards"
    return [
        Figure(f"RSS for {IDS:,} ids, {OPEN:,} open transactions", max(more.values()), "MB", Target("<", 40), note),
        Figure("failover of a shard, p50", percentile(seconds, 0.5), "s", note=kills),
        Figure("failover of a shard, the slowest", max(seconds), "s", Target("<", 1.0), kills),
    ]


def _rss_mb(cluster: LocalCluster) -> dict[int, float]:
    return {node_id: process.rss_bytes / 1e6 for node_id, process in cluster.running().items()}


def _create_shards(cluster: LocalCluster) -> None:
    """They come with the first question."""
    with BareClient(cluster.layout.client_port(1)) as client:
        request = FindCoordinatorRequest(key="first", key_type=_KEY_TYPE)
        client.ask(ApiKey.FIND_COORDINATOR, _FIND_VERSION, request, FindCoordinatorResponse)
    cluster.wait_for(lambda view: bool(partitions_of(view, TRANSACTION_STATE_TOPIC)), "coordinators")
    settled_view(cluster)


def _leaders(cluster: LocalCluster, topic: str) -> dict[int, int]:
    return {each.partition: each.leader_id for each in partitions_of(settled_view(cluster), topic)}


@contextmanager
def _clients(cluster: LocalCluster, node_ids: Iterable[int]) -> Iterator[Clients]:
    with ExitStack() as stack:
        yield {n: stack.enter_context(BareClient(cluster.layout.client_port(n))) for n in node_ids}


# -- filling ----------------------------------------------------------------------------------------------------------


def _fill(cluster: LocalCluster) -> list[Application]:
    """Those with an open transaction."""
    with _clients(cluster, cluster.node_ids) as clients:
        shards = _leaders(cluster, TRANSACTION_STATE_TOPIC)
        applications = _initialised(clients, shards)
        open_ = applications[:OPEN]
        _add_partitions(clients, shards, open_)
        _write(clients, _leaders(cluster, TOPIC), open_)
    return open_


def _initialised(clients: Clients, shards: dict[int, int]) -> list[Application]:
    made: dict[str, Application] = {}
    missing = [f"application-{number}" for number in range(IDS)]
    while missing:  # a coordinator may have to wait for its first producer ids
        for client, names in _spread(clients, missing, lambda name: shards[partition_for(name, len(shards))]):
            requests = [
                InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS) for name in names
            ]
            answers = client.ask_all(ApiKey.INIT_PRODUCER_ID, _INIT_VERSION, requests, InitProducerIdResponse)
            for name, answer in zip(names, answers, strict=True):
                if answer.error_code == ErrorCode.NONE:
                    shard = partition_for(name, len(shards))
                    made[name] = Application(name, shard, answer.producer_id, answer.producer_epoch)
        missing = [name for name in missing if name not in made]
    return sorted(made.values(), key=lambda made: int(made.transactional_id.rpartition("-")[2]))


def _add_partitions(clients: Clients, shards: dict[int, int], open_: Sequence[Application]) -> None:
    for client, some in _spread(clients, open_, lambda application: shards[application.shard]):
        requests = [
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=application.transactional_id,
                v3_and_below_producer_id=application.producer_id,
                v3_and_below_producer_epoch=application.epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[_partition(application)])],
            )
            for application in some
        ]
        answers = client.ask_all(ApiKey.ADD_PARTITIONS_TO_TXN, _ADD_VERSION, requests, AddPartitionsToTxnResponse)
        for answer in answers:
            (result,) = answer.results_by_topic_v3_and_below[0].results_by_partition
            assert result.partition_error_code == ErrorCode.NONE, answer


def _write(clients: Clients, leaders: dict[int, int], open_: Sequence[Application]) -> None:
    for client, some in _spread(clients, open_, lambda application: leaders[_partition(application)]):
        requests = [
            produce_request(
                TOPIC,
                _partition(application),
                transactional_id=application.transactional_id,
                producer_id=application.producer_id,
                producer_epoch=application.epoch,
                base_sequence=0,
            )
            for application in some
        ]
        answers = client.ask_all(ApiKey.PRODUCE, PRODUCE_VERSION, requests, ProduceResponse)
        for answer in answers:
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE, answer


def _partition(application: Application) -> int:
    return application.producer_id % PARTITIONS


def _spread(clients: Clients, every: Iterable[T], node_of: Callable[[T], int]) -> Iterator[tuple[BareClient, list[T]]]:
    """By node, a hundred at a time."""
    by_node: defaultdict[int, list[T]] = defaultdict(list)
    for each in every:
        by_node[node_of(each)].append(each)
    for node_id, of in by_node.items():
        for begin in range(0, len(of), _AT_ONCE):
            yield clients[node_id], of[begin : begin + _AT_ONCE]


# -- failover ---------------------------------------------------------------------------------------------------------


def _kill(run: Run, cluster: LocalCluster, victim: int, open_: list[Application]) -> list[float]:
    """Of each shard that it led: seconds until one of the open transactions was committed. Then it is started again."""
    cluster.wait_for(is_balanced, "every preferred leader to lead", 60.0)
    led = {shard for shard, leader in _leaders(cluster, TRANSACTION_STATE_TOPIC).items() if leader == victim}
    waiting = {application.shard: application for application in open_ if application.shard in led}
    for application in waiting.values():
        open_.remove(application)
    shards, seconds = len(waiting), []
    with _clients(cluster, (node_id for node_id in cluster.node_ids if node_id != victim)) as survivors:
        began = time.monotonic()
        cluster.kill(victim)
        while waiting:
            for client in survivors.values():
                for shard, application in list(waiting.items()):
                    if _commit(client, application) == ErrorCode.NONE:
                        seconds.append(time.monotonic() - began)
                        del waiting[shard]
            time.sleep(_TICK_S)
    run.say(f"killed node {victim}: {shards} shards within {max(seconds) * 1000:.0f} ms")
    time.sleep(_DOWN_S)
    cluster.start_node(victim)
    return seconds


def _commit(client: BareClient, application: Application) -> int:
    request = EndTxnRequest(
        transactional_id=application.transactional_id,
        producer_id=application.producer_id,
        producer_epoch=application.epoch,
        committed=True,
    )
    return client.ask(ApiKey.END_TXN, _END_VERSION, request, EndTxnResponse).error_code
