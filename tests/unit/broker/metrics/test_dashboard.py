"""Every expression of the dashboard names metrics, with labels, that a real scrape has."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from broker_client import Client, batch, fetch_request, produce_request
from broker_node import create_topic
from broker_scrape import LISTENS, scrape

from minikafka.broker.node import Node

DASHBOARD = json.loads((Path(__file__).parents[4] / "docs" / "grafana" / "minikafka.json").read_text())
SELECTOR = re.compile(r"\b((?:kafka|minikafka|process)_\w+)(?:\{([^}]*)\})?")
BY_PROMETHEUS = {"instance", "job"}
COUNTED = ("_total", "_bucket", "_sum", "_count")


def panels() -> Iterator[dict[str, Any]]:
    for panel in DASHBOARD["panels"]:
        if panel["type"] != "row":
            yield panel


def expressions() -> Iterator[str]:
    for panel in panels():
        for target in panel["targets"]:
            yield target["expr"]


async def test_what_it_asks_for_is_there(
    start_node: Callable[..., Awaitable[Node]], dial: Callable[..., Awaitable[Client]]
) -> None:
    node = await start_node(**LISTENS)
    await create_topic(node, "orders")
    client = await dial(node)
    await client.ask(produce_request("orders", batch(b"a")))
    await client.ask(fetch_request("orders"), 12)
    await client.ask(produce_request("nowhere", batch(b"a")))
    labels: dict[str, set[str]] = {}
    for family in (await scrape(node)).values():
        for sample in family.samples:
            labels.setdefault(sample.name, set(BY_PROMETHEUS)).update(sample.labels)
    asked = [match for text in expressions() for match in SELECTOR.findall(text)]
    assert len(asked) > 30
    for name, selected in asked:
        assert name in labels, f"{name} is not in a scrape"
        unknown = set(re.findall(r"(\w+)\s*[=!]", selected)) - labels[name]
        assert not unknown, f"{name} has no label {unknown}"
    for variable in DASHBOARD["templating"]["list"]:
        for name, _ in SELECTOR.findall(str(variable["query"])):
            assert name in labels


def test_rates_are_of_counters_and_sums_by_labels_that_there_are() -> None:
    for text in expressions():
        for name in re.findall(r"rate\((\w+)", text):
            assert name.endswith(COUNTED), text
        for name, _ in SELECTOR.findall(text):
            assert not name.endswith(COUNTED[:2]) or f"rate({name}" in text, text
        assert text.count("(") == text.count(")")


def test_single_figures_are_of_now_and_not_the_last_that_a_dead_cluster_left() -> None:
    """Over a range a panel shows the last value that there was: "1 controller", green, of nodes that are all dead."""
    stats = [panel for panel in panels() if panel["type"] == "stat"]
    assert len(stats) == 6
    for panel in stats:
        (target,) = panel["targets"]
        assert target["instant"], panel["title"]
        if "kafka_controller" in target["expr"]:  # what only an active controller knows is nothing without one
            assert target["expr"].endswith(("activecontrollercount) > 0", "or vector(0)")), panel["title"]


def test_panels_have_places_and_names_of_their_own() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert len({panel["title"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
