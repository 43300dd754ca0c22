"""Requests that wait on partitions of this node: produces for acknowledgements, fetches for records.

What moves is noted, and ``_wake`` runs once per loop iteration and tries the requests that wait for it (row D6). So a
burst of small appends wakes a follower's fetch once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from minikafka.broker.clock import Clock
from minikafka.broker.delayed import DelayedProduce, ProduceResult
from minikafka.broker.partition import Partition
from minikafka.broker.timers import Timers
from minikafka.model import TopicPartition
from minikafka.replication.server_session import SessionsByPartition
from minikafka.timing.purgatory import Purgatory

ALL_IN_SYNC: Final = -1
"""As ``acks``."""
TRIED_AT_ONCE: Final = 500
"""Waiting requests, in one turn of the loop: some 15 ms if all are answered. Any number may wait for one partition."""


class Waiting:
    """See the module. ``high_watermark_listeners`` are called with what a high watermark has become."""

    def __init__(self, partitions: Mapping[TopicPartition, Partition], clock: Clock, timers: Timers) -> None:
        self.produces: Purgatory[object] = timers.purgatory(TRIED_AT_ONCE, self._schedule_wake)
        self.consumer_fetches: Purgatory[object] = timers.purgatory(TRIED_AT_ONCE, self._schedule_wake)
        self.follower_fetches: Purgatory[object] = timers.purgatory()  # by partition, or by the follower's session
        self.followers = SessionsByPartition()
        self.high_watermark_listeners: dict[TopicPartition, Callable[[int], None]] = {}
        self._partitions = partitions
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._log_end_moved: dict[TopicPartition, None] = {}  # ordered sets: the order of waking is behaviour
        self._high_watermark_moved: dict[TopicPartition, None] = {}
        self._wake_scheduled = False
        self._hands_over = False

    # -- acknowledgements -------------------------------------------------------------------------------------------

    def await_acks(
        self,
        results: Sequence[ProduceResult],
        acks: int,
        timeout_ms: int,
        done: Callable[[Sequence[ProduceResult]], None],
    ) -> DelayedProduce | None:
        """Call ``done`` once every result is acknowledged or failed, or ``timeout_ms`` has passed (row D4).

        Returns the waiting operation, if any: cancel it when the client is gone.
        """
        needs_all = acks == ALL_IN_SYNC or (self._hands_over and not self._is_any_under_min_isr(results))
        if not needs_all and not self._is_any_waiting(results):
            done(results)
            return None
        waiting = [result.tp for result in results if result.required_offset >= 0]
        operation = DelayedProduce(timeout_ms, results, self._partitions.get, done, needs_all=needs_all)
        done_already = self.produces.try_complete_else_watch(operation, waiting, self._clock.monotonic_ms())
        return None if done_already else operation

    def hand_over(self, timeout_ms: int, done: Callable[[], None]) -> None:
        """The node is stopping, and an in-sync replica will lead: from now on acks=1 waits for these replicas, too.

        Calls ``done`` when they have all records that were written before, or after that time. Partitions whose ISR is
        too small are not waited for: their high watermark stands still.
        """
        self._hands_over = True
        behind = [
            ProduceResult(tp, required_offset=partition.log.log_end_offset, leader_epoch=leader.leader_epoch)
            for tp, partition in self._partitions.items()
            if (leader := partition.replica.leader) is not None
            and leader.high_watermark < partition.log.log_end_offset
            and not leader.is_under_min_isr
        ]
        waiting = len(behind)

        def on_done(_results: Sequence[ProduceResult]) -> None:
            nonlocal waiting
            waiting -= 1
            if not waiting:
                done()

        for result in behind:
            self.await_acks((result,), ALL_IN_SYNC, timeout_ms, on_done)
        if not behind:
            done()

    def _is_any_under_min_isr(self, results: Sequence[ProduceResult]) -> bool:
        """Would acks=all be refused? Then acks=1 must not wait: the high watermark stands still."""
        partitions = [self._partitions.get(result.tp) for result in results]
        leaders = [None if partition is None else partition.replica.leader for partition in partitions]
        return any(leader is not None and leader.is_under_min_isr for leader in leaders)

    def _is_any_waiting(self, results: Sequence[ProduceResult]) -> bool:
        """Is a leader's own end short of a result: being synced, failed, or no longer a leader?"""
        for result in results:
            if result.required_offset >= 0:
                partition = self._partitions.get(result.tp)
                leader = None if partition is None else partition.replica.leader
                if leader is None or leader.log_end_offset < result.required_offset:
                    return True
        return False

    # -- what moved -------------------------------------------------------------------------------------------------

    def note_moved(self, tp: TopicPartition, *, log_end: bool = False, high_watermark: bool = False) -> None:
        """Remember what moved; whoever waits for it is tried at the end of this loop iteration."""
        if log_end:
            self._log_end_moved[tp] = None
        if high_watermark:
            self._high_watermark_moved[tp] = None
        if log_end or high_watermark:
            self.followers.note(tp)
            self._schedule_wake()

    def note_followed(self, partition: Partition) -> None:
        """The high watermark of a partition that another node leads rose: consumers may read up to it here, too."""
        tp = partition.topic_partition
        partition.log.producers.forget_replicated(partition.replica.high_watermark)
        if tp in self.consumer_fetches or tp in self.high_watermark_listeners:
            self.note_moved(tp, high_watermark=True)

    def note_changed(self, tp: TopicPartition) -> None:
        """The log start, the ISR or something else that concerns followers is another. Nobody waits for it."""
        self.followers.note(tp)

    def release(self, tp: TopicPartition) -> None:
        """Leadership or the partition itself moved: everything that waits on it is tried, and finds the error."""
        self.produces.check_and_complete(tp)
        self.consumer_fetches.check_and_complete(tp)
        self.followers.note(tp)
        self._wake_followers(tp)

    def _schedule_wake(self) -> None:
        if not self._wake_scheduled:
            self._wake_scheduled = True
            self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        self._wake_scheduled = False
        self.produces.go_on()
        self.consumer_fetches.go_on()
        log_end_moved, self._log_end_moved = self._log_end_moved, {}
        high_watermark_moved, self._high_watermark_moved = self._high_watermark_moved, {}
        for tp in log_end_moved:
            self._wake_followers(tp)
        for tp in high_watermark_moved:
            listener = self.high_watermark_listeners.get(tp)
            partition = self._partitions.get(tp)
            if partition is not None:
                high_watermark = partition.replica.high_watermark
                partition.log.producers.forget_replicated(high_watermark)
                if listener is not None:
                    listener(high_watermark)
            self.produces.check_and_complete(tp)
            self.consumer_fetches.check_and_complete(tp)

    def _wake_followers(self, tp: TopicPartition) -> None:
        self.follower_fetches.check_and_complete(tp)
        for session in self.followers.sessions(tp):
            self.follower_fetches.check_and_complete(session)
