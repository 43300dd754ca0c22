"""Large frames that are never completed. Their node is attacked in no other way: one of 100 MiB, 32 MiB for others, and
what thousands of topics leave behind that once were there (30 MB) are more than MEMORY_MAX."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from live_attack import MEMORY_MAX, MIB, Target, create_honest_topic, is_long, quiet_p99_s, unharmed
from live_cluster import eventually, running_cluster
from live_wire import Wire

pytestmark = pytest.mark.spec("P6")

TAKEN = (100 if is_long() else 40) * MIB
"""How much of one frame a node must have taken before its memory is judged."""


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    with running_cluster(tmp_path / "cluster", 1) as cluster:
        create_honest_topic(cluster)
        with unharmed(cluster, quiet_p99_s(cluster)):
            yield Target(cluster)


def test_frames_that_are_never_completed(target: Target) -> None:
    """Each announces 100 MiB and sends as much of it as is taken: little of most, then all of one at a time."""
    piece = memoryview(bytes(MIB))
    with ExitStack() as opened:  # what is left open after a failure would hold memory from the tests that follow
        wires = [opened.enter_context(target.wire()) for _ in range(20)]
        for wire in wires:
            wire.send_bytes((100 * MIB).to_bytes(4))
            wire.socket.setblocking(False)
        taken = [0] * len(wires)

        def one_is_taken() -> bool:
            for number, wire in enumerate(wires):
                taken[number] += send_what_is_taken(wire, piece)
            return max(taken) >= TAKEN

        eventually(one_is_taken, "a node to take much of one frame")
        assert target.peak_memory() < MEMORY_MAX


def send_what_is_taken(wire: Wire, data: memoryview) -> int:
    """So much of ``data`` as the node's kernel takes now; 0 when the connection is gone."""
    try:
        return wire.socket.send(data)
    except (BlockingIOError, ConnectionError):
        return 0
