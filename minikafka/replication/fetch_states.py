"""All partitions of one fetcher, sorted by the work that is due for them.

A partition is in exactly one of these sets, or the answer to a fetch is awaited for it:

======================  ================================================================
``truncating``          ask the leader for the end of its latest epoch
``out_of_range``        ask the leader for its log start and log end
``asked``               the answer of such a look-up is awaited
``changed``, session    fetch; in ``changed`` while the leader does not know its offset yet
delayed                 in error, until the back-off ends
throttled               left out by a replication quota
being cut               until the cut is done
======================  ================================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, ValuesView
from dataclasses import dataclass, field
from heapq import heappop, heappush
from uuid import UUID

from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition
from minikafka.replication.effects import Delayed, Effect, Fenced, MarkFailed, RestartAt, TruncateTo
from minikafka.replication.fetch_session import FetchSessionClient
from minikafka.replication.fetch_state import FetchPhase, FollowedPartition, PartitionFetchState

FIRST_BACKOFF_MS = 20

StatesByPartition = dict[TopicPartition, PartitionFetchState]


@dataclass(slots=True, eq=False)
class FetchStates:
    """States of all followed partitions, sorted by the work that is due."""

    _backoff_ms: int
    _states: StatesByPartition = field(default_factory=dict, init=False)
    _topic_names: dict[int, str] = field(default_factory=dict, init=False)
    """By the number of the id: UUIDs hash and compare in Python."""
    _followed_by_topic: Counter[int] = field(default_factory=Counter, init=False)
    """Number of partitions; the topic's name goes with the last."""
    _delayed: list[tuple[int, int, PartitionFetchState]] = field(default_factory=list, init=False)
    """A heap of (end, number of the delay, state)."""
    _delays: int = field(default=0, init=False)
    session: FetchSessionClient = field(default_factory=FetchSessionClient, init=False)
    truncating: StatesByPartition = field(default_factory=dict, init=False)
    out_of_range: StatesByPartition = field(default_factory=dict, init=False)
    asked: StatesByPartition = field(default_factory=dict, init=False)
    changed: StatesByPartition = field(default_factory=dict, init=False)

    # -- which partitions -------------------------------------------------------------------------------------------

    def add(self, followed: FollowedPartition) -> None:
        """Follow a partition. One already followed in the same epoch goes on undisturbed."""
        tp = followed.topic_partition
        known = self._states.get(tp)
        if known is not None:
            if (known.current_leader_epoch, known.topic_id) == (followed.leader_epoch, followed.topic_id):
                return
            self.drop(known)
        self._topic_names[followed.topic_id.int] = tp.topic
        self._followed_by_topic[followed.topic_id.int] += 1
        state = self._states[tp] = PartitionFetchState(followed)
        self.enqueue(state)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop following them."""
        for tp in partitions:
            if (state := self._states.get(tp)) is not None:
                self.drop(state)

    def get(self, tp: TopicPartition) -> PartitionFetchState | None:
        """The state of a followed partition."""
        return self._states.get(tp)

    def values(self) -> ValuesView[PartitionFetchState]:
        """All states."""
        return self._states.values()

    def take_asked(self) -> StatesByPartition:
        """The look-up is over: its partitions, without those that were dropped, or replaced, meanwhile."""
        asked, self.asked = self.asked, {}
        return {tp: state for tp, state in asked.items() if self._states.get(tp) is state}

    def topic_name(self, topic_id: UUID) -> str:
        """Name of the followed topic with that id; empty when no such topic is followed."""
        return self._topic_names.get(topic_id.int, "")

    def __len__(self) -> int:
        return len(self._states)

    # -- what is due ------------------------------------------------------------------------------------------------

    def enqueue(self, state: PartitionFetchState) -> None:
        """Put a partition into the set of its state."""
        tp = state.topic_partition
        if state.delayed_until_ms is not None or state.is_being_cut:
            return
        if state.is_out_of_range:
            self.out_of_range[tp] = state
        elif state.phase is FetchPhase.TRUNCATING:
            self.truncating[tp] = state
        elif not state.is_throttled:
            self.changed[tp] = state

    def leave_session(self, state: PartitionFetchState) -> None:
        """Leave it out of fetches for now."""
        self.changed.pop(state.topic_partition, None)
        self.session.forget(state.topic_partition)

    def begin_cut(self, state: PartitionFetchState) -> None:
        """A cut began: no requests for it until the cut is done."""
        self.leave_session(state)
        state.is_being_cut = True
        state.must_read_log = True
        state.has_agreed = False

    def cut(self, state: PartitionFetchState, offset: int) -> Effect:
        """Cut the log, and leave the partition out meanwhile."""
        self.begin_cut(state)
        return TruncateTo(state.topic_partition, offset)

    def restart(self, state: PartitionFetchState, offset: int) -> Effect:
        """Begin an empty log at ``offset``; then fetch."""
        state.start_fetching()
        self.begin_cut(state)
        return RestartAt(state.topic_partition, offset)

    def end_cut(self, state: PartitionFetchState) -> None:
        """The cut is done: it is due again."""
        state.is_being_cut = False
        self.enqueue(state)

    def on_error(self, state: PartitionFetchState, error: ErrorCode, now_ms: int) -> list[Effect]:
        """An error in the leader's answer (row R12): drop when fenced, look up ends when out of range, else delay."""
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            self.drop(state)
            return [Fenced(state.topic_partition, state.current_leader_epoch)]
        if error is ErrorCode.OFFSET_OUT_OF_RANGE and state.phase is FetchPhase.FETCHING:
            self.leave_session(state)
            state.is_out_of_range = True
            self.enqueue(state)
            return []
        return [self.delay(state, error, now_ms)]

    def delay(self, state: PartitionFetchState, error: ErrorCode, now_ms: int) -> Effect:
        """Leave it out for the back-off (row R8), which begins short and doubles up to its full length.

        It begins short for a change of leaders: the follower often learns of it a few milliseconds before the new
        leader does. A full back-off would delay every produce that waits for acks.
        """
        until_ms = now_ms + min(self._backoff_ms, FIRST_BACKOFF_MS << min(state.failures, 16))
        state.failures += 1
        self.leave_session(state)
        state.delayed_until_ms = until_ms
        state.asked_epoch = None
        self._delays += 1
        heappush(self._delayed, (until_ms, self._delays, state))
        return Delayed(state.topic_partition, error, until_ms)

    def end_delays(self, now_ms: int) -> None:
        """Partitions whose back-off is over are due again."""
        while self._delayed and self._delayed[0][0] <= now_ms:
            _, _, state = heappop(self._delayed)
            if self._states.get(state.topic_partition) is state:
                state.delayed_until_ms = None
                self.enqueue(state)

    @property
    def next_delay_ends_ms(self) -> int | None:
        """End of the next back-off; None without one."""
        return self._delayed[0][0] if self._delayed else None

    def fail(self, state: PartitionFetchState, reason: str) -> Effect:
        """Stop following it: a retry would not mend the failure."""
        self.drop(state)
        return MarkFailed(state.topic_partition, reason)

    def drop(self, state: PartitionFetchState) -> None:
        """Forget a state; answers that arrive for it later are dropped."""
        tp = state.topic_partition
        self.leave_session(state)
        self.truncating.pop(tp, None)
        self.out_of_range.pop(tp, None)
        del self._states[tp]
        topic = state.topic_id.int
        self._followed_by_topic[topic] -= 1
        if not self._followed_by_topic[topic]:
            del self._followed_by_topic[topic], self._topic_names[topic]
