"""Makes the brokers beside these tests (scripted_cluster.py: real sockets, scripted answers) importable by name."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from scripted_cluster import ScriptedCluster


@pytest.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    """Two brokers; topic ``t`` has partition 0 on broker 1 and partition 1 on broker 2."""
    scripted = ScriptedCluster()
    await scripted.start(1, 2)
    scripted.create_topic("t", leaders=[1, 2])
    yield scripted
    await scripted.close()
