"""No module of the broker needs, by way of others, itself: each can be read after those that it is made of."""

from __future__ import annotations

import subprocess
import sys
from graphlib import TopologicalSorter

import grimp


def test_the_broker_has_no_import_circle() -> None:
    graph = grimp.build_graph("minikafka")  # with imports for type checking
    broker = {module for module in graph.modules if module.startswith("minikafka.broker.")}
    needs = {module: graph.find_modules_directly_imported_by(module) & broker for module in broker}
    assert len(list(TopologicalSorter(needs).static_order())) == len(broker) > 90


def test_a_node_does_without_what_draws_for_people() -> None:
    """A tenth of its memory and of its start."""
    command = [sys.executable, "-X", "importtime", "-m", "minikafka.broker", "--config", "/nonexistent"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60).stderr
    assert "minikafka broker: cannot read /nonexistent" in said
    imported = {line.rpartition("|")[2].strip() for line in said.splitlines()}
    assert "structlog.dev" in imported
    assert not imported & {"rich.console", "pygments", "attr", "pydantic", "typer"}
