"""Looks at a cluster all the time: leaders, epochs and in-sync replicas, for the time line of a report."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from threading import Event, Thread
from typing import Final, NamedTuple

from minikafka.chaos.probe import ClusterView, PartitionView
from minikafka.chaos.report.run import PartitionState, Sample

INTERVAL_S: Final = 0.25
TIMEOUT_S: Final = 0.2


Look = Callable[[], list[ClusterView | None]]


class Epoch(NamedTuple):
    """A leader epoch of a partition."""

    topic: str
    partition: int
    epoch: int


class Observer(Thread):
    """A thread that looks until it is stopped."""

    def __init__(
        self,
        look: Look,
        topics: Iterable[str],
        now_ms: Callable[[], int],
        counts: Callable[[], tuple[int, int]],
    ) -> None:
        """``look``: what each node answers now; ``counts``: records acknowledged and read so far."""
        super().__init__(name="observer", daemon=True)
        self._ask = look
        self._topics = frozenset(topics)
        self._now_ms = now_ms
        self._counts = counts
        self._is_over = Event()
        self.samples: list[Sample] = []
        self.leaders: defaultdict[Epoch, set[int]] = defaultdict(set)
        """Whom any node named as the leader of an epoch."""
        self.controller_id: int | None = None

    def run(self) -> None:
        """The thread."""
        while not self._is_over.is_set():
            began = time.monotonic()
            self.samples.append(self._look())
            self._is_over.wait(max(0.0, INTERVAL_S - (time.monotonic() - began)))

    def stop(self) -> None:
        """Look no more."""
        self._is_over.set()
        self.join()

    def _look(self) -> Sample:
        """Of the answers the one with the highest epochs: a node that is cut off knows old ones."""
        answers = [view for view in self._ask() if view is not None]
        for view in answers:
            for each in view.partitions:
                if each.leader_id >= 0:
                    self.leaders[Epoch(each.topic, each.partition, each.leader_epoch)].add(each.leader_id)
        newest = max(answers, key=lambda view: sum(each.leader_epoch for each in view.partitions), default=None)
        time_ms = self._now_ms()
        self.controller_id = newest.controller_id if newest is not None and newest.has_controller else None
        partitions = () if newest is None else tuple(map(_state, self._of_load(newest)))
        return Sample(time_ms, partitions, *self._counts())

    def _of_load(self, view: ClusterView) -> list[PartitionView]:
        return sorted(each for each in view.partitions if each.topic in self._topics)


def _state(view: PartitionView) -> PartitionState:
    leader = view.leader_id if view.leader_id >= 0 else None
    name = f"{view.topic}-{view.partition}"
    return PartitionState(name, leader, view.leader_epoch, view.in_sync_replicas, view.replicas)
