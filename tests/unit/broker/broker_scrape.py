"""Asks a node's metrics listener, as Prometheus does."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from broker_node import PATIENCE_S
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from minikafka.broker.node import Node

LISTENS = {"metrics_listener": "127.0.0.1:0"}


class Got(NamedTuple):
    status: int
    headers: str
    body: str


async def get(node: Node, path: str) -> Got:
    """The answer to a GET."""
    assert node.metrics is not None
    at = node.metrics.listener.endpoint
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection(at.host, at.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {at}\r\n\r\n".encode())
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
    return Got(int(head.split()[1]), head, body)


async def scrape(node: Node) -> dict[str, Metric]:
    """The families of a scrape of this moment, by name."""
    assert node.metrics is not None
    node.metrics._text_at_s = -1.0  # not the last one's
    got = await get(node, "/metrics")
    assert got.status == 200, got
    return {family.name: family for family in text_string_to_metric_families(got.body)}


def value(families: dict[str, Metric], name: str, **labels: str) -> float | None:
    """A sample by its name and exactly these labels; None when there is none."""
    found = [
        each for family in families.values() for each in family.samples if (each.name, each.labels) == (name, labels)
    ]
    assert len(found) <= 1, found
    return found[0].value if found else None
