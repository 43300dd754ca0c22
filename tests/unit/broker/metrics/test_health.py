from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from minikafka.broker.metrics.health import why_not_ready

SESSION_MS = 9_000


def why(now_s: float = 100.0, contact: str = "", **state: Any) -> str | None:
    lifecycle: Any = SimpleNamespace(
        **{"broker_epoch": 7, "is_fenced": False, "is_leaving": False, "answered_at_s": 100.0, **state}
    )
    controller: Any = SimpleNamespace(contact=contact)
    return why_not_ready(lifecycle, controller, SESSION_MS, now_s)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({}, None),
        ({"contact": "no contact to node 2"}, None),  # a majority is enough
        ({"broker_epoch": -1, "answered_at_s": None}, "not registered with the controller yet"),
        (
            {"broker_epoch": -1, "contact": "no contact to nodes 2, 3"},
            "not registered with the controller yet: no contact to nodes 2, 3",
        ),
        ({"is_fenced": True}, "fenced by the controller"),
        ({"is_leaving": True}, "the node is stopping"),
        ({"now_s": 109.0}, None),
        (
            {"now_s": 112.0, "contact": "no contact to nodes 2, 3"},
            "the controller has not answered for 12 s: no contact to nodes 2, 3",
        ),
    ],
)
def test_a_node_that_is_not_ready_says_why(state: dict[str, Any], expected: str | None) -> None:
    assert why(**state) == expected
