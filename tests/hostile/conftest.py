"""A node under attack, an honest producer beside it, and what must hold after every attack.

Counts are small by default; ``make hostile`` multiplies them (``HOSTILE_SENT``, ``HOSTILE_DECODED``) and also judges
how long the honest producer waited.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_cluster import eventually, running_cluster
from live_wire import Wire

from minikafka.chaos.local_cluster import LocalCluster

sys.path.insert(0, str(Path(__file__).parent))

from hostile_node import HONEST_TOPIC, MEMORY_MAX, Honest, Target, is_long


@pytest.fixture(scope="package")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One node, attacked by every test of this folder."""
    with running_cluster(tmp_path_factory.mktemp("attacked") / "cluster", 1, metrics_listener="127.0.0.1:0") as cluster:
        with Wire(cluster.layout.client_port(1)) as wire:
            wire.create_topic(HONEST_TOPIC, [[1]])
            eventually(lambda: wire.has_topic(HONEST_TOPIC), "the honest topic")
        yield cluster


@pytest.fixture(scope="package")
def quiet_s(attacked: LocalCluster) -> float:
    """How long the honest producer waits at the 99th percentile while nobody attacks."""
    with Honest(Target(attacked)) as honest:
        honest.wait_for(200 if is_long() else 5)
    return honest.percentile_s(0.99)


@pytest.fixture
def target(attacked: LocalCluster, quiet_s: float) -> Iterator[Target]:
    """The node to attack. Afterwards it must be the process that it was, and an honest producer never have failed."""
    target = Target(attacked)
    target.forget_peak_memory()
    log_before = len(target.log())
    with Honest(target) as honest:
        honest.wait_for(1)
        yield target
        honest.wait_for(honest.count + 3)
    assert not honest.failures
    if is_long():
        waited_s = honest.percentile_s(0.99)
        assert waited_s < max(10 * quiet_s, 0.1), f"the honest p99 is {waited_s:.3f} s; quiet it was {quiet_s:.3f} s"
    said = target.log()[log_before:]
    assert "fenced" not in said
    assert "Traceback" not in said
    assert "[critical" not in said
    assert target.peak_memory() < MEMORY_MAX
