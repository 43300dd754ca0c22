"""A node that may open few files: whatever connects to it, its logs go on."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from live_attack import Target, create_honest_topic, quiet_p99_s, unharmed
from live_cluster import running_cluster
from live_wire import ClosedError, Wire, api_key, batch, fetch_request, produce_request

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.errors import ErrorCode
from minikafka.wire.codec import encode
from minikafka.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

pytestmark = pytest.mark.spec("P6")

LIMIT: Final = 500
CONSUMERS: Final = 300
LOOK_UPS: Final = 1_000


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not tell how many files are open")
def test_consumers_never_take_the_descriptors_of_logs(tmp_path: Path) -> None:
    run_limited("consume_without_reading", tmp_path)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not tell how many files are open")
def test_look_ups_never_take_the_descriptors_of_logs(tmp_path: Path) -> None:
    """Each opened a segment that nobody reads, and kept it open until a garbage collection."""
    run_limited("look_up", tmp_path)


def run_limited(attack: str, tmp_path: Path) -> None:
    """In a process of its own, for a limit cannot be raised again."""
    folders = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
    program = f"import sys; sys.path[:0] = {folders!r}; import test_descriptors; test_descriptors.{attack}(sys.argv[1])"
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "cluster")], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@contextmanager
def limited_node(directory: str) -> Iterator[LocalCluster]:
    """One that may open few files, and has a topic "full" of 8 segments."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    with running_cluster(Path(directory), 1) as cluster:
        create_honest_topic(cluster)
        target = Target(cluster)
        target.create_topic("full", segment_bytes=str(1 << 20))
        with target.wire() as wire:
            for _ in range(8):
                wire.ask(produce_request("full", batch(b"x" * 900_000)), 9)
        yield cluster


def consume_without_reading(directory: str) -> None:
    """Consumers served by sendfile, as many as are let in, each with an answer under way; and writes beside them."""
    with limited_node(directory) as cluster, unharmed(cluster, quiet_p99_s(cluster)):
        target = Target(cluster)
        request = fetch_request("full", 0)
        body = encode(request, 11)
        consumers: list[Wire] = []
        for _ in range(CONSUMERS):
            try:
                consumers.append(target.wire())
                for _ in range(4):
                    consumers[-1].send_body(api_key(request), 11, body)
            except (ClosedError, OSError):
                break
        assert len(consumers) > 100
        assert target.descriptors() < LIMIT
        with consumers.pop(0) as wire:
            drain(wire, 4)
            for number in range(30):  # more segments, each of which takes a descriptor
                offset = wire.produce("full", b"%d" % number * 100_000)
                assert offset >= 0
        assert target.descriptors() < LIMIT
        for wire in consumers:
            wire.socket.close()
        said = target.log()
        assert "offline" not in said
        assert "Too many open files" not in said


def look_up(directory: str) -> None:
    """Offsets of a time, again and again, in a log that was not read since the start."""
    with limited_node(directory) as cluster:
        cluster.restart(1)
        asked = ListOffsetsPartition(partition_index=0, timestamp=0, current_leader_epoch=-1)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="full", partitions=[asked])])
        target = Target(cluster)
        with unharmed(cluster, quiet_p99_s(cluster)), target.wire() as wire:
            for _ in range(LOOK_UPS):
                assert wire.ask(request, 7).topics[0].partitions[0].error_code == ErrorCode.NONE
            assert target.descriptors() < LIMIT // 2


def drain(wire: Wire, answers: int) -> None:
    for _ in range(answers):
        wire.receive_frame()
