"""No module of the broker needs, by way of others, itself: each can be read after those that it is made of."""

from __future__ import annotations

from graphlib import TopologicalSorter

import grimp


def test_the_broker_has_no_import_circle() -> None:
    graph = grimp.build_graph("minikafka")  # with imports for type checking
    broker = {module for module in graph.modules if module.startswith("minikafka.broker.")}
    needs = {module: graph.find_modules_directly_imported_by(module) & broker for module in broker}
    assert len(list(TopologicalSorter(needs).static_order())) == len(broker) > 90
