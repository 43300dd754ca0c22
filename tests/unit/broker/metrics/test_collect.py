"""Scrapes of real nodes, read with the library's own parser."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from broker_client import Client, batch, fetch_request, produce_request
from broker_node import Cluster, create_topic, delete_topic, eventually
from broker_scrape import LISTENS, scrape, value

from minikafka.broker.node import Node
from minikafka.metrics.catalogue import CATALOGUE
from minikafka.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from minikafka.wire.messages.end_txn import EndTxnRequest
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest
from minikafka.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

Dial = Callable[..., Awaitable[Client]]
StartNode = Callable[..., Awaitable[Node]]

TRAFFIC = "kafka_server_brokertopicmetrics_"
V12 = 12  # the last version of Fetch that names topics
REPLICAS = "kafka_server_replicamanager_"


async def test_a_scrape_has_the_catalogue_and_the_process(start_node: StartNode) -> None:
    families = await scrape(await start_node(**LISTENS))
    own = {name: family for name, family in families.items() if not name.startswith("process_")}
    assert [(name, family.type) for name, family in own.items()] == [(row.name, row.kind) for row in CATALOGUE]
    assert [family.documentation for family in own.values()] == [row.doc for row in CATALOGUE]


async def test_labels_are_those_of_the_catalogue(start_node: StartNode, dial: Dial) -> None:
    node = await start_node(**LISTENS)
    await create_topic(node, "orders")
    await (await dial(node)).produce("orders", b"a")
    families = await scrape(node)
    for row in CATALOGUE:
        for sample in families[row.name].samples:
            assert set(sample.labels) - {"le"} in (set(row.labels), set()), sample


async def test_traffic_is_counted_by_topic(start_node: StartNode, dial: Dial) -> None:
    node = await start_node(**LISTENS)
    client = await dial(node)
    for topic in ("orders", "other"):
        await create_topic(node, topic, partitions=2)
    for index in (0, 1):
        await client.ask(produce_request("orders", batch(b"abc"), partition=index))
    await client.ask(fetch_request("orders", 0), V12)
    families = await scrape(node)
    size = value(families, TRAFFIC + "bytesin_total", topic="orders")
    assert size
    assert size == value(families, TRAFFIC + "bytesin_total")
    assert size == value(families, "kafka_log_log_size", topic="orders")
    assert value(families, TRAFFIC + "bytesout_total", topic="orders") == size / 2
    assert value(families, TRAFFIC + "messagesin_total", topic="orders") == 2
    assert value(families, TRAFFIC + "messagesin_total", topic="other") is None  # nothing yet
    await delete_topic(node, "orders")
    await eventually(lambda: "orders" not in node.replicas.traffic.topics, "the topic to go")
    families = await scrape(node)
    assert value(families, TRAFFIC + "bytesin_total", topic="orders") is None
    assert value(families, TRAFFIC + "bytesin_total") == size  # no counter falls


async def test_a_fetch_that_waits_counts_its_bytes_once(start_node: StartNode, dial: Dial) -> None:
    node = await start_node(**LISTENS)
    reader, writer = await dial(node), await dial(node)
    await create_topic(node, "orders")
    waiting = reader.send(fetch_request("orders", 0, min_bytes=1, max_wait_ms=20_000), V12)
    await eventually(lambda: node.replicas.waiting.consumer_fetches.delayed, "the fetch to wait")
    families = await scrape(node)
    assert value(families, "kafka_server_delayedoperationpurgatory_numdelayedoperations", delayedOperation="Fetch") == 1
    assert value(families, "kafka_server_delayedoperationpurgatory_purgatorysize", delayedOperation="Fetch") == 1
    await writer.produce("orders", b"a")
    await waiting
    families = await scrape(node)
    assert value(families, TRAFFIC + "bytesout_total") == value(families, TRAFFIC + "bytesin_total")


async def test_requests_have_times_and_errors(start_node: StartNode, dial: Dial) -> None:
    node = await start_node(**LISTENS)
    client = await dial(node)
    await create_topic(node, "orders")
    await client.ask(produce_request("orders", batch(b"a")))
    await client.ask(produce_request("nowhere", batch(b"a")))
    await client.ask(fetch_request("nowhere", 0), V12)
    await client.ask(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="nowhere")]))
    join = JoinGroupRequest(group_id="", session_timeout_ms=10_000, protocols=[JoinGroupRequestProtocol(name="range")])
    await client.ask(join)
    families = await scrape(node)
    requests = "kafka_network_requestmetrics_"
    assert value(families, requests + "requests_total", request="Produce") == 2
    assert value(families, requests + "totaltimems_count", request="Produce") == 2
    assert value(families, requests + "totaltimems_bucket", request="Produce", le="+Inf") == 2
    assert value(families, requests + "totaltimems_bucket", request="FetchConsumer", le="+Inf") == 1
    unknown = "UNKNOWN_TOPIC_OR_PARTITION"
    assert value(families, requests + "errors_total", request="Produce", error=unknown) == 1
    assert value(families, requests + "errors_total", request="FetchConsumer", error=unknown) == 1
    assert value(families, requests + "errors_total", request="DescribeTopicPartitions", error=unknown) == 1
    assert value(families, requests + "errors_total", request="JoinGroup", error="INVALID_GROUP_ID") == 1
    assert value(families, TRAFFIC + "failedproducerequests_total") == 1
    assert value(families, TRAFFIC + "failedfetchrequests_total") == 1
    assert value(families, TRAFFIC + "totalproducerequests_total") == 2


async def test_a_produce_without_answer_counts_its_error(start_node: StartNode, dial: Dial) -> None:
    node = await start_node(**LISTENS)
    client = await dial(node)
    client.send(produce_request("nowhere", batch(b"a"), acks=0)).add_done_callback(lambda task: task.exception())
    produced = node.parts.part(type(node.metrics._sources.requests)).of("Produce")  # type: ignore[union-attr]
    await eventually(lambda: produced.errors.total(), "the error to be counted")


async def test_connections_by_listener(start_node: StartNode, dial: Dial) -> None:
    node = await start_node(**LISTENS)
    for _ in range(3):
        await dial(node)
    await eventually(lambda: node.listeners.clients[0].connection_count == 3, "three connections")
    families = await scrape(node)
    sockets = "kafka_server_socket_server_metrics_"
    assert value(families, sockets + "connection_count", listener="CLIENT") == 3
    assert value(families, sockets + "connection_creation_total", listener="CLIENT") == 3
    assert value(families, "minikafka_connections_held_bytes", listener="CLIENT") == 0


async def test_a_cluster_loses_a_node(cluster: Cluster, dial: Dial) -> None:
    await cluster.start(metrics_listener="127.0.0.1:0")
    await cluster.ready()
    controller = await cluster.wait_for_controller()
    await create_topic(controller, "orders", replicas=[[1, 2, 3], [2, 3, 1], [3, 1, 2]], min_insync_replicas=2)
    await eventually(lambda: sum(leaders(node) for node in cluster.nodes.values()) == 3, "the leaders")
    for node in cluster.nodes.values():
        await (await dial(node)).ask(
            produce_request("orders", batch(b"a"), partition=node.config.node_id - 1, acks=-1, timeout_ms=20_000)
        )
    before = [await scrape(node) for node in cluster.nodes.values()]
    assert sum(value(families, REPLICAS + "leadercount") or 0 for families in before) == 3
    assert sum(value(families, REPLICAS + "underreplicatedpartitions") or 0 for families in before) == 0
    active = "kafka_controller_kafkacontroller_activecontrollercount"
    assert sum(value(families, active) or 0 for families in before) == 1
    sent = [value(families, TRAFFIC + "replicationbytesout_total") for families in before]
    fetched = [value(families, TRAFFIC + "replicationbytesin_total") for families in before]
    assert sum(size or 0 for size in sent) == sum(size or 0 for size in fetched) > 0

    fetchers = controller.data_plane.fetchers
    followed = next(state for fetcher in fetchers._fetchers.values() for state in fetcher._machine.states())
    followed.leader_high_watermark = followed.log.log_end_offset + 7
    assert fetchers.max_lag() == 7

    victim = next(node_id for node_id, node in cluster.nodes.items() if node is not controller)
    await cluster.kill(victim)
    await eventually(lambda: sum(leaders(node) for node in cluster.nodes.values()) == 3, "the others to lead")
    await eventually(lambda: not controller.image.is_live(victim), "the node to be fenced")
    after = [await scrape(node) for node in cluster.nodes.values()]
    assert sum(value(families, REPLICAS + "underreplicatedpartitions") or 0 for families in after) == 3
    assert sum(value(families, REPLICAS + "atminisrpartitioncount") or 0 for families in after) == 3
    assert sum(value(families, REPLICAS + "underminisrpartitioncount") or 0 for families in after) == 0
    assert sum(value(families, REPLICAS + "isrshrinks_total") or 0 for families in after) == 3
    assert sum(value(families, "kafka_controller_kafkacontroller_fencedbrokercount") or 0 for families in after) == 1
    assert sum(value(families, "kafka_controller_kafkacontroller_globalpartitioncount") or 0 for families in after) == 3


async def test_transactions_are_counted(start_node: StartNode, dial: Dial) -> None:
    """One that is open and one that ended; the records of the first are from long ago."""
    node = await start_node(
        **LISTENS, transaction_state_log_num_partitions=1, transaction_state_log_replication_factor=1
    )
    client = await dial(node)
    await create_topic(node, "orders")
    for name in ("ended", "open"):
        init = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)

        async def begun(init: InitProducerIdRequest = init) -> Any:
            answer = await client.ask(init)
            return answer if not answer.error_code else None

        await client.ask(FindCoordinatorRequest(coordinator_keys=[name], key_type=1))
        producer = await eventually_some(begun)
        records = batch(b"a", producer=(producer.producer_id, producer.producer_epoch, 0), is_transactional=True)
        request = produce_request("orders", records)
        request.transactional_id = name
        answer = await client.ask(request)
        assert not answer.responses[0].partition_responses[0].error_code
        if name == "ended":
            end = EndTxnRequest(
                transactional_id=name,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                committed=True,
            )
            assert not (await client.ask(end)).error_code
    lost = batch(b"a", producer=(9_999, 0, 0), is_transactional=True)
    request = produce_request("orders", lost)
    request.transactional_id = "open"
    assert (await client.ask(request)).responses[0].partition_responses[0].error_code
    await eventually(lambda: node.transactions.markers.written, "the marker to be written")
    families = await scrape(node)
    assert value(families, "minikafka_transactional_ids", state="Ongoing") == 1
    assert sum(each.value for each in families["minikafka_transactional_ids"].samples) == 2
    assert value(families, REPLICAS + "partitionswithlatetransactionscount") == 1
    assert value(families, REPLICAS + "produceridcount") == 2
    assert value(families, "kafka_server_addpartitionstotxnmanager_verificationfailurerate_total") == 1
    assert value(families, "minikafka_transaction_markers_total") == 1
    assert value(families, "minikafka_transaction_marker_requests_total") == 1
    queues = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"
    assert value(families, queues + "unknowndestinationqueuesize") == 0
    assert value(families, queues + "logappendretryqueuesize") == 0
    loads = "kafka_server_transaction_coordinator_metrics_partition_load_time_"
    assert (value(families, loads + "max") or 0) >= (value(families, loads + "avg") or 0)


async def eventually_some(ask: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(30):
        while not (found := await ask()):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    return found


def leaders(node: Node) -> int:
    return sum(partition.leader is not None for partition in node.replicas)
