"""Nodes under attack, seen from outside, the honest producer beside it, and what must hold whatever is attacked."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from live_cluster import eventually
from live_wire import ALL, Wire, batch, produce_request

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.errors import ErrorCode

MIB: Final = 1 << 20
MEMORY_MAX: Final = 200 * MIB
HONEST_TOPIC: Final = "honest"
HONEST_PAUSE_S: Final = 0.01
FENCED: Final = re.compile(r"\] (un|broker )?fenced")
"""In a node's log: that it was, or that it, as the controller, did so. Names of topics may have the word, too."""


def is_long() -> bool:
    """Run by ``make hostile``: alone on its machine, with large counts."""
    return "HOSTILE_SENT" in os.environ


class Target:
    """One node of a cluster, if nothing else is said the first."""

    def __init__(self, cluster: LocalCluster, node_id: int = 1) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.port = cluster.layout.client_port(node_id)
        process = cluster.process(node_id)
        assert process is not None
        self._pid = process.pid

    def wire(self) -> Wire:
        """A new connection."""
        return Wire(self.port)

    def log(self) -> str:
        """All that it logged."""
        return self.cluster.layout.log_file(self.node_id).read_text()

    def forget_peak_memory(self) -> None:
        """Let :meth:`peak_memory` begin anew, where the system knows how."""
        reset = Path(f"/proc/{self._pid}/clear_refs")
        if reset.exists():
            reset.write_text("5")

    def peak_memory(self) -> int:
        """Most resident memory that it had, in bytes; what it has now on systems that do not tell."""
        process = self.cluster.process(self.node_id)
        assert process is not None, "the node is gone"
        assert process.pid == self._pid, "the node was started again"
        status = Path(f"/proc/{self._pid}/status")
        if not status.exists():
            return process.rss_bytes
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024

    def descriptors(self) -> int:
        """How many file descriptors it has open; 0 on systems that do not tell."""
        directory = Path(f"/proc/{self._pid}/fd")
        return len(list(directory.iterdir())) if directory.exists() else 0

    def create_topic(self, name: str, **config: str) -> None:
        """A topic of one partition."""
        with self.wire() as wire:
            wire.create_topic(name, [[1]], **config)
            eventually(lambda: wire.has_topic(name), f"topic {name}")


class Honest:
    """Produces one record after the other, acks=all, in a thread of its own, and notes how long each took."""

    def __init__(self, target: Target, pause_s: float = HONEST_PAUSE_S) -> None:
        self._target = target
        self._pause_s = pause_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="honest producer")
        self.waits_s: list[float] = []
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def count(self) -> int:
        """How many records are acknowledged."""
        return len(self.waits_s)

    def wait_for(self, count: int) -> None:
        """Wait until so many are acknowledged."""
        eventually(lambda: self.count >= count or self.failures, "the honest producer to go on")

    def percentile_s(self, share: float) -> float:
        """The time that this share of the records took at most."""
        return sorted(self.waits_s)[int(share * (len(self.waits_s) - 1))]

    def _run(self) -> None:
        try:
            with self._target.wire() as wire:
                while not self._ended.wait(self._pause_s):
                    began_s = time.monotonic()
                    answer = wire.ask(produce_request(HONEST_TOPIC, batch(b"x" * 100), acks=ALL), 9)
                    error = answer.responses[0].partition_responses[0].error_code
                    if error:
                        self.failures.append(ErrorCode(error).name)
                        return
                    self.waits_s.append(time.monotonic() - began_s)
        except Exception as error:  # the test asserts that there is none
            self.failures.append(repr(error))


def create_honest_topic(cluster: LocalCluster) -> None:
    """With a replica on every node. The first leads."""
    with Wire(cluster.layout.client_port(1)) as wire:
        wire.create_topic(HONEST_TOPIC, [list(cluster.node_ids)])
        eventually(lambda: wire.has_topic(HONEST_TOPIC), "the honest topic")
        eventually(lambda: wire.produce(HONEST_TOPIC, b"x") >= 0, "a write to the honest topic")


def quiet_p99_s(cluster: LocalCluster) -> float:
    """How long the honest producer waits at the 99th percentile while nobody attacks."""
    with Honest(Target(cluster)) as honest:
        honest.wait_for(200 if is_long() else 5)
    return honest.percentile_s(0.99)


@contextmanager
def unharmed(cluster: LocalCluster, quiet_s: float, pause_s: float = HONEST_PAUSE_S) -> Iterator[Honest]:
    """An honest producer beside the attack. Afterwards it never failed, and every node is the process that it was, was
    never fenced, had no large memory, and has nothing to say of exceptions. (Turns are judged in all tests.)"""
    targets = [Target(cluster, node_id) for node_id in cluster.node_ids]
    for target in targets:
        target.forget_peak_memory()
    logs_before = [len(target.log()) for target in targets]
    with Honest(targets[0], pause_s) as honest:
        honest.wait_for(1)
        yield honest
        honest.wait_for(honest.count + 3)
    assert not honest.failures
    if is_long():
        waited_s = honest.percentile_s(0.99)
        assert waited_s < max(10 * quiet_s, 0.1), f"the honest p99 is {waited_s:.3f} s; quiet it was {quiet_s:.3f} s"
    for target, before in zip(targets, logs_before, strict=True):
        said = target.log()[before:]
        assert not FENCED.search(said)
        assert "Traceback" not in said
        assert "[critical" not in said
        assert target.peak_memory() < MEMORY_MAX, f"node {target.node_id}"
