"""A node under attack, an honest producer beside it, and what must hold after every attack.

Counts are small by default; ``make hostile`` multiplies them (``HOSTILE_SENT``, ``HOSTILE_DECODED``) and also judges
how long the honest producer waited.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_attack import Target, create_honest_topic, quiet_p99_s, unharmed
from live_cluster import running_cluster

from minikafka.chaos.local_cluster import LocalCluster

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="package")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One node, attacked by every test of this folder."""
    with running_cluster(tmp_path_factory.mktemp("attacked") / "cluster", 1, metrics_listener="127.0.0.1:0") as cluster:
        create_honest_topic(cluster)
        yield cluster


@pytest.fixture(scope="package")
def quiet_s(attacked: LocalCluster) -> float:
    """How long the honest producer waits while nobody attacks."""
    return quiet_p99_s(attacked)


@pytest.fixture
def target(attacked: LocalCluster, quiet_s: float) -> Iterator[Target]:
    """The node to attack. Afterwards it must be the process that it was, and an honest producer never have failed."""
    with unharmed(attacked, quiet_s):
        yield Target(attacked)
