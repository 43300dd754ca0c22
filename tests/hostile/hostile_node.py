"""The node under attack, seen from outside, and the honest producer."""

from __future__ import annotations

import os
import threading
import time
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


def is_long() -> bool:
    """Run by ``make hostile``: alone on its machine, with large counts."""
    return "HOSTILE_SENT" in os.environ


class Target:
    """The one node of a cluster."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.port = cluster.layout.client_port(1)
        process = cluster.process(1)
        assert process is not None
        self._pid = process.pid

    def wire(self) -> Wire:
        """A new connection."""
        return Wire(self.port)

    def log(self) -> str:
        """All that it logged."""
        return self.cluster.layout.log_file(1).read_text()

    def forget_peak_memory(self) -> None:
        """Let :meth:`peak_memory` begin anew, where the system knows how."""
        reset = Path(f"/proc/{self._pid}/clear_refs")
        if reset.exists():
            reset.write_text("5")

    def peak_memory(self) -> int:
        """Most resident memory that it had, in bytes; what it has now on systems that do not tell."""
        process = self.cluster.process(1)
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

    def __init__(self, target: Target) -> None:
        self._target = target
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
                while not self._ended.wait(HONEST_PAUSE_S):
                    began_s = time.monotonic()
                    answer = wire.ask(produce_request(HONEST_TOPIC, batch(b"x" * 100), acks=ALL), 9)
                    error = answer.responses[0].partition_responses[0].error_code
                    if error:
                        self.failures.append(ErrorCode(error).name)
                        return
                    self.waits_s.append(time.monotonic() - began_s)
        except Exception as error:  # the test asserts that there is none
            self.failures.append(repr(error))
