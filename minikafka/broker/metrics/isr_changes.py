"""Counts the replicas that leave and join the ISR of partitions that this node leads."""

from __future__ import annotations

from collections.abc import Callable

from minikafka.metadata.delta import MetadataDelta
from minikafka.model import TopicPartition


class IsrChanges:
    """From committed metadata, so that it does not matter who decided: leader, controller, or an election.

    Every change counts at one node: the leader after it.
    """

    def __init__(self, node_id: int, is_serving: Callable[[], bool]) -> None:
        """``is_serving()``: False while the node applies what happened before it was there."""
        self._node_id = node_id
        self._is_serving = is_serving
        self.shrinks = 0
        self.expands = 0

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Committed records were applied."""
        if self._is_serving():
            for tp in delta.partitions:
                self._note(delta, tp)

    def _note(self, delta: MetadataDelta, tp: TopicPartition) -> None:
        before, after = delta.before.partition(tp), delta.after.partition(tp)
        if before is None or after is None or after.leader != self._node_id or before.isr == after.isr:
            return
        self.shrinks += not set(before.isr) <= set(after.isr)
        self.expands += not set(after.isr) <= set(before.isr)
