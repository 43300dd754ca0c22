"""/metrics, /healthz and /readyz of a real node, from its start to its stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from broker_node import Cluster, create_topic, eventually, in_time
from broker_scrape import LISTENS, get
from captured_logs import capture_logs

from minikafka.broker.metrics import collect as collect_module
from minikafka.broker.metrics import endpoint as endpoint_module
from minikafka.broker.metrics import exposition
from minikafka.broker.metrics.endpoint import INSTALL
from minikafka.broker.node import Node

StartNode = Callable[..., Awaitable[Node]]


async def test_a_node_listens_only_where_it_is_told_to(node: Node) -> None:
    assert node.metrics is None


async def test_a_node_is_ready_once_it_is_unfenced(start_node: StartNode) -> None:
    node = await start_node(**LISTENS, wait=False)
    first = await get(node, "/readyz")
    assert first.status in (200, 503)
    await eventually(lambda: not node.control_plane.lifecycle.is_fenced, "the node to be unfenced")
    assert (await get(node, "/readyz"))[::2] == (200, "ready\n")
    assert (await get(node, "/healthz"))[::2] == (200, "ok\n")


async def test_without_a_controller_it_says_whom_it_misses(cluster: Cluster) -> None:
    await cluster.start(1, metrics_listener="127.0.0.1:0")
    got = await get(cluster.nodes[1], "/readyz")
    assert got.status == 503
    assert got.body.startswith("not registered with the controller yet")
    assert (await get(cluster.nodes[1], "/healthz")).status == 200
    metrics = await get(cluster.nodes[1], "/metrics")
    assert "kafka_server_raft_metrics_current_leader -1.0" in metrics.body
    assert "kafka_server_kafkaserver_brokerstate 1.0" in metrics.body


async def test_without_the_library_it_says_what_to_install(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint_module, "_exposition", lambda: None)
    with capture_logs() as logs:
        node = await start_node(**LISTENS)
    assert [line["why"] for line in logs if line["event"] == "no metrics"] == [INSTALL]
    got = await get(node, "/metrics")
    assert (got.status, got.body) == (501, f"{INSTALL}\n")
    assert "minikafka[metrics]" in INSTALL
    assert (await get(node, "/readyz")).status == 200


async def test_many_scrapers_cost_one_scrape(start_node: StartNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "FRESH_S", 1000.0)
    node = await start_node(**LISTENS)
    assert node.metrics is not None
    node.metrics._text_at_s = -1000.0
    scrapes = 0

    def counted(sources: collect_module.Sources) -> collect_module.Families:
        nonlocal scrapes
        scrapes += 1
        return collect_module.collect(sources)

    monkeypatch.setattr(endpoint_module, "collect", counted)
    answers = await asyncio.gather(*(get(node, "/metrics") for _ in range(5)))
    assert scrapes == 1
    assert len({answer.body for answer in answers}) == 1


async def test_a_scrape_gives_others_a_turn(start_node: StartNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two portions of a long one the loop serves who waits."""
    monkeypatch.setattr(collect_module, "PORTION", 10)
    monkeypatch.setattr(exposition, "PORTION", 10)
    node = await start_node(**LISTENS)
    await create_topic(node, "orders", partitions=100)
    await eventually(lambda: len(node.replicas) == 100, "the partitions")
    turns = 0
    scraping = asyncio.create_task(get(node, "/metrics"))
    while not scraping.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 100 / 10 + len(scraping.result().body.splitlines()) / 2 / 10


async def test_a_node_that_stops_is_not_ready_and_closes_its_scrapes(start_node: StartNode) -> None:
    node = await start_node(**LISTENS)
    assert node.metrics is not None
    seen: list[tuple[int, str]] = []

    async def watch() -> None:
        while True:
            got = await get(node, "/readyz")
            seen.append((got.status, got.body))

    watching = asyncio.create_task(watch())
    await eventually(lambda: seen, "the first answer")
    held = await asyncio.open_connection(node.metrics.listener.endpoint.host, node.metrics.listener.endpoint.port)
    await in_time(node.stop())
    assert await in_time(held[0].read()) == b""
    await asyncio.wait([watching])
    assert isinstance(watching.exception(), (OSError, IndexError))  # refused, or closed without an answer
    with pytest.raises(ConnectionRefusedError):
        await get(node, "/healthz")
    assert set(seen) <= {(200, "ready\n"), (503, "the node is stopping\n")}


async def test_a_taken_port_is_named(start_node: StartNode) -> None:
    taken = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = taken.sockets[0].getsockname()[1]
    async with taken:
        with pytest.raises(OSError, match=f"listener METRICS cannot bind 127.0.0.1:{port}"):
            await start_node(metrics_listener=f"127.0.0.1:{port}", wait=False)
